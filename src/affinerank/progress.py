"""How a long stage tells how far it is: one callback, drawn by whoever called."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Called as work advances; ``done`` of ``total`` steps of ``stage`` are behind."""

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Take note of the advance."""


def quiet(stage: str, done: int, total: int) -> None:
    """Draw nothing."""
