"""Rows that only this test knows go through a plan, its results, figures and report."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from affinerank.bias import METHODS, Estimate, EstimationSettings, Method
from affinerank.clicks.models import CLICK_MODELS, ClickModelKind, Shown
from affinerank.clicks.models.trust import TrustModel
from affinerank.clicks.policies import POLICIES, Placements, PolicyKind
from affinerank.clicks.policies.policy import list_places
from affinerank.counts.rows import ClickRows
from affinerank.estimators import ESTIMATORS, Estimator, Evidence, Weights
from affinerank.rankers import RANKERS, Fitted, RankerKind
from affinerank.research.cells import DataSet
from affinerank.research.groups import cells_of
from affinerank.research.plan import Grid, Plan, read_plan
from affinerank.research.report import write_report
from affinerank.research.reproduce import outcome, reproduce
from affinerank.research.results import load_results
from affinerank.support.errors import ConfigError
from affinerank.support.registry import Registry
from affinerank.support.settings import EntrySpec

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Power:
    power: float = 2.0


def weigh(evidence: Evidence) -> Weights:
    plain = ESTIMATORS["affine"].weigh(
        replace(evidence, options=ESTIMATORS["affine"].options())
    )
    weight = np.sign(plain.weight) * np.abs(plain.weight) ** evidence.options.power
    return replace(plain, weight=weight, slope=None)


@dataclass(frozen=True)
class Greed:
    """Users who click the first relevant document alone."""

    noise: float = 0.1


@dataclass(frozen=True)
class GreedySettings:
    settings: Greed
    depth: int
    name = "greedy"
    identified = "relative"
    estimated = None
    provenance: ClassVar[dict[str, Any]] = {}

    def at(self, rows: ClickRows) -> tuple[Any, Any]:
        raise ConfigError("these users have no alpha and beta by rank")

    def examination(self, rows: ClickRows) -> Any:
        raise ConfigError("these users have no examination")

    def click_probability(self, rank: Any, relevance: Any) -> None:
        return None

    def click(self, shown: Shown, rng: np.random.Generator) -> Any:
        found: Any = shown.relevance > rng.random(len(shown.rank))
        found |= rng.random(len(found)) < self.settings.noise
        before: Any = np.cumsum(found) - found
        first = np.flatnonzero(shown.rank == 1)
        start: Any = np.repeat(before[first], np.diff([*first, len(found)]))
        return found & (before == start)

    def require_probabilities(self) -> None:
        """Every one of them can be simulated."""

    def to_depth(self, depth: int) -> Any:
        return replace(self, depth=max(depth, self.depth))

    def to_dict(self) -> dict[str, Any]:
        return asdict(self.settings)


@dataclass(frozen=True)
class UpsideDown:
    """Lists turned upside down in a share of the sessions."""

    share: float = 0.2

    def moved(self, lengths: Any, sessions: Any, rng: Any) -> Iterator[Placements]:
        del rng
        query, place = list_places(lengths)
        rank = lengths[query] - place
        yield Placements(query, place, rank, np.asarray(sessions)[query])

    def places(self, lengths: Any, rng: Any) -> Any:
        del rng
        query, place = list_places(lengths)
        return lengths[query] - 1 - place


def estimate(
    rows: ClickRows, features: Any, settings: EstimationSettings, progress: Any
) -> Estimate:
    del features, settings, progress
    rate = rows.by_rank(rows.clicks) / np.maximum(rows.by_rank(rows.impressions), 1)
    alpha = np.maximum(rate, 0.01)
    click_model = TrustModel(alpha=alpha, beta=0.1 * alpha, identified="relative")
    return Estimate.of(click_model, rows)


@dataclass(frozen=True)
class OneFeature:
    column: int = 0


@dataclass(frozen=True)
class Column:
    column: int

    def predict(self, features: Any) -> Any:
        return features[:, self.column].astype(np.float64)

    def files(self) -> dict[str, bytes]:
        return {}

    def about(self) -> dict[str, Any]:
        return asdict(self)


def fit(features: Any, targets: Any, offsets: Any, **more: Any) -> list[Fitted]:
    del features, targets, offsets
    model = Column(more["settings"].column)
    return [Fitted(model, model, 1, {}) for _ in more["seeds"]]


def no_reader(*_: Any) -> Any:
    raise NotImplementedError


make_greedy: Any = GreedySettings
ROWS: tuple[tuple[Registry[Any], Any], ...] = (
    (ESTIMATORS, Estimator("powered", "Powered", "relative", weigh, options=Power)),
    (
        CLICK_MODELS,
        ClickModelKind("greedy", "Greedy", Greed, make_greedy, no_reader),
    ),
    (POLICIES, PolicyKind("upside-down", "Upside down", UpsideDown)),
    (METHODS, Method("click-rates", "Click rates", estimate)),
    (RANKERS, RankerKind("column", "One feature", OneFeature, fit, no_reader)),
)
FIGURES = ("figure1", "figure2", "figure3")


def foreign_plan() -> Plan:
    known = Grid(("production", "full-information", "naive"), rankers=("mlp", "column"))
    trusting = Grid(
        ("affine", "powered(power=3)"),
        click_model_from=("true", "click-rates"),
        click_models=("trust",),
    )
    greedy = Grid(
        ("affine", "powered"),
        click_model_from=("click-rates",),
        click_models=("greedy(noise=0.2)",),
        rankers=("mlp", "column(column=3)"),
    )
    return Plan(
        name="foreign",
        data=(DataSet("tiny", "yahoo-like:40", learning_rate=0.01),),
        click_models=("trust", "greedy(noise=0.2)"),
        policies=("fixed", "upside-down"),
        clicks=(1e3, 3e3),
        grids=(known, trusting, greedy),
        rankers=(EntrySpec("mlp", (("hidden", (8,)), ("epochs", 2))),),
        runs=2,
        early_stopping=True,
        figures=FIGURES,
    )


@pytest.fixture(scope="module")
def foreign_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("foreign")
    with ExitStack() as stack:
        for table, row in ROWS:
            stack.enter_context(table.added(row))
        plan = foreign_plan()
        path = folder / "foreign.toml"
        path.write_text(plan.to_toml())
        assert read_plan(path) == plan
        about = reproduce(str(path), folder / "run", device="cpu")
        assert about["cells"] == about["planned"] == len(cells_of(plan))
        yield folder / "run"


def test_every_cell_of_foreign_rows_has_a_result(foreign_run: Path) -> None:
    results = load_results(foreign_run)
    assert all(0 < result.ndcg < 1 for result in results)
    column = {
        r.ndcg
        for r in results
        if (r.cell.ranker, r.cell.run) == ("column(column=3)", 0)
    }
    assert len(column) == 1  # it learns nothing, so clicks make no difference
    for result in results:
        estimated = result.cell.click_model_from == "click-rates"
        assert bool(result.alpha) == estimated
        if result.cell.clicks:
            assert result.clicks_drawn == pytest.approx(result.cell.clicks, rel=0.2)


def test_clicks_of_other_policies_and_users_are_others(foreign_run: Path) -> None:
    drawn: dict[tuple[object, ...], set[object]] = {}
    for result in load_results(foreign_run):
        if result.cell.clicks is not None:
            found = (result.sessions, result.clicks_drawn)
            drawn.setdefault(result.cell.log, set()).add(found)
    assert len(drawn) == 2 * 2 * 2 * 2
    assert all(len(found) == 1 for found in drawn.values())


def test_figures_and_report_have_the_titles_of_foreign_rows(foreign_run: Path) -> None:
    page = write_report(foreign_run).read_text()
    for title in (
        "Powered, power 3",
        "Affine, click rates",
        "Greedy, noise 0.2, Upside down",
        "One feature, column 3",
    ):
        assert title in page
    for name in FIGURES:
        svg = (foreign_run / "figures" / f"{name}.svg").read_text()
        assert "NaN" not in svg
        assert "Upside down" in svg
    assert "Click rates" in (foreign_run / "figures" / "figure2.svg").read_text()


def test_the_paper_says_nothing_of_foreign_users(foreign_run: Path) -> None:
    about = outcome(foreign_run)
    measured = [s for s in about["statements"] if s["verdict"] is not None]
    assert all("Greedy" not in str(s["numbers"]) for s in measured)
