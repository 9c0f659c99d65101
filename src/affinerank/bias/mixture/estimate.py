"""The default method on one page: a mixture of relevance levels, helped by features.

Five steps: pool rare ranks; fit two levels to clicks alone; predict relevance from
features and from the query's other documents; choose the number of levels on half of
the queries by the other half; fit everything to all clicks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from affinerank.arrays import Matrix
from affinerank.bias.gauge import display_gauge, inference_gauge
from affinerank.bias.method import AUTO, Estimate, EstimationSettings
from affinerank.bias.mixture.covariates import predict_relevance
from affinerank.bias.mixture.fit import Fit, first_guess
from affinerank.bias.mixture.population import Population, population_of
from affinerank.bias.mixture.precision import (
    mixture_bands,
    precision_of,
    share_identified,
)
from affinerank.bias.mixture.search import (
    aligned_fit,
    choose_levels,
    documents_differ,
    refine_levels,
)
from affinerank.bias.pooling import RankPools, pool_ranks
from affinerank.bias.requirements import DRAWS, LEAST_DOCUMENTS, require_estimable
from affinerank.bias.trust_test import trust_test
from affinerank.clicks.models.trust import TrustModel
from affinerank.clicks.rows import ClickRows
from affinerank.errors import DataError
from affinerank.progress import Progress
from affinerank.seeds import stage_rng

CHOOSING_DOCS = 40_000
FEATURE_BINS, FEATURE_KNOTS = 16, 4
QUERY_BINS, QUERY_KNOTS = 6, 2
# Clicks that take three quarters of the prior variance away halve its deviation.
IDENTIFIED = 0.75
ALIKE = "documents do not differ clearly in how often they are clicked at a rank"


@dataclass(frozen=True, slots=True, eq=False)
class Mixture:
    """A mixture of levels fitted to clicks.

    Attributes:
        rows: The clicks.
        pools: Which ranks share their parameters.
        population: The documents it was fitted to.
        fit: Levels, their shares and click rates.
        differ: Whether documents were found to differ in relevance at all.
        about: What else to note on the users.
    """

    rows: ClickRows
    pools: RankPools
    population: Population
    fit: Fit
    differ: bool
    about: Mapping[str, Any]

    @property
    def users(self) -> TrustModel:
        """The user model, every rank with the values of its pool.

        Known up to gauge; here the lowest level of relevance is 0 and the highest 1.
        """
        levels, pool = self.fit.levels, self.pools.of_rank
        return TrustModel(
            alpha=levels.alpha[pool],
            beta=levels.zeta_minus[pool],
            identified="gauge",
            span=(0.0, 1.0),
            provenance={**self.about, "levels": levels.levels.round(4).tolist()},
        )


def fit_mixture(
    rows: ClickRows,
    features: Matrix | None,
    settings: EstimationSettings,
    rng: np.random.Generator,
    first: Mixture | None = None,
    *,
    most_levels: int,
) -> Mixture:
    """Fit a mixture of levels to all documents.

    Args:
        rows: Counts.
        features: ``[n_docs, n_features]`` by number of the document.
        settings: How users are estimated.
        rng: Halves the queries, and draws where there is more than enough.
        first: A fit to clicks of which these are a resample: its pools and its number
            of levels are kept, and its values are where this one starts.
        most_levels: Levels at most; 2 takes relevance for binary.
    """
    # Pool rare ranks, and halve the queries.
    pools = first.pools if first else pool_ranks(rows, settings.least_clicks)
    require_estimable(rows, pools)
    population = population_of(rows, pools).halved(rng)
    if features is None:
        _require_repeated(population)
    # Fit two levels to clicks alone: rough, and enough to correct clicks.
    rough = aligned_fit(population, first_guess(population)).levels
    # Predict relevance from features and from the query's other documents.
    predicted = predict_relevance(population, rough, features)
    covariates = [(predicted.query, QUERY_BINS, QUERY_KNOTS)]
    if features is not None:
        covariates.append((predicted.features, FEATURE_BINS, FEATURE_KNOTS))
    population = population.in_cells(covariates)
    correlation = round(predicted.correlation, 4)
    about = {"features": features is not None, "feature_correlation": correlation}
    if first:
        fit = aligned_fit(population, first.fit.levels)
        return Mixture(rows, pools, population, fit, first.differ, about)
    # Choose the number of levels on half of the queries, by the other half.
    n_queries = int(population.query.max()) + 1
    learnt, held = (_some(half, n_queries, rng) for half in population.halves())
    levels = choose_levels(learnt, held, most_levels, rng)
    # Fit everything to all clicks.
    fit = refine_levels(population, levels)
    differ = documents_differ(learnt, held, levels)
    return Mixture(rows, pools, population, fit, differ, about)


def _some(docs: Population, n_queries: int, rng: np.random.Generator) -> Population:
    """Take all documents, or those of some queries where there are very many."""
    if docs.n_docs <= CHOOSING_DOCS:
        return docs
    chosen = rng.random(n_queries) < CHOOSING_DOCS / docs.n_docs
    chosen[docs.query.min()] = True
    return docs.take(chosen[docs.query])


def estimate(
    rows: ClickRows,
    features: Matrix | None,
    settings: EstimationSettings,
    _progress: Progress,
    *,
    by: Callable[..., Mixture],
) -> Estimate:
    """Fit a mixture, and describe it: users, bands, the test for trust bias, notes."""
    fitted = by(rows, features, settings, stage_rng("estimation", settings.seed))
    fit, population, pools = fitted.fit, fitted.population, fitted.pools
    precision = precision_of(population, fit)
    identified = share_identified(fit, precision)
    weak = tuple(np.array(pools.names)[identified < IDENTIFIED].tolist())
    if settings.method == AUTO:
        enough = float(np.median(identified)) >= IDENTIFIED
        _require_identified(fitted, ", ".join(weak), enough=enough)
    levels = ", ".join(f"{g:g}" for g in fit.levels.levels.round(4))
    notes = [f"levels of relevance found: {levels}"]
    if not fitted.differ:
        notes.append(f"{ALIKE}: do not rely on this estimate")
    if weak:
        notes.append(
            f"ranks {', '.join(weak)} are weakly identified: how much more relevant "
            "documents are clicked there leans on the other ranks"
        )
    test = trust_test(population, fit)
    if test is None:
        notes.append("too few queries were clicked to test for trust bias")
    inference = partial(inference_gauge, impressions=pools.pool_impressions)
    return Estimate(
        users=fitted.users,
        pools=pools,
        clicks=pools.total(fitted.rows.by_rank(fitted.rows.clicks)),
        inference=mixture_bands(fit, precision, inference),
        display=mixture_bands(fit, precision, display_gauge),
        test=test,
        share_identified=identified,
        weak_ranks=weak,
        notes=tuple(notes),
    )


def _require_repeated(population: Population) -> None:
    """Reject clicks that cannot separate bias from relevance without features."""
    if max(population.n_repeated, population.n_moved) < LEAST_DOCUMENTS:
        raise DataError(
            f"{_shown(population)}, so clicks alone cannot separate bias from "
            "relevance; give features (--data), a longer log, or swap documents (at "
            f"least {LEAST_DOCUMENTS} of one or the other)"
        )


def _require_identified(fitted: Mixture, weak: str, *, enough: bool) -> None:
    """Reject an estimate that would rest on assumptions more than on clicks."""
    if not fitted.differ:
        raise DataError(f"{ALIKE}, so clicks cannot separate bias from relevance")
    if not enough:
        wanted = "" if fitted.about.get("features") else "features (--data), "
        raise DataError(
            f"clicks identify too little: {_shown(fitted.population)}, so at ranks "
            f"{weak} an estimate would rest on assumptions; give {wanted}a longer log "
            "or swaps; or estimate by a --method all the same, and give it as --users"
        )


def _shown(population: Population) -> str:
    return (
        f"of {population.n_docs:,} documents {population.n_repeated:,} were shown "
        f"{DRAWS} times or more and {population.n_moved:,} at several ranks"
    )
