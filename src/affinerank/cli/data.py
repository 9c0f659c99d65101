"""``affinerank data``: look at ranking data, and convert them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument

from affinerank.cli import display
from affinerank.cli.options import (
    Data,
    DataOptions,
    Json,
    RelevantAbove,
    Seed,
    bars,
    command,
    require_writable,
    show,
)
from affinerank.defaults import RELEVANT_ABOVE


@command
def describe(
    data: Data,
    *,
    relevant_above: RelevantAbove = RELEVANT_ABOVE,
    of: DataOptions,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Say what a set holds, and how production would order it.

    Example: affinerank data describe yahoo-like:500
    """
    from affinerank.data.reading import parse_split
    from affinerank.pipeline import describe

    with bars() as progress:
        about = describe(
            of.source(data),
            split=parse_split(of.split) if of.split else None,
            relevant_above=relevant_above,
            seed=seed,
            progress=progress,
        )
    show(about, as_json, display.description)


@command
def convert(
    data: Annotated[str, Argument(metavar="IN", help="LETOR text, or DATA.")],
    target: Annotated[Path, Argument(metavar="OUT.parquet")],
    *,
    of: DataOptions,
    as_json: Json = False,
) -> None:
    """Write ranking data as Parquet: query_id, doc_id, label, f1 .. fn.

    Example: affinerank data convert yahoo-like:500 data.parquet
    """
    from affinerank.data.parquet import write_parquet

    require_writable(target, suffix=".parquet", reads=[data])
    read = of.read(data)
    write_parquet(read, target)
    about = {
        "written": str(target),
        "queries": read.n_queries,
        "documents": read.n_docs,
        "features": read.n_features,
    }
    show(about, as_json, display.notes)
