"""Which documents to swap, until users or a comparison are known."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

from affinerank.cli import display
from affinerank.cli.options import (
    Counts,
    DataOptions,
    Days,
    OtherOutput,
    Result,
    load,
    require_writable,
)


def plan_swaps(
    counts: Counts,
    *,
    click_model: Path,
    data: str | None = None,
    ranker: list[Path] | None = None,
    target: float | None = None,
    deepest: Annotated[int | None, Option(min=2)] = None,
    output: OtherOutput = None,
    of: DataOptions,
) -> Result:
    """Plan the fewest sessions with swapped documents until something is known.

    Example: affinerank plan-swaps counts.parquet --click-model click-model.json
    -o swaps.parquet

    Options:
        click_model: Click model, JSON: the best guess so far.
        ranker: Folder of a ranker: plan until its DCG@10 is known to differ from that
            of a second one (given alike), or of the logged ranking. Left out, until
            alpha and beta are known.
        target: Standard error wanted: of alpha, in units of alpha (0.1); with --ranker,
            of the difference (left out, what decides it).
        deepest: Deepest rank exchanged: 10, or 50 with --ranker.
        output: Write the swaps of each query, Parquet.
    """
    from affinerank.pipeline.plan_swaps import plan_swaps
    from affinerank.rankers.loading import load_ranker

    require_writable(output, suffix=".parquet", reads=[counts, click_model, data])
    found = plan_swaps(
        Days().load(counts),
        load(click_model),
        data=of.read(data),
        rankers=tuple(map(load_ranker, ranker or [])),
        target=target,
        deepest=deepest,
    )
    if output is not None:
        found.save(output)
    return found.to_dict(), display.swap_plan
