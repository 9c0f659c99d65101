"""Logs that are frames go in without a file."""

from __future__ import annotations

from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import affinerank as ar
from affinerank.logs.report import LogFaultsError

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning"),
]

LOG: dict[str, list[Any]] = {
    "session_id": [1, 1, 2, 2],
    "query_id": ["q", "q", "q", "q"],
    "doc_id": ["a", "b", "a", "b"],
    "position": [0, 1, 0, 1],
    "clicked": [True, False, True, True],
}
HOW: dict[str, Any] = {"columns": {"rank": "position"}, "ranks_from": 0}


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame(LOG, index=[4, 3, 2, 1]),
        pd.DataFrame(LOG).astype({"query_id": "category", "doc_id": "category"}),
        pl.DataFrame(LOG),
        pl.DataFrame(LOG).with_columns(pl.col("doc_id").cast(pl.Categorical)),
        pa.table(LOG),
        duckdb.from_arrow(pa.table(LOG)),
    ],
)
def test_frames_are_counted(frame: Any) -> None:
    counts = ar.count(frame, **HOW)
    assert counts.table.to_pylist() == [
        {"query_id": "q", "doc_id": doc, "rank": rank, "impressions": 2, "clicks": n}
        | {"sessions": 2}
        for doc, rank, n in (("a", 1, 2), ("b", 2, 1))
    ]


def test_faults_are_raised_and_findings_warned_of() -> None:
    twice = pa.table({name: [*values, values[-1]] for name, values in LOG.items()})
    with pytest.warns(ar.AffineRankWarning, match="an impression is repeated"):
        assert ar.count(twice, **HOW).clicks.tolist() == [2, 1]
    with pytest.raises(LogFaultsError, match="--ranks-from 0"):
        ar.count(pa.table(LOG), columns={"rank": "position"})
    with pytest.warns(ar.AffineRankWarning):
        kept = ar.count(
            pa.table({**LOG, "clicked": [1, 0, 5, 1]}), **HOW, bad_rows="drop"
        )
    assert kept.impressions.tolist() == [1, 1]


def test_what_is_no_frame_is_said() -> None:
    with pytest.raises(ar.DataError, match="expected a frame that speaks Arrow"):
        ar.count("log.csv")
    with pytest.raises(ar.DataError, match="2 columns have one name"):
        ar.count(pa.table({**LOG, "Clicked": [0] * 4}), **HOW)
