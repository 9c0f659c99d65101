"""Fixed: every session shows the ranker's own list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from affinerank.clicks.policies.policy import PolicyKind


@dataclass(frozen=True, slots=True)
class Fixed:
    """Change nothing."""

    share: ClassVar[float] = 0.0  # so it is never asked where documents go


ROW = PolicyKind("fixed", "Fixed ranking", Fixed)
