"""The tree ranker by XGBoost, from labels, weights or clicks themselves; its row."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from affinerank.defaults import QUICK
from affinerank.rankers.ranker import Fitted, Task, fit_of
from affinerank.rankers.trees import parameters
from affinerank.rankers.trees.boosting import (
    BoostedSettings,
    Job,
    Trees,
    boosted_row,
    jobs,
)
from affinerank.rankers.trees.nodes import Tree
from affinerank.rankers.trees.parameters import (
    ABOVE_0,
    DEPTH,
    SHARE,
    YES_NO,
    Rule,
    renamed,
    same_rule,
)
from affinerank.rankers.trees.xgboost_json import document, nodes_of, sound_trees
from affinerank.support.arrays import Floats, Matrix
from affinerank.support.errors import ConfigError, DataError
from affinerank.support.text_files import read_json
from affinerank.support.threads import threads_for, usable_threads

if TYPE_CHECKING:
    from affinerank.rankers.trees.objectives import Lesson

FILE = "model.json"

# XGBoost's own parameters that are handed on, and the values that each may have.
OWN_PARAMETERS: Mapping[str, Rule] = {
    **same_rule("gamma max_delta_step min_child_weight reg_alpha reg_lambda", ABOVE_0),
    **same_rule("colsample_bylevel colsample_bynode subsample", SHARE),
    **same_rule("max_depth", DEPTH),
    **same_rule("lambdarank_normalization lambdarank_score_normalization", YES_NO),
    "lambdarank_pair_method": ("topk", "mean"),
}
# What the parameters that are settings here are called here.
OUR_NAMES: Mapping[str, str] = renamed(
    "max_leaves=leaves n_estimators=trees max_bin=bins colsample_bytree=feature_share "
    "lambdarank_num_pair_per_sample=truncation nthread=threads min_split_loss=gamma"
)


@dataclass(frozen=True, slots=True)
class XGBoostSettings(BoostedSettings):
    """Shape and training of XGBoost's trees.

    Relevance is learnt by XGBoost's own ``rank:ndcg`` with a linear gain. Corrected
    clicks, and clicks themselves, are learnt by the objectives that LightGBM's trees
    have here (:mod:`affinerank.rankers.trees.objectives`).

    Attributes:
        trees: Most trees of a ranker.
        leaves: Most leaves of a tree.
        learning_rate: How much each tree counts.
        truncation: A pair of documents counts where one has a rank up to this.
        min_documents: Of a leaf, counted by second derivatives: one document has
            their mean before the first tree. Leaves shrink as if so many more had
            nothing to say (``reg_lambda``).
        bins: Most values of a feature that are told apart.
        feature_share: Share of the features that each tree may use, drawn by the seed.
        patience: With validation weights, stop after so many trees without gain;
            ``None`` trains all trees.
        threads: Of XGBoost, 0 for all.
        unbiased: XGBoost's own debiasing (``lambdarank_unbiased``), by pairs of ranks
            shown. For weights that are not corrected.
        monotone: Features that scores must rise (+1) or fall (-1) with, as in
            ``price=-1,rating=+1``.
        params: Further parameters of XGBoost, as in ``gamma=2``; each is also a key of
            its own.
    """

    PASSED: ClassVar[Mapping[str, Rule]] = OWN_PARAMETERS
    OURS: ClassVar[Mapping[str, str]] = OUR_NAMES

    unbiased: bool = False
    monotone: str = ""
    params: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class XGBoostModel(Trees):
    """Trees, and the number of features that they read."""

    trees: Sequence[Tree]
    n_features: int

    def predict(self, features: Matrix) -> Floats:
        """Score documents from mapped features; NaN is missing."""
        found = self.booster().predict(library().DMatrix(features), output_margin=True)
        return np.asarray(found, dtype=np.float64)

    @cached_property
    def content(self) -> bytes:
        """A model that XGBoost loads."""
        return document(self.trees, self.n_features, ())

    def files(self) -> Mapping[str, bytes]:
        """Return the model as a file."""
        return {FILE: self.content}

    def nodes(self) -> list[Tree]:
        """Return the trees node by node."""
        return list(self.trees)

    def gain(self) -> Floats:
        """Return what the splits by each feature gained, ``[n_features]``."""
        found = np.zeros(self.n_features)
        for node in chain.from_iterable(self.trees):
            found[node.feature] += node.gain
        return found

    def booster(self) -> Any:
        """Return XGBoost's own form."""
        booster = library().Booster({"nthread": usable_threads(0)})
        booster.load_model(bytearray(self.content))
        return booster


