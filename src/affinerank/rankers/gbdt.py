"""Gradient boosted trees by LightGBM: LambdaMART, from labels or corrected clicks."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
from numpy.typing import NDArray

from affinerank.data.features import FeatureMapping
from affinerank.errors import ConfigError, DataError
from affinerank.files import existing_file
from affinerank.progress import Progress, quiet
from affinerank.rankers.early_stopping import Validation
from affinerank.rankers.folder import read_about, write_folder
from affinerank.rankers.losses import Lists
from affinerank.rankers.targets import Targets

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Objective = Callable[..., tuple[NDArray[np.float32], NDArray[np.float32]]]

SMALL = 20_000  # on fewer documents threads wait for each other longer than they work


@dataclass(frozen=True, slots=True)
class TreeSettings:
    """Shape and training of trees that learn from weights.

    Attributes:
        trees: Most trees of a ranker.
        leaves: Most leaves of a tree.
        learning_rate: How much each tree counts.
        truncation: A pair of documents counts where one has a rank up to this.
        least_documents: Of a leaf.
        feature_share: Share of the features that each tree may use, drawn by the seed;
            at 1 nothing is drawn, and seeds make no difference.
        patience: With validation weights, stop after so many trees without gain and
            keep the best; ``None`` trains all trees.
        threads: Of LightGBM, 0 for all; the result does not depend on it.
    """

    trees: int = 300
    leaves: int = 31
    learning_rate: float = 0.05
    truncation: int = 30
    least_documents: int = 20
    feature_share: float = 1.0
    patience: int | None = None
    threads: int = 0

    def __post_init__(self) -> None:
        """Refuse what cannot be trained."""
        least = {"trees": 1, "leaves": 2, "truncation": 1, "least_documents": 1}
        least |= {"patience": 1, "threads": 0}
        for name, low in least.items():
            value = getattr(self, name)
            if value is not None and value < low:
                raise ConfigError(f"{name} must be {low} or more, got {value}")
        if not self.learning_rate > 0:
            raise ConfigError(
                f"learning_rate must be above 0, got {self.learning_rate}"
            )
        if not 0 < self.feature_share <= 1:
            raise ConfigError(
                f"feature_share must be above 0 and up to 1, got {self.feature_share}"
            )


@dataclass(frozen=True, slots=True)
class FittedTrees:
    """One trained ranker.

    Attributes:
        model: In LightGBM's own text format.
        trees: How many it has.
        held_out: DCG that held-out weights estimate after each tree; empty where
            nothing was held out.
    """

    model: str
    trees: int
    held_out: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class TreeRanker:
    """A trained LightGBM model and the features it reads.

    Attributes:
        model: The model in LightGBM's own text format.
        mapping: What is done to raw features first.
        provenance: How it was trained, for the reader of its file.
    """

    model: str
    mapping: FeatureMapping
    provenance: dict[str, Any]

    def predict(self, features: NDArray[np.float32]) -> NDArray[np.float64]:
        """Score documents from mapped features ``[n_docs, n_features]``."""
        if features.shape[1] != len(self.mapping.names):
            raise DataError(
                f"this ranker reads {len(self.mapping.names)} features, "
                f"got {features.shape[1]}"
            )
        if not len(features):
            return np.zeros(0)
        booster = lgb.Booster(model_str=self.model)
        return np.asarray(booster.predict(features), dtype=np.float64)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write ``ranker.json`` and ``model.txt`` into a new folder."""
        write_folder(
            Path(folder),
            kind="lightgbm",
            mapping=self.mapping,
            provenance=self.provenance,
            about={},
            files={"model.txt": self.model.encode()},
        )

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> TreeRanker:
        """Read a folder that :meth:`save` wrote."""
        about, mapping = read_about(Path(folder), kind="lightgbm")
        path = existing_file(Path(folder) / "model.txt")
        try:
            model = path.read_text()
            n_features = lgb.Booster(model_str=model).num_feature()
        except (ValueError, lgb.basic.LightGBMError) as error:
            raise DataError(
                f"{path.parent}: not a ranker saved by AffineRank ({error!r:.200})"
            ) from None
        if n_features != len(mapping.names):
            raise DataError(
                f"{path.parent / 'ranker.json'}: names {len(mapping.names)} features, "
                f"and the model beside it reads {n_features}"
            )
        return cls(model, mapping, about["provenance"])


def fit_lambdamart(
    features: NDArray[np.float32],
    labels: NDArray[np.float32],
    offsets: NDArray[np.int64],
    *,
    seed: int = 0,
) -> str:
    """Train LambdaMART with LightGBM's defaults; return the model as text.

    Args:
        features: ``[n_docs, n_features]``; NaN is missing.
        labels: ``[n_docs]`` whole numbers, 0 or more.
        offsets: ``[n_queries + 1]`` query boundaries.
        seed: LightGBM's seed. The result does not depend on the number of threads.
    """
    if labels.size == 0 or labels.min() == labels.max():
        value = f"{labels[0]:g}" if labels.size else "none"
        raise DataError(
            f"all {labels.size} labels to learn from are the same ({value}), so there "
            "is no order to learn; choose which labels count as relevant "
            "(--relevant-above), or more queries"
        )
    data = lgb.Dataset(features, label=labels, group=np.diff(offsets))
    settings = {"objective": "lambdarank", "seed": seed, **_basic(len(features))}
    return lgb.train(settings, data, num_boost_round=100).model_to_string()


