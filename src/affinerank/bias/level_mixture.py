"""The default estimator: a mixture of relevance levels, helped by features.

Five steps: pool rare ranks; fit two levels by clicks alone; predict relevance from
features and from the query's other documents by them; choose the number of levels on
half of the queries by the other half; fit everything to all clicks.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from affinerank.bias.cells import Population, population_of
from affinerank.bias.covariates import halves_of, predict_relevance
from affinerank.bias.documents import ClickRows, Documents, documents
from affinerank.bias.levels import (
    MOST_LEVELS,
    aligned_fit,
    choose_levels,
    documents_differ,
    refine_levels,
)
from affinerank.bias.mixture import Prior
from affinerank.bias.mixture_fit import Fit, first_guess
from affinerank.bias.pooling import LEAST_CLICKS, RankPools, pool_ranks
from affinerank.clicks.usermodel import UserModel
from affinerank.errors import ConfigError, DataError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LEAST_QUERIES = 10
CHOOSING_DOCS = 40_000
FEATURE_BINS, FEATURE_KNOTS = 16, 4
QUERY_BINS, QUERY_KNOTS = 6, 2
# A mixture of two binomials is determined by three draws a document, not by fewer.
DRAWS = 3
LEAST_TOLD = 200


@dataclass(frozen=True, slots=True)
class MixtureSettings:
    """How the mixture is fitted.

    Attributes:
        least_clicks: Ranks with fewer are pooled with the next.
        most_levels: Levels at most; 2 takes relevance for binary.
        prior: What holds parameters that clicks hardly tell.
    """

    least_clicks: float = LEAST_CLICKS
    most_levels: int = MOST_LEVELS
    prior: Prior = field(default_factory=Prior)

    def __post_init__(self) -> None:
        """Refuse fewer than two levels."""
        if self.most_levels < 2:
            raise ConfigError(f"most_levels must be 2 or more, got {self.most_levels}")


@dataclass(frozen=True, slots=True, eq=False)
class LevelMixture:
    """A user model estimated by a mixture of levels.

    Attributes:
        users: Known up to gauge; shown in the one where the lowest level of relevance
            is 0 and the highest 1.
        pools: Which ranks share their parameters.
        population: The documents it was fitted to.
        fit: Levels, their shares and click rates.
        half: ``[n_queries]`` which half of the queries each is in.
        differ: Whether documents were found to differ in relevance at all.
        correlation: How well features predict corrected clicks; 0 without features.
    """

    users: UserModel
    pools: RankPools
    population: Population
    fit: Fit
    half: Ints
    differ: bool
    correlation: float


def fit_mixture(
    rows: ClickRows,
    features: NDArray[np.float32] | None = None,
    *,
    rng: np.random.Generator,
    settings: MixtureSettings | None = None,
    like: LevelMixture | None = None,
) -> LevelMixture:
    """Estimate how users click from counts, and features where there are some.

    Args:
        rows: Counts.
        features: ``[n_docs, n_features]`` by number of the document.
        rng: Halves the queries, and draws where there is more than enough.
        settings: How.
        like: A fit to clicks of which these are a resample: its pools and its number of
            levels are kept, and its values are where this one starts.
    """
    asked = settings or MixtureSettings()
    pools = (
        like.pools
        if like is not None
        else pool_ranks(
            rows.rank, rows.impressions, rows.clicks, least_clicks=asked.least_clicks
        )
    )
    require_estimable(rows, pools)
    docs = documents(rows, pools)
    if features is None:
        require_told(docs)
    mean_rank, n_pools = pools.mean_rank, pools.n_pools
    half = halves_of(docs.query, rng)
    plain = population_of(docs, mean_rank)
    rough = aligned_fit(plain, first_guess(plain, n_pools), asked.prior)
    shown = np.unique(rows.doc[rows.impressions > 0])
    about = predict_relevance(
        plain, rough.levels, features, half[docs.query], row_of_doc=shown
    )
    covariates = [(about.query, QUERY_BINS, QUERY_KNOTS)]
    if features is not None:
        covariates.append((about.features, FEATURE_BINS, FEATURE_KNOTS))
    population = population_of(docs, mean_rank, covariates)
    if like is not None:
        fit = aligned_fit(population, like.fit.levels, asked.prior)
        return replace(
            like, users=users_of(fit, pools), population=population, fit=fit, half=half
        )
    learnt, held = _chosen_parts(population, half, rng)
    start = choose_levels(
        learnt,
        held,
        n_pools,
        asked.prior,
        rng=rng,
        most=asked.most_levels,
    )
    fit = refine_levels(population, start.levels, asked.prior)
    differ = documents_differ(learnt, held, start.levels)
    users = users_of(fit, pools)
    return LevelMixture(users, pools, population, fit, half, differ, about.correlation)


def users_of(fit: Fit, pools: RankPools) -> UserModel:
    """The user model of a fit, every rank with the values of its pool."""
    return UserModel(
        alpha=fit.levels.alpha[pools.of_rank],
        beta=fit.levels.zeta_minus[pools.of_rank],
        identified="gauge",
    )


def require_told(docs: Documents) -> None:
    """Refuse clicks that cannot tell relevance from bias without features."""
    several = int(np.sum(np.diff(docs.first) > 1))
    repeated = int(np.sum(docs.n_impressions >= DRAWS))
    if max(several, repeated) < LEAST_TOLD:
        raise DataError(
            f"of {docs.n_docs:,} documents {repeated:,} were shown {DRAWS} times or "
            f"more and {several:,} at several ranks, so clicks alone cannot tell bias "
            f"from relevance; give features (--data), a longer log, or swap documents "
            f"(at least {LEAST_TOLD} of one or the other)"
        )


def require_estimable(rows: ClickRows, pools: RankPools) -> None:
    """Refuse clicks that tell nothing, or too little."""
    clicks, seen = rows.clicks.sum(), rows.impressions.sum()
    if clicks == 0:
        raise DataError("the counts hold no clicks to estimate from")
    if clicks == seen:
        raise DataError("every impression was clicked, so clicks tell nothing apart")
    ranks = np.flatnonzero(pools.impressions > 0) + 1
    if len(ranks) == 1:
        raise DataError(
            f"all impressions are at rank {ranks[0]}, so there is no bias between "
            "ranks to estimate"
        )
    if pools.n_pools == 1:
        raise DataError(
            f"{clicks:,.0f} clicks are too few to tell ranks apart; collect more, or "
            "ask for fewer a rank (--least-clicks)"
        )
    require_queries("the counts", rows.query[rows.impressions > 0])


def require_queries(what: str, query: Ints) -> None:
    """Refuse clicks of so few queries that they cannot be halved and compared."""
    n_queries = len(np.unique(query))
    if n_queries < LEAST_QUERIES:
        raise DataError(
            f"{what} are of {n_queries} queries; estimating how users click needs "
            f"{LEAST_QUERIES} or more"
        )


def _chosen_parts(
    population: Population, half: Ints, rng: np.random.Generator
) -> tuple[Population, Population]:
    """Documents of each half of the queries; of some, where there are very many."""
    side = half[population.documents.query]
    parts = []
    for wanted in (0, 1):
        kept = side == wanted
        if kept.sum() > CHOOSING_DOCS:
            queries = np.unique(population.documents.query[kept])
            share = CHOOSING_DOCS / kept.sum()
            chosen = rng.random(len(half)) < share
            chosen[queries[0]] = True
            kept &= chosen[population.documents.query]
        parts.append(population.select(kept))
    return parts[0], parts[1]
