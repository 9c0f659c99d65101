"""Debiased labels from counted clicks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from affinerank.cli import display
from affinerank.cli.options import (
    Clip,
    Counts,
    DataOptions,
    Features,
    Json,
    Seed,
    Users,
    bars,
    command,
    load_held_against,
    require_writable,
    show,
)
from affinerank.defaults import ESTIMATOR
from affinerank.estimators import ESTIMATORS


@command
def debias(
    counts: Counts,
    *,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Labels to write, Parquet.")
    ],
    users: Users = None,
    data: Features = None,
    estimator: Annotated[str, typer.Option(help=f"{ESTIMATORS.choices}.")] = ESTIMATOR,
    clip: Clip = None,
    of: DataOptions,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Write each document's debiased relevance, for those who train elsewhere."""
    from affinerank.clicks.counts import ClickCounts
    from affinerank.pipeline import debias as debiased
    from affinerank.pipeline import save_labels

    require_writable(output, suffix=".parquet", reads=[counts, users, data])
    clicks = ClickCounts.load(counts)
    with bars() as progress:
        labels = debiased(
            clicks,
            load_held_against(users, clicks, seed),
            data=None if data is None else of.read(data),
            estimator=estimator,
            clip=clip,
            seed=seed,
            progress=progress,
        )
    show(save_labels(labels, output), as_json, display.notes)
