"""Rankers trained on weighed clicks, member by member, each on features of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from affinerank.data.dataset import RankingDataset
from affinerank.data.feature_mapping import FeatureMapping
from affinerank.estimators import Weights
from affinerank.pipeline.steps.features import FeatureSource, PreparedMember
from affinerank.pipeline.steps.train_settings import TrainSettings
from affinerank.pipeline.steps.training_lists import TrainingLists, fit_all
from affinerank.pipeline.steps.tuning import tune_then_train
from affinerank.rankers import RANKERS
from affinerank.rankers.blend import AnyRanker, Blend, spread_within_lists
from affinerank.rankers.ranker import (
    Fitted,
    Member,
    MemberPlan,
    Ranker,
    predict_all,
)
from affinerank.support.arrays import Bools, Floats
from affinerank.support.errors import DataError, warn
from affinerank.support.progress import Progress, no_progress


@dataclass(frozen=True, slots=True, eq=False)
class WeighedLists:
    """Lists of documents, and what each ranker learns there.

    Attributes:
        source: The data, and their features.
        weights: Of each ranker.
    """

    source: FeatureSource
    weights: Sequence[Weights]

    @property
    def data(self) -> RankingDataset:
        """The data, raw."""
        return self.source.data

    @property
    def shares(self) -> Floats:
        """``[n_rankers, n_queries]`` share of the sessions."""
        return np.stack([own.share for own in self.weights])

    def mapped(self, mapping: FeatureMapping) -> TrainingLists:
        """Return the lists as a model with this mapping reads them."""
        data = self.source.mapped(mapping)
        codes = [i for i, n in enumerate(data.feature_names) if n in data.categories]
        return TrainingLists.of(data.features, data.offsets, self.weights, codes)


@dataclass(frozen=True, slots=True, eq=False)
class FittedMember:
    """A member of every ranker that was trained.

    Attributes:
        plan: How it was trained.
        mapping: What is done to its features.
        fitted: Its training, for each ranker.
        units: Spread of its scores within the lists learnt from, for each ranker.
    """

    plan: MemberPlan
    mapping: FeatureMapping
    fitted: Sequence[Fitted]
    units: Sequence[float]

    def ranker(
        self,
        i: int,
        provenance: Mapping[str, Any],
        training_queries: tuple[str, ...] = (),
    ) -> Ranker:
        """Return the member of ranker ``i`` as a ranker."""
        model = self.fitted[i].kept
        return Ranker(
            self.plan.ranker, model, self.mapping, provenance, training_queries
        )

    def after_the_last_epoch(self) -> FittedMember:
        """Return the member as it was after its last epoch or tree."""
        fitted = [replace(one, chosen=None) for one in self.fitted]
        return replace(self, fitted=fitted)

    def outside(self, i: int) -> Ranker | None:
        """Return the one that did not learn from held-out queries, if it was kept."""
        model = self.fitted[i].outside
        if model is None:
            return None
        return Ranker(self.plan.ranker, model, self.mapping, {})


def fit_members(
    members: Sequence[PreparedMember],
    learnt: WeighedLists,
    settings: TrainSettings,
    *,
    seeds: Sequence[int],
    is_held_out: Bools | None = None,
    validation: WeighedLists | None = None,
    checkpoint: Path | None = None,
    progress: Progress = no_progress,
) -> list[FittedMember]:
    """Train each member of all rankers on the same weights.

    A member that cannot learn from these lists is left out, with a warning, as long as
    another can.

    Args:
        members: What is trained.
        learnt: What is learnt: weights of each ranker.
        settings: How; estimators, seeds and click models are in the weights.
        seeds: One per ranker.
        is_held_out: ``[n_queries]`` lists that choose learning rate and length, where
            the settings say so.
        validation: Other lists that end the training, in place of a choice.
        checkpoint: File that an interrupted training resumes from.
        progress: Called as training advances.
    """
    fitted_members: list[FittedMember] = []
    faults: dict[str, DataError] = {}
    for member in members:
        lists = learnt.mapped(member.mapping)
        try:
            if settings.is_tuned and validation is None:
                fitted = tune_then_train(
                    member.plan.ranker,
                    lists,
                    is_held_out,
                    seeds=seeds,
                    settings=member.settings,
                    rates=settings.learning_rates or None,
                    checkpoint=checkpoint,
                    keep_outside=settings.importance,
                    progress=progress,
                )
            else:
                fitted = fit_all(
                    member.plan.ranker,
                    lists,
                    seeds=seeds,
                    settings=member.settings,
                    held_out=validation.mapped(member.mapping) if validation else None,
                    checkpoint=checkpoint,
                    progress=progress,
                )
                # Nothing of the lists that end the training is learnt.
                if validation and settings.importance:
                    fitted = [replace(one, outside=one.kept) for one in fitted]
        except DataError as error:
            faults[member.plan.name] = error
            continue

        # Members of a blend are added up in units of their spread.
        units = [1.0] * len(seeds)
        if len(members) > 1:
            query = learnt.data.query_of_doc
            scores = (one.kept.predict(lists.features) for one in fitted)
            units = [spread_within_lists(own, query) for own in scores]
        fitted_members.append(FittedMember(member.plan, member.mapping, fitted, units))
    if not fitted_members:
        raise next(iter(faults.values()))
    for name, fault in faults.items():
        warn(f"the ranker does without its member {name}: {fault}")
    return fitted_members


def assemble(
    kind: str,
    members: Sequence[FittedMember],
    i: int,
    provenance: Mapping[str, Any],
    training_queries: tuple[str, ...],
) -> AnyRanker:
    """Return ranker ``i`` of those whose members were trained together."""
    if RANKERS[kind].members is None:
        [member] = members
        return member.ranker(i, provenance, training_queries)
    rankers = [member.ranker(i, {}) for member in members]
    return Blend(kind, _with_shares(members, rankers, i), provenance, training_queries)


def score_all(members: Sequence[FittedMember], source: FeatureSource) -> Floats:
    """Score documents by all rankers at once: ``[n_rankers, n_docs]``.

    As each of the rankers of :func:`assemble` scores them.
    """
    total_share = sum(member.plan.share for member in members)
    total = np.zeros((len(members[0].fitted), source.data.n_docs))
    for member in members:
        features = source.mapped(member.mapping).features
        scores = predict_all([one.kept for one in member.fitted], features)
        share = member.plan.share / total_share
        total += share / np.array(member.units)[:, None] * scores
    return total


def assemble_outside(
    kind: str, members: Sequence[FittedMember], i: int
) -> AnyRanker | None:
    """Return ranker ``i`` without what learnt from held-out queries, if it was kept."""
    rankers = [member.outside(i) for member in members]
    kept = [ranker for ranker in rankers if ranker is not None]
    if len(kept) < len(members):
        return None
    if RANKERS[kind].members is None:
        return kept[0]
    return Blend(kind, _with_shares(members, kept, i), {})


def _with_shares(
    members: Sequence[FittedMember], rankers: Sequence[Ranker], i: int
) -> tuple[Member, ...]:
    """Put rankers together with their shares, which add up to 1, and their units."""
    total = sum(member.plan.share for member in members)
    return tuple(
        Member(member.plan.name, ranker, member.plan.share / total, member.units[i])
        for member, ranker in zip(members, rankers, strict=True)
    )


def report(members: Sequence[FittedMember], i: int) -> dict[str, Any]:
    """Return plain numbers about the training of ranker ``i``."""
    if len(members) == 1:
        return dict(members[0].fitted[i].report)
    return {
        "members": [
            {"member": member.plan.name, **member.fitted[i].report}
            for member in members
        ]
    }
