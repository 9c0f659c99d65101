"""The default method on one page: a mixture of relevance levels, helped by features.

Five steps: pool rare ranks; fit two levels to clicks alone; predict relevance from
features and from the query's other documents; choose the number of levels on half of
the queries by the other half; fit everything to all clicks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from affinerank.bias.gauge import display_gauge, inference_gauge
from affinerank.bias.method import AUTO, Estimate, EstimationSettings
from affinerank.bias.mixture.comparison import (
    Compared,
    best_model,
    compare_models,
    test_for_trust,
)
from affinerank.bias.mixture.covariates import predict_relevance
from affinerank.bias.mixture.fit import Fit, first_guess
from affinerank.bias.mixture.population import MixtureDocuments, population_of
from affinerank.bias.mixture.precision import (
    mixture_bands,
    precision_of,
    share_identified,
)
from affinerank.bias.mixture.search import aligned_fit, find_levels
from affinerank.bias.pooling import Cells, pool_cells, pool_ranks
from affinerank.bias.requirements import DRAWS, MIN_DOCUMENTS, require_estimable
from affinerank.clicks.models.browsing import BrowsingModel
from affinerank.clicks.models.by_segment import SegmentedModel
from affinerank.clicks.models.trust import TrustModel
from affinerank.counts.rows import ClickRows
from affinerank.support.arrays import Matrix, Rng
from affinerank.support.errors import DataError, warn
from affinerank.support.progress import Progress
from affinerank.support.seeds import stage_rng
from affinerank.support.threads import one_blas_thread

CHOOSING_DOCS = 40_000
NOTHING = 1e-5  # a slope that is none
FEATURE_BINS, FEATURE_KNOTS = 16, 4
QUERY_BINS, QUERY_KNOTS = 6, 2
# Clicks that take three quarters of the prior variance away halve its deviation.
IDENTIFIED = 0.75
RANKS_NAMED = 10
ALIKE = "documents do not differ clearly in how often they are clicked at a rank"


@dataclass(frozen=True, slots=True, eq=False)
class Mixture:
    """A mixture of levels fitted to clicks.

    Attributes:
        rows: The clicks.
        pools: Which ranks and contexts share their parameters.
        population: The documents it was fitted to.
        fit: Levels, their shares and click rates.
        differ: Whether documents were found to differ in relevance at all.
        about: What else to note on the users.
    """

    rows: ClickRows
    pools: Cells
    population: MixtureDocuments
    fit: Fit
    differ: bool
    about: Mapping[str, Any]

    @property
    def click_model(self) -> Any:
        """The click model, every rank and context with the values of its pool.

        Known up to gauge; here the lowest level of relevance is 0 and the highest 1.
        """
        levels, names = self.fit.levels, self.pools.segments
        # Where nobody clicks, clicks say nothing: do not divide by what is left.
        alpha = np.where(levels.alpha < NOTHING, 0.0, levels.alpha)
        about = {**self.about, "levels": levels.levels.round(4).tolist()}
        more: Any = {"identified": "relative", "span": (0.0, 1.0), "provenance": about}
        kind: Any = BrowsingModel if self.pools.by_context else TrustModel
        table = self.pools.table if self.pools.by_context else self.pools.table[:, 0]
        models = []
        for i in range(max(1, len(names))):
            at = table + i * self.pools.size
            models.append(kind(alpha=alpha[at], beta=levels.zeta_minus[at], **more))
        if not names:
            return models[0]
        return SegmentedModel(dict(zip(names, models, strict=True)))


def fit_mixture(
    rows: ClickRows,
    features: Matrix | None,
    settings: EstimationSettings,
    rng: Rng,
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
    pools = first.pools if first else pools_of(rows, settings)
    require_estimable(rows, pools.ranks)
    population = population_of(rows, pools).halved(rng)
    enough = max(population.n_repeated, population.moved.sum()) >= MIN_DOCUMENTS
    if features is None and not enough:
        raise DataError(
            f"{_shown(population)}, so clicks alone cannot separate bias from "
            "relevance; give features (--data), a longer log, or swap documents (at "
            f"least {MIN_DOCUMENTS} of one or the other)"
        )
    # Fit two levels to clicks alone: rough, and enough to correct clicks.
    # Resamples are fitted to say how much fits vary: their last digits do not matter.
    polish = first is None
    rough = aligned_fit(population, first_guess(population), polish=polish).levels
    # Predict relevance from features and from the query's other documents.
    predicted = predict_relevance(population, rough, features)
    covariates = [(predicted.query, QUERY_BINS, QUERY_KNOTS)]
    if features is not None:
        covariates.append((predicted.features, FEATURE_BINS, FEATURE_KNOTS))
    population = population.in_cells(covariates)
    about = {
        "features": features is not None,
        "feature_correlation": round(predicted.correlation, 4),
    }
    if first:
        fit = aligned_fit(population, first.fit.levels, polish=polish)
        return Mixture(rows, pools, population, fit, first.differ, about)
    # More than two levels are known by documents that were shown again and again.
    most_levels = most_levels if population.n_repeated >= MIN_DOCUMENTS else 2
    # Choose the number of levels on half of the queries, by the other half.
    n_queries = int(population.query.max()) + 1
    learnt, held = (_some(half, n_queries, rng) for half in population.halves())
    fit, differ = find_levels(population, (learnt, held), most_levels, rng)
    return Mixture(rows, pools, population, fit, differ, about)


def pools_of(rows: ClickRows, settings: EstimationSettings) -> Cells:
    """Pool ranks with few clicks, and contexts where they count."""
    ranks = pool_ranks(rows, settings.min_clicks)
    kept = rows if settings.segment else replace(rows, segments=(), segment=None)
    return pool_cells(kept, ranks, settings.min_clicks, context=settings.context)


def _some(docs: MixtureDocuments, n_queries: int, rng: Rng) -> MixtureDocuments:
    """Take all documents, or those of some queries where there are very many."""
    if docs.n_docs <= CHOOSING_DOCS:
        return docs
    chosen = rng.random(n_queries) < CHOOSING_DOCS / docs.n_docs
    chosen[docs.query.min()] = True
    return docs.take(chosen[docs.query])


@one_blas_thread()
def estimate(
    rows: ClickRows,
    features: Matrix | None,
    settings: EstimationSettings,
    _progress: Progress,
    *,
    by: Callable[..., Mixture],
) -> Estimate:
    """Fit a mixture, and describe it: users, bands, the test for trust bias, notes."""
    rng = stage_rng("estimation", settings.seed)
    fitted = by(rows, features, settings, rng)
    # Which users predict held-out sessions best; refit, if simpler ones do as well.
    used = (fitted.pools.by_context, bool(fitted.pools.segments))
    models: tuple[Compared, ...] = ()
    if settings.replicates or any(used):
        given = fitted.population, fitted.pools, fitted.fit.levels
        models = compare_models(*given, rng)
        view = best_model(models).view
        if (view.context, view.segment) != used:
            settings = replace(settings, context=view.context, segment=view.segment)
            fitted = by(rows, features, settings, rng)
    fit, population, pools = fitted.fit, fitted.population, fitted.pools
    ranks, mean = pools.ranks, pools.mean_by_rank()
    precision = precision_of(population, fit)
    identified = share_identified(fit, precision, mean)
    weak = tuple(np.array(ranks.names)[identified < IDENTIFIED].tolist())
    named = ", ".join(weak)
    if settings.method == AUTO:
        enough = bool(np.median(identified) >= IDENTIFIED)
        _warn_if_poor(fitted, weak, enough=enough)
    levels = ", ".join(f"{g:g}" for g in fit.levels.levels.round(4))
    notes = [f"levels of relevance found: {levels}"]
    if not fitted.differ:
        notes.append(f"{ALIKE}: do not rely on this estimate")
    if weak:
        notes.append(
            f"ranks {named} are weakly identified: how much more relevant documents "
            "are clicked there leans on the other ranks"
        )
    test = test_for_trust(models) if settings.replicates else None
    if settings.replicates and test is None:
        notes.append("too few queries were clicked to test for trust bias")

    inference = partial(inference_gauge, impressions=ranks.pool_impressions)
    by_rank = pools.by_context or pools.segments
    return Estimate(
        fitted.click_model,
        ranks,
        ranks.total(fitted.rows.by_rank(fitted.rows.clicks)),
        mixture_bands(fit, precision, inference, mean),
        mixture_bands(fit, precision, display_gauge, mean),
        average=fit.levels.click_model(mean) if by_rank else None,
        models=models,
        test=test,
        share_identified=identified,
        weak_ranks=weak,
        notes=tuple(notes),
    )


def _warn_if_poor(fitted: Mixture, weak: tuple[str, ...], *, enough: bool) -> None:
    """Warn of an estimate that rests on assumptions more than on clicks.

    Without features nothing stands beside such an estimate, and it is refused.
    """
    has_features = bool(fitted.about.get("features"))
    if not fitted.differ:
        fault = f"{ALIKE}, so clicks cannot separate bias from relevance"
    elif not enough:
        ranks = ", ".join(weak[:RANKS_NAMED]) + (", ..." if weak[RANKS_NAMED:] else "")
        wanted = "" if has_features else "features (--data), "
        fault = (
            f"clicks identify too little: {_shown(fitted.population)}, so at ranks "
            f"{ranks} the estimate rests on assumptions; give {wanted}a longer log or "
            "swaps"
        )
    else:
        return
    if not has_features:
        raise DataError(fault)
    warn(f"poor estimate: {fault}")


def _shown(population: MixtureDocuments) -> str:
    several = f"{population.n_repeated:,} were shown {DRAWS} times or more"
    moved = f"{population.moved.sum():,} at several ranks"
    return f"of {population.n_docs:,} documents {several} and {moved}"
