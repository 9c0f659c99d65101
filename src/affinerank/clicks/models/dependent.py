"""Users who may stop after each click: the dependent click model of Guo et al. (2009).

They read down the list; after a click they go on with some probability, without one
always. Rank k is examined after a click at s less surely where the documents between
attract clicks: the slope is not a function of rank and last click.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NoReturn

import numpy as np

from affinerank.clicks.models.given import SettingsModel
from affinerank.clicks.models.model import Shown, require_shares
from affinerank.counts.rows import ClickRows
from affinerank.support.arrays import Bools, Rng
from affinerank.support.errors import ConfigError


@dataclass(frozen=True, slots=True)
class DependentSettings:
    """Users of several clicks, without trust bias.

    Attributes:
        stay: Probability to go on after a click at rank 1.
        decay: It falls with the rank k of the click as k^-decay.
        eps_plus: Click rate of a relevant document examined.
        eps_minus: Click rate of an irrelevant one.
    """

    stay: float = 0.6
    decay: float = 0.0
    eps_plus: float = 0.98
    eps_minus: float = 0.05

    def __post_init__(self) -> None:
        """Reject what is no probability."""
        require_shares(self, "stay", "eps_plus", "eps_minus")
        if not self.decay >= 0:
            raise ConfigError(f"decay must be 0 or more, got {self.decay:g}")


class DependentClicks(SettingsModel):
    """Users who may stop after each click."""

    name: ClassVar[str] = "dependent-click"
    kind: ClassVar[type] = DependentSettings

    def at(self, rows: ClickRows) -> NoReturn:
        """Refuse: clicks are not affine by rank and last click."""
        raise ConfigError(
            "no correction exists for dependent clicks: their slope depends on the "
            f"documents between (asked for {len(rows)} rows); give other users"
        )

    examination = at

    def click(self, shown: Shown, rng: Rng) -> Bools:
        """Draw clicks down the lists, each after those above it."""
        plus, minus = self.settings.eps_plus, self.settings.eps_minus
        rate = minus + (plus - minus) * shown.relevance
        stay = self.settings.stay * (1.0 / shown.rank) ** self.settings.decay
        clicked = np.zeros(len(rate), dtype=bool)
        reads = np.ones(len(rate), dtype=bool)  # of each list, with room to spare
        for these, lists in shown.down():
            wants, stays = rng.random((2, len(these))) < (rate[these], stay[these])
            clicked[these] = reads[lists] & wants
            reads[lists] &= stays | ~clicked[these]
        return clicked


ROW = DependentClicks.row("Dependent clicks")
