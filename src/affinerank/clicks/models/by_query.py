"""The paper's users, whose position bias is steeper for some queries than for others.

Which query has which steepness goes by its number in the data, the same in every run.
Rows must be numbered by the data too, as ``join_counts(counts, data)`` does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from affinerank.clicks.models.given import SettingsModel
from affinerank.clicks.models.model import Shown
from affinerank.clicks.models.trust import TrustSettings, paper_rates
from affinerank.counts.rows import ClickRows
from affinerank.support.arrays import Bools, Floats, Ints, Rng
from affinerank.support.errors import ConfigError


@dataclass(frozen=True, slots=True)
class QuerySettings:
    """The paper's users, with a steepness for each query.

    Attributes:
        eta: Mean steepness of position bias.
        eps_minus_1: Click rate of an irrelevant document examined at rank 1.
        spread: Steepness is uniform from eta - spread to eta + spread.
    """

    eta: float = 1.0
    eps_minus_1: float = 0.65
    spread: float = 0.5

    def __post_init__(self) -> None:
        """Reject what is no probability."""
        TrustSettings(self.eta, self.eps_minus_1)
        if not 0 <= self.spread <= self.eta:
            raise ConfigError(f"spread must be from 0 to eta, got {self.spread:g}")


class ModelByQuery(SettingsModel):
    """Slope and intercept of clicks by rank and query."""

    name: ClassVar[str] = "by-query"
    kind: ClassVar[type] = QuerySettings

    def eta(self, query: Ints) -> Floats:
        """Steepness of each query: its number draws from one fixed stream."""
        drawn = np.random.default_rng(0).random(query.max(initial=0) + 1)[query]
        return np.asarray(self.settings.eta + self.settings.spread * (2.0 * drawn - 1))

    def at(self, rows: ClickRows) -> tuple[Floats, Floats]:
        """Alpha and beta of each row, by its rank and query."""
        theta, plus, minus = self.examination(rows)
        return theta * (plus - minus), theta * minus

    def examination(self, rows: ClickRows) -> tuple[Floats, Floats, Floats]:
        """Theta, eps+ and eps- of each row."""
        return paper_rates(rows.rank, self.eta(rows.query), self.settings.eps_minus_1)

    def click(self, shown: Shown, rng: Rng) -> Bools:
        """Draw clicks, each impression by itself."""
        theta, plus, minus = paper_rates(
            shown.rank, self.eta(shown.query), self.settings.eps_minus_1
        )
        rate = theta * (minus + (plus - minus) * shown.relevance)
        return rng.random(len(rate)) < rate


ROW = ModelByQuery.row("Other users for each query")
