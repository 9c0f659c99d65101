"""Plackett-Luce: draw each list anew, in proportion to exp(score / temperature)."""

from __future__ import annotations

from dataclasses import dataclass

from affinerank.clicks.policies.policy import ListBlock, PolicyKind, Shared
from affinerank.support.arrays import Floats, Ints, Rng
from affinerank.support.errors import ConfigError
from affinerank.support.plackett_luce import draw_orders, rank_chances


@dataclass(frozen=True, slots=True)
class PlackettLuce(Shared):
    """Draw lists by scores divided by a temperature: the lower, the fewer changes."""

    temperature: float = 1.0

    def __post_init__(self) -> None:
        """Reject what cannot be drawn."""
        Shared.__post_init__(self)
        if not self.temperature >= 1e-3:
            raise ConfigError(
                f"temperature must be 0.001 or more, got {self.temperature:g}"
            )

    def orders(self, group: ListBlock, rng: Rng) -> Ints:
        """Sort by score and Gumbel noise."""
        return draw_orders(group.scores / self.temperature, rng)

    def chances(self, group: ListBlock) -> Floats:
        """Integrate, or take the mean over sampled lists."""
        return rank_chances(group.scores / self.temperature, group.depth)


ROW = PolicyKind("plackett-luce", "Plackett-Luce", PlackettLuce)
