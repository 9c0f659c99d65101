"""Results made by hand, so that what is said of them is known beforehand."""

from collections.abc import Callable, Sequence

import pytest

from affinerank.clicks.models.trust import TrustModel
from affinerank.research.cells import Cell
from affinerank.research.results import Result

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


def result(cell: Cell, ndcg: float, click_model: TrustModel | None = None) -> Result:
    return Result(
        cell=cell,
        group=0,
        ndcg=ndcg,
        held_out_ndcg=ndcg + 0.001,
        held_out_epoch=3,
        per_query=(0.5 * ndcg, 1.5 * ndcg),
        alpha=tuple(click_model.alpha.tolist()) if click_model else (),
        beta=tuple(click_model.beta.tolist()) if click_model else (),
        queries=QUERIES,
        sessions=10,
        clicks_drawn=100,
        seconds=1.0,
        digest="d",
        versions="torch 1.0",
        commit="abc",
        device="cpu",
    )


def trust(eta: float, eps: float) -> str:
    return f"trust(eta={eta:g}, eps_minus_1={eps:g})"


def scaled_click_model(eta: float, eps: float, alpha: float, beta: float) -> TrustModel:
    truth = TrustModel.paper(eta=eta, eps_minus_1=eps, depth=20)
    return TrustModel(
        alpha=truth.alpha * alpha, beta=truth.beta * beta, identified="relative"
    )


def as_in_the_paper(data: str = "world", *, shift: float = 0.0) -> list[Result]:
    """Results in which every statement of the paper's figures holds."""
    made = []
    for run in range(4):
        noise = (run - 1.5) * 1e-4
        none = (None, None, None)
        production = Cell(data, *none, "production", None, None, run)
        full = Cell(data, *none, "full-information", None, "mlp", run)
        made += [result(production, 0.55 + noise), result(full, 0.70 + noise)]
        for eta, eps in ((1.0, 0.65), (1.0, 0.35), (2.0, 0.65), (2.0, 0.35)):
            curves = CURVES | (STEEP if eta == 2.0 else {})
            for place, clicks in enumerate(CLICKS):
                log = (data, trust(eta, eps), "fixed", clicks)
                for name, curve in curves.items():
                    cell = Cell(*log, name, "true", "mlp", run)
                    moved = shift if name == "affine" else 0.0
                    made.append(result(cell, curve[place] + noise + moved))
                for name, curve in ESTIMATED.items():
                    cell = Cell(*log, "affine", name, "mlp", run)
                    click_model = scaled_click_model(eta, eps, *FACTORS[name])
                    made.append(result(cell, curve[place] + noise, click_model))
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
def click_model_of() -> Callable[..., TrustModel]:
    return scaled_click_model
