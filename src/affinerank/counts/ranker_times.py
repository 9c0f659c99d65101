"""When each ranker logged: its first and its last moment, kept beside counts.

Counts have no timestamps, so they cannot say which of several rankers is in production
now. ``count`` notes it in the metadata of the file; here it is read, written, added up
over files, and asked for the rankers that still logged at the end.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping

METADATA_KEY = b"affinerank.ranker_times"
MOST_RANKERS = 1_000  # of more, moments are not kept
STILL_LOGS = 0.05  # share of the log's time, back from its end

RankerTimes = Mapping[str, tuple[float, float]]
"""First and last moment of each ranker: seconds since 1970, or the log's own number."""


def to_metadata(times: RankerTimes) -> dict[bytes, bytes]:
    """Write moments as metadata of a Parquet file; none if there are no moments."""
    if not times:
        return {}
    return {METADATA_KEY: json.dumps(times).encode()}


def from_metadata(metadata: Mapping[bytes, bytes] | None) -> RankerTimes:
    """Read moments from the metadata of a file; none if they are not usable."""
    text = (metadata or {}).get(METADATA_KEY)
    if text is None:
        return {}
    try:
        loaded = json.loads(text)
        times = {
            str(ranker): (float(first), float(last))
            for ranker, (first, last) in loaded.items()
        }
    except (ValueError, TypeError, AttributeError, RecursionError):
        return {}
    moments = [moment for pair in times.values() for moment in pair]
    if not all(map(math.isfinite, moments)):
        return {}
    return times


def add_times(parts: Iterable[RankerTimes]) -> RankerTimes:
    """Add up the moments of several logs; none if those of one log are not known.

    >>> add_times([{"a": (1, 2)}, {"a": (0, 1), "b": (2, 3)}])
    {'a': (0, 2), 'b': (2, 3)}
    >>> add_times([{"a": (1, 2)}, {}])
    {}
    """
    total: dict[str, tuple[float, float]] = {}
    for times in parts:
        if not times:
            return {}
        for ranker, (first, last) in times.items():
            earliest, latest = total.get(ranker, (first, last))
            total[ranker] = (min(earliest, first), max(latest, last))
    return total


def rankers_at_the_end(times: RankerTimes) -> list[str]:
    """Return the rankers that logged in the last twentieth of the log's time.

    >>> rankers_at_the_end({"old": (0, 50), "new": (50, 100), "test": (50, 99)})
    ['new', 'test']
    """
    if not times:
        return []
    start = min(first for first, _ in times.values())
    end = max(last for _, last in times.values())
    still_logs_from = end - STILL_LOGS * (end - start)
    return [ranker for ranker, (_, last) in times.items() if last >= still_logs_from]
