r"""Users with position and trust bias: clicks are affine in relevance at every rank.

.. math::

    P(C = 1 \mid q, d, k) = \alpha_k \gamma_{qd} + \beta_k, \qquad
    \alpha_k = \theta_k (\epsilon^+_k - \epsilon^-_k), \qquad
    \beta_k = \theta_k \epsilon^-_k

A :class:`TrustModel` only runs forward: simulation draws from it, estimation returns
one, so truth and estimate have one type. What is known of it differs:

- ``eps``: examination theta and the two click rates eps+ and eps-: everything;
- ``zeta``: the click rates of relevant and irrelevant documents, zeta+ = alpha + beta
  and zeta- = beta, whose parts clicks cannot tell apart. By convention theta = zeta+,
  eps+ = 1 and eps- = zeta- / zeta+ then;
- ``gauge``: alpha up to a factor, and beta up to a multiple of alpha. Enough to rank,
  not enough to speak of probabilities.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, get_args

import numpy as np
from numpy.typing import ArrayLike

from affinerank import limits
from affinerank.arrays import Bools, Floats, Ints
from affinerank.clicks.models.model import (
    ClickModelKind,
    Identified,
    Shown,
    save_users,
)
from affinerank.clicks.rows import ClickRows
from affinerank.errors import AffineRankWarning, ConfigError, DataError

PARTS = ("theta", "eps_plus", "eps_minus")


@dataclass(frozen=True, slots=True)
class EstimatedBy:
    """How a model was estimated from clicks: what a refit has to repeat.

    Attributes:
        method: Of ``METHODS``.
        features: Whether features took part.
        least_clicks: Ranks with fewer were pooled with the next.
    """

    method: str
    features: bool = False
    least_clicks: float = 200.0


@dataclass(frozen=True, slots=True)
class PaperUsers:
    """The users simulated in the paper.

    Attributes:
        eta: Steepness of position bias.
        eps_minus_1: Click rate of an irrelevant document examined at rank 1.
    """

    eta: float = 1.0
    eps_minus_1: float = 0.65

    def __post_init__(self) -> None:
        """Reject what is no probability."""
        if not 0 <= self.eps_minus_1 <= 1:
            raise ConfigError(
                f"eps_minus_1 must be from 0 to 1, got {self.eps_minus_1:g}"
            )
        if not self.eta >= 0:
            raise ConfigError(f"eta must be 0 or more, got {self.eta:g}")

    def __str__(self) -> str:
        """The setting as the paper's figures write it."""
        return f"η = {self.eta:g}, ε⁻₁ = {self.eps_minus_1:g}"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class TrustModel:
    """Slope and intercept of clicks by rank; build one with the class methods.

    Attributes:
        alpha: ``[depth]`` slope at ranks 1, 2, ...
        beta: ``[depth]`` intercept.
        identified: What is known: ``eps``, ``zeta`` or ``gauge``.
        provenance: How and from what it came, for the reader of its file.
        estimated: How it was estimated from clicks; ``None`` if it was given.
        span: Least and most relevance: 0 and 1 unless known up to gauge only; ``None``
            where nobody says.
    """

    name: ClassVar[str] = "trust"

    alpha: Floats
    beta: Floats
    identified: Identified
    provenance: Mapping[str, Any] = field(default_factory=dict)
    estimated: EstimatedBy | None = None
    span: tuple[float, float] | None = None
    _eps: Floats | None = None  # theta, eps+ and eps-, one after another

    def __post_init__(self) -> None:
        """Check and freeze the arrays."""
        if self.identified not in get_args(Identified):
            known = ", ".join(get_args(Identified))
            raise ConfigError(f"identified must be {known}, got {self.identified!r}")
        if (self.identified == "eps") != (self._eps is not None):
            raise ConfigError("a model identified as eps is made by from_eps alone")
        alpha, beta = _by_rank(alpha=self.alpha, beta=self.beta)
        object.__setattr__(self, "alpha", alpha)
        object.__setattr__(self, "beta", beta)
        if self.identified != "gauge":
            object.__setattr__(self, "span", (0.0, 1.0))
        if self.span is not None and not self.span[0] < self.span[1]:
            raise DataError(f"span must be two rising numbers, got {self.span}")
        for relevance in self.span or ():
            rate = f"the click probability of relevance {relevance:g}"
            _require_shares(rate, alpha * relevance + beta)

    @classmethod
    def from_eps(
        cls,
        theta: ArrayLike,
        eps_plus: ArrayLike,
        eps_minus: ArrayLike,
        **about: Any,
    ) -> TrustModel:
        """Build from examination and the click rates of examined documents.

        >>> users = TrustModel.from_eps([1.0, 0.5], [0.9, 0.9], [0.5, 0.1])
        >>> users.alpha.tolist(), users.beta.tolist()
        ([0.4, 0.4], [0.5, 0.05])
        """
        parts = _by_rank(theta=theta, eps_plus=eps_plus, eps_minus=eps_minus)
        for name, part in zip(PARTS, parts, strict=True):
            _require_shares(name, part)
        examined, plus, minus = parts
        alpha, beta = examined * (plus - minus), examined * minus
        return cls(alpha=alpha, beta=beta, identified="eps", _eps=parts, **about)

    @classmethod
    def from_zeta(
        cls, zeta_plus: ArrayLike, zeta_minus: ArrayLike, **about: Any
    ) -> TrustModel:
        """Build from the click rates of relevant and of irrelevant documents."""
        plus, minus = _by_rank(zeta_plus=zeta_plus, zeta_minus=zeta_minus)
        return cls(alpha=plus - minus, beta=minus, identified="zeta", **about)

    @classmethod
    def paper(
        cls, *, eta: float = 1.0, eps_minus_1: float = 0.65, depth: int = 20
    ) -> TrustModel:
        r"""Build the users simulated in the paper; they do not change after rank 20.

        .. math::

            \theta_k = \min(k, 20)^{-\eta}, \qquad
            \epsilon^+_k = 1 - (\min(k, 20) + 1) / 100, \qquad
            \epsilon^-_k = \epsilon^-_1 / \min(k, 10)
        """
        if depth < 1:
            raise ConfigError(f"depth must be 1 or more, got {depth}")
        family = PaperUsers(eta, eps_minus_1)
        rank = np.arange(1.0, depth + 1.0)
        capped = np.minimum(rank, 20)
        return cls.from_eps(
            (1.0 / capped) ** eta,
            1.0 - (capped + 1.0) / 100.0,
            eps_minus_1 / np.minimum(rank, 10),
            provenance={"family": "paper", **asdict(family)},
        )

    @classmethod
    def position_bias(cls, theta: ArrayLike) -> TrustModel:
        """Build users who click what they examine if and only if it is relevant."""
        examined = np.asarray(theta, dtype=np.float64)
        return cls.from_eps(examined, np.ones_like(examined), np.zeros_like(examined))

    @property
    def depth(self) -> int:
        """Number of ranks with values of their own."""
        return len(self.alpha)

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

    def at(self, rows: ClickRows) -> tuple[Floats, Floats]:
        """Alpha and beta of each row, by its rank."""
        return self.at_ranks(rows.rank)

    def at_ranks(self, ranks: ArrayLike) -> tuple[Floats, Floats]:
        """Alpha and beta at each of ``ranks``, which count from 1.

        Ranks deeper than ``depth`` take the values of the last one, with a warning.
        """
        index = self._places(ranks)
        return self.alpha[index], self.beta[index]

    def examination(self, rows: ClickRows) -> tuple[Floats, Floats, Floats]:
        """Theta, eps+ and eps- of each row; warns where they are a convention."""
        if self.identified == "zeta":
            warnings.warn(
                "the click model knows click rates only, so theta is taken to be "
                "zeta+, eps+ to be 1 and eps- to be zeta-/zeta+",
                AffineRankWarning,
                stacklevel=3,
            )
        theta, plus, minus = self._parts("theta")[:, self._places(rows.rank)]
        return theta, plus, minus

    def to_depth(self, depth: int) -> TrustModel:
        """Return the model down to rank ``depth`` at least, as :meth:`at` has it."""
        if depth <= self.depth:
            return self
        index = self._places(np.arange(1, depth + 1))
        if self._eps is None:
            return replace(self, alpha=self.alpha[index], beta=self.beta[index])
        return TrustModel.from_eps(
            *self._eps[:, index], provenance=self.provenance, estimated=self.estimated
        )

    def click_probability(self, rank: ArrayLike, relevance: ArrayLike) -> Floats:
        """P(click) of a document of this relevance at this rank: alpha gamma + beta."""
        alpha, beta = self.at_ranks(rank)
        return alpha * np.asarray(relevance, dtype=np.float64) + beta

    def click(self, shown: Shown, rng: np.random.Generator) -> Bools:
        """Draw clicks, each impression by itself."""
        rate = self.click_probability(shown.rank, shown.relevance)
        return rng.random(len(rate)) < rate

    def require_probabilities(self) -> None:
        """Reject a model whose click probabilities leave [0, 1] at some rank."""
        rates = {"an irrelevant": self.beta, "a relevant": self.alpha + self.beta}
        for name, rate in rates.items():
            # Rounding may leave alpha + beta a hair outside.
            bad = np.flatnonzero((rate < -1e-12) | (rate > 1 + 1e-12))
            if bad.size:
                raise DataError(
                    f"rank {bad[0] + 1}: the click probability of {name} document "
                    f"must be from 0 to 1, got {rate[bad[0]]:g} ({bad.size} such "
                    "ranks); a model known only up to gauge cannot be simulated"
                )

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, as :meth:`from_dict` takes it."""
        about: dict[str, Any] = {
            "model": self.name,
            "identified": self.identified,
            "alpha": self.alpha.tolist(),
            "beta": self.beta.tolist(),
        }
        if self._eps is not None:
            about |= zip(PARTS, self._eps.tolist(), strict=True)
        if self.estimated is not None:
            about["estimated"] = asdict(self.estimated)
        if self.identified == "gauge" and self.span is not None:
            about["span"] = list(self.span)
        return about | {"provenance": dict(self.provenance)}

    @classmethod
    def from_dict(cls, about: Mapping[str, Any]) -> TrustModel:
        """Build from what :meth:`to_dict` gives, or gave in version 0.1."""
        provenance = about.get("provenance") or {}
        if not isinstance(provenance, Mapping):
            raise DataError(f"provenance must be an object, got {provenance!r:.60}")
        known: dict[str, Any] = {"provenance": provenance}
        known["estimated"] = _estimated(about, provenance)
        if about["identified"] != "eps":
            known |= {name: about[name] for name in ("alpha", "beta", "identified")}
            if about.get("span") is not None:
                low, high = about["span"]
                known["span"] = (float(low), float(high))
            return _read(cls(**known))
        model = cls.from_eps(*(about[name] for name in PARTS), **known)
        for name in ("alpha", "beta"):
            if not np.allclose(getattr(model, name), about[name], atol=1e-9):
                raise DataError(f"{name} does not follow from theta, eps+ and eps-")
        return _read(model)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model as JSON, for ``load_users``."""
        save_users(self, path)

    def _places(self, ranks: ArrayLike) -> Ints:
        wanted = np.asarray(ranks, dtype=np.int64)
        if wanted.size and wanted.min() < 1:
            raise DataError(f"ranks count from 1, got {wanted.min()}")
        if wanted.size and wanted.max() > self.depth:
            warnings.warn(
                f"the user model ends at rank {self.depth}; deeper ranks, down to "
                f"{wanted.max()}, take its values there",
                AffineRankWarning,
                stacklevel=3,
            )
        return np.minimum(wanted, self.depth) - 1

    def _require_rates(self, name: str) -> None:
        if self.identified == "gauge":
            raise ConfigError(
                f"{name} is not known: this user model is known only up to gauge"
            )

    def _parts(self, name: str) -> Floats:
        """``[3, depth]`` examination, eps+ and eps-."""
        self._require_rates(name)
        if self._eps is not None:
            return self._eps
        plus = self.alpha + self.beta
        ratio = np.divide(self.beta, plus, out=np.zeros_like(plus), where=plus != 0)
        return np.stack([plus, np.ones_like(plus), ratio])


