"""From counts, and features where there are some, to how users click."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from affinerank.bias import METHODS, Estimate, EstimationSettings, Method
from affinerank.bias.gauge import click_model_error, error_by_row
from affinerank.bias.method import AUTO
from affinerank.bias.overlap import Overlap, moved_rows, overlap_of
from affinerank.bias.pooling import MIN_CLICKS, RankPools, pool_ranks
from affinerank.bias.requirements import MIN_DOCUMENTS
from affinerank.clicks.models.affine import EstimatedBy
from affinerank.clicks.models.by_segment import SegmentedModel
from affinerank.clicks.models.trust import TrustModel
from affinerank.counts.counts import ClickCounts
from affinerank.counts.holdout import matched_rows, train_part
from affinerank.counts.rows import ClickRows, join_counts
from affinerank.data.dataset import RankingDataset
from affinerank.data.feature_mapping import FREQUENT, FeatureMapping
from affinerank.defaults import METHOD, METHOD_FROM_CLICKED_LISTS, METHOD_FROM_SWAPS
from affinerank.support.arrays import Matrix
from affinerank.support.errors import AffineRankWarning, ConfigError, warn
from affinerank.support.large_arrays import taken
from affinerank.support.progress import Progress, no_progress
from affinerank.support.seeds import stage_rng

if TYPE_CHECKING:
    from affinerank.bias.mixture.comparison import Doubt

MANY_QUERIES = 50


def estimate_click_model(
    counts: ClickCounts,
    data: RankingDataset | None = None,
    *,
    settings: EstimationSettings | None = None,
    truth: TrustModel | None = None,
    progress: Progress = no_progress,
) -> Estimate:
    """Estimate how users click, and report how good the estimate is.

    Args:
        counts: Clicks; of their ``split``, where they have one, the part ``train``.
        data: Features of the documents, if there are any.
        settings: Which method, and how.
        truth: The users of a simulation, to compare with.
        progress: Called at each stage.
    """
    rows = matched_rows(train_part(counts), data)
    features = None if data is None else filled_features(data)
    found = estimate_from_rows(
        rows, features, data, settings=settings, truth=truth, progress=progress
    )
    return replace(found, notes=(*_about_log(found.pools, data), *found.notes))


def estimate_from_rows(
    rows: ClickRows,
    features: Matrix | None = None,
    data: RankingDataset | None = None,
    *,
    settings: EstimationSettings | None = None,
    truth: TrustModel | None = None,
    progress: Progress = no_progress,
) -> Estimate:
    """Choose a method, estimate how users click, and note how on the users.

    Args:
        rows: Clicks.
        features: ``[n_docs, n_features]`` without missing values, if there are any.
        data: What the documents are called: given names, results do not depend on the
            order of the data. Methods that train a ranker keep that order all the same.
        settings: Which method, and how.
        truth: The users of a simulation, to compare with.
        progress: Called at each stage.
    """
    how, with_features = settings or EstimationSettings(), features is not None
    pools = pool_ranks(rows, how.min_clicks)
    overlap = overlap_of(rows, pools)
    method, why = _chosen(how, rows, pools, overlap, with_features=with_features)
    if method.needs_features and not with_features:
        raise ConfigError(f"the method {method.name} needs features: give --data")
    if data is not None and not method.ranks_too:
        rows, features = in_order_of_ids(rows, features, data)
    rows = rows if method.by_context else rows.merged()
    progress("estimating", 0, 1)
    found = method.fit(rows, features, how, progress)
    progress("estimating", 1, 1)
    about = {
        "estimated_by": method.name,
        "clicks": int(found.clicks.sum()),
        "impressions": int(found.pools.impressions.sum()),
        "pooled_ranks": list(found.pools.shared),
        "min_clicks": how.min_clicks,
        "seed": how.seed,
        **found.click_model.provenance,
    }
    by = EstimatedBy(method.name, with_features, how.min_clicks)
    click_model = _noted(found.click_model, about, by)
    error = None
    if isinstance(truth, TrustModel) and isinstance(click_model, TrustModel):
        error = click_model_error(click_model, truth, found.pools.impressions)
    elif truth is not None:
        error = error_by_row(click_model, truth, rows)
    return replace(
        found,
        click_model=click_model,
        method=method.name,
        why=why,
        overlap=overlap,
        error=error,
    )


def check_click_model_against_log(
    counts: ClickCounts, click_model: Any, *, seed: int = 0
) -> Doubt | None:
    """Warn where a log clearly contradicts the click model that the user gave.

    Args:
        counts: Clicks; of their ``split``, where they have one, the part ``train``.
        click_model: How users click; ``None`` is not checked.
        seed: Draws the sessions that are held out.

    Returns:
        How much better a click model estimated from the log predicts held-out clicks;
        ``None`` where the log cannot say.
    """
    if click_model is None:
        return None
    from affinerank.bias.mixture.comparison import hold_against_log

    rows = join_counts(train_part(counts))
    rng = stage_rng("held out", seed)
    # Where the model is not as deep as the log, whoever uses it warns.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AffineRankWarning)
        doubt = hold_against_log(rows, click_model, MIN_CLICKS, rng)
    if doubt is not None and doubt.clear:
        warn(
            "the click model does not fit this log: one estimated from the log "
            f"predicts its held-out clicks better, by {doubt.lead:.2g} +- "
            f"{doubt.lead_error:.1g} in log-likelihood per impression; estimate the "
            "click model from this log"
        )
    return doubt


def _noted(click_model: Any, about: Mapping[str, Any], by: EstimatedBy) -> Any:
    """Note on users, or on those of each segment, how they were estimated."""
    if not isinstance(click_model, SegmentedModel):
        return replace(click_model, provenance=about, estimated=by)
    models = {name: _noted(one, about, by) for name, one in click_model.models.items()}
    return replace(click_model, models=models, provenance=about)


def filled_features(data: RankingDataset) -> Matrix:
    """Map features as networks read them, medians in place of missing values."""
    mapping = FeatureMapping.fit(data, impute=True, one_hot=FREQUENT)
    return mapping.apply(data).features


def in_order_of_ids(
    rows: ClickRows, features: Matrix | None, data: RankingDataset
) -> tuple[ClickRows, Matrix | None]:
    """Number documents in the order of their ids, query by query.

    So what is drawn depends on the ids, not on the order of the data.
    """
    queries = np.argsort(data.query_ids, kind="stable")
    by_id = np.argsort(np.argsort(data.doc_ids, kind="stable"))
    order = np.lexsort((by_id, np.argsort(queries)[data.query_of_doc]))
    if features is not None and np.any(order[1:] < order[:-1]):
        features = taken(features, order)
    return rows.renumbered(order, queries), features


def _chosen(
    settings: EstimationSettings,
    rows: ClickRows,
    pools: RankPools,
    overlap: Overlap,
    *,
    with_features: bool,
) -> tuple[Method, str]:
    """The method, and why, in words."""
    if settings.method != AUTO:
        return METHODS[settings.method], "requested"
    if with_features and only_clicked_lists(rows):
        why = "every list has a click, so lists without one are missing"
        return METHODS[METHOD_FROM_CLICKED_LISTS], why
    if with_features:
        why = "features indicate which documents to expect relevant"
        return METHODS[METHOD], why
    if overlap.all_connected and overlap.n_moved >= MIN_DOCUMENTS:
        alone = pool_ranks(moved_rows(rows), settings.min_clicks)
        if alone.names == pools.names:
            why = f"{overlap.n_moved:,} documents were shown at several ranks"
            return METHODS[METHOD_FROM_SWAPS], why
    return METHODS[METHOD], "no features, and documents hardly change rank"


def only_clicked_lists(rows: ClickRows) -> bool:
    """Whether every query has as many clicks as sessions, and queries are many."""
    clicks = np.bincount(rows.query, rows.clicks, rows.n_queries)
    enough = np.count_nonzero(rows.sessions) >= MANY_QUERIES
    return bool(enough and np.all(clicks >= rows.sessions))


def _about_log(pools: RankPools, data: RankingDataset | None) -> list[str]:
    """Notes on what was filled in or pooled: missing values, rare ranks."""
    notes, lacking = [], {}
    if data is not None:  # categories are not filled: who has no brand is of none
        found = data.missing_values().items()
        lacking = {name: n for name, n in found if name not in data.categories}
    if lacking:
        names = [*lacking][:5] + ["..."] * (len(lacking) > 5)
        notes.append(
            f"{sum(lacking.values()):,} missing values ({', '.join(names)}) were "
            "filled with the median of their feature"
        )
    if pools.shared:
        notes.append(f"few clicks: ranks {', '.join(pools.shared)} share their values")
    return notes
