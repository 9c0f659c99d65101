"""The tree ranker by LightGBM, from labels, weights or clicks themselves; its row."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from affinerank import limits
from affinerank.arrays import Bools, Floats, Ints, Matrix
from affinerank.data.features import SCALINGS
from affinerank.defaults import QUICK
from affinerank.errors import ConfigError, DataError
from affinerank.plain_text import read_text
from affinerank.progress import Progress, quiet
from affinerank.rankers import parameters
from affinerank.rankers.ranker import Fitted, RankerKind
from affinerank.rankers.targets import ClickTargets, Targets, Validation, require_fit
from affinerank.rankers.tree_text import require_sound, trees_alone
from affinerank.settings import require_at_least
from affinerank.threads import usable_threads

if TYPE_CHECKING:
    from affinerank.rankers.onnx_graph import Graph
    from affinerank.rankers.tree_objective import Lesson

SMALL = 20_000  # on fewer documents threads wait for each other longer than they work
TEXT = "model.txt"
OBJECTIVES = {"auto": None, "native": True, "any-sign": False}


@dataclass(frozen=True, slots=True)
class TreeSettings:
    """Shape and training of trees that learn from weights, or from clicks.

    Attributes:
        trees: Most trees of a ranker.
        leaves: Most leaves of a tree.
        learning_rate: How much each tree counts.
        truncation: A pair of documents counts where one has a rank up to this.
        least_documents: Of a leaf.
        bins: Most values of a feature that are told apart.
        feature_share: Share of the features that each tree may use, drawn by the seed;
            at 1 nothing is drawn, and seeds make no difference.
        patience: With validation weights, stop after so many trees without gain;
            ``None`` trains all trees.
        threads: Of LightGBM, 0 for all; the result does not depend on it.
        objective: For weights. ``native``: LightGBM's own lambdarank, which reads
            weights as relevance, in 256 steps, those below 0 as 0. ``any-sign``: ours,
            :class:`~affinerank.rankers.tree_objective.LambdaObjective`. ``auto``:
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

    trees: int = 300
    leaves: int = 31
    learning_rate: float = 0.05
    truncation: int = 30
    least_documents: int = 20
    bins: int = 63
    feature_share: float = 1.0
    patience: int | None = None
    threads: int = 0
    objective: str = "auto"
    position: bool = False
    monotone: str = ""
    params: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Reject what cannot be trained."""
        least = {"trees": 1, "leaves": 2, "truncation": 1, "least_documents": 1}
        least |= {"patience": 1, "threads": 0, "bins": 2}
        most = {"trees": limits.MODEL_TREES, "leaves": limits.MODEL_LEAVES}
        most |= {"bins": limits.MODEL_BINS, "threads": limits.THREADS}
        require_at_least(self, least=least, most=most, positive=("learning_rate",))
        if not 0 < self.feature_share <= 1:
            raise ConfigError(
                f"feature_share must be above 0 and up to 1, got {self.feature_share}"
            )
        if self.objective not in OBJECTIVES:
            known = " or ".join(OBJECTIVES)
            raise ConfigError(f"objective must be {known}, got {self.objective!r}")
        if self.position and OBJECTIVES[self.objective] is False:
            raise ConfigError("position is of LightGBM's own objective: native")
        parameters.passed(self)


@dataclass(frozen=True, slots=True)
class TreeModel:
    """Trees in LightGBM's own text format."""

    text: str

    def predict(self, features: Matrix) -> Floats:
        """Score documents from mapped features; NaN is missing."""
        threads = usable_threads(0)
        scores = self.booster().predict(features, num_threads=threads)
        return np.asarray(scores, dtype=np.float64)

    def files(self) -> Mapping[str, bytes]:
        """Return the text as a file."""
        return {TEXT: self.text.encode()}

    def about(self) -> dict[str, Any]:
        """Return nothing: the text says it all."""
        return {}

    def add_to_onnx(self, graph: Graph, values: str) -> str:
        """Add the trees as one node of the machine learning domain."""
        from affinerank.rankers.onnx_graph import add_trees

        return add_trees(graph, values, self.dumped())

    def dumped(self) -> dict[str, Any]:
        """Return the trees as LightGBM dumps them."""
        found: dict[str, Any] = self.booster().dump_model()
        return found

    def gain(self) -> Floats:
        """Return what the splits by each feature gained, ``[n_features]``."""
        return np.asarray(self.booster().feature_importance("gain"), dtype=np.float64)

    def to_lightgbm(self) -> str:
        """Return the text."""
        return self.text

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


