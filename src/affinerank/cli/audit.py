"""What a log is good for, on one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from affinerank.cli import display
from affinerank.cli.options import (
    DataOptions,
    Features,
    Json,
    LogReading,
    Seed,
    bars,
    command,
    require_writable,
    show,
)


@command
def audit(
    source: Annotated[
        str, Argument(metavar="LOG|COUNTS", help="A log, or counts of one.")
    ],
    *,
    output: Annotated[
        Path, Option("-o", "--output", help="Page to write, HTML.")
    ] = Path("audit.html"),
    data: Features = None,
    reading: LogReading,
    days: Annotated[
        float | None, Option(help="Days that it is of, where the log has no dates.")
    ] = None,
    of: DataOptions,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Say what a log is good for, and what to do next.

    Example: affinerank audit log.parquet --data yahoo-like:500 -o audit.html
    """
    from affinerank.audit import audit_file
    from affinerank.audit.page import audit_page
    from affinerank.files import written_whole

    require_writable(output, suffix=".html", reads=[source, data])
    options = reading.options(of.list_id)
    read = None if data is None else of.read(data)
    with bars() as progress:
        found = audit_file(
            source,
            read,
            options=options,
            opening=reading.opening(),
            days=days,
            seed=seed,
            progress=progress,
        )
    with written_whole(output) as aside:
        aside.write_text(audit_page(found), encoding="utf-8")

    def draw(_: object) -> None:
        for text in found.lines():
            display.line(text)
        display.line(f"written: {output}")

    show({**found.to_dict(), "written": str(output)}, as_json, draw)
