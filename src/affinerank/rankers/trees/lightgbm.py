"""The tree ranker by LightGBM, from labels, weights or clicks themselves; its row."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from affinerank.defaults import PRIOR
from affinerank.rankers.ranker import Fitted, Task, fit_of
from affinerank.rankers.trees import parameters
from affinerank.rankers.trees.boosting import (
    BoostedSettings,
    Job,
    Trees,
    boosted_row,
    jobs,
)
from affinerank.rankers.trees.model_text import require_sound, trees_alone
from affinerank.rankers.trees.nodes import Tree, from_lightgbm
from affinerank.support import limits
from affinerank.support.arrays import Bools, Floats, Ints, Matrix
from affinerank.support.errors import ConfigError, DataError
from affinerank.support.settings import require_at_least
from affinerank.support.text_files import read_text
from affinerank.support.threads import threads_for

TEXT = "model.txt"
OBJECTIVES = {"auto": None, "native": True, "any-sign": False}


@dataclass(frozen=True, slots=True)
class TreeSettings(BoostedSettings):
    """Shape and training of trees that learn from weights, or from clicks.

    Attributes:
        trees: Most trees of a ranker.
        leaves: Most leaves of a tree.
        learning_rate: How much each tree counts.
        truncation: A pair of documents counts where one has a rank up to this.
        min_documents: Of a leaf.
        bins: Most values of a feature that are told apart.
        feature_share: Share of the features that each tree may use, drawn by the seed;
            at 1 nothing is drawn, and seeds make no difference.
        patience: With validation weights, stop after so many trees without gain;
            ``None`` trains all trees.
        threads: Of LightGBM, 0 for all; the result does not depend on it.
        objective: For weights. ``native``: LightGBM's own lambdarank, which reads
            weights as relevance, in 256 steps, those below 0 as 0. ``any-sign``: ours,
            :class:`~affinerank.rankers.trees.objectives.LambdaObjective`. ``auto``:
            native, unless weights are corrected clicks, or their sum below 0 is
            more than a tenth of that above.
        position: LightGBM's own debiasing: its objective adds a bias of the rank shown
            to scores, and learns it along. For weights that are not corrected.
        monotone: Features that scores must rise (+1) or fall (-1) with, as in
            ``price=-1,rating=+1``.
        params: Further parameters of LightGBM, as in ``lambda_l2=1``; each is also a
            key of its own.
    """

    PASSED: ClassVar[Mapping[str, parameters.Rule]] = parameters.LIGHTGBM
    OURS: ClassVar[Mapping[str, str]] = parameters.LIGHTGBM_OURS

    min_documents: int = 20
    objective: str = "auto"
    position: bool = False
    monotone: str = ""
    params: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Reject what cannot be trained."""
        require_at_least(self, least={"min_documents": 1})
        BoostedSettings.__post_init__(self)
        if self.objective not in OBJECTIVES:
            known = " or ".join(OBJECTIVES)
            raise ConfigError(f"objective must be {known}, got {self.objective!r}")
        if self.position and OBJECTIVES[self.objective] is False:
            raise ConfigError("position is of LightGBM's own objective: native")


@dataclass(frozen=True, slots=True)
class TreeModel(Trees):
    """Trees in LightGBM's own text format."""

    text: str

    def predict(self, features: Matrix) -> Floats:
        """Score documents from mapped features; NaN is missing."""
        threads = threads_for(len(features))
        scores = self.booster().predict(features, num_threads=threads)
        return np.asarray(scores, dtype=np.float64)

    def files(self) -> Mapping[str, bytes]:
        """Return the text as a file."""
        return {TEXT: self.text.encode()}

    def nodes(self) -> list[Tree]:
        """Return the trees node by node."""
        return from_lightgbm(self.booster().dump_model())

    def gain(self) -> Floats:
        """Return what the splits by each feature gained, ``[n_features]``."""
        return np.asarray(self.booster().feature_importance("gain"), dtype=np.float64)

    def booster(self) -> Any:
        """Return LightGBM's own form."""
        return lightgbm().Booster(model_str=trees_alone(self.text))


@cache
def lightgbm() -> Any:
    """Import LightGBM; what it has to say goes to the log, never to stdout."""
    import lightgbm as lgb

    lgb.register_logger(logging.getLogger(__name__))
    return lgb


def fit_lambdamart(
    features: Matrix, labels: Matrix, offsets: Ints, *, seed: int = 0
) -> TreeModel:
    """Train LambdaMART with LightGBM's defaults.

    Args:
        features: ``[n_docs, n_features]``; NaN is missing.
        labels: ``[n_docs]`` whole numbers, 0 or more.
        offsets: ``[n_queries + 1]`` query boundaries.
        seed: LightGBM's seed. The result does not depend on the number of threads.
    """
    lgb = lightgbm()

    if labels.size == 0 or labels.min() == labels.max():
        raise DataError(
            f"all {labels.size} labels to learn from are the same; choose which count "
            "as relevant (--relevant-above), or more queries"
        )
    data = lgb.Dataset(features, label=labels, group=np.diff(offsets))
    settings = {"objective": "lambdarank", "seed": seed, **_basic(len(features))}
    return TreeModel(lgb.train(settings, data, num_boost_round=100).model_to_string())


