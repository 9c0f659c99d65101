"""``affinerank data``: look at ranking data, and convert them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from affinerank import display
from affinerank.cli.options import (
    Data,
    Fold,
    Json,
    MissingValues,
    RelevantAbove,
    Seed,
    Split,
    bars,
    missing_value,
    read_data,
    require_parquet,
    show,
)


def describe(
    data: Data,
    split: Split = None,
    relevant_above: RelevantAbove = 2.0,
    fold: Fold = 1,
    seed: Seed = 0,
    missing: MissingValues = "error",
    as_json: Json = False,
) -> None:
    """Say what a set holds, and how a production ranker would order it."""
    from affinerank.data.catalog import DataSource
    from affinerank.data.reading import parse_split
    from affinerank.pipeline import describe

    source = DataSource.parse(data, fold=fold, missing=missing_value(missing))
    with bars() as progress:
        about = describe(
            source,
            split=parse_split(split) if split else None,
            relevant_above=relevant_above,
            seed=seed,
            progress=progress,
        )
    show(about, as_json, display.description)


def convert(
    data: Annotated[str, typer.Argument(metavar="IN", help="LETOR text, or DATA.")],
    target: Annotated[Path, typer.Argument(metavar="OUT.parquet")],
    split: Split = None,
    fold: Fold = 1,
    missing: MissingValues = "error",
    as_json: Json = False,
) -> None:
    """Write ranking data as Parquet: query_id, doc_id, label, f1 .. fn."""
    from affinerank.data.parquet import write_parquet

    require_parquet(target)
    read = read_data(data, split, fold, missing)
    write_parquet(read, target)
    about = {
        "written": str(target),
        "queries": read.n_queries,
        "documents": read.n_docs,
        "features": read.n_features,
    }
    show(
        about,
        as_json,
        lambda a: display.line(
            f"{a['written']}: {a['queries']:,} queries, {a['documents']:,} documents, "
            f"{a['features']:,} features"
        ),
    )
