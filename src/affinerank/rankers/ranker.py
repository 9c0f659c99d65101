"""The parts that all kinds of rankers share: types, training interface and scoring.

A ranker is a model together with the mapping from raw features to the features that
the model reads. A blend (:mod:`affinerank.rankers.blend`) adds up the scores of several
rankers. A ranker is saved as a folder with ``ranker.json`` and the files of its model.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from affinerank.data.feature_mapping import SCALINGS, FeatureMapping
from affinerank.output.blocks import Summary
from affinerank.rankers.targets import Validation
from affinerank.support.arrays import Floats, Ints, Matrix
from affinerank.support.errors import ConfigError, DataError
from affinerank.support.files import PathLike, new_folder
from affinerank.support.large_arrays import passed
from affinerank.support.progress import Progress, no_progress

if TYPE_CHECKING:
    from affinerank.data.dataset import RankingDataset
    from affinerank.rankers.blend import AnyRanker

FORMAT = ("affinerank-ranker", 1)
ABOUT = "ranker.json"
MAPPED = ("scaling", "low", "high", "fill", "categories")


class Model(Protocol):
    """The trained model inside a ranker. Every kind of ranker implements it."""

    def predict(self, features: Matrix) -> Floats:
        """Score documents from mapped features ``[n_docs, n_features]``."""

    def files(self) -> Mapping[str, bytes]:
        """Return the content of the model's files, by file name."""

    def about(self) -> dict[str, Any]:
        """Return the entries of ``ranker.json`` that ``load`` needs for this model."""


class MemberPlan(NamedTuple):
    """How one member of a blend is trained.

    A ranker that is not a blend has one plan: its own.

    Attributes:
        name: Name of the member's folder; messages use it, too.
        ranker: The member's row of ``RANKERS``.
        settings: Settings of that row.
        scaling: How the member's features are scaled: ``list``, ``data`` or ``none``.
        share: Weight of the member's scores in the blend.
    """

    name: str
    ranker: str
    settings: Any
    scaling: str
    share: float = 1.0


class Member(NamedTuple):
    """A trained ranker and its weight in a blend.

    Attributes:
        name: Name of the member's folder.
        ranker: The trained ranker, which reads features of its own.
        share: Weight of its scores.
        unit: Its scores are divided by this before they are weighted.
    """

    name: str
    ranker: Ranker
    share: float = 1.0
    unit: float = 1.0


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Ranker(Summary):
    """A model and the features it reads.

    Attributes:
        kind: Name of the ranker's row of ``RANKERS``.
        model: Scores documents from mapped features.
        mapping: Turns raw features into those that the model reads.
        provenance: How the ranker was trained, for the reader of its file.
        training_queries: Names of the queries that the ranker learnt from.
    """

    kind: str
    model: Model
    mapping: FeatureMapping
    provenance: Mapping[str, Any]
    training_queries: tuple[str, ...] = ()

    def _line(self) -> str:
        estimator = self.provenance.get("estimator")
        by_estimator = f", by {estimator}" if estimator else ""
        return f"{self.kind}, {len(self.mapping.names):,} features{by_estimator}"

    def _rows(self) -> list[dict[str, Any]]:
        return [{"feature": name} for name in self.mapping.names]

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the raw features that the ranker reads."""
        return self.mapping.raw_names

    @property
    def members(self) -> tuple[Member, ...]:
        """The ranker itself as the only member; a blend has several."""
        return (Member(self.kind, self),)

    def scores(self, data: RankingDataset) -> Floats:
        """Score every document of raw data: ``[n_docs]``, higher is ranked earlier.

        Features are mapped for a block of queries at a time, to save memory.
        """
        scores = np.empty(data.n_docs)
        for documents, features in self.mapping.blocks(data):
            scores[documents] = self.predict(features)
        return scores

    def predict(self, features: Matrix) -> Floats:
        """Score documents from mapped features ``[n_docs, n_features]``."""
        n_features = len(self.mapping.names)
        if features.shape[1] != n_features:
            raise DataError(
                f"this ranker reads {n_features} features, got {features.shape[1]}"
            )
        if not len(features):
            return np.zeros(0)
        return self.model.predict(features)

    def save(self, folder: PathLike) -> None:
        """Write ``ranker.json`` and the model into a new folder, all or nothing."""
        description = {
            "format": FORMAT[0],
            "version": FORMAT[1],
            "kind": self.kind,
            "features": self.mapping.names,
            **{name: getattr(self.mapping, name) for name in MAPPED},
            **self.model.about(),
            "provenance": dict(self.provenance),
            "training_queries": self.training_queries,
        }
        with new_folder(Path(folder)) as unfinished:
            for name, content in self.model.files().items():
                (unfinished / name).write_bytes(content)
            text = json.dumps(description, indent=2) + "\n"
            (unfinished / ABOUT).write_text(text)


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """The result of training one ranker.

    Attributes:
        model: The model after the last epoch or tree.
        chosen: The model after the epoch or tree that held-out queries or ``lengths``
            chose; ``None`` if neither was given.
        best_length: Number of that epoch or tree, counted from 1.
        trace: Value on the held-out queries after each epoch or tree.
        report: Plain numbers about the training, for the reader.
        outside: A model that did not learn from the held-out queries, if requested.
    """

    model: Model
    chosen: Model | None
    best_length: int | None
    report: Mapping[str, Any]
    trace: Sequence[float] = ()
    outside: Model | None = None

    @property
    def kept(self) -> Model:
        """The chosen model if there is one, else the last."""
        return self.model if self.chosen is None else self.chosen


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """The input of a row's ``fit``: ``n`` rankers to train on the same features.

    Attributes:
        features: ``[n_docs, n_features]`` mapped features.
        targets: Relevance weights that each ranker learns; for a kind that
            ``explains_clicks``, impressions and clicks.
        offsets: ``[n_queries + 1]`` query boundaries.
        seeds: ``[n]`` one seed per ranker.
        settings: An instance of the row's ``settings``.
        validation: Held-out queries that choose an epoch or a number of trees. With
            patience they also end the training.
        lengths: ``[n]`` number of epochs or trees after which each ranker is chosen;
            replaces ``validation``.
        checkpoint: File from which an interrupted training resumes. It is removed at
            the end.
        categories: Columns of ``features`` that hold category codes.
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
    progress: Progress = no_progress

    def __post_init__(self) -> None:
        """Reject targets of the wrong shape, and patience without validation."""
        n_seeds = len(self.seeds)
        n_documents = len(self.features)
        # The first two fields hold weights and which are known, or impressions and
        # clicks.
        for part in fields(self.targets)[:2]:
            shape = getattr(self.targets, part.name).shape[:2]
            if shape != (n_seeds, n_documents):
                raise DataError(
                    f"weights must be [{n_seeds} seeds, {n_documents} documents], "
                    f"got {shape}"
                )
        if self.settings.patience is not None and self.validation is None:
            raise ConfigError("early stopping (patience) needs validation weights")


