r"""Blends: rankers that add up the scores of several rankers, their members.

With members m, their scores :math:`s_m`, shares :math:`a_m` and units :math:`u_m`, a
document's score is

.. math:: \sum_m a_m \, s_m / u_m .

The unit of a member is the spread of its scores within the lists that it learnt from,
so that a share means the same for every kind of model. The unit is stored with the
blend: a score does not depend on which lists are scored together.

The default ranker is a blend of trees, of trees whose features are scaled within the
list, and of a linear model. Trees find steps and interactions. Scaling within the list
makes lists comparable whose values differ in size. The linear model has the smallest
error when clicks are few.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from affinerank.defaults import PRIOR
from affinerank.output.blocks import Summary
from affinerank.rankers import linear
from affinerank.rankers.linear import LinearModel, LinearSettings
from affinerank.rankers.ranker import (
    ABOUT,
    FORMAT,
    Fitted,
    Member,
    MemberPlan,
    Ranker,
    RankerKind,
)
from affinerank.rankers.trees import lightgbm as trees
from affinerank.rankers.trees.lightgbm import TreeSettings
from affinerank.support.arrays import Floats, Ints
from affinerank.support.errors import ConfigError, DataError
from affinerank.support.files import PathLike, new_folder

if TYPE_CHECKING:
    from affinerank.data.dataset import RankingDataset

NAME = "blend"
PRODUCTION = "production"


@dataclass(frozen=True, slots=True)
class BlendSettings:
    """Settings of the default blend: of its two tree members and its linear member.

    Attributes:
        trees: Maximum number of trees of each tree member.
        leaves: Maximum number of leaves of a tree.
        learning_rate: Factor on the output of each tree.
        min_documents: Minimum number of documents of a leaf.
        ridge: Strengths of the linear member's penalty, see :class:`LinearSettings`.
        patience: With validation, stop after this many trees without a gain.
        threads: Threads of LightGBM, 0 for all. The result does not depend on it.
    """

    trees: int = 300
    leaves: int = 15
    learning_rate: float = 0.1
    min_documents: int = 20
    ridge: tuple[float, ...] = field(default=LinearSettings().ridge)
    patience: int | None = None
    threads: int = 0

    def __post_init__(self) -> None:
        """Reject settings that a member rejects."""
        self.tree_settings()
        self.linear_settings()

    def tree_settings(self) -> TreeSettings:
        """Return the settings of the tree members."""
        return TreeSettings(
            trees=self.trees,
            leaves=self.leaves,
            learning_rate=self.learning_rate,
            min_documents=self.min_documents,
            patience=self.patience,
            threads=self.threads,
        )

    def linear_settings(self) -> LinearSettings:
        """Return the settings of the linear member."""
        return LinearSettings(ridge=self.ridge, patience=self.patience)

    def members(self) -> tuple[MemberPlan, ...]:
        """Return how each member is trained, and its share."""
        tree_settings = self.tree_settings()
        linear_settings = self.linear_settings()
        return (
            MemberPlan("trees", trees.ROW.name, tree_settings, "none", 0.4),
            MemberPlan("trees-in-list", trees.ROW.name, tree_settings, "list", 0.4),
            MemberPlan("linear", linear.ROW.name, linear_settings, "list", 0.2),
        )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Blend(Summary):
    """A ranker whose score is the weighted sum of its members' scores.

    Attributes:
        kind: Name of the blend's row of ``RANKERS``.
        members: The rankers, with their shares and units.
        provenance: How the blend was trained, for the reader of its file.
        training_queries: Names of the queries that the blend learnt from.
    """

    kind: str
    members: tuple[Member, ...]
    provenance: Mapping[str, Any]
    training_queries: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Reject blends without distinct members, and weights that are not finite."""
        names = [member.name for member in self.members]
        if not names or len(set(names)) != len(names):
            raise DataError(
                f"the members of a blend need names of their own, got {names}"
            )
        for member in self.members:
            if not (np.isfinite(member.share) and 0 < member.unit < np.inf):
                raise DataError(
                    f"member {member.name!r}: share and unit must be numbers, the "
                    f"unit above 0, got {member.share} and {member.unit}"
                )

    def _line(self) -> str:
        shares = ", ".join(
            f"{member.name} {member.share:.0%}" for member in self.members
        )
        estimator = self.provenance.get("estimator")
        by_estimator = f", by {estimator}" if estimator else ""
        return f"{self.kind} of {shares}, {len(self.features):,} features{by_estimator}"

    def _rows(self) -> list[dict[str, Any]]:
        return [
            {
                "member": member.name,
                "kind": member.ranker.kind,
                "features": len(member.ranker.features),
                "scaling": member.ranker.mapping.scaling,
                "share": member.share,
            }
            for member in self.members
        ]

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the raw features that the members read, each name once."""
        names: dict[str, None] = {}
        for member in self.members:
            names |= dict.fromkeys(member.ranker.features)
        return tuple(names)

    def scores(self, data: RankingDataset) -> Floats:
        """Score every document of raw data: ``[n_docs]``, higher is ranked earlier."""
        total = np.zeros(data.n_docs)
        for member in self.members:
            total += member.share / member.unit * member.ranker.scores(data)
        return total

    def save(self, folder: PathLike) -> None:
        """Write ``ranker.json`` and a folder for each member, all or nothing."""
        description = {
            "format": FORMAT[0],
            "version": FORMAT[1],
            "kind": self.kind,
            "members": [
                {"folder": member.name, "share": member.share, "unit": member.unit}
                for member in self.members
            ],
            "provenance": dict(self.provenance),
            "training_queries": self.training_queries,
        }
        with new_folder(Path(folder)) as unfinished:
            for member in self.members:
                member.ranker.save(unfinished / member.name)
            text = json.dumps(description, indent=2) + "\n"
            (unfinished / ABOUT).write_text(text)


AnyRanker = Ranker | Blend


def spread_within_lists(scores: Floats, query: Ints) -> float:
    """Return the root mean square of scores about their query's mean; 1 if it is 0.

    Args:
        scores: ``[n_docs]``.
        query: ``[n_docs]`` number of each document's query.
    """
    documents_per_query = np.maximum(np.bincount(query), 1)
    mean_score = np.bincount(query, scores) / documents_per_query
    deviation = scores - mean_score[query]
    spread = float(np.sqrt(np.mean(deviation**2)))
    return spread or 1.0


def with_production(
    ranker: AnyRanker,
    share: float,
    production: Ranker,
    data: RankingDataset,
    provenance: Mapping[str, Any],
) -> Blend:
    """Blend a ranker with production, both in units of their spread within lists.

    Args:
        ranker: The learnt ranker.
        share: Share of the learnt ranker, from 0 to 1. Production has the rest.
        production: Scores as production does; see :func:`production_of`.
        data: The lists that the ranker learnt from. They determine the units.
        provenance: Provenance of the blend.
    """
    query = data.query_of_doc
    unit_of_production = spread_within_lists(production.scores(data), query)
    members = [Member(PRODUCTION, production, 1.0 - share, unit_of_production)]

    # The learnt ranker may itself be a blend: its members then become members of this
    # one, and keep their proportions.
    unit_of_learnt = spread_within_lists(ranker.scores(data), query)
    if share:
        for member in ranker.members:
            share_in_blend = share * member.share
            unit_in_blend = unit_of_learnt * member.unit
            members.append(member._replace(share=share_in_blend, unit=unit_in_blend))
    return Blend(NAME, tuple(members), provenance, ranker.training_queries)


def production_of(feature: str) -> Ranker:
    """Return a ranker whose score is the value of one feature: production's score."""
    from affinerank.data.feature_mapping import FeatureMapping

    model = LinearModel(np.ones(1), 0.0)
    mapping = FeatureMapping((feature,), scaling="none")
    return Ranker(linear.ROW.name, model, mapping, {"feature": feature})


def _reject_fit(*args: object, **keyword_args: object) -> list[Fitted]:
    """Stand in for ``fit``: the members of a blend are trained, not the blend."""
    del args, keyword_args
    raise ConfigError("a blend has no model of its own: its members are trained")


def _reject_load(*args: object) -> Any:
    """Stand in for ``load``: the members of a blend are loaded, not the blend."""
    del args
    raise DataError("a blend has no model of its own: its members are loaded")


ROW = RankerKind(
    NAME,
    "Blend of trees and a linear model",
    BlendSettings,
    _reject_fit,
    _reject_load,
    reads_missing=True,
    reads_categories=True,
    patience=trees.ROW.patience,
    prior_rankers=PRIOR,
    members=BlendSettings.members,
)
