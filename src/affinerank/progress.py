"""Progress: one callback; the caller renders it."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Called as work advances: ``done`` of ``total`` steps of ``stage`` are behind."""

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Report the advance."""


def quiet(stage: str, done: int, total: int) -> None:
    """Report nothing."""
