"""Data classes of experiments: data sets, cells, and what was measured.

A cell is one measurement: on which data, from which clicks, by which estimator and
ranker. Cells that share a log learn from the same clicks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from affinerank.bias import METHODS, EstimationSettings
from affinerank.data.synthetic import WORLDS
from affinerank.defaults import RELEVANT_ABOVE
from affinerank.estimators import affine
from affinerank.rankers.networks import settings as mlp
from affinerank.support.errors import ConfigError
from affinerank.support.files import PathLike
from affinerank.support.settings import EntrySpec, require_at_least

PRODUCTION = "production"
TRUE = "true"
PER_RUN, PER_DATA_SET = "per-run", "per-data-set"


@dataclass(frozen=True, slots=True)
class DataSet:
    """Ranking data, and what of simulation and training depends on them.

    Attributes:
        name: What cells and figures call it; its clicks depend on it.
        source: A world, folder or file, as :class:`DataSource` reads it.
        learning_rate: Of rankers that take a data set's, where none is given.
        validation_share: Held-out clicks per training click, on the validation split's
            queries; they are used for early stopping.
        relevant_above: Labels above this are relevant.
        folds: Where more than 1, runs take turns with its folds; a file without splits
            is dealt into as many parts: one to validate, one to test.
    """

    name: str
    source: str
    learning_rate: float = 0.02
    validation_share: float = 0.33
    relevant_above: float = RELEVANT_ABOVE
    folds: int = 1

    def __post_init__(self) -> None:
        """Reject what cannot be trained with."""
        positive = ("learning_rate", "validation_share")
        require_at_least(self, least={"folds": 1}, positive=positive)
        if self.folds == 2:
            raise ConfigError("folds must be 1, or 3 or more, got 2")

    def fold(self, run: int) -> int:
        """Return the fold that a run reads, from 1."""
        return run % self.folds + 1

    @property
    def synthetic(self) -> bool:
        """Whether it is a built-in world."""
        return self.source.partition(":")[0].partition("@")[0] in WORLDS

    def below(self, root: PathLike | None) -> DataSet:
        """Return the same data, read from a folder; worlds are read from none."""
        if root is None or self.synthetic:
            return self
        return replace(self, source=str(Path(root, self.source)))


@dataclass(frozen=True, slots=True)
class Cell:
    """One measurement; a coordinate that it does not depend on is ``None``.

    Attributes:
        data: Name of the data set.
        click_model: How users click: a row of ``CLICK_MODELS`` with parameters.
        policy: What they are shown: a row of ``POLICIES`` with parameters.
        clicks: Training clicks.
        estimator: A row of ``ESTIMATORS`` with options, or ``production``.
        click_model_from: How the estimator knows the click model: ``true``, or the row
            of ``METHODS`` that estimates it.
        ranker: What is trained: a row of ``RANKERS`` with parameters.
        run: Number of the run.
    """

    data: str
    click_model: str | None
    policy: str | None
    clicks: float | None
    estimator: str
    click_model_from: str | None
    ranker: str | None
    run: int

    @property
    def log(self) -> tuple[object, ...]:
        """What its clicks depend on: cells of one log learn from the same clicks."""
        return (self.data, self.click_model, self.policy, self.clicks, self.run)


@dataclass(frozen=True, slots=True)
class Measured:
    """What came of a cell.

    Attributes:
        ndcg: nDCG@10 on test labels, mean over queries, after the last epoch.
        per_query: nDCG@10 of each test query; NaN for one without a relevant document.
        queries: Training queries.
        digest: Of the labels and production ranks that all of a run is drawn from.
        held_out_ndcg: As ``ndcg``, after the epoch that held-out clicks chose.
        held_out_epoch: That epoch or number of trees, from 1.
        sessions: Simulated sessions.
        clicks_drawn: Clicks that those brought.
        alpha: By rank, where users were estimated.
        beta: By rank, where users were estimated.
    """

    ndcg: float
    per_query: tuple[float, ...]
    queries: int
    digest: str
    held_out_ndcg: float | None = None
    held_out_epoch: int | None = None
    sessions: int | None = None
    clicks_drawn: int | None = None
    alpha: tuple[float, ...] = ()
    beta: tuple[float, ...] = ()


def stacked(cell: Cell) -> bool:
    """Whether a method that ranks too estimates its users, from many logs at once."""
    if cell.click_model_from is None or cell.click_model_from == TRUE:
        return False
    return METHODS[EntrySpec.parse(cell.click_model_from).name].ranks_too


def trained_jointly(cell: Cell) -> bool:
    """Whether the method that estimates a cell's users trains its ranker too.

    Such methods train a network on affine weights; other rankers and estimators, and
    new rankers where they are asked for, take the users that they estimate.
    """
    network = EntrySpec.parse(cell.ranker or mlp.ROW.name).name == mlp.ROW.name
    if not stacked(cell) or cell.estimator != affine.ROW.name or not network:
        return False
    return (
        not EntrySpec.parse(cell.click_model_from or "")
        .settings(EstimationSettings)
        .fresh
    )