def fit_trees(
    features: NDArray[np.float32],
    targets: Targets,
    offsets: Ints,
    *,
    seeds: Sequence[int] = (0,),
    settings: TreeSettings | None = None,
    validation: Validation | None = None,
    progress: Progress = quiet,
) -> list[FittedTrees]:
    """Train LambdaMART on weights of any sign, one ranker after another.

    Documents that were not shown are left out, so nothing about them can matter. See
    :mod:`affinerank.rankers.tree_objective` for the loss.

    Args:
        features: ``[n_docs, n_features]``; NaN is missing.
        targets: What each of ``n`` rankers learns, ``[n, n_docs]``.
        offsets: ``[n_queries + 1]`` query boundaries.
        seeds: ``[n]`` of each ranker.
        settings: Shape and training.
        validation: What to stop early by, where the settings have patience.
        progress: Told of each tree.
    """
    asked = settings or TreeSettings()
    if len(seeds) != len(targets.weights):
        raise DataError(
            f"give a seed for each of {len(targets.weights)} rankers, got {len(seeds)}"
        )
    if asked.patience is not None and validation is None:
        raise ConfigError("early stopping (patience) needs validation weights")
    judged = validation if asked.patience is not None else None
    weights, counts_for = targets.scaled(Lists.of(np.diff(offsets)))
    gains = (weights * counts_for).numpy()
    fitted: list[FittedTrees] = []
    for i, seed in enumerate(seeds):
        shown = targets.shown[i]
        if i == 0 or np.any(shown != targets.shown[i - 1]):
            binned = _binned(features, shown, judged, asked)
        objective = _objective(gains[i], shown, offsets, asked.truncation)
        judge = None if judged is None else partial(judged.value, i)
        tell = _teller(progress, i, len(seeds))
        fitted.append(_fit_one(binned, objective, judge, tell, seed, asked))
    return fitted


def _binned(
    features: NDArray[np.float32],
    shown: NDArray[np.bool_],
    validation: Validation | None,
    settings: TreeSettings,
) -> list[Any]:
    """LightGBM's form of the shown documents, and of those held out if there are any.

    Rankers that learn from the same documents share it.
    """
    seen = features if shown.all() else features[shown]
    data = lgb.Dataset(
        seen,
        label=np.zeros(len(seen), dtype=np.float32),
        params={**_basic(len(seen), settings.threads), "feature_pre_filter": False},
    )
    if validation is None:
        return [data]
    label = np.zeros(len(validation.features), dtype=np.float32)
    return [data, data.create_valid(validation.features, label=label)]


def _objective(
    gains: NDArray[np.float32],
    shown: NDArray[np.bool_],
    offsets: Ints,
    truncation: int,
) -> Objective:
    """The loss of one ranker, over the documents that were shown."""
    from affinerank.rankers.tree_objective import LambdaObjective

    # Boundaries among the shown: how many of them come before each.
    bounds = np.concatenate([[0], np.cumsum(shown)])[offsets]
    return LambdaObjective(gains[shown].astype(np.float64), bounds, truncation)


def _fit_one(
    binned: Sequence[Any],
    objective: Objective,
    judge: Callable[[Floats], float] | None,
    tell: Callable[[Any], None],
    seed: int,
    settings: TreeSettings,
) -> FittedTrees:
    """Train one ranker; where it is judged after each tree, up to its best."""
    data, *held_out = binned
    values: dict[str, dict[str, list[float]]] = {}
    callbacks: list[Any] = [tell]
    if judge is not None:
        stop = lgb.early_stopping(settings.patience or 0, verbose=False)
        callbacks += [lgb.record_evaluation(values), stop]
    booster = lgb.train(
        {
            **_basic(data.construct().num_data(), settings.threads),
            "objective": objective,
            "metric": "none",
            "feature_pre_filter": False,
            "num_leaves": settings.leaves,
            "learning_rate": settings.learning_rate,
            "min_data_in_leaf": settings.least_documents,
            "feature_fraction": settings.feature_share,
            "feature_fraction_seed": seed,
        },
        data,
        num_boost_round=settings.trees,
        valid_sets=held_out,
        valid_names=["held out"] * len(held_out),
        feval=(lambda scores, _: ("DCG", judge(scores), True)) if judge else None,
        callbacks=callbacks,
    )
    if not booster.feature_importance().any():
        raise DataError(
            f"{data.num_data()} documents were shown, too few or too much alike to "
            f"split into leaves of {settings.least_documents} (least_documents)"
        )
    kept = booster.best_iteration if judge else booster.current_iteration()
    trace = values["held out"]["DCG"] if judge else ()
    model = booster.model_to_string(num_iteration=kept)
    return FittedTrees(model, kept, tuple(trace))


def _teller(progress: Progress, i: int, n: int) -> Callable[[Any], None]:
    """A callback of LightGBM that tells of each tree of ranker ``i`` of ``n``."""

    def tell(env: Any) -> None:
        trees = env.end_iteration - env.begin_iteration
        done = env.iteration - env.begin_iteration + 1
        progress("training trees", i * trees + done, n * trees)

    return tell


def _basic(n_docs: int, threads: int = 0) -> dict[str, Any]:
    """What every training has: the same result each time, on any number of threads."""
    return {
        "num_threads": 1 if n_docs < SMALL else threads,
        "deterministic": True,
        "force_row_wise": True,
        "verbosity": -1,
    }
