"""From counts, and features where there are some, to how users click."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from affinerank.bias.documents import ClickRows
from affinerank.bias.gauge import gauge_error
from affinerank.bias.interventions import Overlap, moved_rows, overlap_of
from affinerank.bias.level_mixture import LEAST_TOLD, require_estimable
from affinerank.bias.pooling import RankPools, pool_ranks
from affinerank.clicks.counts import ClickCounts
from affinerank.clicks.join import join_counts
from affinerank.clicks.usermodel import UserModel
from affinerank.data.dataset import RankingDataset
from affinerank.errors import ConfigError
from affinerank.pipeline.estimated import Estimated
from affinerank.pipeline.estimation_methods import (
    EM_METHODS,
    EstimationSettings,
    Found,
    by_em,
    by_levels,
)
from affinerank.pipeline.parts import note_unmatched, train_part
from affinerank.pipeline.rows import rows_and_features, unjoined_rows
from affinerank.progress import Progress, quiet


def estimate_users(
    counts: ClickCounts,
    data: RankingDataset | None = None,
    *,
    settings: EstimationSettings | None = None,
    truth: UserModel | None = None,
    progress: Progress = quiet,
) -> Estimated:
    """Estimate how users click, and say how good the estimate is.

    Args:
        counts: Clicks; of their ``split``, where they have one, the part ``train``.
        data: Features of the documents, if there are any.
        settings: Which method, and how.
        truth: The users of a simulation, to compare with.
        progress: Told of each stage.
    """
    asked = settings or EstimationSettings()
    kept = train_part(counts)
    if data is None:
        joined, features, rows = None, None, unjoined_rows(kept)
    else:
        joined = join_counts(kept, data)
        note_unmatched(joined)
        rows, features = rows_and_features(joined, data)
    pools = pool_ranks(
        rows.rank, rows.impressions, rows.clicks, least_clicks=asked.least_clicks
    )
    require_estimable(rows, pools)
    overlap = overlap_of(rows, pools)
    method, why = _chosen(asked, rows, pools, overlap, features is not None)
    progress("estimating", 0, 1)
    if method not in EM_METHODS:
        found = by_levels(method, rows, features, asked)
    elif joined is None or data is None:
        raise ConfigError(f"the method {method} needs features: give --data")
    else:
        found = by_em(method, joined, data, rows, asked, progress)
    progress("estimating", 1, 1)
    users = replace(found.users, provenance=_provenance(method, found, asked))
    error = None
    if truth is not None:
        error = gauge_error(users, truth, found.pools.impressions)
    return Estimated(
        users,
        method,
        why,
        found.pools,
        found.clicks(),
        found.inference,
        found.display,
        overlap,
        found.test,
        error,
        (*_about_log(kept, found.pools, data), *found.notes),
    )


def _provenance(
    method: str, found: Found, settings: EstimationSettings
) -> dict[str, Any]:
    """By what, and from how much, users were estimated."""
    return {
        "estimated_by": method,
        "clicks": int(found.rows.clicks.sum()),
        "impressions": int(found.rows.impressions.sum()),
        "pooled_ranks": list(found.pools.shared),
        "least_clicks": settings.least_clicks,
        "seed": settings.seed,
        **found.users.provenance,
    }


def _about_log(
    counts: ClickCounts, pools: RankPools, data: RankingDataset | None
) -> list[str]:
    """What was filled in or put together: missing values, rare ranks, and segments."""
    notes = []
    lacking = {} if data is None else data.missing_values()
    if lacking:
        names = ", ".join([*list(lacking)[:5], *(["..."] if len(lacking) > 5 else [])])
        notes.append(
            f"{sum(lacking.values()):,} missing values ({names}) were filled with the "
            "median of their feature"
        )
    if "segment" in counts.keys:
        notes.append(
            "segments were added up; where users click differently by segment, select "
            "one and estimate each by itself"
        )
    if pools.shared:
        notes.append(f"few clicks: ranks {', '.join(pools.shared)} share their values")
    return notes


def _chosen(
    settings: EstimationSettings,
    rows: ClickRows,
    pools: RankPools,
    overlap: Overlap,
    with_features: bool,
) -> tuple[str, str]:
    """The method, and why, in words."""
    if settings.method != "auto":
        return settings.method, "asked for"
    if with_features:
        return "mixture", "features tell which documents to expect relevant"
    if overlap.all_connected and overlap.n_moved >= LEAST_TOLD:
        moved = moved_rows(rows)
        alone = pool_ranks(
            moved.rank,
            moved.impressions,
            moved.clicks,
            least_clicks=settings.least_clicks,
        )
        if alone.names == pools.names:
            return (
                "interventions",
                f"{overlap.n_moved:,} documents were shown at several ranks",
            )
    return "mixture", "no features, and documents hardly change rank"
