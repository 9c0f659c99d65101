"""How users click, as it was estimated: by rank, with bands, and in words."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from affinerank.bias.gauge import GaugeError, inference_gauge
from affinerank.bias.interventions import Overlap
from affinerank.bias.pooling import RankPools
from affinerank.bias.trust import TrustTest
from affinerank.bias.uncertainty import Bands
from affinerank.clicks.usermodel import UserModel

Floats = NDArray[np.float64]


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
        alpha, beta = truth.at(np.arange(1, len(self.pools.of_rank) + 1))
        pooled = UserModel(
            alpha=self.pools.mean(alpha),
            beta=self.pools.mean(beta),
            identified="gauge",
        )
        shown = inference_gauge(pooled, self.pools.pool_impressions)
        return {"alpha": shown.alpha.tolist(), "beta": shown.beta.tolist()}


def _banded(bands: Bands, i: int) -> dict[str, float]:
    row = {}
    for name in ("alpha", "beta"):
        row[name] = float(getattr(bands, name)[i])
        if bands.known:
            low, high = bands.interval(name)
            row[f"{name}_low"], row[f"{name}_high"] = float(low[i]), float(high[i])
    return row
