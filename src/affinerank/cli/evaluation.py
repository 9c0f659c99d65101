"""Rankers judged by labels."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from affinerank import display
from affinerank.cli.options import (
    Fold,
    Json,
    MissingValues,
    RelevantAbove,
    Split,
    read_data,
    show,
)


def evaluate(
    models: Annotated[
        list[Path], typer.Argument(metavar="MODEL...", help="Folders of rankers.")
    ],
    data: Annotated[str, typer.Option(help="Labelled data; of splits, test.")],
    metric: Annotated[str, typer.Option(help="As in nDCG@10, P@5, RR.")] = "nDCG@10",
    split: Split = None,
    relevant_above: RelevantAbove = 2.0,
    fold: Fold = 1,
    missing: MissingValues = "error",
    as_json: Json = False,
) -> None:
    """Judge rankers by labels, and compare each with the first."""
    from affinerank.metrics import Metric
    from affinerank.pipeline import evaluate_rankers
    from affinerank.rankers.load import load_ranker

    rankers = {str(folder): load_ranker(folder) for folder in models}
    about = evaluate_rankers(
        rankers,
        read_data(data, split, fold, missing, default="test"),
        metric=Metric.parse(metric),
        relevant_above=relevant_above,
    )
    show(about, as_json, display.evaluated)