def library() -> Any:
    """Import XGBoost, which an extra installs."""
    try:
        import xgboost
    except ImportError:
        raise ConfigError(
            "this ranker needs xgboost, which is not installed: "
            "pip install 'affinerank[xgboost]'"
        ) from None
    xgboost.set_config(verbosity=0)
    return xgboost


@fit_of
def fit_xgboost(task: Task) -> list[Fitted]:
    """Train on weights or on clicks, one ranker after another.

    Documents that are not known, or were never shown, are left out.
    """
    library()
    own = task.settings.unbiased
    return [_trained(job) for job in jobs(task, native=own or None, position=own)]


def _trained(job: Job) -> Fitted:
    """Train one ranker."""
    xgb = library()
    lesson, settings, validation = job.lesson, job.task.settings, job.task.validation
    seen = job.task.features[lesson.known]
    fields, objective = lesson.fields, lesson.params["objective"]
    if callable(objective):
        data = xgb.QuantileDMatrix(seen, max_bin=settings.bins)
        own = lambda scores, _: objective(scores.astype(np.float64))  # noqa: E731
    else:
        own, sizes, label = None, fields["group"], fields["label"]
        if settings.unbiased:  # the place within a group is the rank shown
            group = np.arange(len(sizes)).repeat(sizes)
            order = np.lexsort((fields["position"], group))
            seen, label = seen[order], label[order]
        data = xgb.QuantileDMatrix(seen, max_bin=settings.bins)
        data.set_info(label=label / label.max(), group=sizes)
        data.set_weight(fields["weight"][np.cumsum(sizes) - sizes])
    held = [] if validation is None else [xgb.DMatrix(validation.features)]
    params = _params(settings, job.seed, lesson)
    least = settings.min_documents * _curvature(params, data, own)
    params |= {"min_child_weight": least, "reg_lambda": least}
    params |= parameters.resolved(settings)
    booster = xgb.Booster(params, [data, *held])
    trace: list[float] = []
    for tree in range(job.trees):
        booster.update(data, tree, own)
        job.tell(tree + 1)
        if job.evaluator:
            scores = booster.predict(held[0], output_margin=True).astype(np.float64)
            trace.append(job.evaluator(scores))
            waited = tree - int(np.argmax(trace))
            if settings.patience is not None and waited >= settings.patience:
                break
    found = [nodes_of(tree) for tree in _trees(booster)]
    job.require_splits(any(len(tree) > 1 for tree in found))
    found[0] = [
        node if node.left else node._replace(value=node.value + lesson.start)
        for node in found[0]
    ]

    def upto(trees: int) -> XGBoostModel:
        return XGBoostModel(found[:trees], job.task.features.shape[1])

    return job.fitted(upto, len(found), trace)


def _params(settings: XGBoostSettings, seed: int, lesson: Lesson) -> dict[str, Any]:
    """Return what training has in XGBoost's terms."""
    return {
        "objective": "rank:ndcg",
        "ndcg_exp_gain": False,
        "lambdarank_num_pair_per_sample": settings.truncation,
        "lambdarank_unbiased": settings.unbiased,
        "base_score": 0.0,
        "tree_method": "hist",
        "grow_policy": "lossguide",
        "max_leaves": settings.leaves,
        "max_depth": 0,
        "eta": settings.learning_rate,
        "max_bin": settings.bins,
        "colsample_bytree": settings.feature_share,
        "max_delta_step": lesson.params.get("max_delta_step", 0.0),
        "seed": seed,
        "nthread": threads_for(int(lesson.known.sum()), settings.threads),
    }


def _curvature(params: dict[str, Any], data: Any, own: Any) -> float:
    """Return the mean second derivative of a document's loss before the first tree."""
    booster = library().Booster({**params, "max_leaves": 2}, [data])
    booster.update(data, 0, own)
    [tree] = _trees(booster)
    return float(tree["sum_hessian"][0] / data.num_row())


def _trees(booster: Any) -> list[dict[str, Any]]:
    found = json.loads(booster.save_raw("json"))["learner"]["gradient_booster"]
    trees: list[dict[str, Any]] = found["model"]["trees"]
    return trees


def load_xgboost(folder: Path, about: dict[str, Any], n_features: int) -> XGBoostModel:
    """Read trees from a ranker's folder; XGBoost sees none that was not checked."""
    del about
    path = folder / FILE
    try:
        return XGBoostModel(sound_trees(read_json(path), n_features), n_features)
    except DataError as error:
        said = str(error).removeprefix(f"{path}: ")
        raise DataError(f"{path}: not trees as XGBoost writes them: {said}") from None


ROW = boosted_row(
    "xgboost",
    "XGBoost trees",
    XGBoostSettings,
    fit_xgboost,
    load_xgboost,
    prior_rankers=("xgboost", QUICK),
)
