"""From a shop's own tables to a model that its search engine serves: five commands."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest

from affinerank.cli import main

pytestmark = pytest.mark.slow

LOG = {
    "session_id": "visit",
    "query_id": "search",
    "doc_id": "sku",
    "rank": "position",
    "clicked": "clicked",
    "timestamp": "at",
}
PAGE = 10


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A log with 0-based positions on pages, True and False, times, gaps, duplicates.

    Features have names of their own, texts, brands, missing values, and a title.
    """
    monkeypatch.chdir(tmp_path)
    world, rng = "yahoo-like:60", Random(0)
    assert main(["simulate", world, "--sessions", "6000", "--log", "log.parquet"]) == 0
    assert main(["data", "convert", world, "f.parquet", "--split", "train"]) == 0
    with Path("shop.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*LOG.values(), "page"])
        for i, row in enumerate(pq.read_table("log.parquet").to_pylist()):
            at = f"2026-01-{1 + i % 28:02d}T10:00:00Z"
            page, position = divmod(row["rank"] - 1, PAGE)
            own = (f"s{row['query_id']}", f"p{row['doc_id']}", position)
            line = [row["session_id"], *own, bool(row["clicked"]), at, page + 1]
            writer.writerows([line] * (0 if i % 499 == 3 else 1 + (i % 997 == 0)))
    table = pq.read_table("f.parquet")
    names = table.schema.names[3:33]
    with Path("features.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        theirs = ["search", "sku", "title", "brand", "type", "new"]
        writer.writerow([*theirs, *(f"Feature {n}" for n in names)])
        for row in table.to_pylist():
            values = ["" if rng.random() < 0.02 else row[name] for name in names]
            ids = [f"s{row['query_id']}", f"p{row['doc_id']}"]
            kind = [f"shoe {row['doc_id']}, best", rng.choice(["nike", "puma", ""])]
            kind += [rng.choice(["12", "7", "31"]), rng.choice(["True", "False", ""])]
            writer.writerow([*ids, *kind, *values])
    return tmp_path


def test_five_commands_lead_to_a_served_model_and_an_interval(
    shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = [word for pair in LOG.items() for word in ("--column", "=".join(pair))]
    data = ["--data", "features.csv", "--ignore", "title", "--category", "type"]
    data += ["--data-column", "query_id=search", "--data-column", "doc_id=sku"]
    commands = [
        ["count", "shop.csv", *log, "--ranks-from", "0", "--bad-rows", "drop"],
        ["estimate", "counts.parquet", *data, "-o", "click-model.json"],
        ["train", "counts.parquet", *data, "--click-model", "click-model.json"],
        ["evaluate", "model", *data, "--counts", "counts.parquet"],
        ["export", "model", "--to", "opensearch", "-o", "model.json"],
    ]
    commands[0] += ["--page", "page", "--page-size", str(PAGE)]
    commands[0] += ["--holdout", "0.3", "-o", "counts.parquet"]
    commands[2] += ["--ranker", "lightgbm", "--set", "trees=20", "-o", "model"]
    commands[2] += ["--categories", "one-hot"]  # a search engine holds no categories
    commands[3] += ["--click-model", "click-model.json", "--against", "logged"]
    commands[3] += ["--replicates", "2", "--json"]
    printed = {}
    for words in commands:
        assert main(words) == 0, capsys.readouterr().err
        printed[words[0]] = capsys.readouterr().out
    assert "verdict" in printed["evaluate"]
    trees = json.loads((shop / "model.json").read_text())
    used = {tree["split"] for tree in trees if "split" in tree}
    assert used
    about = json.loads((shop / "model.json.json").read_text())
    assert {"brand=nike", "type=12", "new", "Feature f1"} <= {*about["features"]}
    assert about["categories"] == {"brand": ["nike", "puma"], "type": ["12", "31", "7"]}
    assert used <= {*about["features"]}


def test_what_a_shop_has_to_say_is_said(
    shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = ["data", "describe", "features.csv", "--data-column", "query_id=search"]
    data += ["--data-column", "doc_id=sku"]
    log = [word for pair in LOG.items() for word in ("--column", "=".join(pair))]
    for words, remedy in (
        (data, "--ignore title"),
        (["count", "shop.csv", *log, "--ranks-from", "0"], "--page or --offset"),
    ):
        assert main(words) == 2
        assert remedy in capsys.readouterr().err
    assert not (shop / "counts.parquet").exists()
