r"""How users click: an affine function of relevance at every rank.

.. math::

    P(C = 1 \mid q, d, k) = \alpha_k \gamma_{qd} + \beta_k, \qquad
    \alpha_k = \theta_k (\epsilon^+_k - \epsilon^-_k), \qquad
    \beta_k = \theta_k \epsilon^-_k

A :class:`UserModel` only runs forward: simulation draws from it, estimation returns
one, so truth and estimate are of one type. What is known of it differs:

- ``eps``: examination theta and the two click rates eps+ and eps-, so everything;
- ``zeta``: the click rates of relevant and irrelevant documents, zeta+ = alpha + beta
  and zeta- = beta, whose parts clicks cannot tell apart. By convention theta = zeta+,
  eps+ = 1 and eps- = zeta- / zeta+ then;
- ``gauge``: alpha up to a factor, and beta up to a multiple of alpha. Enough to rank
  by, not to speak of probabilities.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from affinerank.errors import AffineRankWarning, ConfigError, DataError
from affinerank.files import existing_file, written_whole

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Identified = Literal["eps", "zeta", "gauge"]

FORMAT = "affinerank-users"
VERSION = 1


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class UserModel:
    """Slope and intercept of clicks by rank; build one with the class methods.

    Attributes:
        alpha: ``[depth]`` slope at ranks 1, 2, ...
        beta: ``[depth]`` intercept.
        identified: What is known: ``eps``, ``zeta`` or ``gauge``.
        provenance: How and from what it came, for the reader of its file.
    """

    alpha: Floats
    beta: Floats
    identified: Identified
    provenance: Mapping[str, Any] = field(default_factory=dict)
    _eps: tuple[Floats, Floats, Floats] | None = None

    def __post_init__(self) -> None:
        """Check and freeze the arrays."""
        if self.identified not in get_args(Identified):
            known = ", ".join(get_args(Identified))
            raise ConfigError(f"identified must be {known}, got {self.identified!r}")
        if (self.identified == "eps") != (self._eps is not None):
            raise ConfigError(
                "theta, eps_plus and eps_minus make a user model identified as eps; "
                "build it with UserModel.from_eps"
            )
        for name in ("alpha", "beta"):
            values = _by_rank(name, getattr(self, name))
            object.__setattr__(self, name, values)
        if len(self.alpha) != len(self.beta):
            raise DataError(
                f"alpha has {len(self.alpha)} ranks and beta {len(self.beta)}; "
                "give both for the same ranks"
            )

    @classmethod
    def from_eps(
        cls,
        theta: ArrayLike,
        eps_plus: ArrayLike,
        eps_minus: ArrayLike,
        *,
        provenance: Mapping[str, Any] | None = None,
    ) -> UserModel:
        """Build from examination and the click rates of examined documents.

        >>> users = UserModel.from_eps([1.0, 0.5], [0.9, 0.9], [0.5, 0.1])
        >>> users.alpha.tolist(), users.beta.tolist()
        ([0.4, 0.4], [0.5, 0.05])
        """
        parts = tuple(
            _by_rank(name, values)
            for name, values in (
                ("theta", theta),
                ("eps_plus", eps_plus),
                ("eps_minus", eps_minus),
            )
        )
        examined, plus, minus = parts
        if len({len(part) for part in parts}) > 1:
            raise DataError(
                f"theta, eps_plus and eps_minus have {len(examined)}, {len(plus)} and "
                f"{len(minus)} ranks; give all for the same ranks"
            )
        return cls(
            alpha=examined * (plus - minus),
            beta=examined * minus,
            identified="eps",
            provenance=dict(provenance or {}),
            _eps=(examined, plus, minus),
        )

    @classmethod
    def from_zeta(
        cls,
        zeta_plus: ArrayLike,
        zeta_minus: ArrayLike,
        *,
        provenance: Mapping[str, Any] | None = None,
    ) -> UserModel:
        """Build from the click rates of relevant and of irrelevant documents."""
        plus = _by_rank("zeta_plus", zeta_plus)
        minus = _by_rank("zeta_minus", zeta_minus)
        if len(plus) != len(minus):
            raise DataError(
                f"zeta_plus has {len(plus)} ranks and zeta_minus {len(minus)}; "
                "give both for the same ranks"
            )
        return cls(
            alpha=plus - minus,
            beta=minus,
            identified="zeta",
            provenance=dict(provenance or {}),
        )

    @classmethod
    def paper(
        cls, *, eta: float = 1.0, eps_minus_1: float = 0.65, depth: int = 20
    ) -> UserModel:
        r"""The users simulated in the paper; they do not change after rank 20.

        .. math::

            \theta_k = \min(k, 20)^{-\eta}, \qquad
            \epsilon^+_k = 1 - (\min(k, 20) + 1) / 100, \qquad
            \epsilon^-_k = \epsilon^-_1 / \min(k, 10)
        """
        if depth < 1:
            raise ConfigError(f"depth must be 1 or more, got {depth}")
        if not 0 <= eps_minus_1 <= 1:
            raise ConfigError(f"eps_minus_1 must be from 0 to 1, got {eps_minus_1:g}")
        if not eta >= 0:
            raise ConfigError(f"eta must be 0 or more, got {eta:g}")
        rank = np.arange(1.0, depth + 1.0)
        capped = np.minimum(rank, 20)
        return cls.from_eps(
            (1.0 / capped) ** eta,
            1.0 - (capped + 1.0) / 100.0,
            eps_minus_1 / np.minimum(rank, 10),
            provenance={"family": "paper", "eta": eta, "eps_minus_1": eps_minus_1},
        )

    @classmethod
    def position_bias(cls, theta: ArrayLike) -> UserModel:
        """Users who click what they examine if and only if it is relevant."""
        examined = _by_rank("theta", theta)
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
        return self._parts("theta")[0]

    @property
    def eps_plus(self) -> Floats:
        """``[depth]`` click rate of an examined relevant document; 1 by convention."""
        return self._parts("eps_plus")[1]

    @property
    def eps_minus(self) -> Floats:
        """``[depth]`` click rate of an examined irrelevant one; else zeta-/zeta+."""
        return self._parts("eps_minus")[2]

    def at(self, ranks: ArrayLike) -> tuple[Floats, Floats]:
        """Alpha and beta at each of ``ranks``, which count from 1.

        Ranks deeper than ``depth`` take the values of the last one, with a warning.
        """
        wanted = np.asarray(ranks, dtype=np.int64)
        if wanted.size and wanted.min() < 1:
            raise DataError(f"ranks count from 1, got {wanted.min()}")
        if wanted.size and wanted.max() > self.depth:
            warnings.warn(
                f"the user model ends at rank {self.depth}; deeper ranks, down to "
                f"{wanted.max()}, take its values there",
                AffineRankWarning,
                stacklevel=2,
            )
        index = np.minimum(wanted, self.depth) - 1
        return self.alpha[index], self.beta[index]

    def to_depth(self, depth: int) -> UserModel:
        """Return the model down to rank ``depth`` at least, as :meth:`at` has it."""
        if depth <= self.depth:
            return self
        ranks = np.arange(1, depth + 1)
        alpha, beta = self.at(ranks)
        if self._eps is None:
            return replace(self, alpha=alpha, beta=beta)
        index = np.minimum(ranks, self.depth) - 1
        theta, plus, minus = (part[index] for part in self._eps)
        return UserModel.from_eps(theta, plus, minus, provenance=self.provenance)

    def click_probability(self, ranks: ArrayLike, relevance: ArrayLike) -> Floats:
        """P(click) of a document of this relevance at this rank: alpha gamma + beta."""
        alpha, beta = self.at(ranks)
        return alpha * np.asarray(relevance, dtype=np.float64) + beta

    def require_probabilities(self) -> None:
        """Refuse a model whose click probabilities leave [0, 1] at some rank."""
        for name, rate in (
            ("an irrelevant", self.beta),
            ("a relevant", self.alpha + self.beta),
        ):
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
            "identified": self.identified,
            "alpha": self.alpha.tolist(),
            "beta": self.beta.tolist(),
        }
        if self._eps is not None:
            names = ("theta", "eps_plus", "eps_minus")
            about |= {n: v.tolist() for n, v in zip(names, self._eps, strict=True)}
        return about | {"provenance": dict(self.provenance)}

    @classmethod
    def from_dict(cls, about: Mapping[str, Any]) -> UserModel:
        """Build from what :meth:`to_dict` gives."""
        provenance = about.get("provenance") or {}
        if not isinstance(provenance, Mapping):
            raise DataError(f"provenance must be an object, got {provenance!r:.60}")
        if about["identified"] == "eps":
            model = cls.from_eps(
                about["theta"],
                about["eps_plus"],
                about["eps_minus"],
                provenance=provenance,
            )
            for name in ("alpha", "beta"):
                if not np.allclose(getattr(model, name), about[name], atol=1e-9):
                    raise DataError(
                        f"{name} does not follow from theta, eps_plus and eps_minus"
                    )
            return model
        return cls(
            alpha=about["alpha"],
            beta=about["beta"],
            identified=about["identified"],
            provenance=provenance,
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model as JSON."""
        _write_json(path, self.to_dict())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> UserModel:
        """Read a model written by :meth:`save`."""
        models = load_segments(path)
        if set(models) != {""}:
            raise DataError(
                f"{path}: holds a model for each of the segments "
                f"{', '.join(map(repr, models))}; expected one for all"
            )
        return models[""]

    def _require_rates(self, name: str) -> None:
        if self.identified == "gauge":
            raise ConfigError(
                f"{name} is not known: this user model is known only up to gauge "
                "(alpha up to a factor, beta up to a multiple of alpha)"
            )

    def _parts(self, name: str) -> tuple[Floats, Floats, Floats]:
        self._require_rates(name)
        if self._eps is not None:
            return self._eps
        plus = self.alpha + self.beta
        ratio = np.divide(self.beta, plus, out=np.zeros_like(plus), where=plus != 0)
        return plus, np.ones_like(plus), ratio


