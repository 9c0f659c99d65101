"""From counts to LightGBM rankers: trained as networks are, trees in their place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from affinerank.clicks.counts import ClickCounts
from affinerank.clicks.usermodel import UserModel
from affinerank.data.dataset import RankingDataset
from affinerank.pipeline.lesson import Asked, Name, prepare_lesson
from affinerank.pipeline.training import save_rankers
from affinerank.progress import Progress, quiet
from affinerank.rankers.gbdt import FittedTrees, TreeRanker, TreeSettings, fit_trees


@dataclass(frozen=True, slots=True)
class TrainedTrees:
    """LightGBM rankers trained on the same counts.

    Attributes:
        rankers: One for each estimator and seed.
        fitted: What is known of each one's training.
        unmatched: What the counts hold that the data have no features for.
    """

    rankers: Mapping[Name, TreeRanker]
    fitted: Mapping[Name, FittedTrees]
    unmatched: Mapping[str, Any]


def train_trees(
    counts: ClickCounts,
    data: RankingDataset,
    users: UserModel | None,
    *,
    estimators: Sequence[str] = ("affine",),
    seeds: Sequence[int] = (0,),
    settings: TreeSettings | None = None,
    clip: str | float | None = None,
    strict: bool = False,
    relevant_above: float = 2.0,
    validation: tuple[ClickCounts, RankingDataset] | None = None,
    progress: Progress = quiet,
) -> TrainedTrees:
    """Train trees for each estimator and seed, one after another.

    Arguments are those of :func:`affinerank.pipeline.train_rankers`, the settings those
    of trees; missing values may stay missing, which trees can read.
    """
    grown = settings or TreeSettings()
    asked = Asked(users, estimators, seeds, clip, strict, relevant_above)
    lesson = prepare_lesson(counts, data, asked, validation)
    fitted = lesson.learnt_by(fit_trees, grown, progress)
    by_name = dict(zip(lesson.names, fitted, strict=True))
    rankers = {
        name: TreeRanker(trees.model, lesson.mapping, lesson.provenance(name, grown))
        for name, trees in by_name.items()
    }
    return TrainedTrees(rankers, by_name, lesson.unmatched)


def save_trees(trained: TrainedTrees, folder: Path) -> dict[str, Any]:
    """Save as :func:`affinerank.pipeline.save_trained` does; say what was written."""
    rows = []
    for (name, seed), target in save_rankers(trained.rankers, folder).items():
        trees = trained.fitted[name, seed]
        rows.append(
            {
                "estimator": name,
                "seed": seed,
                "trees": trees.trees,
                "first_held_out": trees.held_out[0] if trees.held_out else None,
                "best_held_out": max(trees.held_out, default=None),
                "written": str(target),
            }
        )
    return {"rankers": rows, "unmatched": dict(trained.unmatched)}
