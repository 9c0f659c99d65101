"""What a ranker is, whatever its kind: fitted, saved, loaded, scoring, judged.

A ranker is saved as a folder: ``ranker.json``, and the files of its model beside it.
Most rankers are one model, with a mapping of the features that it reads; a blend
(:mod:`affinerank.rankers.blend`) adds up several of these.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from affinerank.arrays import Floats, Ints, Matrix
from affinerank.data.features import SCALINGS, FeatureMapping
from affinerank.data.mapped import passed
from affinerank.errors import ConfigError, DataError
from affinerank.files import PathLike, new_folder
from affinerank.metrics import Metric, MetricValues
from affinerank.notebook import Tabular
from affinerank.progress import Progress, quiet
from affinerank.rankers.targets import Validation

if TYPE_CHECKING:
    from affinerank.data.dataset import RankingDataset
    from affinerank.rankers.blend import AnyRanker

FORMAT = ("affinerank-ranker", 1)
ABOUT = "ranker.json"
MAPPED = ("scaling", "low", "high", "fill", "categories")
JUDGED_BY = Metric("nDCG", cutoff=10)


class Model(Protocol):
    """What a kind of ranker brings: scores, and what its folder holds."""

    def predict(self, features: Matrix) -> Floats:
        """Score documents from mapped features ``[n_docs, n_features]``."""

    def files(self) -> Mapping[str, bytes]:
        """Return the model's files, by name."""

    def about(self) -> dict[str, Any]:
        """Return what else ``ranker.json`` must say for ``load`` to read the model."""


class MemberPlan(NamedTuple):
    """How a member of a blend is trained; of another ranker, how it is.

    Attributes:
        name: Of its folder, and in messages.
        ranker: Its row of ``RANKERS``.
        settings: Of that row.
        scaling: Of its features.
        share: How much it counts.
    """

    name: str
    ranker: str
    settings: Any
    scaling: str
    share: float = 1.0