@fit_of
def fit_trees(task: Task) -> list[Fitted]:
    """Train on weights by LambdaMART, or on clicks, one ranker after another.

    Documents that are not known, or were never shown, are left out, so nothing about
    them can matter. See :mod:`affinerank.rankers.trees.objectives` for the losses.
    """
    settings: TreeSettings = task.settings
    native = settings.position or OBJECTIVES[settings.objective]
    fitted: list[Fitted] = []
    known: Bools | None = None
    for job in jobs(task, native=native, position=settings.position):
        if known is None or np.any(known != job.lesson.known):
            known = job.lesson.known
            binned = _binned(task, known)
        fitted.append(_trained(binned, job))
    return fitted


def _binned(task: Task, known: Bools) -> list[Any]:
    """Return LightGBM's form of known documents, and of those held out.

    Rankers that learn from the same documents share it.
    """
    settings = task.settings
    seen = task.features if known.all() else task.features[known]
    data = lightgbm().Dataset(
        seen,
        label=np.zeros(len(seen), dtype=np.float32),
        params=_basic(len(seen), settings) | _passed(settings, 0),
        categorical_feature=list(task.categories),
    )
    if task.validation is None:
        return [data]
    held = task.validation.features
    return [data, data.create_valid(held, label=np.zeros(len(held), dtype=np.float32))]


def _trained(binned: Sequence[Any], job: Job) -> Fitted:
    """Train one ranker."""
    lgb = lightgbm()
    data, *held_out = binned
    for name, content in job.lesson.fields.items():
        data.construct().set_field(name, content)
    settings, evaluator = job.task.settings, job.evaluator
    values: dict[str, dict[str, list[float]]] = {}
    callbacks = [lambda env: job.tell(env.iteration + 1), lgb.record_evaluation(values)]
    if settings.patience is not None:
        callbacks.append(lgb.early_stopping(settings.patience, verbose=False))
    booster = lgb.train(
        {
            **_basic(data.construct().num_data(), settings),
            **job.lesson.params,
            "metric": "none",
            "num_leaves": settings.leaves,
            "learning_rate": settings.learning_rate,
            "min_data_in_leaf": settings.min_documents,
            "feature_fraction": settings.feature_share,
            "feature_fraction_seed": job.seed,
            **_passed(settings, job.seed),
        },
        data,
        num_boost_round=job.trees,
        valid_sets=held_out,
        valid_names=["held out"] * len(held_out),
        feval=(lambda s, _: ("worth", evaluator(s), True)) if evaluator else None,
        callbacks=callbacks,
        keep_training_booster=True,  # with the trees after the best one
    )
    job.require_splits(bool(booster.feature_importance().any()))
    _add_to_scores(booster, job.lesson.start)

    def upto(trees: int) -> TreeModel:
        return TreeModel(booster.model_to_string(num_iteration=trees))

    trace = values["held out"]["worth"] if evaluator else []
    return job.fitted(upto, booster.current_iteration(), trace)


def _passed(settings: TreeSettings, seed: int) -> dict[str, Any]:
    """Return parameters that are handed on, with a seed for what they draw."""
    found: dict[str, Any] = parameters.resolved(settings)
    if directions := found.get(parameters.MONOTONE):
        found[parameters.MONOTONE] = directions.strip("()")
    return {**found, "bagging_seed": seed, "extra_seed": seed} if found else {}


def _add_to_scores(booster: Any, start: float) -> None:
    """Add ``start`` to every leaf of the first tree, so that the text holds it."""
    first = booster.dump_model(num_iteration=1)["tree_info"][0]
    for leaf in range(first["num_leaves"] if start else 0):
        booster.set_leaf_output(0, leaf, booster.get_leaf_output(0, leaf) + start)


def _basic(n_docs: int, settings: TreeSettings | None = None) -> dict[str, Any]:
    """Return what every training has: the same result on any number of threads."""
    found = {"deterministic": True, "force_row_wise": True, "verbosity": -1}
    found |= {"num_threads": threads_for(n_docs, settings.threads if settings else 0)}
    own = {"feature_pre_filter": False, "max_bin": settings.bins} if settings else {}
    return found | own


def load_trees(folder: Path, about: dict[str, Any], n_features: int) -> TreeModel:
    """Read trees from a ranker's folder."""
    del about
    path = folder / TEXT
    text = read_text(path, limits.MODEL_BYTES)
    try:
        found = require_sound(text)
    except DataError as error:
        raise DataError(f"{path}: not trees as LightGBM writes them: {error}") from None
    if found != n_features:
        raise DataError(
            f"{path}: reads {found} features, and the file beside it names {n_features}"
        )
    return TreeModel(text)


ROW = boosted_row(
    "lightgbm",
    "LightGBM trees",
    TreeSettings,
    fit_trees,
    load_trees,
    reads_categories=True,
    prior_rankers=PRIOR,
    out_of_fold={"learning_rate": 0.15, "leaves": 8, "patience": 8},
)
