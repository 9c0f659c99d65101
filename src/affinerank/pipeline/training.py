"""From counts to trained networks, and rankers written into folders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from affinerank.clicks.counts import ClickCounts
from affinerank.clicks.usermodel import UserModel
from affinerank.data.dataset import RankingDataset
from affinerank.data.features import FeatureMapping
from affinerank.files import new_folder
from affinerank.pipeline.lesson import Asked, Name, prepare_lesson
from affinerank.progress import Progress, quiet
from affinerank.rankers.mlp import MLPRanker, Networks, NetworkSettings
from affinerank.rankers.training import FittedNetworks, fit_networks


@dataclass(frozen=True, slots=True)
class Trained:
    """Rankers trained together.

    Attributes:
        rankers: One for each estimator and seed.
        losses: ``[epochs, n]`` mean loss of each.
        unmatched: What the counts hold that the data have no features for.
        imputed: Which features lacked values, how many, and what was put there.
    """

    rankers: Mapping[Name, MLPRanker]
    losses: Any
    unmatched: Mapping[str, Any]
    imputed: Sequence[Mapping[str, Any]] = ()


def train_rankers(
    counts: ClickCounts,
    data: RankingDataset,
    users: UserModel | None,
    *,
    estimators: Sequence[str] = ("affine",),
    seeds: Sequence[int] = (0,),
    settings: NetworkSettings | None = None,
    clip: str | float | None = None,
    strict: bool = False,
    relevant_above: float = 2.0,
    validation: tuple[ClickCounts, RankingDataset] | None = None,
    checkpoint: Path | None = None,
    progress: Progress = quiet,
) -> Trained:
    """Train a network for each estimator and seed, all at once.

    Args:
        counts: Clicks; of their ``split``, where they have one, the part ``train``.
        data: Features of the documents; missing values are filled with medians.
        users: How users click. The naive estimator needs none.
        estimators: Names of ``ESTIMATORS``; ``full-information`` learns from labels.
        seeds: One network of each estimator for each.
        settings: Shape and training of the networks.
        clip: Lower bound of alpha, as :meth:`Correction.clipped` takes it.
        strict: Refuse ranks deeper than the user model instead of extending it.
        relevant_above: Labels above this are relevant, for full information.
        validation: Counts and data to stop early by.
        checkpoint: File that training goes on from if it was killed.
        progress: Told of each epoch.
    """
    network = settings or NetworkSettings()
    asked = Asked(users, estimators, seeds, clip, strict, relevant_above)
    lesson = prepare_lesson(counts, data, asked, validation, impute=True)
    fit = partial(fit_networks, checkpoint=checkpoint)
    fitted = lesson.learnt_by(fit, network, progress)
    rankers = {
        name: MLPRanker(
            _alone(fitted, i, network), lesson.mapping, lesson.provenance(name, network)
        )
        for i, name in enumerate(lesson.names)
    }
    imputed = imputed_values(lesson.mapping, data)
    return Trained(rankers, fitted.losses, lesson.unmatched, imputed)


def save_trained(trained: Trained, folder: Path) -> dict[str, Any]:
    """Save one ranker as ``folder``, several below it by estimator (and seed).

    All of them appear, or none does.
    """
    written = save_rankers(trained.rankers, folder)
    rows = [
        {
            "estimator": name,
            "seed": seed,
            "first_loss": float(trained.losses[0, i]),
            "last_loss": float(trained.losses[-1, i]),
            "epochs": len(trained.losses),
            "written": str(target),
        }
        for i, ((name, seed), target) in enumerate(written.items())
    ]
    return {
        "rankers": rows,
        "unmatched": dict(trained.unmatched),
        "imputed": list(trained.imputed),
    }


def imputed_values(
    mapping: FeatureMapping, data: RankingDataset
) -> list[dict[str, Any]]:
    """Features of ``data`` that lack values, and what ``mapping`` fills them with."""
    fill = dict(zip(mapping.names, mapping.fill or (), strict=False))
    return [
        {"feature": name, "missing": n, "share": n / data.n_docs, "median": fill[name]}
        for name, n in data.missing_values().items()
        if name in fill
    ]


class Saved(Protocol):
    """A ranker that can be written."""

    def save(self, folder: Path) -> None:
        """Write a new folder."""


def save_rankers(rankers: Mapping[Name, Saved], folder: Path) -> dict[Name, Path]:
    """Save one ranker as ``folder``, several below it; say where each is."""
    if len(rankers) == 1:
        (name, ranker), *_ = rankers.items()
        ranker.save(folder)
        return {name: folder}
    one_seed = len({seed for _, seed in rankers}) == 1
    written = {
        (name, seed): folder / (name if one_seed else f"{name}-{seed}")
        for name, seed in rankers
    }
    with new_folder(folder) as aside:
        for key, ranker in rankers.items():
            ranker.save(aside / written[key].name)
    return written


def _alone(fitted: FittedNetworks, i: int, settings: NetworkSettings) -> Networks:
    stack = fitted.networks
    return Networks(
        tuple(p[i : i + 1].clone() for p in stack.parameters),
        stack.n_features,
        settings,
        (stack.seeds[i],),
    )
