"""Features as rankers read them: scaled, categories encoded, gaps filled.

Each member of a ranker reads features of its own, and so do the rankers that predict
relevance out of fold. A mapping is fitted before anything is trained, so that data that
a ranker cannot read are rejected early.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from affinerank.data.dataset import RankingDataset
from affinerank.data.feature_mapping import FREQUENT, SCALINGS, FeatureMapping
from affinerank.pipeline.steps.train_settings import ONE_HOT, TrainSettings
from affinerank.rankers import RANKERS
from affinerank.rankers.ranker import MemberPlan, RankerKind
from affinerank.rankers.trees.parameters import for_features
from affinerank.support import limits
from affinerank.support.errors import DataError


class FeatureSource:
    """Ranking data, and its features as rankers read them.

    Args:
        data: Raw.
        keeps: Whether to keep mappings and mapped features in memory, for many
            trainings on the same data.
    """

    def __init__(self, data: RankingDataset, *, keeps: bool = False) -> None:
        self.data = data
        self.keeps = keeps
        self._mappings: dict[tuple[Any, ...], FeatureMapping] = {}
        self._mapped: list[tuple[FeatureMapping, RankingDataset]] = []

    def fit_mapping(
        self, *, scaling: str = SCALINGS[0], impute: bool, one_hot: int | None
    ) -> FeatureMapping:
        """Learn a mapping from the data; see :meth:`FeatureMapping.fit`."""
        key = (scaling, impute, one_hot)
        mapping = self._mappings.get(key)
        if mapping is None:
            mapping = FeatureMapping.fit(
                self.data, scaling=scaling, impute=impute, one_hot=one_hot
            )
            if self.keeps:
                self._mappings[key] = mapping
        return mapping

    def mapped(self, mapping: FeatureMapping) -> RankingDataset:
        """Return the data with mapped features."""
        if not self.keeps:
            return mapping.apply(self.data)

        # Where there is no gap, mappings that differ in what fills gaps are one.
        if mapping.fill is not None and not self.has_gaps:
            mapping = replace(mapping, fill=None)
        for kept_mapping, kept_data in self._mapped:
            if kept_mapping == mapping:
                return kept_data
        mapped_data = mapping.apply(self.data)
        self._mapped.append((mapping, mapped_data))
        return mapped_data

    @cached_property
    def has_gaps(self) -> bool:
        """Whether some feature lacks values."""
        return bool(self.data.missing_values())


@dataclass(frozen=True, slots=True)
class PreparedMember:
    """A member of a ranker, ready to be trained.

    Attributes:
        plan: How it is trained.
        mapping: What is done to its features.
        settings: Of its row, for these features.
    """

    plan: MemberPlan
    mapping: FeatureMapping
    settings: Any


def prepare_members(
    source: FeatureSource, settings: TrainSettings
) -> list[PreparedMember]:
    """Fit what is done to the features of each member of a ranker."""
    plans = settings.members
    members = []
    for plan in plans:
        kind = RANKERS[plan.ranker]
        mapping = source.fit_mapping(
            scaling=plan.scaling,
            impute=not kind.reads_missing,
            one_hot=values_made_features(
                kind, source.data, settings.categories, is_member=len(plans) > 1
            ),
        )
        own_settings = for_features(plan.settings, mapping.names)
        members.append(PreparedMember(plan, mapping, own_settings))
    return members


def values_made_features(
    kind: RankerKind, data: RankingDataset, categories: str | None, *, is_member: bool
) -> int | None:
    """Return how many values of a category become features; ``None``: it is a code."""
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


def readable_categories(
    ranker: str, data: RankingDataset, categories: str | None
) -> str | None:
    """Return ``one-hot`` in the place of ``native`` if a ranker cannot read codes.

    For comparisons of several rankers on the same data.
    """
    if data.categories and not RANKERS[ranker].reads_categories:
        return ONE_HOT
    return categories


def prior_mapping(source: FeatureSource, settings: TrainSettings) -> FeatureMapping:
    """Return the mapping for rankers that predict relevance out of fold.

    Their scores are not served, so features may be scaled within the list.
    """
    first_prior_ranker = RANKERS[settings.kind.prior[0]]
    return source.fit_mapping(
        impute=not first_prior_ranker.reads_missing, one_hot=FREQUENT
    )
