"""Limits of settings, as a table and not as a check for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from affinerank.errors import ConfigError


def require_limits(
    settings: object, *, least: Mapping[str, int], positive: Sequence[str]
) -> None:
    """Reject settings below their least value, or not above 0; ``None`` passes."""
    for name, low in least.items():
        value = getattr(settings, name)
        if value is not None and not value >= low:
            raise ConfigError(f"{name} must be {low} or more, got {value}")
    for name in positive:
        if not getattr(settings, name) > 0:
            raise ConfigError(f"{name} must be above 0, got {getattr(settings, name)}")
