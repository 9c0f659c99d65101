"""A model for each segment of users: devices, layouts, countries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from affinerank.clicks.models.affine import EstimatedBy, read_provenance
from affinerank.clicks.models.model import (
    BaseClickModel,
    ClickModel,
    ClickModelKind,
    Identified,
    Shown,
)
from affinerank.clicks.models.trust import TrustModel, TrustSettings
from affinerank.counts.rows import ClickRows
from affinerank.support.arrays import Bools, Floats, Ints, Rng
from affinerank.support.errors import ConfigError, DataError


@dataclass(frozen=True, slots=True)
class SegmentSettings:
    """Segments of the paper's users, called s1, s2, ...

    Attributes:
        eta: Steepness of position bias in each segment.
        eps_minus_1: Click rate of an irrelevant document examined at rank 1, in each.
        share: Share of the sessions of each segment.
    """

    eta: tuple[float, ...] = (1.0, 2.0)
    eps_minus_1: tuple[float, ...] = (0.65, 0.35)
    share: tuple[float, ...] = (0.5, 0.5)

    def __post_init__(self) -> None:
        """Reject what is no probability."""
        if not len(self.eta) == len(self.eps_minus_1) == len(self.share) > 0:
            raise ConfigError(
                "give eta, eps_minus_1 and share for each segment, got "
                f"{len(self.eta)}, {len(self.eps_minus_1)} and {len(self.share)}"
            )
        for click_model in zip(self.eta, self.eps_minus_1, strict=True):
            TrustSettings(*click_model)
        if not 0 < min(self.share) <= max(self.share) <= 1:
            raise ConfigError(f"shares must be above 0, up to 1, got {self.share}")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SegmentedModel(BaseClickModel):
    """How users of each segment click.

    Attributes:
        models: Users of each segment, by its name.
        share: Share of the sessions of each segment; equal where left out.
        provenance: How and from what it came, for the reader of its file.
    """

    name: ClassVar[str] = "by-segment"

    models: Mapping[str, ClickModel]
    share: Mapping[str, float] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def _line(self) -> str:
        return f"{len(self.models)} segments: {', '.join(map(repr, self.models))}"

    def _rows(self) -> list[dict[str, Any]]:
        own = {n: u for n, u in self.models.items() if isinstance(u, BaseClickModel)}
        return [{"segment": n, **row} for n, u in own.items() for row in u._rows()]

    def __post_init__(self) -> None:
        """Reject a model of nobody, and shares that cannot be drawn from."""
        wrong = {name for name, part in self.share.items() if not 0 < part <= 1}
        wrong |= set(self.share) - set(self.models)
        if not self.models or wrong:
            raise DataError(
                "segments must have a model and a share from 0 to 1 each, got "
                f"models of {list(self.models)} and shares {dict(self.share)}"
            )

    @property
    def depth(self) -> int:
        """Number of ranks that every segment has values for."""
        return min(model.depth for model in self.models.values())

    @property
    def identified(self) -> Identified:
        """What is known of every segment."""
        known = {model.identified for model in self.models.values()}
        for least in ("relative", "click-rates"):
            if least in known:
                return least
        return "examination"

    @property
    def estimated(self) -> EstimatedBy | None:
        """How the first segment's users were estimated, and so those of the others."""
        found: EstimatedBy | None = next(iter(self.models.values())).estimated
        return found

    @property
    def span(self) -> tuple[float, float] | None:
        """Least and most relevance, where all segments agree."""
        spans = {model.span for model in self.models.values()}
        return spans.pop() if len(spans) == 1 else None

    def at(self, rows: ClickRows) -> tuple[Floats, Floats]:
        """Alpha and beta of each row, by the model of its segment."""
        alpha, beta = self._each("at", rows, 2)
        return alpha, beta

    def examination(self, rows: ClickRows) -> tuple[Floats, Floats, Floats]:
        """Theta, eps+ and eps- of each row, by the model of its segment."""
        theta, plus, minus = self._each("examination", rows, 3)
        return theta, plus, minus

    def draw(self, size: int, rng: Rng) -> Ints:
        """``[size]`` draw the segments of sessions, as numbers."""
        shares = np.array([self.share.get(name, 1.0) for name in self.models])
        return rng.choice(len(shares), size, p=shares / shares.sum())

    def click(self, shown: Shown, rng: Rng) -> Bools:
        """Draw clicks, each session by the model of its segment."""
        clicked = np.zeros(len(shown.rank), dtype=bool)
        for number, model in enumerate(self.models.values()):
            here = shown.segment == number
            clicked[here] = model.click(shown.select(here), rng)
        return clicked

    def require_probabilities(self) -> None:
        """Reject a model of which a segment cannot be simulated."""
        for model in self.models.values():
            model.require_probabilities()

    def to_depth(self, depth: int) -> SegmentedModel:
        """Return the model down to rank ``depth`` at least."""
        deep = {name: model.to_depth(depth) for name, model in self.models.items()}
        return replace(self, models=deep)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, as :meth:`from_dict` takes it."""
        return {
            "model": self.name,
            "segments": {name: model.to_dict() for name, model in self.models.items()},
            "share": dict(self.share),
            "provenance": dict(self.provenance),
        }

    @classmethod
    def from_dict(cls, about: Mapping[str, Any]) -> SegmentedModel:
        """Build from what :meth:`to_dict` gives."""
        # Imported here because this model is a row of the table that is read.
        from affinerank.clicks.models import read_click_model

        models = {
            name: read_click_model(segment_model)
            for name, segment_model in about["segments"].items()
        }
        share = {name: float(part) for name, part in about["share"].items()}
        return cls(models, share, read_provenance(about))

    def _each(self, method: str, rows: ClickRows, size: int) -> Floats:
        """``[size, n_rows]`` put the values of every segment's rows together."""
        if not rows.segments or rows.segment is None:
            raise DataError(
                "these users differ by segment, which the counts do not have: count "
                "with --segment"
            )
        found = np.zeros((size, len(rows)))
        for number, name in enumerate(rows.segments):
            here = rows.segment == number
            if here.any() and name not in self.models:
                raise DataError(
                    f"there are no users of segment {name!r}, only of "
                    f"{', '.join(map(repr, self.models))}"
                )
            if here.any():
                found[:, here] = getattr(self.models[name], method)(rows.select(here))
        return found


def _make(settings: SegmentSettings, depth: int) -> SegmentedModel:
    models, share = {}, {}
    values = zip(settings.eta, settings.eps_minus_1, settings.share, strict=True)
    for number, (eta, eps, part) in enumerate(values, start=1):
        models[f"s{number}"] = TrustModel.paper(eta=eta, eps_minus_1=eps, depth=depth)
        share[f"s{number}"] = part
    return SegmentedModel(models, share)


ROW = ClickModelKind(
    SegmentedModel.name,
    "Other users in each segment",
    SegmentSettings,
    _make,
    SegmentedModel.from_dict,
)
