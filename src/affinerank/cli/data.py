"""``affinerank data``: look at ranking data, and convert them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument

from affinerank.cli import display
from affinerank.cli.options import Data, DataOptions, Result, Seed, require_writable
from affinerank.defaults import RELEVANT_ABOVE
from affinerank.support.progress import Progress


def describe(
    data: Data,
    *,
    relevant_above: float = RELEVANT_ABOVE,
    of: DataOptions,
    seed: Seed = 0,
    progress: Progress,
) -> Result:
    """Say what a set holds, and how production would order it.

    Example: affinerank data describe yahoo-like:500
    """
    from affinerank.data.read_options import parse_split
    from affinerank.pipeline.description import describe

    about = describe(
        of.source(data),
        split=parse_split(of.split) if of.split else None,
        relevant_above=relevant_above,
        seed=seed,
        progress=progress,
    )
    return about, display.description


def convert(
    data: Annotated[str, Argument(metavar="IN")],
    target: Annotated[Path, Argument(metavar="OUT.parquet")],
    *,
    of: DataOptions,
) -> Result:
    """Write ranking data as Parquet: query_id, doc_id, label, f1 .. fn.

    Example: affinerank data convert yahoo-like:500 data.parquet

    Options:
        data: LETOR text, or DATA.
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
    return about, display.notes
