"""The tree ranker by XGBoost, from labels, weights or clicks themselves; its row."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from affinerank import limits
from affinerank.arrays import Floats, Ints, Matrix
from affinerank.data.features import SCALINGS
from affinerank.defaults import QUICK
from affinerank.errors import ConfigError, DataError
from affinerank.plain_text import read_json
from affinerank.progress import Progress, quiet
from affinerank.rankers import parameters
from affinerank.rankers.ranker import Fitted, RankerKind
from affinerank.rankers.targets import ClickTargets, Targets, Validation, require_fit
from affinerank.rankers.xgboost_json import (
    FlatTree,
    as_dumped,
    document,
    in_order,
    sound_trees,
)
from affinerank.settings import require_at_least
from affinerank.threads import usable_threads

if TYPE_CHECKING:
    from affinerank.rankers.onnx_graph import Graph
    from affinerank.rankers.tree_objective import Lesson

FILE = "model.json"
SMALL = 20_000  # on fewer documents threads wait for each other longer than they work


@dataclass(frozen=True, slots=True)
class XGBoostSettings:
    """Shape and training of XGBoost's trees.

    Relevance is learnt by XGBoost's own ``rank:ndcg`` with a linear gain. Corrected
    clicks, and clicks themselves, are learnt by the objectives that LightGBM's trees
    have here (:mod:`affinerank.rankers.tree_objective`).

    Attributes:
        trees: Most trees of a ranker.
        leaves: Most leaves of a tree.
        learning_rate: How much each tree counts.
        truncation: A pair of documents counts where one has a rank up to this.
        least_documents: Of a leaf, counted by second derivatives: one document has
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

    PASSED: ClassVar[Mapping[str, parameters.Rule]] = parameters.XGBOOST
    OURS: ClassVar[Mapping[str, str]] = parameters.XGBOOST_OURS

    trees: int = 300
    leaves: int = 31
    learning_rate: float = 0.05
    truncation: int = 30
    least_documents: float = 20.0
    bins: int = 63
    feature_share: float = 1.0
    patience: int | None = None
    threads: int = 0
    unbiased: bool = False
    monotone: str = ""
    params: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Reject what cannot be trained."""
        least = {"trees": 1, "leaves": 2, "truncation": 1, "patience": 1}
        least |= {"threads": 0, "bins": 2}
        most = {"trees": limits.MODEL_TREES, "leaves": limits.MODEL_LEAVES}
        most |= {"bins": limits.MODEL_BINS, "threads": limits.THREADS}
        positive = ("learning_rate", "least_documents", "feature_share")
        require_at_least(self, least=least, most=most, positive=positive)
        if self.feature_share > 1:
            raise ConfigError(f"feature_share must be at most 1: {self.feature_share}")
        parameters.passed(self)


@dataclass(frozen=True, slots=True, eq=False)
class XGBoostModel:
    """Trees, and the number of features that they read."""

    trees: Sequence[FlatTree]
    n_features: int

    def predict(self, features: Matrix) -> Floats:
        """Score documents from mapped features; NaN is missing."""
        found = self.booster().predict(library().DMatrix(features), output_margin=True)
        return np.asarray(found, dtype=np.float64)

    def files(self) -> Mapping[str, bytes]:
        """Return a model that XGBoost loads."""
        return {FILE: document(self.trees, self.n_features, ())}

    def about(self) -> dict[str, Any]:
        """Return nothing: the file says it all."""
        return {}

    def add_to_onnx(self, graph: Graph, values: str) -> str:
        """Add the trees as one node of the machine learning domain."""
        from affinerank.rankers.onnx_graph import add_trees

        return add_trees(graph, values, self.dumped())

    def dumped(self) -> dict[str, Any]:
        """Return the trees as LightGBM dumps its own."""
        return as_dumped(self.trees)

    def gain(self) -> Floats:
        """Return what the splits by each feature gained, ``[n_features]``."""
        found = np.zeros(self.n_features)
        for tree in self.trees:
            np.add.at(found, tree["split_indices"], tree["loss_changes"])
        return found

    def booster(self) -> Any:
        """Return XGBoost's own form."""
        booster = library().Booster({"nthread": usable_threads(0)})
        booster.load_model(bytearray(self.files()[FILE]))
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


