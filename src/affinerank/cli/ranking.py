"""Lists of a ranker."""

from __future__ import annotations

from pathlib import Path

from affinerank.cli import display
from affinerank.cli.options import (
    DataOptions,
    Models,
    Output,
    Positive,
    Result,
    Seed,
    require_writable,
)


def rank(
    models: Models,
    *,
    data: str,
    output: Output = Path("lists.parquet"),
    policy: list[str] | None = None,
    top_k: Positive = None,
    of: DataOptions,
    seed: Seed = 0,
) -> Result:
    """Rank the documents of each query, or draw a list by a policy.

    Example: affinerank rank model --data yahoo-like:500 --top-k 10 -o lists.parquet

    Options:
        models: Folder of a ranker; two, to interleave.
        policy: Draw lists: {POLICIES}, as in 'epsilon-swap(epsilon=0.2)'.
    """
    from affinerank.pipeline.rank import rank
    from affinerank.rankers.loading import load_ranker
    from affinerank.support.arrow import pq
    from affinerank.support.files import atomic_write

    require_writable(output, suffix=".parquet", reads=[*models, data])
    rankers = [load_ranker(folder) for folder in models]
    read = of.read(data, "test")
    lists = rank(rankers, read, policy=policy or (), top_k=top_k, seed=seed)
    with atomic_write(output) as aside:
        pq.write_table(lists, aside, compression="zstd")
    about = {"queries": read.n_queries, "rows": lists.num_rows, "written": str(output)}
    return about, display.notes
