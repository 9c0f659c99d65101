"""What a click model is: it runs forward, from what is shown to clicks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

from affinerank.counts.rows import ClickRows
from affinerank.output.blocks import Summary
from affinerank.support.arrays import Bools, Floats, Ints, Rng
from affinerank.support.errors import ConfigError
from affinerank.support.files import PathLike, atomic_write

Identified = Literal["examination", "click-rates", "relative"]
FORMAT = "affinerank-click-model"
VERSION = 1


@dataclass(frozen=True, slots=True, eq=False)
class Shown:
    """Lists in front of users, one impression after another.

    Attributes:
        session: ``[n]`` number of the session; its impressions follow each other.
        rank: ``[n]`` from 1, rising within a session.
        relevance: ``[n]`` probability of relevance of the document there.
        query: ``[n]`` number of the query, from 0.
        segment: ``[n]`` number of the segment of users; 0 where there is one.
    """

    session: Ints
    rank: Ints
    relevance: Floats
    query: Ints
    segment: Ints

    def select(self, kept: Bools) -> Shown:
        """Keep some impressions."""
        return Shown(*(getattr(self, part.name)[kept] for part in fields(self)))

    def down(self) -> Iterator[tuple[Ints, Ints]]:
        """Impressions at the top of each list, then those below, with their lists."""
        new = np.diff(self.session, prepend=-1) != 0
        number, place = np.cumsum(new) - 1, np.arange(len(new))
        place -= np.flatnonzero(new)[number]
        order = np.argsort(place, kind="stable")
        for these in np.split(order, np.cumsum(np.bincount(place))[:-1]):
            yield these, number[these]


class ClickModel(Protocol):
    """How users click: true or estimated, the same type."""

    @property
    def name(self) -> str:
        """Key of its row in ``CLICK_MODELS``."""

    @property
    def depth(self) -> int:
        """Number of ranks that it has values for."""

    @property
    def identified(self) -> Identified:
        """What is known: ``examination``, ``click-rates``, or rates up to a scale.

        The last is ``relative``: alpha and beta in units of an unknown relevance.
        """

    @property
    def provenance(self) -> Mapping[str, Any]:
        """How and from what it came, for the reader of its file."""

    @property
    def estimated(self) -> Any:
        """How it was estimated from clicks, or ``None``."""

    @property
    def span(self) -> tuple[float, float] | None:
        """Least and most relevance in its gauge; ``None`` where nobody says."""

    def at(self, rows: ClickRows) -> tuple[Floats, Floats]:
        """Slope alpha and intercept beta of each row."""

    def examination(self, rows: ClickRows) -> tuple[Floats, Floats, Floats]:
        """Examination theta, eps+ and eps- of each row, where they are known."""

    def click(self, shown: Shown, rng: Rng) -> Bools:
        """Draw a click or none for each impression."""

    def click_probability(self, rank: Ints, relevance: Floats) -> Floats | None:
        """P(click) where it depends on rank and relevance alone, else ``None``."""

    def require_probabilities(self) -> None:
        """Reject a model that cannot be simulated."""

    def to_depth(self, depth: int) -> ClickModel:
        """Return the model down to rank ``depth`` at least."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, as the row's ``read`` takes it."""


class BaseClickModel(Summary):
    """What the package's own click models have in common."""

    def _line(self) -> str:
        return ", ".join(f"{n}={value}" for n, value in self._rows()[0].items())

    def _rows(self) -> Sequence[Mapping[str, Any]]:
        about: Mapping[str, Any] = getattr(self, "provenance", {})
        return [{n: value for n, value in about.items() if np.isscalar(value)}]

    def click_probability(self, *_: Any, **__: Any) -> Floats | None:
        """P(click) where it depends on rank and relevance alone, else ``None``."""
        return None

    def save(self, path: PathLike) -> None:
        """Write the model as JSON, for ``load_click_model``."""
        save_click_model(self, path)


@dataclass(frozen=True, slots=True)
class ClickModelKind:
    """A row of ``CLICK_MODELS``.

    Attributes:
        name: Its key.
        title: What figures and messages call it.
        settings: Type of its parameters, a frozen dataclass.
        make: Build a model of some depth from its parameters.
        read: Build a model from what its ``to_dict`` gives.
    """

    name: str
    title: str
    settings: type
    make: Callable[[Any, int], ClickModel]
    read: Callable[[Mapping[str, Any]], ClickModel]


def require_shares(settings: object, *names: str) -> None:
    """Reject settings that must be from 0 to 1 and are not."""
    for name, value in ((name, getattr(settings, name)) for name in names):
        if not 0 <= value <= 1:
            raise ConfigError(f"{name} must be from 0 to 1, got {value:g}")


def save_click_model(click_model: Any, path: PathLike) -> None:
    """Write a click model as JSON, for ``load_click_model``."""
    whole = {"format": FORMAT, "version": VERSION, **click_model.to_dict()}
    with atomic_write(Path(path)) as aside:
        aside.write_text(json.dumps(whole, indent=2, allow_nan=False) + "\n")
