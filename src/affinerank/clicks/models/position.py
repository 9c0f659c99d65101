"""Users with position bias alone: what they examine, they click by relevance."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from affinerank.clicks.models.model import ClickModelKind, require_shares
from affinerank.clicks.models.trust import TrustModel, TrustSettings, paper_rates

NAME = "position-based"


@dataclass(frozen=True, slots=True)
class PositionSettings:
    """Users who trust no rank more than another.

    Attributes:
        eta: Steepness of position bias.
        eps_plus: Click rate of a relevant document examined at any rank.
        eps_minus: Click rate of an irrelevant one.
    """

    eta: float = 1.0
    eps_plus: float = 0.98
    eps_minus: float = 0.0

    def __post_init__(self) -> None:
        """Reject what is no probability."""
        TrustSettings(self.eta)
        require_shares(self, "eps_plus", "eps_minus")


def _make(settings: PositionSettings, depth: int) -> TrustModel:
    theta, _, _ = paper_rates(np.arange(1, depth + 1), settings.eta, 0.0)
    rates = (np.full(depth, rate) for rate in (settings.eps_plus, settings.eps_minus))
    about = {"family": NAME, **asdict(settings)}
    return TrustModel.from_eps(theta, *rates, provenance=about)


ROW = ClickModelKind(
    NAME, "Position bias alone", PositionSettings, _make, TrustModel.from_dict
)
