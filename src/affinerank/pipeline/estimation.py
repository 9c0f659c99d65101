"""From counts, and features where there are some, to how users click."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from affinerank.bias.documents import numbered
from affinerank.bias.gauge import GaugeError, gauge_error, inference_gauge
from affinerank.bias.interventions import (
    Interventions,
    Overlap,
    fit_interventions,
    moved_rows,
    overlap_of,
)
from affinerank.bias.level_mixture import (
    DRAWS,
    LEAST_TOLD,
    ClickRows,
    LevelMixture,
    MixtureSettings,
    fit_mixture,
    require_estimable,
)
from affinerank.bias.levels import MOST_LEVELS
from affinerank.bias.pooling import LEAST_CLICKS, RankPools, pool_ranks
from affinerank.bias.relevance import ACTIVATIONS
from affinerank.bias.trust import TrustTest, trust_test
from affinerank.bias.uncertainty import (
    Bands,
    for_display,
    for_inference,
    mixture_bands,
    precision_of,
    told_by_clicks,
)
from affinerank.clicks.counts import ClickCounts
from affinerank.clicks.join import JoinedCounts, join_counts
from affinerank.clicks.usermodel import UserModel
from affinerank.data.dataset import FeatureMapping, RankingDataset
from affinerank.data.mapped import taken
from affinerank.errors import ConfigError, DataError
from affinerank.pipeline.training import note_unmatched, train_part
from affinerank.progress import Progress, quiet
from affinerank.rankers.mlp import NetworkSettings
from affinerank.seeds import stage_rng

Floats = NDArray[np.float64]
METHODS = (
    "auto",
    "mixture",
    "two-level",
    "interventions",
    "em",
    "em-three",
    "em-position",
)
REPLICATES = 16
# Clicks that take three quarters of the prior variance away halve its deviation.
TOLD = 0.75


@dataclass(frozen=True, slots=True, eq=False)
class Estimated:
    """How users click, as clicks tell it.

    Attributes:
        users: The user model, with where it came from.
        method: The method that was used.
        why: Why that one.
        pools: Which ranks share their parameters.
        clicks: ``[n_pools]`` clicks at each.
        inference: Alpha and beta in the gauge for inference, with bands if there are.
        display: The same in the gauge for display.
        overlap: How far documents were seen at several ranks.
        test: For trust bias, where the method has one.
        error: Against the truth, where it was given.
        notes: What a reader should know.
    """

    users: UserModel
    method: str
    why: str
    pools: RankPools
    clicks: Floats
    inference: Bands
    display: Bands
    overlap: Overlap
    test: TrustTest | None
    error: GaugeError | None
    notes: tuple[str, ...]

    def by_rank(self) -> list[dict[str, Any]]:
        """One row a pool: ranks, impressions, clicks, alpha and beta with bands."""
        first = np.searchsorted(self.pools.of_rank, np.arange(self.pools.n_pools))
        rows = []
        for i, name in enumerate(self.pools.names):
            row: dict[str, Any] = {
                "ranks": name,
                "mean_rank": float(self.pools.mean_rank[i]),
                "impressions": int(self.pools.pool_impressions[i]),
                "clicks": int(self.clicks[i]),
                "alpha": float(self.users.alpha[first[i]]),
                "beta": float(self.users.beta[first[i]]),
            }
            row["display"] = _banded(self.display, i)
            row["inference"] = _banded(self.inference, i)
            rows.append(row)
        return rows

    def summary(self) -> dict[str, Any]:
        """What there is to say, as plain data."""
        about: dict[str, Any] = {
            "method": self.method,
            "why": self.why,
            "documents": self.overlap.n_docs,
            "documents_at_several_ranks": self.overlap.n_moved,
            "connected": list(self.overlap.connected),
            "by_rank": self.by_rank(),
            "notes": list(self.notes),
        }
        if self.test is not None:
            about["trust_bias"] = {**asdict(self.test), "found": self.test.found}
        if self.error is not None:
            about["against_truth"] = {
                name: getattr(self.error, name)
                for name in (
                    "error",
                    "alpha_absolute",
                    "beta_absolute",
                    "alpha_relative",
                    "beta_relative",
                )
            }
        return about

    def truth_by_rank(self, truth: UserModel) -> dict[str, list[float]]:
        """The truth by pool, in the gauge for inference: what bands should cover."""
        seen = self.pools.pool_impressions
        shown = inference_gauge(_pooled(truth, self.pools), seen)
        return {"alpha": shown.alpha.tolist(), "beta": shown.beta.tolist()}


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
        if self.activation not in ACTIVATIONS:
            known = ", ".join(ACTIVATIONS)
            raise ConfigError(f"activation must be {known}, got {self.activation!r}")
        if self.replicates < 0 or self.replicates == 1:
            raise ConfigError(f"replicates must be 0, or 2 or more: {self.replicates}")


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
    joined = join_counts(kept, data) if data is not None else None
    features = None
    if joined is not None and data is not None:
        note_unmatched(joined)
        rows, features = rows_and_features(joined, data)
    else:
        rows = _unjoined(kept)
    pools = pool_ranks(
        rows.rank, rows.impressions, rows.clicks, least_clicks=asked.least_clicks
    )
    require_estimable(rows, pools)
    overlap = overlap_of(rows, pools)
    method, why = _chosen(asked, rows, pools, overlap, features is not None)
    progress("estimating", 0, 1)
    if method.startswith("em"):
        if joined is None or data is None:
            raise ConfigError(f"the method {method} needs features: give --data")
        found = _by_em(method, joined, data, rows, asked, progress)
    else:
        found = _by_levels(method, rows, features, asked)
    progress("estimating", 1, 1)
    about = {
        "estimated_by": method,
        "clicks": int(found.rows.clicks.sum()),
        "impressions": int(found.rows.impressions.sum()),
        "pooled_ranks": list(found.pools.shared),
        "least_clicks": asked.least_clicks,
        "seed": asked.seed,
        **found.users.provenance,
    }
    users = replace(found.users, provenance=about)
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


def _by_levels(
    method: str,
    rows: ClickRows,
    features: NDArray[np.float32] | None,
    settings: EstimationSettings,
) -> Found:
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
    about["levels"] = fitted.fit.levels.levels.round(4).tolist()
    fit, population, pools = fitted.fit, fitted.population, fitted.pools
    wanted = "" if features is not None else "features (--data), "
    notes = [
        f"levels of relevance found: {', '.join(f'{g:g}' for g in about['levels'])}"
    ]
    precision = precision_of(population, fit, how.prior)
    told = told_by_clicks(fit, how.prior, precision)
    notes += _leaning(fitted, told, wanted, refuse=settings.method == "auto")
    test = trust_test(population, fit, fitted.half, how.prior)
    if test is None:
        notes.append("too few queries were clicked to test for trust bias")
    seen = pools.pool_impressions
    return Found(
        replace(fitted.users, provenance=about),
        rows,
        pools,
        mixture_bands(fit, precision, for_inference(seen)),
        mixture_bands(fit, precision, for_display()),
        test,
        tuple(notes),
    )


def _leaning(
    fitted: LevelMixture | Interventions,
    told: Floats,
    wanted: str,
    *,
    refuse: bool,
) -> list[str]:
    """Name the ranks whose values are more the prior's than the clicks'."""
    alike = "documents do not differ clearly in how often they are clicked at a rank"
    if refuse and not fitted.differ:
        raise DataError(f"{alike}, so clicks cannot tell bias from relevance")
    weak = [name for name, t in zip(fitted.pools.names, told, strict=True) if t < TOLD]
    if refuse and np.median(told) < TOLD:
        docs = fitted.population.documents
        repeated = int(np.sum(docs.n_impressions >= DRAWS))
        moved = int(np.sum(np.diff(docs.first) > 1))
        raise DataError(
            f"clicks tell too little: {repeated:,} of {docs.n_docs:,} documents were "
            f"shown {DRAWS} times or more, and {moved:,} "
            f"at several ranks, so at ranks {', '.join(weak)} an estimate would rest "
            f"on assumptions; give {wanted}a longer log or swaps, or ask for "
            "--method mixture to see it all the same"
        )
    notes = [] if fitted.differ else [f"{alike}: do not rely on this estimate"]
    if not weak:
        return notes
    return [
        *notes,
        f"clicks tell little about ranks {', '.join(weak)}: how much more relevant "
        "documents are clicked there leans on the other ranks",
    ]


def _by_em(
    method: str,
    joined: JoinedCounts,
    data: RankingDataset,
    rows: ClickRows,
    settings: EstimationSettings,
    progress: Progress,
) -> Found:
    from affinerank.bias.regression_em import EMRun, EMSettings, fit_regression_em
    from affinerank.bias.replicates import query_weights, replicate_bands

    rng = stage_rng("estimation", settings.seed)
    query = data.query_of_doc[joined.doc]
    clicks = np.full(data.n_queries, np.nan)
    clicks[query] = 0.0
    np.add.at(clicks, query, joined.counts.clicks)
    weights: list[Floats | None] = [None]
    weights += [
        query_weights(clicks, data.n_queries, rng) for _ in range(settings.replicates)
    ]
    runs = [
        EMRun.of(
            joined,
            data,
            activation=settings.activation,
            seed=settings.seed,
            query_weights=each,
        )
        for each in weights
    ]
    kinds: Mapping[str, Any] = {
        "em": "two",
        "em-three": "three",
        "em-position": "position",
    }
    results = fit_regression_em(
        _features(data),
        data.offsets,
        runs,
        settings=EMSettings(parameters=kinds[method]),
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
    gauges = (for_inference(pools.impressions), for_display())
    bands = [replicate_bands(users, others, gauge) for gauge in gauges]
    if others:
        notes.append(
            f"bands from {len(others)} resamples of the queries; their coverage is "
            "not known"
        )
    return Found(users, rows, pools, bands[0], bands[1], None, tuple(notes))


def _features(data: RankingDataset) -> NDArray[np.float32]:
    """Features as networks read them, with medians in the place of missing values."""
    return FeatureMapping.fit(data, impute=True).apply(data).features


def rows_and_features(
    joined: JoinedCounts, data: RankingDataset
) -> tuple[ClickRows, NDArray[np.float32]]:
    """Counts and features by documents numbered in the order of their ids.

    So what is drawn depends on the ids, not on the order of the data.
    """
    rank_of_query = np.empty(data.n_queries, dtype=np.int64)
    rank_of_query[np.argsort(data.query_ids, kind="stable")] = np.arange(data.n_queries)
    by_id = np.empty(data.n_docs, dtype=np.int64)
    by_id[np.argsort(data.doc_ids, kind="stable")] = np.arange(data.n_docs)
    query = rank_of_query[data.query_of_doc]
    order = np.lexsort((by_id, query))
    features = _features(data)
    number = np.empty(data.n_docs, dtype=np.int64)
    number[order] = np.arange(data.n_docs)
    if np.any(order[1:] < order[:-1]):
        features = taken(features, order)
    rows = click_rows(joined, data)
    return replace(rows, doc=number[rows.doc], query=query[rows.doc]), features


def click_rows(joined: JoinedCounts, data: RankingDataset) -> ClickRows:
    """Counts by the numbers of documents and queries in the data."""
    seen = joined.counts.impressions > 0
    return ClickRows(
        joined.doc[seen],
        data.query_of_doc[joined.doc[seen]],
        joined.counts.rank[seen],
        joined.counts.impressions[seen].astype(np.float64),
        joined.counts.clicks[seen].astype(np.float64),
    )


def _unjoined(counts: ClickCounts) -> ClickRows:
    if not len(counts.rank):
        raise DataError("the counts are empty, so there is nothing to estimate from")
    doc, query = numbered(counts)
    seen = counts.impressions > 0
    return ClickRows(
        doc[seen],
        query[seen],
        counts.rank[seen],
        counts.impressions[seen].astype(np.float64),
        counts.clicks[seen].astype(np.float64),
    )


def _pooled(users: UserModel, pools: RankPools) -> UserModel:
    """Mean alpha and beta over the impressions of each pool."""
    alpha, beta = users.at(np.arange(1, len(pools.of_rank) + 1))
    unseen = pools.pool_impressions[pools.of_rank] == 0
    weight = np.where(unseen, 1.0, pools.impressions)
    seen = np.bincount(pools.of_rank, weight)
    mean_alpha = np.bincount(pools.of_rank, alpha * weight) / seen
    mean_beta = np.bincount(pools.of_rank, beta * weight) / seen
    return UserModel(alpha=mean_alpha, beta=mean_beta, identified="gauge")


def _banded(bands: Bands, i: int) -> dict[str, float]:
    row = {}
    for name in ("alpha", "beta"):
        row[name] = float(getattr(bands, name)[i])
        if bands.known:
            low, high = bands.interval(name)
            row[f"{name}_low"], row[f"{name}_high"] = float(low[i]), float(high[i])
    return row
