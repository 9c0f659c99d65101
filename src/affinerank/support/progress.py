"""Progress: one callback; the caller renders it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event, Thread
from time import monotonic, process_time
from typing import Any, Protocol

START = "before the first stage"


class Progress(Protocol):
    """Called as work advances: ``done`` of ``total`` steps of ``stage`` are behind."""

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Report the advance."""


def no_progress(stage: str, done: int, total: int) -> None:
    """Report nothing."""


def both(first: Progress, second: Progress) -> Progress:
    """Return a callback that reports to two others."""

    def report(stage: str, done: int, total: int) -> None:
        first(stage, done, total)
        second(stage, done, total)

    return report


@dataclass(slots=True)
class StageTimes:
    """How long each stage takes; a stage lasts until another one reports.

    Attributes:
        seconds: Of each stage that is over, by name.
        cpu_seconds: The same, of all threads of the process.
    """

    seconds: dict[str, float] = field(default_factory=dict)
    cpu_seconds: dict[str, float] = field(default_factory=dict)
    _stage: str = START
    _began: float = field(default_factory=monotonic)
    _cpu_began: float = field(default_factory=process_time)

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Note that a stage is under way."""
        del done, total
        if stage != self._stage:
            self.end_stage()
            self._stage = stage

    def end_stage(self) -> None:
        """Add the time since the stage began to its total."""
        now, cpu_now = monotonic(), process_time()
        for total, elapsed in (
            (self.seconds, now - self._began),
            (self.cpu_seconds, cpu_now - self._cpu_began),
        ):
            total[self._stage] = total.get(self._stage, 0.0) + elapsed
        self._began = now
        self._cpu_began = cpu_now

    def rows(self) -> list[dict[str, Any]]:
        """Return the stages in the order in which they began, as plain data."""
        return [
            {
                "stage": stage,
                "seconds": round(seconds, 2),
                "cpu_seconds": round(self.cpu_seconds[stage], 2),
            }
            for stage, seconds in self.seconds.items()
        ]


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
