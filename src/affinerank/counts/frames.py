"""Count logs that are frames, without a file."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from affinerank.counts.counting import count_log
from affinerank.counts.counts import ClickCounts
from affinerank.engines.opening import open_frame
from affinerank.logs.options import LogOptions
from affinerank.support.errors import warn
from affinerank.support.files import scratch_folder


def count(frame: Any, *, memory: str = "4GB", **how: Any) -> ClickCounts:
    """Count a log that is a frame: pandas, polars, pyarrow, DuckDB, anything of Arrow.

    Args:
        frame: One row per impression: ``session_id, query_id, doc_id, rank, clicked``.
        memory: How much DuckDB may take before it spills to disk.
        how: How the log is read, as :class:`LogOptions` has it, and how it is counted,
            as :func:`count_log` does. What is found besides faults is a warning.

    >>> import pyarrow as pa
    >>> log = {"session_id": [1, 1], "query_id": ["q", "q"], "doc_id": ["a", "b"]}
    >>> count(pa.table({**log, "rank": [1, 2], "clicked": [False, True]})).clicks
    array([0, 1])
    """
    own = {field.name for field in fields(LogOptions)}
    options = LogOptions(**{name: how.pop(name) for name in own & how.keys()})
    with scratch_folder() as folder, open_frame(frame, memory=memory) as table:
        file = folder / "counts.parquet"
        found = count_log(table, file, options=options, **how)
        for about in found.report.findings if found.report else ():
            warn(f"{about.what} ({about.number:,} {about.unit})")
        return ClickCounts.load(file)