def _estimated(
    about: Mapping[str, Any], provenance: Mapping[str, Any]
) -> EstimatedBy | None:
    """How the model was estimated; version 0.1 kept it in the provenance."""
    if "estimated" in about:
        found = about["estimated"]
    elif "estimated_by" in provenance:
        by = provenance["estimated_by"]
        by = provenance["activation"] if by == "em" else by  # a method of its own now
        found = {"features": True, "least_clicks": 200.0, **provenance, "method": by}
    else:
        return None
    return EstimatedBy(
        str(found["method"]), bool(found["features"]), float(found["least_clicks"])
    )


def _read(model: TrustModel) -> TrustModel:
    """Return a model from a file, unless it is too deep or divides too far."""
    least, size = limits.LEAST_ALPHA, np.abs(model.alpha)
    bad = np.flatnonzero((size > 0) & ~((size >= least) & (size <= 1 / least)))
    if bad.size:
        raise DataError(
            f"alpha at rank {bad[0] + 1} must be 0, or from {least:g} to "
            f"{1 / least:g}, got {model.alpha[bad[0]]:g}"
        )
    if model.depth > limits.MAX_RANK:
        raise DataError(f"ranks go down to {limits.MAX_RANK}, got {model.depth}")
    return model


def _require_shares(name: str, values: Floats) -> None:
    """Reject what leaves [0, 1] by more than rounding."""
    bad = np.flatnonzero(~(np.abs(values - 0.5) <= 0.5 + 1e-6))
    if bad.size:
        raise DataError(
            f"{name} at rank {bad[0] + 1} must be from 0 to 1, got {values[bad[0]]:g}"
        )


def _by_rank(**columns: ArrayLike) -> Floats:
    """Check and stack columns of one number per rank, of one depth; freeze them."""
    arrays = {name: np.asarray(v, dtype=np.float64) for name, v in columns.items()}
    for name, array in arrays.items():
        if array.ndim != 1 or not len(array):
            raise DataError(
                f"{name} must be one number per rank, got shape {array.shape}"
            )
        bad = np.flatnonzero(~np.isfinite(array))
        if bad.size:
            raise DataError(
                f"{name} at rank {bad[0] + 1} must be finite, got {array[bad[0]]}"
            )
    sizes = {name: len(array) for name, array in arrays.items()}
    if len(set(sizes.values())) > 1:
        raise DataError(f"give all for the same ranks, got ranks of each: {sizes}")
    whole = np.stack(list(arrays.values()))
    whole.setflags(write=False)
    return whole


def _make(settings: PaperUsers, depth: int) -> TrustModel:
    return TrustModel.paper(**asdict(settings), depth=depth)


ROW = ClickModelKind(
    TrustModel.name, "Position and trust bias", PaperUsers, _make, TrustModel.from_dict
)
