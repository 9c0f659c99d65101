"""The methods that estimate how users click, and what they are asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from affinerank.bias.documents import ClickRows
from affinerank.bias.em_runs import EMRun, EMSettings, Parameters
from affinerank.bias.interventions import (
    Interventions,
    fit_interventions,
    moved_rows,
)
from affinerank.bias.level_mixture import (
    DRAWS,
    LevelMixture,
    MixtureSettings,
    fit_mixture,
)
from affinerank.bias.levels import MOST_LEVELS
from affinerank.bias.pooling import LEAST_CLICKS, RankPools
from affinerank.bias.regression_em import fit_regression_em
from affinerank.bias.relevance import require_activation
from affinerank.bias.replicates import query_weights, replicate_bands
from affinerank.bias.trust import TrustTest, trust_test
from affinerank.bias.uncertainty import (
    Bands,
    for_display,
    for_inference,
    mixture_bands,
    precision_of,
    told_by_clicks,
)
from affinerank.clicks.join import JoinedCounts
from affinerank.clicks.usermodel import UserModel
from affinerank.data.dataset import RankingDataset
from affinerank.errors import ConfigError, DataError
from affinerank.pipeline.rows import filled_features
from affinerank.progress import Progress
from affinerank.rankers.mlp import NetworkSettings
from affinerank.seeds import stage_rng

Floats = NDArray[np.float64]
EM_METHODS: Mapping[str, Parameters] = MappingProxyType(
    {"em": "two", "em-three": "three", "em-position": "position"}
)
METHODS = ("auto", "mixture", "two-level", "interventions", *EM_METHODS)
REPLICATES = 16
# Clicks that take three quarters of the prior variance away halve its deviation.
TOLD = 0.75
ALIKE = "documents do not differ clearly in how often they are clicked at a rank"


@dataclass(frozen=True, slots=True)
class EstimationSettings:
    """How users are estimated.

    Attributes:
        method: Of ``METHODS``; ``auto`` takes what the log offers.
        activation: Of the EM.
        least_clicks: Ranks with fewer are pooled with the next.
        network: Of the EM.
        replicates: Estimates from resampled queries that the EM's bands are from.
        seed: Of everything random.
    """

    method: str = "auto"
    activation: str = "soft-min-max"
    least_clicks: float = LEAST_CLICKS
    network: NetworkSettings | None = None
    replicates: int = REPLICATES
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what does not exist."""
        if self.method not in METHODS:
            raise ConfigError(
                f"method must be one of {', '.join(METHODS)}, got {self.method!r}"
            )
        require_activation(self.activation)
        if self.replicates < 0 or self.replicates == 1:
            raise ConfigError(f"replicates must be 0, or 2 or more: {self.replicates}")


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """What a method found, from which rows."""

    users: UserModel
    rows: ClickRows
    pools: RankPools
    inference: Bands
    display: Bands
    test: TrustTest | None
    notes: tuple[str, ...]

    def clicks(self) -> Floats:
        """``[n_pools]`` clicks that it was found from."""
        pool = self.pools.pool(self.rows.rank)
        clicked = np.bincount(pool, self.rows.clicks, minlength=self.pools.n_pools)
        return clicked.astype(np.float64)


def by_levels(
    method: str,
    rows: ClickRows,
    features: NDArray[np.float32] | None,
    settings: EstimationSettings,
) -> Found:
    """Estimate by levels of relevance, of all documents or of those that moved."""
    rng = stage_rng("estimation", settings.seed)
    most = 2 if method == "two-level" else MOST_LEVELS
    how = MixtureSettings(settings.least_clicks, most)
    fitted: LevelMixture | Interventions
    about: dict[str, Any] = {}
    if method == "interventions":
        fitted = fit_interventions(rows, rng=rng, settings=how)
        rows = moved_rows(rows)
        about["documents_at_several_ranks"] = fitted.overlap.n_moved
    else:
        fitted = fit_mixture(rows, features, rng=rng, settings=how)
        about["features"] = features is not None
        about["feature_correlation"] = round(fitted.correlation, 4)
    levels = fitted.fit.levels.levels.round(4).tolist()
    about["levels"] = levels
    notes = [f"levels of relevance found: {', '.join(f'{g:g}' for g in levels)}"]
    precision = precision_of(fitted.population, fitted.fit, how.prior)
    told = told_by_clicks(fitted.fit, how.prior, precision)
    if settings.method == "auto":
        _require_told(fitted, told, with_features=features is not None)
    notes += _leaning(fitted, told)
    test = trust_test(fitted.population, fitted.fit, fitted.half, how.prior)
    if test is None:
        notes.append("too few queries were clicked to test for trust bias")
    seen = fitted.pools.pool_impressions
    return Found(
        replace(fitted.users, provenance=about),
        rows,
        fitted.pools,
        mixture_bands(fitted.fit, precision, for_inference(seen)),
        mixture_bands(fitted.fit, precision, for_display()),
        test,
        tuple(notes),
    )