def save_segments(
    models: Mapping[str, UserModel], path: str | os.PathLike[str]
) -> None:
    """Write one model per segment (device, layout ...) into one JSON file."""
    _write_json(path, {"segments": {name: m.to_dict() for name, m in models.items()}})


def load_segments(path: str | os.PathLike[str]) -> dict[str, UserModel]:
    """Read the models of a file by segment; a single model has the segment ``""``."""
    source = existing_file(path)
    try:
        about = json.loads(source.read_text())
        if (about["format"], about["version"]) != (FORMAT, VERSION):
            raise DataError(
                f"expected format {FORMAT!r} version {VERSION}, "
                f"got {about['format']!r} version {about['version']!r}"
            )
        parts = about.get("segments", {"": about})
        if not parts:
            raise DataError("holds no user model; expected one per segment")
        return {name: UserModel.from_dict(part) for name, part in parts.items()}
    except (DataError, ConfigError) as error:
        raise DataError(f"{source}: {error}") from None
    except (
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        RecursionError,
    ) as error:
        reason = f"{type(error).__name__}: {error}"[:200]
        raise DataError(
            f"{source}: not a user model written by AffineRank ({reason})"
        ) from None


def _write_json(path: str | os.PathLike[str], about: dict[str, Any]) -> None:
    whole = {"format": FORMAT, "version": VERSION, **about}
    with written_whole(Path(path)) as aside:
        aside.write_text(json.dumps(whole, indent=2, allow_nan=False) + "\n")


def _by_rank(name: str, values: ArrayLike) -> Floats:
    array = np.array(values, dtype=np.float64)
    if array.ndim != 1 or not len(array):
        raise DataError(f"{name} must be one number per rank, got shape {array.shape}")
    bad = np.flatnonzero(~np.isfinite(array))
    if bad.size:
        raise DataError(
            f"{name} at rank {bad[0] + 1} must be finite, got {array[bad[0]]}"
        )
    array.setflags(write=False)
    return array
