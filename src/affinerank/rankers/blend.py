r"""Blends: rankers that add up what several models say, each with its own features.

With members m, their scores :math:`s_m`, shares :math:`a_m` and units :math:`u_m`, a
document's score is

.. math:: \sum_m a_m \, s_m / u_m .

The unit of a member is the spread of its scores within the lists that it learnt from,
so that a share means the same for every kind of model. It is stored: a score does not
depend on which lists are scored together.

The default ranker is a blend of trees, of trees whose features are scaled within the
list, and of a linear model. Trees find steps and interactions, scaling within the list
makes lists of unlike values alike, and where clicks are few a linear model errs least.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from affinerank.arrays import Floats, Ints
from affinerank.defaults import PRIOR
from affinerank.errors import ConfigError, DataError
from affinerank.files import PathLike, new_folder
from affinerank.notebook import Tabular
from affinerank.rankers import linear, trees
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
from affinerank.rankers.trees import TreeSettings

if TYPE_CHECKING:
    from affinerank.data.dataset import RankingDataset

NAME = "blend"
PRODUCTION = "production"


@dataclass(frozen=True, slots=True)
class BlendSettings:
    """Shape and training of the members.

    Attributes:
        trees: Most trees of each of the two members of trees.
        leaves: Most leaves of a tree.
        learning_rate: How much each tree counts.
        least_documents: Of a leaf.
        ridge: Strengths of the linear member's penalty; see its own settings.
        patience: With validation weights, stop after so many trees without gain.
        threads: Of LightGBM, 0 for all; the result does not depend on it.
    """

    trees: int = 300
    leaves: int = 31
    learning_rate: float = 0.05
    least_documents: int = 20
    ridge: tuple[float, ...] = field(default=LinearSettings().ridge)
    patience: int | None = None
    threads: int = 0

    def __post_init__(self) -> None:
        """Reject what a member cannot be trained with."""
        self.of_trees()
        self.of_linear()

    def of_trees(self) -> TreeSettings:
        """Return the settings of the members of trees."""
        return TreeSettings(
            trees=self.trees,
            leaves=self.leaves,
            learning_rate=self.learning_rate,
            least_documents=self.least_documents,
            patience=self.patience,
            threads=self.threads,
        )

    def of_linear(self) -> LinearSettings:
        """Return the settings of the linear member."""
        return LinearSettings(ridge=self.ridge, patience=self.patience)

    def members(self) -> tuple[MemberPlan, ...]:
        """Return how the members are trained."""
        own = self.of_trees()
        return (
            MemberPlan("trees", trees.ROW.name, own, "none", 0.4),
            MemberPlan("trees-in-list", trees.ROW.name, own, "list", 0.4),
            MemberPlan("linear", linear.ROW.name, self.of_linear(), "list", 0.2),
        )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Blend(Tabular):
    """Several rankers, whose scores are added up.

    Attributes:
        kind: Its row of ``RANKERS``.
        members: The rankers, with their shares and units.
        provenance: How it was trained, for the reader of its file.
        learnt_from: Names of the queries that it learnt from.
    """

    kind: str
    members: tuple[Member, ...]
    provenance: Mapping[str, Any]
    learnt_from: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Reject blends that cannot score."""
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
        shares = ", ".join(f"{m.name} {m.share:.0%}" for m in self.members)
        estimator = self.provenance.get("estimator")
        learnt = f", by {estimator}" if estimator else ""
        return f"{self.kind} of {shares}, {len(self.features):,} features{learnt}"

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
        """Names of the raw features that a member reads, each once."""
        every = (name for member in self.members for name in member.ranker.features)
        return tuple(dict.fromkeys(every))

    def scores(self, data: RankingDataset) -> Floats:
        """Score every document of raw data: ``[n_docs]``, higher is ranked earlier."""
        total = np.zeros(data.n_docs)
        for member in self.members:
            total += member.share / member.unit * member.ranker.scores(data)
        return total

    def save(self, folder: PathLike) -> None:
        """Write ``ranker.json``, and each member's folder below it, all or nothing."""
        description = {
            "format": FORMAT[0],
            "version": FORMAT[1],
            "kind": self.kind,
            "members": [
                {"folder": member.name, "share": member.share, "unit": member.unit}
                for member in self.members
            ],
            "provenance": dict(self.provenance),
            "learnt_from": self.learnt_from,
        }
        with new_folder(Path(folder)) as aside:
            for member in self.members:
                member.ranker.save(aside / member.name)
            (aside / ABOUT).write_text(json.dumps(description, indent=2) + "\n")


AnyRanker = Ranker | Blend


def spread_within_lists(scores: Floats, query: Ints) -> float:
    """Root mean square of the deviation from the query's mean; 1 where it is 0."""
    mean = np.bincount(query, scores) / np.maximum(np.bincount(query), 1)
    return float(np.sqrt(np.mean((scores - mean[query]) ** 2))) or 1.0


def with_production(
    ranker: AnyRanker,
    share: float,
    production: Ranker,
    data: RankingDataset,
    provenance: Mapping[str, Any],
) -> Blend:
    """Blend a ranker with production, both in units of their spread within lists.

    Args:
        ranker: What was learnt.
        share: Of what was learnt, from 0 to 1; production has the rest.
        production: Scores as production does, as :func:`production_of` returns it.
        data: The lists that were learnt from.
        provenance: Of the blend.
    """
    query = data.query_of_doc
    unit = spread_within_lists(ranker.scores(data), query)
    unit_of_production = spread_within_lists(production.scores(data), query)
    members = [Member(PRODUCTION, production, 1.0 - share, unit_of_production)]
    if share:
        members += [
            member._replace(share=share * member.share, unit=unit * member.unit)
            for member in ranker.members
        ]
    return Blend(NAME, tuple(members), provenance, ranker.learnt_from)


def production_of(feature: str) -> Ranker:
    """Return the ranker whose score is a feature: that of production."""
    from affinerank.data.features import FeatureMapping

    model = LinearModel(np.ones(1), 0.0)
    mapping = FeatureMapping((feature,), scaling="none")
    return Ranker(linear.ROW.name, model, mapping, {"feature": feature})


def _by_members(*task: object, **more: object) -> list[Fitted]:
    del task, more
    raise ConfigError("a blend has no model of its own: its members are trained")


def _load_members(*folder: object) -> Any:
    del folder
    raise DataError("a blend's file must name its members")


ROW = RankerKind(
    NAME,
    "Blend of trees and a linear model",
    BlendSettings,
    _by_members,
    _load_members,
    reads_missing=True,
    reads_categories=True,
    patience=trees.ROW.patience,
    prior_rankers=PRIOR,
    members=BlendSettings.members,
)
