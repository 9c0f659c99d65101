r"""Users with position and trust bias: clicks are affine in relevance at every rank.

.. math::

    P(C = 1 \mid q, d, k) = \alpha_k \gamma_{qd} + \beta_k, \qquad
    \alpha_k = \theta_k (\epsilon^+_k - \epsilon^-_k), \qquad
    \beta_k = \theta_k \epsilon^-_k

A :class:`TrustModel` only runs forward: simulation draws from it, estimation returns
one, so truth and estimate have one type.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from affinerank.clicks.models.affine import AffineModel, EstimatedBy
from affinerank.clicks.models.model import ClickModelKind, Shown, require_shares
from affinerank.support.arrays import Bools, Floats, Ints, Rng
from affinerank.support.errors import ConfigError

__all__ = ["ROW", "EstimatedBy", "TrustModel", "TrustSettings", "paper_rates"]


@dataclass(frozen=True, slots=True)
class TrustSettings:
    """The users simulated in the paper.

    Attributes:
        eta: Steepness of position bias.
        eps_minus_1: Click rate of an irrelevant document examined at rank 1.
    """

    eta: float = 1.0
    eps_minus_1: float = 0.65

    def __post_init__(self) -> None:
        """Reject what is no probability."""
        require_shares(self, "eps_minus_1")
        if not self.eta >= 0:
            raise ConfigError(f"eta must be 0 or more, got {self.eta:g}")

    def __str__(self) -> str:
        """The setting as the paper's figures write it."""
        return f"η = {self.eta:g}, ε⁻₁ = {self.eps_minus_1:g}"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, repr=False)
class TrustModel(AffineModel):
    """Slope and intercept of clicks by rank; build one with the class methods.

    >>> users = TrustModel.from_eps([1.0, 0.5], [0.9, 0.9], [0.5, 0.1])
    >>> users.alpha.tolist(), users.beta.tolist()
    ([0.4, 0.4], [0.5, 0.05])
    """

    name: ClassVar[str] = "trust"

    @classmethod
    def paper(
        cls, *, eta: float = 1.0, eps_minus_1: float = 0.65, depth: int = 20
    ) -> TrustModel:
        """Build the users simulated in the paper, as :func:`paper_rates` has them."""
        if depth < 1:
            raise ConfigError(f"depth must be 1 or more, got {depth}")
        family = TrustSettings(eta, eps_minus_1)
        rates = paper_rates(np.arange(1, depth + 1), eta, eps_minus_1)
        return cls.from_eps(*rates, provenance={"family": "paper", **asdict(family)})

    @classmethod
    def position_bias(cls, theta: ArrayLike) -> TrustModel:
        """Build users who click what they examine if and only if it is relevant."""
        examined = np.asarray(theta, dtype=np.float64)
        return cls.from_eps(examined, np.ones_like(examined), np.zeros_like(examined))

    @property
    def zeta_plus(self) -> Floats:
        """``[depth]`` click rate of a relevant document."""
        self._require_rates("zeta_plus")
        return self.alpha + self.beta

    @property
    def zeta_minus(self) -> Floats:
        """``[depth]`` click rate of an irrelevant document."""
        self._require_rates("zeta_minus")
        return self.beta

    @property
    def theta(self) -> Floats:
        """``[depth]`` examination; zeta+ by convention where only zeta is known."""
        return self._parts("theta")[0, :]

    @property
    def eps_plus(self) -> Floats:
        """``[depth]`` click rate of an examined relevant document; 1 by convention."""
        return self._parts("eps_plus")[1, :]

    @property
    def eps_minus(self) -> Floats:
        """``[depth]`` click rate of an examined irrelevant one; else zeta-/zeta+."""
        return self._parts("eps_minus")[2, :]

    def at_ranks(self, ranks: ArrayLike) -> tuple[Floats, Floats]:
        """Alpha and beta at each of ``ranks``, which count from 1.

        Ranks deeper than ``depth`` take the values of the last one, with a warning.
        """
        index = self._places(ranks)
        return self.alpha[index], self.beta[index]

    def click_probability(self, rank: ArrayLike, relevance: ArrayLike) -> Floats:
        """P(click) of a document of this relevance at this rank: alpha gamma + beta."""
        alpha, beta = self.at_ranks(rank)
        return alpha * np.asarray(relevance, dtype=np.float64) + beta

    def click(self, shown: Shown, rng: Rng) -> Bools:
        """Draw clicks, each impression by itself."""
        rate = self.click_probability(shown.rank, shown.relevance)
        return rng.random(len(rate)) < rate


def paper_rates(
    rank: Ints, eta: float | Floats, eps_minus_1: float
) -> tuple[Floats, Floats, Floats]:
    r"""Theta, eps+ and eps- of the paper's users; they do not change after rank 20.

    .. math::

        \theta_k = \min(k, 20)^{-\eta}, \qquad
        \epsilon^+_k = 1 - (\min(k, 20) + 1) / 100, \qquad
        \epsilon^-_k = \epsilon^-_1 / \min(k, 10)
    """
    capped = np.minimum(rank, 20.0)
    theta, plus = (1.0 / capped) ** eta, 1.0 - (capped + 1.0) / 100.0
    return theta, plus, eps_minus_1 / np.minimum(rank, 10.0)


def _make(settings: TrustSettings, depth: int) -> TrustModel:
    return TrustModel.paper(**asdict(settings), depth=depth)


ROW = ClickModelKind(
    TrustModel.name,
    "Position and trust bias",
    TrustSettings,
    _make,
    TrustModel.from_dict,
)