def fit_xgboost(
    features: Matrix,
    targets: Targets | ClickTargets,
    offsets: Ints,
    *,
    seeds: Sequence[int],
    settings: XGBoostSettings,
    validation: Validation | None = None,
    lengths: Sequence[int] | None = None,
    checkpoint: Path | None = None,
    progress: Progress = quiet,
) -> list[Fitted]:
    """Train on weights or on clicks, one ranker after another.

    Documents that are not known, or were never shown, are left out. For the arguments
    see :class:`~affinerank.rankers.ranker.RankerKind`.
    """
    library()
    from affinerank.rankers.held_out import judge_of
    from affinerank.rankers.tree_objective import lessons

    require_fit(targets, len(features), seeds, settings, validation)
    if checkpoint is not None:
        raise ConfigError("trees are trained without a checkpoint; leave it out")
    held = None if validation is None else judge_of(validation, "cpu")
    fitted = []
    own = settings.unbiased
    how: dict[str, Any] = {"native": own or None, "position": own}
    learnt = lessons(targets, offsets, settings.truncation, **how)
    for i, lesson in enumerate(learnt):
        length = lengths[i] if lengths else None
        judged = None
        if held is not None and validation is not None:
            judged = validation.features, partial(held.value, i)
        trees = [seeds[i], length or settings.trees]
        found, trace = _trained(features, lesson, judged, settings, progress, *trees)
        fitted.append(_fitted(found, features.shape[1], trace, length))
    return fitted


def _trained(
    features: Matrix,
    lesson: Lesson,
    judged: tuple[Matrix, Callable[[Floats], float]] | None,
    settings: XGBoostSettings,
    progress: Progress,
    seed: int,
    trees: int,
) -> tuple[list[FlatTree], list[float]]:
    """Train one ranker; return its trees, and what each was worth to the judge."""
    xgb = library()
    seen = features[lesson.known]
    data = xgb.QuantileDMatrix(seen, max_bin=settings.bins)
    objective = lesson.params["objective"]
    own = None
    if callable(objective):
        own = lambda scores, _: objective(scores.astype(np.float64))  # noqa: E731
    else:
        sizes = lesson.fields["group"]
        first = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        label = lesson.fields["label"]
        if settings.unbiased:  # the place within a group is the rank shown
            group = np.arange(len(sizes)).repeat(sizes)
            order = np.lexsort((lesson.fields["position"], group))
            label = label[order]
            data = xgb.QuantileDMatrix(seen[order], max_bin=settings.bins)
        data.set_info(label=label / label.max(), group=sizes)
        data.set_weight(lesson.fields["weight"][first])
    held = [] if judged is None else [xgb.DMatrix(judged[0])]
    params = _params(settings, seed, lesson)
    least = settings.least_documents * _curvature(params, data, own)
    params |= {"min_child_weight": least, "reg_lambda": least}
    params |= parameters.resolved(settings)
    booster = xgb.Booster(params, [data, *held])
    trace: list[float] = []
    for tree in range(trees):
        booster.update(data, tree, own)
        progress("training trees", tree + 1, trees)
        if judged is not None:
            scores = booster.predict(held[0], output_margin=True).astype(np.float64)
            trace.append(judged[1](scores + lesson.start))
            waited = tree - int(np.argmax(trace))
            if settings.patience is not None and waited >= settings.patience:
                break
    found = [in_order(tree) for tree in _trees(booster)]
    if all(len(tree["left_children"]) == 1 for tree in found):
        raise DataError(
            f"{len(seen)} documents are known, too few or too much alike to split into "
            f"leaves of {settings.least_documents:g} (least_documents)"
        )
    first_tree = found[0]
    for node, child in enumerate(first_tree["left_children"]):
        if child < 0:
            first_tree["split_conditions"][node] += lesson.start
    return found, trace


def _params(settings: XGBoostSettings, seed: int, lesson: Lesson) -> dict[str, Any]:
    """Return what training has in XGBoost's terms."""
    known = int(lesson.known.sum())
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
        "nthread": 1 if known < SMALL else usable_threads(settings.threads),
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


def _fitted(
    trees: list[FlatTree], n_features: int, trace: list[float], length: int | None
) -> Fitted:
    """All trees, and those up to the best value of the held-out trace, or to length."""
    best = int(np.argmax(trace)) + 1 if trace else length
    report = {
        "trees": best or len(trees),
        "first_held_out": trace[0] if trace else None,
        "best_held_out": max(trace, default=None),
    }
    chosen = XGBoostModel(trees[:best], n_features) if best else None
    return Fitted(XGBoostModel(trees, n_features), chosen, best, report, trace)


def load_xgboost(folder: Path, about: dict[str, Any], n_features: int) -> XGBoostModel:
    """Read trees from a ranker's folder; XGBoost sees none that was not checked."""
    del about
    path = folder / FILE
    try:
        return XGBoostModel(sound_trees(read_json(path), n_features), n_features)
    except DataError as error:
        said = str(error).removeprefix(f"{path}: ")
        raise DataError(f"{path}: not trees as XGBoost writes them: {said}") from None


ROW = RankerKind(
    name="xgboost",
    title="XGBoost trees",
    settings=XGBoostSettings,
    fit=fit_xgboost,
    load=load_xgboost,
    reads_missing=True,
    explains_clicks=True,
    patience=50,
    scaling=SCALINGS[-1],
    beside=QUICK,
)
