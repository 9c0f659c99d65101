"""Models whose clicks are affine in relevance, with a slope and intercept per cell.

A cell is a rank, or a rank and what was clicked above. What is known differs:

- ``examination``: examination theta and the two click rates eps+ and eps-: everything;
- ``click-rates``: the click rates of relevant and irrelevant documents, zeta+ =
  alpha + beta and zeta- = beta, whose parts clicks cannot tell apart. By convention
  theta = zeta+, eps+ = 1 and eps- = zeta- / zeta+ then;
- ``relative``: alpha up to a factor, and beta up to a multiple of alpha. Enough to
  rank, not enough to speak of probabilities.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Self, get_args

import numpy as np
from numpy.typing import ArrayLike

from affinerank.clicks.models.model import BaseClickModel, Identified
from affinerank.counts.rows import ClickRows
from affinerank.support import limits
from affinerank.support.arrays import Bools, Floats, Ints
from affinerank.support.errors import ConfigError, DataError, warn
from affinerank.support.settings import require_choice

PARTS = ("theta", "eps_plus", "eps_minus")


@dataclass(frozen=True, slots=True)
class EstimatedBy:
    """How a model was estimated from clicks: what a refit has to repeat.

    Attributes:
        method: Of ``METHODS``.
        features: Whether features took part.
        min_clicks: Ranks with fewer were pooled with the next.
    """

    method: str
    features: bool = False
    min_clicks: float = 200.0


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, repr=False)
class AffineModel(BaseClickModel):
    """Slope and intercept of clicks by cell; build one with the class methods.

    Attributes:
        alpha: ``[depth, ...]`` slope at ranks 1, 2, ...
        beta: ``[depth, ...]`` intercept.
        identified: What is known: ``examination``, ``click-rates`` or ``relative``.
        provenance: How and from what it came, for the reader of its file.
        estimated: How it was estimated from clicks; ``None`` if it was given.
        span: Least and most relevance: 0 and 1 unless known up to gauge only; ``None``
            where nobody says.
    """

    name: ClassVar[str]
    shape: ClassVar[str] = "one number per rank"
    n_axes: ClassVar[int] = 1

    alpha: Floats
    beta: Floats
    identified: Identified
    provenance: Mapping[str, Any] = field(default_factory=dict)
    estimated: EstimatedBy | None = None
    span: tuple[float, float] | None = None
    _eps: Floats | None = None  # theta, eps+ and eps-, one after another

    def __post_init__(self) -> None:
        """Check and freeze the arrays."""
        require_choice("identified", self.identified, get_args(Identified))
        if (self.identified == "examination") != (self._eps is not None):
            raise ConfigError("a model identified as eps is made by from_eps alone")
        alpha, beta = self._stacked(alpha=self.alpha, beta=self.beta)
        object.__setattr__(self, "alpha", alpha)
        object.__setattr__(self, "beta", beta)
        if self.identified != "relative":
            object.__setattr__(self, "span", (0.0, 1.0))
        if self.span is not None and not self.span[0] < self.span[1]:
            raise DataError(f"span must be two rising numbers, got {self.span}")
        for relevance in self.span or ():
            rate = f"the click probability of relevance {relevance:g}"
            _require_shares(rate, alpha * relevance + beta)

    @classmethod
    def from_eps(
        cls, theta: ArrayLike, eps_plus: ArrayLike, eps_minus: ArrayLike, **about: Any
    ) -> Self:
        """Build from examination and the click rates of examined documents."""
        parts = cls._stacked(theta=theta, eps_plus=eps_plus, eps_minus=eps_minus)
        for name, part in zip(PARTS, parts, strict=True):
            _require_shares(name, part)
        examined, plus, minus = parts
        alpha, beta = examined * (plus - minus), examined * minus
        return cls(
            alpha=alpha, beta=beta, identified="examination", _eps=parts, **about
        )

    @classmethod
    def from_zeta(
        cls, zeta_plus: ArrayLike, zeta_minus: ArrayLike, **about: Any
    ) -> Self:
        """Build from the click rates of relevant and of irrelevant documents."""
        plus, minus = cls._stacked(zeta_plus=zeta_plus, zeta_minus=zeta_minus)
        return cls(alpha=plus - minus, beta=minus, identified="click-rates", **about)

    def _line(self) -> str:
        few = ", ".join(f"{alpha:.3g}" for alpha in self.alpha.ravel()[:3])
        return f"{self.depth} ranks, identified: {self.identified}, alpha: {few}, ..."

    def _rows(self) -> list[dict[str, Any]]:
        """Alpha and beta by rank, and by what else they depend on."""
        parts = {"alpha": self.alpha, "beta": self.beta}
        if self._eps is not None:
            parts |= dict(zip(PARTS, self._eps, strict=True))
        rows = []
        for rank, *distance in np.ndindex(self.alpha.shape):
            at = {"rank": rank + 1, **dict(zip(["distance"], distance, strict=False))}
            values = {n: float(part[rank, *distance]) for n, part in parts.items()}
            rows.append(at | values)
        return rows

    @property
    def depth(self) -> int:
        """Number of ranks with values of their own."""
        return len(self.alpha)

    def at(self, rows: ClickRows) -> tuple[Floats, Floats]:
        """Alpha and beta of each row, by its cell."""
        cells = self._cells(rows)
        return self.alpha[cells], self.beta[cells]

    def examination(self, rows: ClickRows) -> tuple[Floats, Floats, Floats]:
        """Theta, eps+ and eps- of each row; warns where they are a convention."""
        if self.identified == "click-rates":
            warn(
                "the click model knows click rates only, so theta is taken to be "
                "zeta+, eps+ to be 1 and eps- to be zeta-/zeta+"
            )
        parts, cells = self._parts("theta"), self._cells(rows)
        theta, plus, minus = (part[cells] for part in parts)
        return theta, plus, minus

    def to_depth(self, depth: int) -> Self:
        """Return the model down to rank ``depth`` at least, as :meth:`at` has it."""
        if depth <= self.depth:
            return self
        index = self._places(np.arange(1, depth + 1))
        parts = None if self._eps is None else self._eps[:, index]
        return replace(self, alpha=self.alpha[index], beta=self.beta[index], _eps=parts)

    def require_probabilities(self) -> None:
        """Reject a model whose click probabilities leave [0, 1] somewhere."""
        rates = {"an irrelevant": self.beta, "a relevant": self.alpha + self.beta}
        for name, rate in rates.items():
            # Rounding may leave alpha + beta a hair outside.
            right = np.abs(rate - 0.5) <= 0.5 + 1e-12
            rule = "from 0 to 1 (a model known only up to gauge cannot be simulated)"
            _require(f"the click probability of {name} document", rate, right, rule)

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
        if self.identified == "relative" and self.span is not None:
            about["span"] = list(self.span)
        return about | {"provenance": dict(self.provenance)}

    @classmethod
    def from_dict(cls, about: Mapping[str, Any]) -> Self:
        """Build from what :meth:`to_dict` gives."""
        known: dict[str, Any] = {"provenance": read_provenance(about)}
        known["estimated"] = _estimated(about)
        if about["identified"] != "examination":
            known |= {name: about[name] for name in ("alpha", "beta", "identified")}
            if about.get("span") is not None:
                low, high = about["span"]
                known["span"] = (float(low), float(high))
            return cls(**known)._within_limits()
        model = cls.from_eps(*(about[name] for name in PARTS), **known)
        for name in ("alpha", "beta"):
            if not np.allclose(getattr(model, name), about[name], atol=1e-9):
                raise DataError(f"{name} does not follow from theta, eps+ and eps-")
        return model._within_limits()

    def _cells(self, rows: ClickRows) -> tuple[Ints, ...]:
        """Index of each row into ``alpha`` and ``beta``."""
        return (self._places(rows.rank),)

    def _places(self, ranks: ArrayLike) -> Ints:
        wanted = np.asarray(ranks, dtype=np.int64)
        if wanted.size and wanted.min() < 1:
            raise DataError(f"ranks count from 1, got {wanted.min()}")
        if wanted.size and wanted.max() > self.depth:
            warn(
                f"the click model ends at rank {self.depth}; deeper ranks, down to "
                f"{wanted.max()}, take its values there"
            )
        return np.minimum(wanted, self.depth) - 1

    def _require_rates(self, name: str) -> None:
        if self.identified == "relative":
            raise ConfigError(
                f"{name} is not known: the model is known only up to gauge"
            )

    def _parts(self, name: str) -> Floats:
        """``[3, depth, ...]`` examination, eps+ and eps-."""
        self._require_rates(name)
        if self._eps is not None:
            return self._eps
        plus = self.alpha + self.beta
        ratio = np.divide(self.beta, plus, out=np.zeros_like(plus), where=plus != 0)
        return np.stack([plus, np.ones_like(plus), ratio])

    def _within_limits(self) -> Self:
        """Return a model from a file, unless it is too deep or divides too far."""
        least, size = limits.MIN_ALPHA, np.abs(self.alpha)
        right = (size == 0) | ((size >= least) & (size <= 1 / least))
        rule = f"0, or from {least:g} to {1 / least:g}"
        _require("alpha", self.alpha, right, rule)
        if self.depth > limits.MAX_RANK:
            raise DataError(f"ranks go down to {limits.MAX_RANK}, got {self.depth}")
        return self

    @classmethod
    def _stacked(cls, **columns: ArrayLike) -> Floats:
        """Check and stack arrays of one shape; freeze them."""
        arrays = {name: np.asarray(v, dtype=np.float64) for name, v in columns.items()}
        for name, array in arrays.items():
            if array.ndim != cls.n_axes or not array.size:
                raise DataError(f"{name} must be {cls.shape}, got shape {array.shape}")
            _require(name, array, np.isfinite(array), "finite")
        sizes = {name: len(array) for name, array in arrays.items()}
        if len({array.shape for array in arrays.values()}) > 1:
            raise DataError(f"give all for the same ranks, got ranks of each: {sizes}")
        whole = np.stack(list(arrays.values()))
        whole.setflags(write=False)
        return whole


def read_provenance(about: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the provenance in a file, if there is some."""
    found = about.get("provenance") or {}
    if not isinstance(found, Mapping):
        raise DataError(f"provenance must be an object, got {found!r:.60}")
    return found


def _estimated(about: Mapping[str, Any]) -> EstimatedBy | None:
    """Return how the model was estimated; ``None`` if it was given."""
    if "estimated" not in about:
        return None
    estimated = about["estimated"]
    return EstimatedBy(
        method=str(estimated["method"]),
        features=bool(estimated["features"]),
        min_clicks=float(estimated["min_clicks"]),
    )


def _require_shares(name: str, values: Floats) -> None:
    """Reject what leaves [0, 1] by more than rounding."""
    _require(name, values, np.abs(values - 0.5) <= 0.5 + 1e-6, "from 0 to 1")


def _require(name: str, values: Floats, right: Bools, rule: str) -> None:
    """Reject values that are not right; say where the first of them is."""
    if not right.all():
        (rank, *context), *more = np.argwhere(~right).tolist()
        place = "".join([f"rank {rank + 1}", *(f", column {i}" for i in context)])
        got = f"{values[rank, *context]:g} ({1 + len(more)} such)"
        raise DataError(f"{name} at {place} must be {rule}, got {got}")