def fit_of(
    train: Callable[[Task], list[Fitted]], *, resumes: bool = False
) -> Callable[..., list[Fitted]]:
    """Turn a function of a :class:`Task` into the ``fit`` of a row.

    Args:
        train: Trains the rankers of a task.
        resumes: Whether ``train`` can resume from a checkpoint.
    """

    @wraps(train)
    def fit(*args: Any, **keyword_args: Any) -> list[Fitted]:
        task = Task(*args, **keyword_args)
        if task.checkpoint is not None and not resumes:
            raise ConfigError("this ranker takes no checkpoint; leave it out")
        return train(task)

    return fit


@dataclass(frozen=True, slots=True)
class RankerKind:
    """A row of ``RANKERS``.

    Attributes:
        name: Key of the row, written into ``ranker.json``.
        title: Name in figures and messages.
        settings: Type of the settings, a frozen dataclass.
        fit: Trains rankers. Called as ``fit(features, targets, offsets, *, seeds,
            settings, validation=None, checkpoint=None, progress=quiet)``. Rows that
            support them also take ``lengths`` and ``categories``. :class:`Task`
            describes the arguments.
        load: Builds a model from a folder, the content of ``ranker.json`` and the
            number of features. Any error it raises rejects the folder.
        reads_missing: Whether features may be NaN.
        reads_categories: Whether features may be category codes.
        tuned_rate: Whether the learning rate that a data set recommends applies to
            this row's ``learning_rate``.
        explains_clicks: Whether ``fit`` takes clicks instead of weights.
        patience: When held-out queries choose the number of epochs or trees, training
            ends after this many without a gain. ``None`` if ``fit`` takes no
            ``lengths``; then nothing is chosen.
        rates: Learning rates that held-out queries choose from. Empty: the rate of the
            settings.
        scaling: Default scaling of features: ``list``, ``data`` or ``none``.
        prior_rankers: Rows trained out of fold when an estimator needs a prior: each
            that can explain clicks is trained on clicks, the last on weights. Empty:
            this row itself.
        out_of_fold: Settings that differ where this row is trained out of fold. A prior
            needs less detail than a ranker, and is trained several times.
        is_trees: Whether models are trees, whose ``nodes`` search engines can be given.
        members: For a blend: from its settings to the plans of its members.
        pace: Documents to learn from per second of the time budget (``train --auto``).
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
    out_of_fold: Mapping[str, Any] = field(default_factory=dict)
    is_trees: bool = False
    members: Callable[[Any], Sequence[MemberPlan]] | None = None
    pace: float = 30.0

    @property
    def prior(self) -> tuple[str, ...]:
        """Rows that are trained out of fold when an estimator needs a prior."""
        return self.prior_rankers or (self.name,)


def score(ranker: AnyRanker, data: RankingDataset) -> Floats:
    """Score every document of raw ``data``: ``[n_docs]``, higher is ranked earlier."""
    return ranker.scores(data)


def predict_all(models: Sequence[Model], features: Matrix) -> Floats:
    """Score documents by each model, ``[n_models, n_docs]``.

    Models with equal ``alike`` attributes are scored in one pass by their
    ``predict_together``; the others one by one.
    """
    # Positions in `models` of those that share a pass.
    positions_by_group: dict[Any, list[int]] = {}
    for position, model in enumerate(models):
        group = getattr(model, "alike", position)
        positions_by_group.setdefault(group, []).append(position)

    # A large matrix of features is read in blocks of documents, to save memory.
    scores = np.empty((len(models), len(features)))
    for documents in passed(features):
        block = features[documents]
        for positions in positions_by_group.values():
            group_models = [models[position] for position in positions]
            scores[positions, documents] = _predict_group(group_models, block)
    return scores


def _predict_group(models: Sequence[Any], features: Matrix) -> Floats:
    """Score documents by models of one group, ``[n_models, n_docs]``."""
    if len(models) == 1:
        return np.asarray(models[0].predict(features))[None]
    return np.asarray(models[0].predict_together(models, features))
