"""What rankers are compared with by clicks: the latest production ranker, by name."""

from __future__ import annotations

from dataclasses import dataclass

from affinerank.counts.counts import ClickCounts
from affinerank.counts.ranker_times import rankers_at_the_end
from affinerank.counts.table import grouped
from affinerank.support.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Baseline:
    """The production ranker that others are compared with.

    Attributes:
        ranker: Its name in the counts; ``None``: the logged order, since the counts do
            not have several rankers.
        why: Why this one was chosen.
    """

    ranker: str | None = None
    why: str = ""

    @property
    def name(self) -> str:
        """What sentences call it."""
        if self.ranker is None:
            return "production (the logged order)"
        return f"production (ranker {self.ranker}, {self.why})"


def choose_baseline(counts: ClickCounts, ranker: str | None = None) -> Baseline:
    """Choose the ranker to compare with, where the counts have several.

    The one asked for; else the latest: of the rankers that logged in the last twentieth
    of the time, the one with most sessions. Where counts do not know moments, the one
    with most sessions of all.
    """
    sessions = _sessions_by_ranker(counts)
    if ranker is not None:
        if ranker not in sessions:
            known = ", ".join(sorted(sessions)[:12])
            known = known or "none: they have no column ranker"
            raise ConfigError(
                f"no ranker {ranker!r} logged these counts; there are {known}"
            )
        return Baseline(ranker, "as asked")
    if len(sessions) < 2:
        return Baseline()
    times = counts.ranker_times
    why, candidates = "the one with most sessions", sorted(sessions)
    if set(sessions) <= set(times):
        known_times = {name: times[name] for name in candidates}
        candidates = sorted(rankers_at_the_end(known_times))
        why = "the latest"
        if len(candidates) > 1:
            why = "of the latest the one with most sessions"
    return Baseline(max(candidates, key=sessions.__getitem__), why)


def _sessions_by_ranker(counts: ClickCounts) -> dict[str, int]:
    """Number of sessions of each ranker; empty if the counts have no rankers."""
    if "ranker" not in counts.keys:
        return {}
    total = grouped(counts.sessions_per_query, ["ranker"], ("sessions", "sum"))
    names, sessions = (column.to_pylist() for column in total)
    return dict(zip(names, sessions, strict=True))