def by_em(
    method: str,
    joined: JoinedCounts,
    data: RankingDataset,
    rows: ClickRows,
    settings: EstimationSettings,
    progress: Progress,
) -> Found:
    """Estimate by regression EM, with bands from resampled queries."""
    results = fit_regression_em(
        filled_features(data),
        data.offsets,
        _em_runs(joined, data, settings),
        settings=EMSettings(parameters=EM_METHODS[method]),
        network=settings.network,
        progress=progress,
    )
    users, others = results[0].users, [result.users for result in results[1:]]
    depth = int(rows.rank.max())
    seen = np.bincount(rows.rank, rows.impressions, minlength=depth + 1)[1:]
    pools = RankPools(np.arange(depth), seen.astype(np.float64))
    notes = [
        f"{results[0].updates} updates, "
        f"{'converged' if results[0].converged else 'not converged'}"
    ]
    if others:
        notes.append(
            f"bands from {len(others)} resamples of the queries; their coverage is "
            "not known"
        )
    return Found(
        users,
        rows,
        pools,
        replicate_bands(users, others, for_inference(pools.impressions)),
        replicate_bands(users, others, for_display()),
        None,
        tuple(notes),
    )


def _require_told(
    fitted: LevelMixture | Interventions, told: Floats, *, with_features: bool
) -> None:
    """Refuse an estimate that would rest on assumptions more than on clicks."""
    if not fitted.differ:
        raise DataError(f"{ALIKE}, so clicks cannot tell bias from relevance")
    if np.median(told) < TOLD:
        docs = fitted.population.documents
        repeated = int(np.sum(docs.n_impressions >= DRAWS))
        moved = int(np.sum(np.diff(docs.first) > 1))
        wanted = "" if with_features else "features (--data), "
        raise DataError(
            f"clicks tell too little: {repeated:,} of {docs.n_docs:,} documents were "
            f"shown {DRAWS} times or more, and {moved:,} "
            f"at several ranks, so at ranks {_weak(fitted.pools, told)} an estimate "
            f"would rest on assumptions; give {wanted}a longer log or swaps, or ask "
            "for --method mixture to see it all the same"
        )


def _leaning(fitted: LevelMixture | Interventions, told: Floats) -> list[str]:
    """Name the ranks whose values are more the prior's than the clicks'."""
    notes = [] if fitted.differ else [f"{ALIKE}: do not rely on this estimate"]
    if weak := _weak(fitted.pools, told):
        notes.append(
            f"clicks tell little about ranks {weak}: how much more relevant documents "
            "are clicked there leans on the other ranks"
        )
    return notes


def _weak(pools: RankPools, told: Floats) -> str:
    names = zip(pools.names, told, strict=True)
    return ", ".join(name for name, share in names if share < TOLD)


def _em_runs(
    joined: JoinedCounts, data: RankingDataset, settings: EstimationSettings
) -> list[EMRun]:
    """All clicks, and then resamples of the queries."""
    rng = stage_rng("estimation", settings.seed)
    query = data.query_of_doc[joined.doc]
    clicks = np.full(data.n_queries, np.nan)
    clicks[query] = 0.0
    np.add.at(clicks, query, joined.counts.clicks)
    weights: list[Floats | None] = [None]
    weights += [
        query_weights(clicks, data.n_queries, rng) for _ in range(settings.replicates)
    ]
    return [
        EMRun.of(
            joined,
            data,
            activation=settings.activation,
            seed=settings.seed,
            query_weights=each,
        )
        for each in weights
    ]
