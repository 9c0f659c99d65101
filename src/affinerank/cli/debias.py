"""Debiased labels from counted clicks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from affinerank import display
from affinerank.cli.options import Counts, Json, require_parquet, show


def debias(
    counts: Counts,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Labels to write, Parquet.")
    ],
    users: Annotated[
        Path | None, typer.Option(help="User model, JSON; naive needs none.")
    ] = None,
    estimator: Annotated[
        str, typer.Option(help="naive, ips, bayes-ips or affine.")
    ] = "affine",
    clip: Annotated[
        str | None, typer.Option(help="Least alpha: a number, or 10/sqrt(n).")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write each document's debiased relevance, for those who train elsewhere."""
    from affinerank.clicks.counts import ClickCounts
    from affinerank.clicks.usermodel import UserModel
    from affinerank.files import writable
    from affinerank.pipeline import debias as debiased
    from affinerank.pipeline import save_labels

    require_parquet(output)
    writable(output)
    labels = debiased(
        ClickCounts.load(counts),
        UserModel.load(users) if users else None,
        estimator=estimator,
        clip=clip,
    )
    show(save_labels(labels, output), as_json, display.notes)
