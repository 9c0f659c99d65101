r"""Users who go on from their last click: clicks are affine given rank and last click.

.. math::

    P(C = 1 \mid q, d, k, s) = \alpha_{k,s} \gamma_{qd} + \beta_{k,s}

at rank k, where s is the rank of the last click above in the session, or 0 for none.
Examination goes by k - s, as the user browsing model of Dupret and Piwowarski (2008)
has it; its click rates are those of the trust model.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import ClassVar

import numpy as np

from affinerank.clicks.models.affine import AffineModel
from affinerank.clicks.models.model import ClickModelKind, Shown
from affinerank.clicks.models.trust import TrustModel, TrustSettings, paper_rates
from affinerank.counts.rows import ClickRows
from affinerank.support.arrays import Bools, Ints, Rng
from affinerank.support.errors import DataError

FURTHEST = 20  # examination does not change any more, as in the paper


@dataclass(frozen=True, slots=True)
class BrowsingSettings:
    """The paper's users, whose examination falls from their last click on.

    Attributes:
        eta: Steepness: examination at a distance d from the last click is d^-eta.
        eps_minus_1: Click rate of an irrelevant document examined at rank 1.
    """

    eta: float = 1.0
    eps_minus_1: float = 0.65

    def __post_init__(self) -> None:
        """Reject what the paper's users reject."""
        TrustSettings(self.eta, self.eps_minus_1)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, repr=False)
class BrowsingModel(AffineModel):
    """Slope and intercept of clicks by rank and distance to the last click above.

    ``alpha`` and ``beta`` are ``[depth, reach + 1]``. Column 0: no click above; column
    j: the last click was j ranks above; the last column: that far or further.

    >>> users = BrowsingModel.from_zeta([[0.9, 0.9], [0.5, 0.8]], [[0.1, 0], [0, 0.2]])
    >>> users.alpha.round(3).tolist()
    [[0.8, 0.9], [0.5, 0.6]]
    """

    name: ClassVar[str] = "browsing"
    shape: ClassVar[str] = "a list of numbers per rank, one for each distance"
    n_axes: ClassVar[int] = 2

    @property
    def reach(self) -> int:
        """Furthest distance to the last click that has values of its own."""
        return int(self.alpha.shape[1]) - 1

    def click(self, shown: Shown, rng: Rng) -> Bools:
        """Draw clicks down the lists, each after those above it."""
        place = self._places(shown.rank)
        clicked = np.zeros(len(place), dtype=bool)
        last = np.zeros(len(place), dtype=np.int64)  # of each list, with room to spare
        for these, lists in shown.down():
            cell = place[these], self._columns(shown.rank[these], last[lists])
            rate = self.alpha[cell] * shown.relevance[these] + self.beta[cell]
            clicked[these] = rng.random(len(these)) < rate
            last[lists] = np.where(clicked[these], shown.rank[these], last[lists])
        return clicked

    def by_rank(self, rows: ClickRows) -> TrustModel:
        """Average alpha and beta at each rank over impressions, as if by rank alone.

        Ranks without impressions have the values of lists without a click above.
        """
        click_model, total = self.to_depth(rows.depth), rows.by_rank(rows.impressions)
        known = np.flatnonzero(total)
        means = click_model.alpha[:, 0].copy(), click_model.beta[:, 0].copy()
        for mean, values in zip(means, click_model.at(rows), strict=True):
            mean[known] = rows.by_rank(values * rows.impressions)[known] / total[known]
        return TrustModel(
            alpha=means[0],
            beta=means[1],
            identified="relative" if self.identified == "relative" else "click-rates",
            provenance=self.provenance,
            estimated=self.estimated,
            span=self.span,
        )

    def _cells(self, rows: ClickRows) -> tuple[Ints, ...]:
        if not rows.has_context:
            raise DataError(
                "these users go by their last click above, which the counts do not "
                "have: count with --context last-click"
            )
        return self._places(rows.rank), self._columns(rows.rank, rows.context)

    def _columns(self, rank: Ints, last: Ints) -> Ints:
        return np.minimum(np.where(last > 0, rank - last, 0), self.reach)


def _make(settings: BrowsingSettings, depth: int) -> BrowsingModel:
    eta, irrelevant = settings.eta, settings.eps_minus_1
    distance = np.tile(np.arange(min(depth, FURTHEST) + 1), (depth, 1))
    rank = np.broadcast_to(np.arange(1, depth + 1)[:, None], distance.shape)
    distance[:, 0] = rank[:, 0]
    theta, _, _ = paper_rates(distance, eta, irrelevant)
    _, plus, minus = paper_rates(rank, eta, irrelevant)
    about = {"family": "paper", **asdict(settings)}
    return BrowsingModel.from_eps(theta, plus, minus, provenance=about)


ROW = ClickModelKind(
    BrowsingModel.name,
    "Browsing from the last click",
    BrowsingSettings,
    _make,
    BrowsingModel.from_dict,
)
