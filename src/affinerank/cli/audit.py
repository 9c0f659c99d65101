"""A log told to its owner, on one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from affinerank import display
from affinerank.cli.options import (
    Column,
    Features,
    Fold,
    Json,
    ListId,
    MissingValues,
    RanksFrom,
    Seed,
    Segment,
    Split,
    bars,
    mapping,
    read_data,
    show,
)
from affinerank.errors import ConfigError


def audit(
    source: Annotated[
        str, typer.Argument(metavar="LOG|COUNTS", help="A log, or counts of one.")
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Page to write, HTML.")
    ] = Path("audit.html"),
    data: Features = None,
    column: Column = None,
    ranks_from: RanksFrom = 1,
    segment: Segment = None,
    days: Annotated[
        float | None,
        typer.Option(help="Days that it is of, where the log has no dates."),
    ] = None,
    split: Split = None,
    fold: Fold = 1,
    seed: Seed = 0,
    missing: MissingValues = "keep",
    list_id: ListId = None,
    as_json: Json = False,
) -> None:
    """Say what a log is good for: usable, biased, and what to do next."""
    from affinerank.audit_page import audit_page
    from affinerank.clicks.log import LogOptions
    from affinerank.files import writable, written_whole
    from affinerank.pipeline import audit_file

    if output.suffix != ".html":
        raise ConfigError(f"{output}: the name of the output must end in .html")
    writable(output)
    options = LogOptions(
        columns=mapping(column or []),
        list_id=list_id,
        ranks_from=ranks_from,
        segment=segment,
    )
    read = None
    if data is not None:
        read = read_data(data, split, fold, missing, list_id=list_id)
    with bars() as progress:
        found = audit_file(
            source, read, options=options, days=days, seed=seed, progress=progress
        )
    with written_whole(output) as aside:
        aside.write_text(audit_page(found), encoding="utf-8")
    show({**found, "written": str(output)}, as_json, _draw)


def _draw(about: dict[str, Any]) -> None:
    names = ("usable", "position_bias", "trust_bias", "identified", "first_rank")
    for name in names:
        section = about[name]
        display.line(f"{name.replace('_', ' ')}: {section['verdict']}")
        for text in section["says"]:
            display.line(f"  {text}")
    for step in about["next"]:
        display.line(f"next: {step['title']}")
        for text in step["says"]:
            display.line(f"  {text}")
    display.line(f"written: {about['written']}")
