"""What a method that estimates users is given, and what it returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from affinerank.bias.bands import Bands, replicate_bands
from affinerank.bias.gauge import GaugeError, display_gauge, inference_gauge
from affinerank.bias.overlap import Overlap
from affinerank.bias.pooling import MIN_CLICKS, RankPools
from affinerank.clicks.models.trust import TrustModel
from affinerank.counts.rows import ClickRows
from affinerank.output.blocks import Summary
from affinerank.rankers.networks.settings import NetworkSettings
from affinerank.support.arrays import Floats, Ints, Matrix
from affinerank.support.errors import ConfigError

if TYPE_CHECKING:
    from affinerank.bias.mixture.comparison import Compared
    from affinerank.bias.mixture.trust_test import TrustTest
    from affinerank.rankers.ranker import Fitted
    from affinerank.rankers.targets import Targets

AUTO = "auto"
REPLICATES = 20


@dataclass(frozen=True, slots=True)
class EstimationSettings:
    """How users are estimated.

    Attributes:
        method: Of ``METHODS``; ``auto`` chooses by what the log offers.
        min_clicks: Ranks with fewer are pooled with the next.
        context: Whether users may go by the last click above, where it was counted.
        segment: Whether they may differ by segment, where that was counted.
        network: Of methods that train a ranker too.
        fresh: In experiments: new rankers learn with the users of such a method.
        replicates: Estimates from resampled queries that their bands are from; 0: users
            alone, without bands and tests.
        seed: Of everything random.
    """

    method: str = AUTO
    min_clicks: float = MIN_CLICKS
    context: bool = True
    segment: bool = True
    network: NetworkSettings | None = None
    fresh: bool = False
    replicates: int = REPLICATES
    seed: int = 0

    def __post_init__(self) -> None:
        """Reject one replicate, which has no spread."""
        if self.replicates < 0 or self.replicates == 1:
            got = self.replicates
            raise ConfigError(f"replicates must be 0, or 2 or more, got {got}")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Estimate(Summary):
    """How users click, as estimated from clicks.

    A method fills in what it knows; the pipeline adds ``method``, ``why``, ``overlap``
    and ``error``, and notes on the users how they were estimated.

    Attributes:
        click_model: The click model.
        average: The same by pool, where ``click_model`` do not go by rank alone.
        pools: Which ranks share their parameters.
        clicks: ``[n_pools]`` clicks at each.
        inference: Alpha and beta in the gauge for inference, with bands if there are.
        display: The same in the gauge for display.
        models: Click models on held-out sessions, where the method compares them.
        test: For trust bias, where the method has one.
        share_identified: ``[n_pools]`` how far clicks, and not a prior, determine each.
        weak_ranks: The pools that clicks hardly determine, by name.
        ranker: What training along with it gave, of methods that rank too.
        notes: What a reader should know.
        method: Name of the method that was used.
        why: Why that one.
        overlap: How far documents were seen at several ranks.
        error: Against the truth, where it was given.
    """

    click_model: Any
    pools: RankPools
    clicks: Floats
    inference: Bands
    display: Bands
    average: TrustModel | None = None
    models: Sequence[Compared] = ()
    test: TrustTest | None = None
    share_identified: Floats | None = None
    weak_ranks: tuple[str, ...] = ()
    ranker: Fitted | None = None
    notes: tuple[str, ...] = ()
    method: str = ""
    why: str = ""
    overlap: Overlap = field(default_factory=Overlap)
    error: GaugeError | None = None

    @classmethod
    def of(
        cls,
        click_model: TrustModel,
        rows: ClickRows,
        replicates: Sequence[TrustModel] = (),
    ) -> Estimate:
        """Describe users with values at every rank; bands are from replicates."""
        seen = rows.by_rank(rows.impressions)
        gauges = partial(inference_gauge, impressions=seen), display_gauge
        bands = [replicate_bands(click_model, replicates, gauge) for gauge in gauges]
        pools = RankPools(np.arange(len(seen)), seen)
        return cls(click_model, pools, rows.by_rank(rows.clicks), bands[0], bands[1])

    def _line(self) -> str:
        found = ""
        if self.test is not None:
            found = f", trust bias {'found' if self.test.found else 'not found'}"
        return f"by {self.method}: {self.pools.n_pools} ranks or pools{found}"

    def _rows(self) -> list[dict[str, Any]]:
        """Alpha and beta of ranks; the scale is 1 and 0 at the first."""
        names = ("ranks", "impressions", "clicks")
        shown = [(row["display"], row) for row in self.by_rank()]
        return [{**{name: row[name] for name in names}, **own} for own, row in shown]

    def by_rank(self) -> list[dict[str, Any]]:
        """One row per pool: ranks, impressions, clicks, alpha and beta with bands."""
        pools, shown = self.pools, self.average or self.click_model
        first = np.arange(pools.n_pools)
        first = first if self.average else np.searchsorted(pools.of_rank, first)
        columns = {
            "ranks": pools.names,
            "mean_rank": pools.mean_rank,
            "impressions": pools.pool_impressions.astype(int),
            "clicks": self.clicks.astype(int),
            "alpha": shown.alpha[first],
            "beta": shown.beta[first],
            "display": _by_pool(self.display),
            "inference": _by_pool(self.inference),
        }
        return _rows(columns)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for reports."""
        about: dict[str, Any] = {
            "method": self.method,
            "why": self.why,
            "documents": self.overlap.n_docs,
            "documents_at_several_ranks": self.overlap.n_moved,
            "connected": list(self.overlap.connected),
            "by_rank": self.by_rank(),
            "notes": list(self.notes),
        }
        if self.models:
            about["models"] = [row.to_dict() for row in self.models]
        if self.test is not None:
            about["trust_bias"] = {**asdict(self.test), "found": self.test.found}
        if self.error is not None:
            whole = asdict(self.error)
            about["against_truth"] = {
                name: value for name, value in whole.items() if np.isscalar(value)
            }
        return about

    def truth_by_rank(self, truth: TrustModel) -> dict[str, list[float]]:
        """Return the truth by pool, in the gauge for inference, for comparison."""
        by_rank = truth.at_ranks(np.arange(1, len(self.pools.of_rank) + 1))
        alpha, beta = map(self.pools.mean, by_rank)
        pooled = TrustModel(alpha=alpha, beta=beta, identified="relative")
        shown = inference_gauge(pooled, self.pools.pool_impressions)
        return {"alpha": shown.alpha.tolist(), "beta": shown.beta.tolist()}


