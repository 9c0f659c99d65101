"""What a log is good for, on one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument

from affinerank.cli import display
from affinerank.cli.options import (
    DataOptions,
    LogReading,
    Output,
    Result,
    Seed,
    require_writable,
)
from affinerank.support.progress import Progress


def audit(
    source: Annotated[str, Argument(metavar="LOG|COUNTS")],
    *,
    output: Output = Path("audit.html"),
    data: str | None = None,
    reading: LogReading,
    days: float | None = None,
    of: DataOptions,
    seed: Seed = 0,
    progress: Progress,
) -> Result:
    """Say what a log is good for, and what to do next.

    Example: affinerank audit log.parquet --data yahoo-like:500 -o audit.html

    Options:
        source: A log, or counts of one.
        output: Page to write, HTML.
        days: Days that it is of, where the log has no dates.
    """
    from affinerank.audit import audit_file
    from affinerank.audit.page import audit_page
    from affinerank.support.files import atomic_write

    require_writable(output, suffix=".html", reads=[source, data])
    options = reading.options(list_id=of.list_id)
    found = audit_file(
        source,
        of.read(data),
        options=options,
        opening=reading.opening(),
        days=days,
        seed=seed,
        progress=progress,
    )
    with atomic_write(output) as aside:
        aside.write_text(audit_page(found), encoding="utf-8")
    text = "\n".join([*found.lines(), f"written: {output}"])
    return {**found.to_dict(), "written": str(output)}, lambda _: display.line(text)
