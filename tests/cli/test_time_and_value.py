"""Train on clicks until a moment, judge by those since; values and users come along."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from affinerank.cli import main

pytestmark = pytest.mark.slow

WORLD, MOMENT = "yahoo-like:60", "2026-01-08T00:00:00Z"
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pa.Table:
    """Two weeks of sessions of 90 users; a click on an odd document is worth 9."""
    monkeypatch.chdir(tmp_path)
    draw = ["simulate", WORLD, "--sessions", "4000", "--log", "log.parquet"]
    assert main([*draw, "--save-click-model", "click-model.json"]) == 0
    table = pq.read_table("log.parquet")
    session = table["session_id"].to_numpy()
    worth = 1.0 + 8.0 * (table["doc_id"].to_numpy() % 2)
    when = np.datetime64("2026-01-01") + (session % 14 * 86400).astype("timedelta64[s]")
    table = table.append_column("revenue", pa.array(worth))
    table = table.append_column("user_id", pa.array(session % 90))
    table = table.append_column("timestamp", pa.array(when))
    pq.write_table(table, "log.parquet")
    return table


def answered(capsys: Capture, *arguments: str) -> Any:
    capsys.readouterr()
    assert main([*arguments, "--json"]) == 0, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


def test_a_ranker_of_the_past_is_judged_by_what_came_later(
    log: pa.Table, capsys: Capture
) -> None:
    until, since = ["--until", MOMENT], ["--since", MOMENT]
    more = ["--holdout", "0.3", "--value", "revenue", "--user-buckets", "30"]
    early = answered(capsys, "count", "log.parquet", *until, *more, "-o", "a.parquet")
    late = answered(capsys, "count", "log.parquet", *since, *more, "-o", "b.parquet")
    plain = answered(capsys, "count", "log.parquet", *since, "-o", "c.parquet")
    assert early["rows"] + late["rows"] == log.num_rows
    assert late["clicks"] == plain["clicks"]
    of = ["--data", WORLD, "--click-model", "click-model.json"]
    train = ["train", "a.parquet", *of, "--ranker", "lightgbm", "--set", "trees=9"]
    answered(capsys, *train, "--tuning", "none", "-o", "model")
    evaluator = ["evaluate", "model", *of, "--metric", "DCG@3", "--counts"]
    held = answered(capsys, *evaluator, "b.parquet")
    assert (held["left_out"], held["user_buckets"]) == (0, 30)
    assert held["units"].startswith("the value of an average click, times relevance")
    [row] = held["rankers"]
    value, logged = row["value"], row["logged"]
    difference = row["against_logged"]
    assert value["estimate"] - logged["estimate"] == pytest.approx(
        difference["estimate"]
    )
    assert "production (the logged order)" in held["conclusions"][0]
    # Without a holdout, the queries of the first week are left out of the second.
    other = answered(capsys, *evaluator, "c.parquet")
    assert other["left_out"] + held["queries"] == 60
    assert (other["queries"], other["user_buckets"]) == (held["queries"], None)
    labels = answered(
        capsys,
        "debias",
        "a.parquet",
        "--click-model",
        "click-model.json",
        "-o",
        "labels.parquet",
    )
    assert labels["gauge"].startswith("relevance times value")
    assert "value" in pq.read_schema("labels.parquet").names


def test_a_log_without_moments_cannot_be_split_by_time(
    log: pa.Table, capsys: Capture
) -> None:
    pq.write_table(log.drop_columns("timestamp"), "plain.parquet")
    for option in ("--since", "--until"):
        assert main(["count", "plain.parquet", option, MOMENT]) == 2
        fault = capsys.readouterr().err
        assert fault.startswith("affinerank: --since and --until need a timestamp")
        assert fault.count("\n") == 1
