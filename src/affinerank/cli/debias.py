"""Debiased labels from counted clicks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

from affinerank.cli import display
from affinerank.cli.options import (
    Counts,
    DataOptions,
    Days,
    Output,
    Result,
    Seed,
    load,
    require_writable,
)
from affinerank.defaults import ESTIMATOR
from affinerank.support.errors import ConfigError
from affinerank.support.progress import Progress


def debias(
    counts: Counts,
    *,
    output: Output,
    to: Annotated[str, Option("--format")] = "parquet",
    grades: Annotated[int, Option(min=1, max=100)] = 4,
    min_impressions: Annotated[int, Option(min=1)] = 10,
    click_model: Path | None = None,
    data: str | None = None,
    estimator: str = ESTIMATOR,
    clip: str | None = None,
    of: DataOptions,
    days: Days,
    seed: Seed = 0,
    progress: Progress,
) -> Result:
    """Write debiased labels, for those who train elsewhere.

    Example: affinerank debias counts.parquet --click-model click-model.json
    -o labels.parquet

    Options:
        output: Labels to write.
        to: parquet, or judgments: qrels, quepid or opensearch.
        grades: Highest grade of judgments.
        min_impressions: Of a document that is judged; others are left out.
        estimator: {ESTIMATORS}.
    """
    from affinerank.export.judgments import JUDGMENTS, save_judgments
    from affinerank.pipeline.debias import debias as debiased
    from affinerank.pipeline.debias import save_labels

    parquet = to == "parquet"
    if not parquet and to not in JUDGMENTS:
        known = ", ".join(JUDGMENTS)
        raise ConfigError(f"--format must be parquet, {known}, got {to!r}")
    suffix = ".parquet" if parquet else None
    require_writable(output, reads=[counts, click_model, data], suffix=suffix)
    clicks = days.load(counts)
    labels = debiased(
        clicks,
        load(click_model),
        data=of.read(data),
        estimator=estimator,
        clip=clip,
        seed=seed,
        progress=progress,
    )
    if parquet:
        return save_labels(labels, output), display.notes
    how = {"grades": grades, "min_impressions": min_impressions}
    return save_judgments(labels, output, to=to, **how), display.notes
