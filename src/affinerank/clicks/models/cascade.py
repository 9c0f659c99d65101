"""Users who read down the list until they click, and leave with that click."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from affinerank.clicks.models.browsing import FURTHEST, BrowsingModel
from affinerank.clicks.models.model import ClickModelKind, require_shares

NAME = "cascade"


@dataclass(frozen=True, slots=True)
class CascadeSettings:
    """Users of one click, without trust bias.

    Attributes:
        eps_plus: Click rate of a relevant document examined.
        eps_minus: Click rate of an irrelevant one.
        persistence: Before the first click rank k is examined with probability
            persistence^(k-1), whatever was examined above; the same after rank 20.
    """

    eps_plus: float = 0.98
    eps_minus: float = 0.05
    persistence: float = 1.0

    def __post_init__(self) -> None:
        """Reject what is no probability."""
        require_shares(self, "eps_plus", "eps_minus", "persistence")


def _make(settings: CascadeSettings, depth: int) -> BrowsingModel:
    theta = np.zeros((depth, 2))  # column 1: after a click
    theta[:, 0] = settings.persistence ** np.minimum(np.arange(depth), FURTHEST - 1.0)
    plus, minus = 0 * theta + settings.eps_plus, 0 * theta + settings.eps_minus
    about = {"family": NAME, **asdict(settings)}
    return BrowsingModel.from_eps(theta, plus, minus, provenance=about)


ROW = ClickModelKind(
    NAME, "Cascade to the first click", CascadeSettings, _make, BrowsingModel.from_dict
)
