"""What an estimator may look at, and what it returns."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from affinerank.clicks.models import ClickModel
from affinerank.counts.rows import ClickRows
from affinerank.support.arrays import Bools, Floats, Ints, Matrix
from affinerank.support.errors import ConfigError

# What an estimator must know of the users: nothing, alpha and beta up to gauge,
# examination itself; or labels in their place.
Needs = Literal["nothing", "relative", "examination", "labels"]
# What rankers learn out of fold besides weights: clicks themselves, by likelihood.
CLICKS = "clicks"


@dataclass(frozen=True, slots=True)
class NoOptions:
    """Options of an estimator that has none."""


@dataclass(frozen=True, slots=True)
class ClipOptions:
    """Options of an estimator that divides by alpha.

    Attributes:
        clip: Lower bound of positive slopes, which trades bias for variance: a number,
            or ``"10/sqrt(n)"`` with n the number of sessions.
    """

    clip: str | float | None = None

    def __post_init__(self) -> None:
        """Reject a rule that cannot be read."""
        if self.clip is not None:
            parse_clip(self.clip, 1)

    def clipped(self, alpha: Floats, rows: ClickRows) -> Floats:
        """Raise positive slopes to the bound."""
        if self.clip is None:
            return alpha
        floor = parse_clip(self.clip, rows.n_sessions)
        return np.where(alpha > 0, np.maximum(alpha, floor), alpha)


def parse_clip(clip: str | float, n_sessions: int, name: str = "clip") -> float:
    """Read a clipping rule; ``name`` is what errors call it.

    >>> parse_clip("10/sqrt(n)", 10_000), parse_clip("0.05", 1)
    (0.1, 0.05)
    """
    match = re.fullmatch(r"\s*([0-9.eE+-]+)\s*(/\s*sqrt\(n\))?\s*", str(clip))
    try:
        value = float(match[1]) if match else float("nan")
    except ValueError:
        value = float("nan")
    if not value >= 0 or match is None:
        rule = "a number or a rule as in 10/sqrt(n)"
        raise ConfigError(f"{name} must be {rule}, got {clip!r}")
    return min(value / math.sqrt(max(n_sessions, 1)), 1.0) if match[2] else value


@dataclass(frozen=True, slots=True, eq=False)
class Fold:
    """Rankers that learnt from some queries, and their scores of the other documents.

    Queries are in three parts: those that the rankers learnt from; those that say how
    to combine them (``weighs``); and those whose relevance is predicted (``predicts``),
    none of whose clicks had a say.

    Attributes:
        weighs: ``[n_queries]``.
        predicts: ``[n_queries]``.
        scores: Of the documents in :meth:`docs`, by each ranker, named by what it
            learnt: ``CLICKS``, or the weights of an estimator.
    """

    weighs: Bools
    predicts: Bools
    scores: Mapping[str, Matrix | Floats]

    def docs(self, query_of_doc: Ints) -> Ints:
        """Return the documents of queries that weigh or are predicted, in order."""
        return np.flatnonzero((self.weighs | self.predicts)[query_of_doc])


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """What an estimator may look at.

    Attributes:
        rows: Impressions and clicks.
        click_model: How users click; ``None`` for estimators that need not know.
        labels: ``[n_docs]`` relevance, where there are labels.
        folds: Rankers that learnt from other queries, where the estimator's ``learns``
            asks for some; every query is predicted in one fold.
        options: Of the estimator: an instance of its ``options``.
    """

    rows: ClickRows
    click_model: ClickModel | None = None
    labels: Floats | None = None
    folds: Sequence[Fold] = ()
    options: Any = field(default_factory=NoOptions)

    @property
    def required_click_model(self) -> ClickModel:
        """The users, or an error where there are none."""
        if self.click_model is None:
            raise ConfigError("this estimator needs a click model (--click-model)")
        return self.click_model


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """What a ranker learns from: relevance as far as it is known.

    Attributes:
        weight: ``[n_docs]`` estimated relevance; undefined (stored as 0) where
            ``known`` is false.
        known: ``[n_docs]`` whether anything is known of the document. What is not known
            has no weight, not the weight 0.
        share: ``[n_queries]`` share of the sessions.
        variance: ``[n_docs]`` of relevance around the weight, by chance of clicking and
            by what features leave open; to be added up over documents.
        slope: ``[n_rows]`` what one more click of a row adds to its document's weight,
            if the estimator is linear in clicks; ``None`` if it is not.
        own_click_share: ``[n_docs]`` share of the document's own clicks in its weight,
            where the rest comes from other documents; ``None`` if all of it is its own.
        rank: ``[n_docs]`` mean rank that the document was shown at, rounded, 0 for
            none: for rankers with a position bias of their own.
    """

    weight: Floats
    known: Bools
    share: Floats
    variance: Floats
    slope: Floats | None = None
    own_click_share: Floats | None = None
    rank: Ints | None = None


def _learns_nothing(options: Any) -> tuple[str, ...]:
    del options
    return ()


@dataclass(frozen=True, slots=True)
class Estimator:
    """A row of ``ESTIMATORS``.

    Attributes:
        name: Its key.
        title: What figures and messages call it.
        needs: What it must know of the users.
        weigh: From evidence to weights.
        meaning: What a weight is, in words, where users are known.
        options: Type of its options, a frozen dataclass.
        learns: What rankers must learn out of fold for it, given its options:
            ``CLICKS`` or estimators, by name.
    """

    name: str
    title: str
    needs: Needs
    weigh: Callable[[Evidence], Weights]
    meaning: str = "relevance: 0 is irrelevant, 1 is relevant"
    options: type = NoOptions
    learns: Callable[[Any], tuple[str, ...]] = _learns_nothing

    @property
    def needs_click_model(self) -> bool:
        """Whether it must know how users click."""
        return self.needs in ("relative", "examination")
