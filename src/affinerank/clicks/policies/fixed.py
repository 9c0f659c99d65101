"""Fixed: every session shows the ranker's own list."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from affinerank.arrays import Ints
from affinerank.clicks.policies.policy import Placements, PolicyKind, Rng, list_places


@dataclass(frozen=True, slots=True)
class Fixed:
    """Change nothing."""

    share: ClassVar[float] = 0.0

    def moved(
        self, lengths: Ints, sessions: NDArray[Any], rng: Rng
    ) -> Iterator[Placements]:
        """Yield nothing: every document stays."""
        del lengths, sessions, rng
        return iter(())

    def places(self, lengths: Ints, rng: np.random.Generator) -> Ints:
        """Show every document at its place."""
        del rng
        return list_places(lengths)[1]


ROW = PolicyKind("fixed", "Fixed ranking", Fixed)
