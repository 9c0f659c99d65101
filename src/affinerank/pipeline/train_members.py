"""Rankers trained on weighed clicks, member by member, each on features of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from affinerank.data.dataset import RankingDataset
from affinerank.data.feature_mapping import FREQUENT, FeatureMapping
from affinerank.estimators import Weights
from affinerank.pipeline.training_lists import TrainingLists, fit_all
from affinerank.pipeline.tuning import tune_then_train
from affinerank.rankers import RANKERS
from affinerank.rankers.blend import AnyRanker, Blend, spread_within_lists
from affinerank.rankers.ranker import (
    Fitted,
    Member,
    MemberPlan,
    Ranker,
    RankerKind,
)
from affinerank.rankers.trees.parameters import for_features
from affinerank.support import limits
from affinerank.support.arrays import Bools, Floats
from affinerank.support.errors import ConfigError, DataError, warn
from affinerank.support.progress import Progress, no_progress
from affinerank.support.settings import require_choice

ONE_HOT = "one-hot"
CATEGORIES = ("native", ONE_HOT)


@dataclass(frozen=True, slots=True, eq=False)
class WeighedLists:
    """Lists of raw documents, and what each ranker learns there.

    Attributes:
        data: Raw.
        weights: Of each ranker.
    """

    data: RankingDataset
    weights: Sequence[Weights]

    @property
    def shares(self) -> Floats:
        """``[n_rankers, n_queries]`` share of the sessions."""
        return np.stack([own.share for own in self.weights])

    def mapped(self, mapping: FeatureMapping) -> TrainingLists:
        """Return the lists as a model with this mapping reads them."""
        data = mapping.apply(self.data)
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

    def outside(self, i: int) -> Ranker | None:
        """Return the one that did not learn from held-out queries, if it was kept."""
        model = self.fitted[i].outside
        if model is None:
            return None
        return Ranker(self.plan.ranker, model, self.mapping, {})


def member_plans(
    ranker: str, settings: Any, scaling: str | None = None
) -> list[MemberPlan]:
    """Return how the members of a ranker are trained; most have one, themselves.

    Args:
        ranker: A row of ``RANKERS``.
        settings: Of that row.
        scaling: Of features, where it is not that of the row.
    """
    kind = RANKERS[ranker]
    if kind.members is None:
        how = scaling or kind.scaling
        return [MemberPlan(ranker, ranker, settings, how)]
    if scaling is not None:
        raise ConfigError(
            f"each member of the {ranker} scales features its own way; scaling is for "
            "other rankers (lightgbm, linear-model or mlp)"
        )
    return list(kind.members(settings))


def fit_members(
    plans: Sequence[MemberPlan],
    learnt: WeighedLists,
    *,
    seeds: Sequence[int],
    categories: str | None = None,
    choose: bool = True,
    held: Bools | None = None,
    held_out: WeighedLists | None = None,
    rates: Sequence[float] | None = None,
    checkpoint: Path | None = None,
    keep_outside: bool = False,
    progress: Progress = no_progress,
) -> list[FittedMember]:
    """Train each member of all rankers on the same weights.

    A member that cannot learn from these lists is left out, with a warning, as long as
    another can.

    Args:
        plans: Of the members.
        learnt: What is learnt.
        seeds: One per ranker.
        categories: ``native`` or ``one-hot``.
        choose: Whether held-out queries choose learning rate and length.
        held: ``[n_queries]`` which of the lists those are.
        held_out: Other lists that end the training, in place of a choice.
        rates: Learning rates to choose from.
        checkpoint: File that an interrupted training resumes from.
        keep_outside: Whether to keep what did not learn from held-out queries, too.
        progress: Called as training advances.
    """
    members: list[FittedMember] = []
    faults: dict[str, DataError] = {}
    for plan in plans:
        kind = RANKERS[plan.ranker]
        mapping = FeatureMapping.fit(
            learnt.data,
            scaling=plan.scaling,
            impute=not kind.reads_missing,
            one_hot=_values_made_features(
                kind, learnt.data, categories, len(plans) > 1
            ),
        )
        settings = for_features(plan.settings, mapping.names)
        lists = learnt.mapped(mapping)
        try:
            if choose:
                fitted = tune_then_train(
                    plan.ranker,
                    lists,
                    held,
                    seeds=seeds,
                    settings=settings,
                    rates=rates,
                    checkpoint=checkpoint,
                    keep_outside=keep_outside,
                    progress=progress,
                )
            else:
                fitted = fit_all(
                    plan.ranker,
                    lists,
                    seeds=seeds,
                    settings=settings,
                    held_out=held_out.mapped(mapping) if held_out else None,
                    checkpoint=checkpoint,
                    progress=progress,
                )
                # Nothing of the lists that end the training is learnt.
                if held_out and keep_outside:
                    fitted = [replace(one, outside=one.kept) for one in fitted]
        except DataError as error:
            faults[plan.name] = error
            continue
        units = [1.0] * len(seeds)
        if len(plans) > 1:
            query = learnt.data.query_of_doc
            scores = (one.kept.predict(lists.features) for one in fitted)
            units = [spread_within_lists(own, query) for own in scores]
        members.append(FittedMember(plan, mapping, fitted, units))
    if not members:
        raise next(iter(faults.values()))
    for name, fault in faults.items():
        warn(f"the ranker does without its member {name}: {fault}")
    return members


def _values_made_features(
    kind: RankerKind, data: RankingDataset, categories: str | None, is_member: bool
) -> int | None:
    """Return how many values of a category become features; ``None``: it is a code."""
    require_choice("categories", categories or CATEGORIES[0], CATEGORIES)
    if categories == ONE_HOT:
        return limits.CATEGORY_VALUES
    if not data.categories or kind.reads_categories:
        return None
    if is_member:
        return FREQUENT
    names = ",".join(data.categories)
    able = [row.name for row in RANKERS.values() if row.reads_categories]
    raise DataError(
        f"{names}: text, so a category, which the ranker {kind.name} cannot read; "
        f"give --categories {ONE_HOT}, --ignore {names} or --ranker {able[0]}"
    )


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
