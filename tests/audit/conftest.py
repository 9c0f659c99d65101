"""A world whose relevance is known, and small logs."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from affinerank.clicks.simulation import simulate_counts
from affinerank.clicks.traffic import Traffic
from affinerank.counts.counts import ClickCounts
from affinerank.data.sources import load
from affinerank.pipeline.simulate import prepare_simulation

WriteLog = Callable[..., str]


@pytest.fixture
def write_log(tmp_path: Path) -> WriteLog:
    """Writes a log of session, query, document, rank and click, with more columns."""

    def write(rows: Sequence[tuple[Any, ...]], **more: list[Any]) -> str:
        names = ("session_id", "query_id", "doc_id", "rank", "clicked")
        columns = zip(*(rows or [("s", "q", "d", 1, 1)]), strict=True)
        table = pa.table({**dict(zip(names, map(list, columns), strict=True)), **more})
        path = tmp_path / "log.parquet"
        pq.write_table(table.slice(0, len(rows)), path)
        return str(path)

    return write


@pytest.fixture(scope="session")
def world() -> tuple[ClickCounts, dict[tuple[str, str], float]]:
    """Counts of a world at fixed ranks, and the relevance of its documents."""
    data = load("yahoo-like:150@50").train
    made = prepare_simulation(data, traffic=Traffic(top_k=6), seed=0)
    sessions = made.sessions_for(6e4)
    counts = simulate_counts(made, sessions, rng=np.random.default_rng(0))
    relevance = {
        (str(data.query_ids[q]), str(d)): float(g)
        for q, d, g in zip(data.query_of_doc, data.doc_ids, made.relevance, strict=True)
    }
    return counts, relevance
