"""Debiased labels from counted clicks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

from affinerank.cli import display
from affinerank.cli.options import (
    Clip,
    Counts,
    DataOptions,
    Days,
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
from affinerank.errors import ConfigError


@command
def debias(
    counts: Counts,
    *,
    output: Annotated[Path, Option("-o", "--output", help="Labels to write.")],
    to: Annotated[
        str,
        Option("--format", help="parquet, or judgments: qrels, quepid or opensearch."),
    ] = "parquet",
    grades: Annotated[
        int, Option(min=1, max=100, help="Highest grade of judgments.")
    ] = 4,
    least_impressions: Annotated[
        int, Option(min=1, help="Of a document that is judged; others are left out.")
    ] = 10,
    users: Users = None,
    data: Features = None,
    estimator: Annotated[str, Option(help="{ESTIMATORS}.")] = ESTIMATOR,
    clip: Clip = None,
    of: DataOptions,
    days: Days,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Write debiased labels, for those who train elsewhere.

    Example: affinerank debias counts.parquet --users users.json -o labels.parquet
    """
    from affinerank.pipeline import debias as debiased
    from affinerank.pipeline import save_labels
    from affinerank.pipeline.judgments import JUDGMENTS, save_judgments

    parquet = to == "parquet"
    if not parquet and to not in JUDGMENTS:
        known = ", ".join(JUDGMENTS)
        raise ConfigError(f"--format must be parquet, {known}, got {to!r}")
    suffix = {"suffix": ".parquet"} if parquet else {}
    require_writable(output, reads=[counts, users, data], **suffix)
    clicks = days.load(counts)
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
    if parquet:
        about = save_labels(labels, output)
    else:
        how = {"grades": grades, "least_impressions": least_impressions}
        about = save_judgments(labels, output, to=to, **how)
    show(about, as_json, display.notes)
