"""Results made by hand, so that what is said of them is known beforehand."""

from collections.abc import Callable, Sequence

import pytest

from affinerank.clicks.usermodel import UserModel
from affinerank.experiments.cells import Cell
from affinerank.experiments.results import Machine, Result

QUERIES = 20_000
CLICKS = (3e4, 3e5, 1e6, 8e6)
CURVES: dict[str, Sequence[float]] = {
    "naive": (0.60, 0.61, 0.61, 0.61),
    "ips": (0.61, 0.62, 0.62, 0.63),
    "bayes-ips": (0.62, 0.63, 0.64, 0.64),
    "affine": (0.60, 0.64, 0.66, 0.69),
}
STEEP = {"affine": (0.58, 0.62, 0.65, 0.67)}
ESTIMATED = {
    "soft-min-max": (0.59, 0.63, 0.65, 0.68),
    "softmax": (0.50, 0.58, 0.62, 0.66),
    "sigmoid": (0.49, 0.50, 0.52, 0.54),
}
FACTORS = {"soft-min-max": (0.8, 1.0), "softmax": (1.3, 1.0), "sigmoid": (0.7, 0.5)}
MACHINE = Machine("torch 1.0", "abc", "cpu")


def result(cell: Cell, ndcg: float, users: UserModel | None = None) -> Result:
    return Result(
        cell=cell,
        group=0,
        ndcg=ndcg,
        early_ndcg=ndcg + 0.001,
        early_epoch=3,
        per_query=(ndcg, ndcg),
        alpha=tuple(users.alpha.tolist()) if users else (),
        beta=tuple(users.beta.tolist()) if users else (),
        queries=QUERIES,
        sessions=10,
        clicks_drawn=100,
        seconds=1.0,
        digest="d",
        machine=MACHINE,
    )


def scaled_users(eta: float, eps: float, alpha: float, beta: float) -> UserModel:
    truth = UserModel.paper(eta=eta, eps_minus_1=eps, depth=20)
    return UserModel(
        alpha=truth.alpha * alpha, beta=truth.beta * beta, identified="gauge"
    )


def as_in_the_paper(data: str = "world", *, shift: float = 0.0) -> list[Result]:
    """Results in which every statement of the paper's figures holds."""
    made = []
    for run in range(4):
        noise = (run - 1.5) * 1e-4

        def baseline(name: str, value: float, run: int = run) -> Result:
            return result(
                Cell(data, None, None, None, name, "true", "none", run), value
            )

        made += [
            baseline("production", 0.55 + noise),
            baseline("full-information", 0.70 + noise),
        ]
        for eta in (1.0, 2.0):
            for eps in (0.65, 0.35):
                curves = CURVES | (STEEP if eta == 2.0 else {})
                for place, clicks in enumerate(CLICKS):
                    for name, curve in curves.items():
                        cell = Cell(data, eta, eps, clicks, name, "true", "none", run)
                        moved = shift if name == "affine" else 0.0
                        made.append(result(cell, curve[place] + noise + moved))
                    for name, curve in ESTIMATED.items():
                        cell = Cell(data, eta, eps, clicks, "affine", name, "none", run)
                        users = scaled_users(eta, eps, *FACTORS[name])
                        made.append(result(cell, curve[place] + noise, users))
    return made


@pytest.fixture
def paper_results() -> list[Result]:
    return as_in_the_paper()


@pytest.fixture(scope="session")
def paper_results_of() -> Callable[..., list[Result]]:
    return as_in_the_paper


@pytest.fixture
def result_of() -> Callable[..., Result]:
    return result


@pytest.fixture
def users_of() -> Callable[..., UserModel]:
    return scaled_users