def fit_trees(
    features: Matrix,
    targets: Targets | ClickTargets,
    offsets: Ints,
    *,
    seeds: Sequence[int],
    settings: TreeSettings,
    validation: Validation | None = None,
    lengths: Sequence[int] | None = None,
    checkpoint: Path | None = None,
    categories: Sequence[int] = (),
    progress: Progress = quiet,
) -> list[Fitted]:
    """Train on weights by LambdaMART, or on clicks, one ranker after another.

    Documents that are not known, or were never shown, are left out, so nothing about
    them can matter. See :mod:`affinerank.rankers.tree_objective` for the losses, and
    :class:`~affinerank.rankers.ranker.RankerKind` for the arguments.
    """
    from affinerank.rankers.held_out import judge_of
    from affinerank.rankers.tree_objective import lessons

    require_fit(targets, len(features), seeds, settings, validation)
    if checkpoint is not None:
        raise ConfigError("trees are trained without a checkpoint; leave it out")
    held = None if validation is None else judge_of(validation, "cpu")
    trees = lengths or [settings.trees] * len(seeds)
    fitted: list[Fitted] = []
    known: Bools | None = None
    native = settings.position or OBJECTIVES[settings.objective]
    how: dict[str, Any] = {"native": native, "position": settings.position}
    learnt = lessons(targets, offsets, settings.truncation, **how)
    for i, lesson in enumerate(learnt):
        if known is None or np.any(known != lesson.known):
            known = lesson.known
            binned = _binned(features, known, validation, settings, categories)
        judge = None if held is None else partial(held.value, i)
        tell = partial(_tell, progress, sum(trees[:i]), sum(trees))
        own = (seeds[i], trees[i], settings)
        booster, trace = _trained(binned, lesson, judge, tell, *own)
        fitted.append(_fitted(booster, trace, lengths[i] if lengths else None))
    return fitted


def _binned(
    features: Matrix,
    known: Bools,
    validation: Validation | None,
    settings: TreeSettings,
    categories: Sequence[int],
) -> list[Any]:
    """Return LightGBM's form of known documents, and of those held out.

    Rankers that learn from the same documents share it.
    """
    lgb = lightgbm()

    seen = features if known.all() else features[known]
    own: dict[str, Any] = {"feature_pre_filter": False, "max_bin": settings.bins}
    own |= _passed(settings, 0)
    data = lgb.Dataset(
        seen,
        label=np.zeros(len(seen), dtype=np.float32),
        params={**_basic(len(seen), settings.threads), **own},
        categorical_feature=list(categories),
    )
    if validation is None:
        return [data]
    label = np.zeros(len(validation.features), dtype=np.float32)
    return [data, data.create_valid(validation.features, label=label)]


def _trained(
    binned: Sequence[Any],
    lesson: Lesson,
    judge: Callable[[Floats], float] | None,
    tell: Callable[[Any], None],
    seed: int,
    trees: int,
    settings: TreeSettings,
) -> tuple[Any, list[float]]:
    """Train one ranker; return it, and what each tree was worth to the judge."""
    lgb = lightgbm()

    data, *held_out = binned
    for name, content in lesson.fields.items():
        data.construct().set_field(name, content)
    start = lesson.start
    values: dict[str, dict[str, list[float]]] = {}
    callbacks = [tell, lgb.record_evaluation(values)]
    if settings.patience is not None:
        callbacks.append(lgb.early_stopping(settings.patience, verbose=False))
    booster = lgb.train(
        {
            **_basic(data.construct().num_data(), settings.threads),
            **lesson.params,
            "metric": "none",
            "feature_pre_filter": False,
            "max_bin": settings.bins,
            "num_leaves": settings.leaves,
            "learning_rate": settings.learning_rate,
            "min_data_in_leaf": settings.least_documents,
            "feature_fraction": settings.feature_share,
            "feature_fraction_seed": seed,
            **_passed(settings, seed),
        },
        data,
        num_boost_round=trees,
        valid_sets=held_out,
        valid_names=["held out"] * len(held_out),
        feval=(lambda s, _: ("worth", judge(s + start), True)) if judge else None,
        callbacks=callbacks,
        keep_training_booster=True,  # with the trees after the best one
    )
    if not booster.feature_importance().any():
        raise DataError(
            f"{data.num_data()} documents are known, too few or too much alike to "
            f"split into leaves of {settings.least_documents} (least_documents)"
        )
    _add_to_scores(booster, start)
    return booster, values["held out"]["worth"] if judge else []


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


def _fitted(booster: Any, trace: Sequence[float], length: int | None) -> Fitted:
    """All trees, and those up to the best value of the held-out trace, or to length."""

    def upto(trees: int) -> TreeModel:
        return TreeModel(booster.model_to_string(num_iteration=trees))

    last = booster.current_iteration()
    best = int(np.argmax(trace)) + 1 if trace else length
    report = {
        "trees": best or last,
        "first_held_out": trace[0] if trace else None,
        "best_held_out": max(trace, default=None),
    }
    return Fitted(upto(last), upto(best) if best else None, best, report, trace)


def _tell(progress: Progress, before: int, trees: int, env: Any) -> None:
    """Report a tree after those of the rankers before, as a callback of LightGBM."""
    progress("training trees", before + env.iteration + 1, trees)


def _basic(n_docs: int, threads: int = 0) -> dict[str, Any]:
    """Return what every training has: the same result on any number of threads."""
    return {
        "num_threads": 1 if n_docs < SMALL else usable_threads(threads),
        "deterministic": True,
        "force_row_wise": True,
        "verbosity": -1,
    }


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


ROW = RankerKind(
    name="lightgbm",
    title="LightGBM trees",
    settings=TreeSettings,
    fit=fit_trees,
    load=load_trees,
    reads_missing=True,
    reads_categories=True,
    explains_clicks=True,
    takes_limits=True,
    patience=50,
    scaling=SCALINGS[-1],
    beside=QUICK,
)
