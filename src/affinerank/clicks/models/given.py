"""Models that their settings say all of, at any depth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Self

from affinerank.clicks.models.model import BaseClickModel, ClickModelKind, Identified
from affinerank.support.errors import DataError
from affinerank.support.limits import MAX_RANK
from affinerank.support.settings import from_table


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SettingsModel(BaseClickModel):
    """What such models have in common: their file holds the settings.

    Attributes:
        settings: Of the type ``kind``.
        depth: Ranks asked for.
    """

    name: ClassVar[str]
    kind: ClassVar[type]
    identified: ClassVar[Identified] = "examination"
    estimated: ClassVar[None] = None
    span: ClassVar[tuple[float, float]] = (0.0, 1.0)

    settings: Any
    depth: int

    @property
    def provenance(self) -> Mapping[str, Any]:
        """The settings."""
        return {"family": self.name, **asdict(self.settings)}

    def require_probabilities(self) -> None:
        """Settings were checked."""

    def to_depth(self, depth: int) -> Self:
        """Return the model down to rank ``depth`` at least."""
        return replace(self, depth=max(depth, self.depth))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, as :meth:`from_dict` takes it."""
        about = {"model": self.name, "depth": self.depth}
        return {**about, "settings": asdict(self.settings)}

    @classmethod
    def from_dict(cls, about: Mapping[str, Any]) -> Self:
        """Build from what :meth:`to_dict` gives."""
        depth, settings = about["depth"], about["settings"]
        if not 1 <= depth <= MAX_RANK:
            raise DataError(f"depth must be from 1 to {MAX_RANK}, got {depth}")
        return cls(from_table(cls.kind, settings, "settings"), int(depth))

    @classmethod
    def row(cls, title: str) -> ClickModelKind:
        """Return the row of such a model."""
        model: Any = cls  # a subclass, which clicks
        return ClickModelKind(cls.name, title, cls.kind, model, model.from_dict)
