"""Progress: one callback; the caller renders it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from time import monotonic
from typing import Protocol


class Progress(Protocol):
    """Called as work advances: ``done`` of ``total`` steps of ``stage`` are behind."""

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Report the advance."""


def quiet(stage: str, done: int, total: int) -> None:
    """Report nothing."""


@contextmanager
def in_lines(say: Callable[[str], None], every: float) -> Iterator[Progress]:
    """Say every so many seconds how far the work is, also where a stage is silent."""
    started, over, reached = monotonic(), Event(), ["at work"]
    begun: dict[str, float] = {}

    def progress(stage: str, done: int, total: int) -> None:
        taken = monotonic() - begun.setdefault(stage, monotonic())
        left = taken * (total / done - 1) if done else 0
        more = f", {left:,.0f} s left" if left >= 1 else ""
        reached[0] = f"{stage}: {done:,} of {total:,}{more}"

    def speak() -> None:
        while not over.wait(every):
            say(f"{reached[0]}, {monotonic() - started:,.0f} s")

    speaker = Thread(target=speak, daemon=True)
    speaker.start()
    try:
        yield progress
    finally:
        over.set()
        speaker.join()
