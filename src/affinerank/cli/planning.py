"""Which documents to swap, until users or a comparison are known."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

from affinerank.cli import display
from affinerank.cli.options import (
    Counts,
    DataOptions,
    Features,
    Json,
    command,
    require_writable,
    show,
)


@command
def plan_swaps(
    counts: Counts,
    *,
    users: Annotated[Path, Option(help="User model, JSON: the best guess so far.")],
    data: Features = None,
    ranker: Annotated[
        list[Path] | None,
        Option(
            help="Folder of a ranker: plan until its DCG@10 is known to differ from "
            "that of a second one (given alike), or of the logged ranking. Left out, "
            "until alpha and beta are known."
        ),
    ] = None,
    target: Annotated[
        float | None,
        Option(
            help="Standard error wanted: of alpha, in units of alpha (0.1); with "
            "--ranker, of the difference (left out, what decides it)."
        ),
    ] = None,
    deepest: Annotated[
        int | None,
        Option(min=2, help="Deepest rank exchanged: 10, or 50 with --ranker."),
    ] = None,
    output: Annotated[
        Path | None,
        Option("-o", "--output", help="Write the swaps of each query, Parquet."),
    ] = None,
    of: DataOptions,
    as_json: Json = False,
) -> None:
    """Plan the fewest sessions with swapped documents until something is known.

    Example: affinerank plan-swaps counts.parquet --users users.json -o swaps.parquet
    """
    from affinerank.cli.options import load
    from affinerank.clicks.counts import ClickCounts
    from affinerank.pipeline.swap_plan import plan_swaps
    from affinerank.rankers.loading import load_ranker

    require_writable(output, suffix=".parquet", reads=[counts, users, data])
    found = plan_swaps(
        ClickCounts.load(counts),
        load(users),
        data=None if data is None else of.read(data),
        rankers=tuple(map(load_ranker, ranker or [])),
        target=target,
        deepest=deepest,
    )
    if output is not None:
        found.save(output)
    show(found.to_dict(), as_json, display.swap_plan)