@dataclass(frozen=True, slots=True, eq=False)
class HeldOutLogs:
    """Held-out queries of several logs; users say what clicks there are worth.

    Attributes:
        features: ``[n_docs, n_features]`` of their documents.
        offsets: ``[n_queries + 1]``.
        targets: For each log, from its users to what judges its ranker.
    """

    features: Matrix
    offsets: Ints
    targets: Sequence[Callable[[Any], Targets]]


@dataclass(frozen=True, slots=True)
class Method:
    """A row of ``METHODS``; it is quick to import, by ``later``.

    Attributes:
        name: Its key.
        title: What figures and messages call it.
        fit: From rows, features ``[n_docs, n_features]`` by document or ``None``,
            settings and progress to an :class:`Estimate`.
        needs_features: Whether it cannot do without features.
        by_context: Whether it tells contexts and segments apart; else they are added
            up first.
        fit_many: Of methods that train rankers too: like ``fit``, from several logs of
            the same documents at once, each with its settings. With ``train_on``
            rankers train to the last epoch after users are found, and ``held_out``, a
            :class:`HeldOutLogs`, chooses an epoch from then on.
        refit: From rows, features, settings, a random generator and a first fit to
            these rows' original to a fit that has ``click_model``, without bands and
            the like; the first fit is made without one. ``None`` if it is too slow to
            be repeated.
    """

    name: str
    title: str
    fit: Callable[..., Estimate]
    needs_features: bool = False
    by_context: bool = False
    fit_many: Callable[..., list[Estimate]] | None = None
    refit: Callable[..., Any] | None = None

    @property
    def ranks_too(self) -> bool:
        """Whether it trains a ranker; a query's documents must be adjacent then."""
        return self.fit_many is not None


def _by_pool(bands: Bands) -> list[dict[str, float]]:
    """Alpha and beta of each pool, with the ends of their bands if there are any."""
    columns = {}
    for name in ("alpha", "beta"):
        columns[name] = getattr(bands, name)
        if bands.known:
            columns[f"{name}_low"], columns[f"{name}_high"] = bands.interval(name)
    return _rows(columns)


def _rows(columns: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Turn columns of equal length into plain rows."""
    plain = (np.asarray(column).tolist() for column in columns.values())
    return [dict(zip(columns, row, strict=True)) for row in zip(*plain, strict=True)]