class Member(NamedTuple):
    """A ranker, and its part in what a blend says.

    Attributes:
        name: Of its folder.
        ranker: What scores, with features of its own.
        share: How much it counts.
        unit: What its scores are divided by first.
    """

    name: str
    ranker: Ranker
    share: float = 1.0
    unit: float = 1.0


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Ranker(Tabular):
    """A model and the features it reads.

    Attributes:
        kind: Its row of ``RANKERS``.
        model: What scores.
        mapping: What is done to raw features first.
        provenance: How it was trained, for the reader of its file.
        learnt_from: Names of the queries that it learnt from.
    """

    kind: str
    model: Model
    mapping: FeatureMapping
    provenance: Mapping[str, Any]
    learnt_from: tuple[str, ...] = ()

    def _line(self) -> str:
        by = self.provenance.get("estimator")
        learnt = f", by {by}" if by else ""
        return f"{self.kind}, {len(self.mapping.names):,} features{learnt}"

    def _rows(self) -> list[dict[str, Any]]:
        return [{"feature": name} for name in self.mapping.names]

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the raw features that it reads."""
        return self.mapping.raw_names

    @property
    def members(self) -> tuple[Member, ...]:
        """Itself alone; a blend has several."""
        return (Member(self.kind, self),)

    def scores(self, data: RankingDataset) -> Floats:
        """Score every document of raw data: ``[n_docs]``, higher is ranked earlier.

        Some queries at a time: the mapped features are never held as a whole.
        """
        scores = np.empty(data.n_docs)
        for rows, features in self.mapping.blocks(data):
            scores[rows] = self.predict(features)
        return scores

    def predict(self, features: Matrix) -> Floats:
        """Score documents from mapped features ``[n_docs, n_features]``."""
        wanted = len(self.mapping.names)
        if features.shape[1] != wanted:
            raise DataError(
                f"this ranker reads {wanted} features, got {features.shape[1]}"
            )
        return self.model.predict(features) if len(features) else np.zeros(0)

    def save(self, folder: PathLike) -> None:
        """Write ``ranker.json`` and the model into a new folder, all or nothing."""
        about = {
            "format": FORMAT[0],
            "version": FORMAT[1],
            "kind": self.kind,
            "features": self.mapping.names,
            **{name: getattr(self.mapping, name) for name in MAPPED},
            **self.model.about(),
            "provenance": dict(self.provenance),
            "learnt_from": self.learnt_from,
        }
        with new_folder(Path(folder)) as aside:
            for name, content in self.model.files().items():
                (aside / name).write_bytes(content)
            (aside / ABOUT).write_text(json.dumps(about, indent=2) + "\n")


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """What training gives.

    Attributes:
        model: After the last epoch or tree.
        chosen: After the epoch or tree that held-out weights or ``lengths`` chose;
            ``None`` without.
        chosen_at: That epoch or number of trees, from 1.
        trace: What it was worth to the held-out queries after each epoch or tree.
        report: Plain numbers about the training, for the reader.
        outside: One that did not learn from the held-out queries, if asked for.
    """

    model: Model
    chosen: Model | None
    chosen_at: int | None
    report: Mapping[str, Any]
    trace: Sequence[float] = ()
    outside: Model | None = None

    @property
    def kept(self) -> Model:
        """The chosen model where there is one, else the last."""
        return self.model if self.chosen is None else self.chosen


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """What the ``fit`` of a row is given: ``n`` rankers to train on shared features.

    Attributes:
        features: ``[n_docs, n_features]`` mapped.
        targets: What each ranker learns; or, for a kind that ``explains_clicks``, the
            clicks it explains.
        offsets: ``[n_queries + 1]`` query boundaries.
        seeds: ``[n]`` one per ranker.
        settings: An instance of the row's ``settings``.
        validation: Chooses an epoch or number of trees, and with patience it ends the
            training.
        lengths: ``[n]``, in place of validation: the epochs or trees after which each
            ranker is chosen.
        checkpoint: File that an interrupted training resumes from, removed at the end.
        categories: Columns of features that are codes of categories.
        progress: Called as training advances.
    """

    features: Matrix
    targets: Any
    offsets: Ints
    _: KW_ONLY
    seeds: Sequence[int]
    settings: Any
    validation: Validation | None = None
    lengths: Sequence[int] | None = None
    checkpoint: Path | None = None
    categories: Sequence[int] = ()
    progress: Progress = quiet

    def __post_init__(self) -> None:
        """Reject targets of another shape, and patience with nothing to judge by."""
        wanted = (len(self.seeds), len(self.features))
        # Impressions and clicks, or weights and known.
        parts = fields(self.targets)[:2]
        first, second = (getattr(self.targets, part.name) for part in parts)
        if not first.shape[:2] == second.shape[:2] == wanted:
            raise DataError(
                f"weights must be [{wanted[0]} seeds, {wanted[1]} documents], "
                f"got {first.shape[:2]}"
            )
        if self.settings.patience is not None and self.validation is None:
            raise ConfigError("early stopping (patience) needs validation weights")


def fit_of(
    train: Callable[[Task], list[Fitted]], *, resumes: bool = False
) -> Callable[..., list[Fitted]]:
    """Turn a function of a :class:`Task` into the ``fit`` of a row."""

    @wraps(train)
    def fit(*given: Any, **more: Any) -> list[Fitted]:
        task = Task(*given, **more)
        if task.checkpoint is not None and not resumes:
            raise ConfigError("this ranker takes no checkpoint; leave it out")
        return train(task)

    return fit


@dataclass(frozen=True, slots=True)
class RankerKind:
    """A row of ``RANKERS``.

    Attributes:
        name: Its key, written into ``ranker.json``.
        title: What figures and messages call it.
        settings: Type of its settings, a frozen dataclass.
        fit: Trains. Called as ``fit(features, targets, offsets, *, seeds, settings,
            validation=None, checkpoint=None, progress=quiet)``, with ``lengths`` and
            ``categories`` where the row takes them; :class:`Task` tells what these are.
        load: Builds a model from a folder, its ``ranker.json`` and the number of
            features; any error it raises rejects the folder.
        reads_missing: Whether features may be NaN.
        reads_categories: Whether features may be codes of categories.
        tuned_rate: Whether the learning rate that a data set recommends is meant for
            its ``learning_rate``.
        explains_clicks: Whether ``fit`` takes clicks in place of weights.
        patience: Epochs or trees without gain after which a choice by held-out queries
            ends; ``None`` if ``fit`` takes no ``lengths``, so that nothing is chosen.
        rates: Learning rates to choose from alike; none: that of its settings.
        scaling: Of features, where nobody says: within the list, over the data, none.
        prior_rankers: Rows that learn from other queries what to expect of a document,
            where an estimator asks for that: clicks by each that explains them, weights
            by the last; left out, the row itself.
        members: From its settings to how its members are trained, for a blend.
        pace: Documents that it learns from for each second of a budget, where rankers
            are compared.
    """

    name: str
    title: str
    settings: type
    fit: Callable[..., list[Fitted]]
    load: Callable[[Path, dict[str, Any], int], Model]
    reads_missing: bool = False
    reads_categories: bool = False
    tuned_rate: bool = False
    explains_clicks: bool = False
    patience: int | None = None
    rates: tuple[float, ...] = ()
    scaling: str = SCALINGS[0]
    prior_rankers: tuple[str, ...] = ()
    members: Callable[[Any], Sequence[MemberPlan]] | None = None
    pace: float = 30.0

    @property
    def prior(self) -> tuple[str, ...]:
        """Rows that learn from other queries what to expect of a document."""
        return self.prior_rankers or (self.name,)


def score(ranker: AnyRanker, data: RankingDataset) -> Floats:
    """Score every document of raw ``data``: ``[n_docs]``, higher is ranked earlier."""
    return ranker.scores(data)


def judge(scores: Floats, data: RankingDataset, relevant_above: float) -> MetricValues:
    """Compute the number everything is judged by: nDCG@10 on binarised labels."""
    return JUDGED_BY(scores, data.relevance(relevant_above), data.offsets)


def predict_all(models: Sequence[Model], features: Matrix) -> Floats:
    """Score documents by each model, ``[n, n_docs]``.

    Models that are ``alike``, where they say so, are scored in one pass by their
    ``predict_together``; the others one by one.
    """
    scores = np.empty((len(models), len(features)))
    places: dict[Any, list[int]] = {}
    for i, model in enumerate(models):
        places.setdefault(getattr(model, "alike", i), []).append(i)
    for some in passed(features):
        for own in places.values():
            first: Any = models[own[0]]
            read, alike = features[some], [models[i] for i in own]
            alone = len(own) == 1
            scores[own, some] = (
                first.predict(read) if alone else first.predict_together(alike, read)
            )
    return scores
