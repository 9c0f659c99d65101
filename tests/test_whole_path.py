"""A shop's whole path, from its two CSV files to a served ranker, and the wrong turns.

A newcomer gives the names of columns and nothing else. This test is never skipped: it
needs no data, search engine or browser beyond what the package installs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import polars as pl
import pytest

from affinerank.cli import main

SHOP = "shop-like:120"
LOG_COLUMNS = [
    *("--column", "query_id=query", "--column", "doc_id=product_id"),
    *("--column", "rank=position", "--offset", "results_before"),
]
DATA_COLUMNS = [
    *("--data-column", "query_id=query", "--data-column", "doc_id=product_id"),
]
PRODUCTS = ["--data", "products.csv", *DATA_COLUMNS]

Run = Callable[..., str]


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A folder with the shop's log and its table of products."""
    words = ["simulate", SHOP, "--clicks", "6000", "--log", str(tmp_path / "log.csv")]
    assert main([*words, "--features", str(tmp_path / "products.csv")]) == 0
    return tmp_path


@pytest.fixture
def run(
    shop: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    """Run a command in the shop's folder; return what it prints."""
    monkeypatch.chdir(shop)

    def command_output(*words: str) -> str:
        status = main([*words])
        output = capsys.readouterr()
        assert status == 0, output.err
        return output.out

    return command_output


def score_by_trees(trees: list[Any], features: Mapping[str, float | None]) -> float:
    """Score a document by an exported file, as OpenSearch's documentation says."""

    def leaf(node: dict[str, Any]) -> float:
        while "leaf" not in node:
            value = features[node["split"]]
            if value is None:
                branch = node["missing"]
            elif np.float32(value) < np.float32(node["split_condition"]):
                branch = node["yes"]
            else:
                branch = node["no"]
            [node] = [child for child in node["children"] if child["nodeid"] == branch]
        return float(node["leaf"])

    return sum(map(leaf, trees))


def served_features(
    product: Mapping[str, Any], names: list[str]
) -> Iterator[tuple[str, float | None]]:
    """What a search engine knows of a product: numbers, and its brand as 0s and a 1."""
    for name in names:
        column, equals, value = name.partition("=")
        yield name, float(product[column] == value) if equals else product[name]


def test_from_a_shops_files_to_a_served_ranker(run: Run, shop: Path) -> None:
    run("count", "log.csv", *LOG_COLUMNS, "--holdout", "0.2")
    assert "trust bias: found" in run("audit", "log.csv", *LOG_COLUMNS)
    run("estimate", "counts.parquet", *PRODUCTS, "-o", "users.json")
    learnt = ["counts.parquet", *PRODUCTS, "--users", "users.json"]
    assert "a blend of trees" in run("train", *learnt, "-o", "model")

    # The verdict by clicks: better than production, as the known labels say, too.
    judged = ["--counts", "counts.parquet", "--users", "users.json"]
    by_clicks = run("evaluate", "model", *PRODUCTS, *judged)
    by_labels = run("evaluate", "model", "--data", SHOP)
    better = "model is better than production"
    assert better in by_clicks.splitlines()[-1]
    assert better in by_labels.splitlines()[-1]

    # The same ranker as one graph, which ONNX runs.
    run("export", "model", "--to", "onnx", *PRODUCTS, "-o", "model.onnx")
    onnxruntime.InferenceSession(shop / "model.onnx")
    compared = json.loads((shop / "model.onnx.json").read_text())["parity"]
    assert compared["relative"] < 1e-5

    # What OpenSearch serves: trees, better than production by the known labels.
    run("train", *learnt, "--for", "opensearch", "-o", "served")
    run("export", "served", "--to", "opensearch", *PRODUCTS, "-o", "served.json")
    served_by_labels = run("evaluate", "served", "--data", SHOP)
    assert "served is better than production" in served_by_labels.splitlines()[-1]

    # The file scores the shop's own table as the judged ranker does.
    run("rank", "served", *PRODUCTS, "-o", "ranked.parquet")
    products = pl.read_csv("products.csv", infer_schema_length=None)
    keys = {"query_id": "query", "doc_id": "product_id"}
    ranked = pl.read_parquet("ranked.parquet").rename(keys)
    joined = products.join(ranked, on=[*keys.values()], validate="1:1")
    assert len(joined) == len(products) > 4000
    trees = json.loads((shop / "served.json").read_text())
    names = json.loads((shop / "served.json.json").read_text())["features"]
    for product in joined[::20].to_dicts():
        features = dict(served_features(product, names))
        assert score_by_trees(trees, features) == pytest.approx(
            product["score"], abs=1e-5
        )


# What a newcomer types; what the sentence must name; the way on.
WRONG_TURNS = [
    # Names of columns that are not given.
    ("count log.csv", "'query_id'", "--column query_id=NAME"),
    ("estimate all.parquet --data products.csv", "'query_id'", "--data-column"),
    # Positions begin anew on each page, and nobody said so.
    ("count log.csv COLUMNS_WITHOUT_OFFSET", "two documents at one rank", "--offset"),
    # One file in the place of another.
    ("count products.csv", "none of a log's columns", "--data"),
    ("estimate log.csv PRODUCTS", "log.csv", "affinerank count log.csv"),
    ("train log.csv PRODUCTS -o new", "log.csv", "affinerank count log.csv"),
    ("estimate all.parquet LOG_AS_DATA", "a click log", "affinerank count"),
    ("train all.parquet PRODUCTS --users all.parquet -o new", "all.", "estimate"),
    ("evaluate all.parquet PRODUCTS", "all.parquet", "affinerank train"),
    ("export products.csv --to onnx -o x.onnx", "products.csv", "affinerank train"),
    # A step that was left out.
    ("evaluate model PRODUCTS", "labels", "--counts"),
    ("evaluate model PRODUCTS --counts all.parquet", "affine", "affinerank estimate"),
    ("evaluate model PRODUCTS JUDGED_BY_ALL", "learnt from all", "count --holdout 0.2"),
    # An engine that cannot hold the ranker, or that nobody knows.
    ("export model --to opensearch -o x.json", "blend", "train --for opensearch"),
    ("train all.parquet PRODUCTS --for elastic -o new", "elastic", "elasticsearch"),
    # Too few clicks.
    ("estimate few.parquet PRODUCTS -o few.json", "too few", "--least-clicks"),
    ("train few.parquet PRODUCTS -o new", "too few", "--estimator naive"),
    # A word where numbers are expected.
    ("count word_as_rank.csv LOG", "rank is not a whole number", "--bad-rows drop"),
    ("train all.parquet WORD_AS_PRICE -o new", "'price'", "correct it"),
]
WORDS = {
    "PRODUCTS": PRODUCTS,
    "LOG": LOG_COLUMNS,
    "COLUMNS_WITHOUT_OFFSET": LOG_COLUMNS[:6],
    "LOG_AS_DATA": ["--data", "log.csv", *DATA_COLUMNS],
    "WORD_AS_PRICE": ["--data", "word_as_price.csv", *DATA_COLUMNS],
    "JUDGED_BY_ALL": ["--counts", "all.parquet", "--estimator", "naive"],
}


def write_with_a_word(source: Path, column: str, target: Path) -> None:
    """Copy a CSV file with the word "cheap" in the middle of a column."""
    lines = source.read_text().splitlines()
    names = lines[0].replace('"', "").split(",")
    cells = lines[1000].split(",")
    cells[names.index(column)] = "cheap"
    lines[1000] = ",".join(cells)
    target.write_text("\n".join(lines) + "\n")


def test_a_wrong_turn_is_one_sentence_with_the_next_command(
    run: Run, shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = (shop / "log.csv").read_text().splitlines(keepends=True)
    (shop / "few.csv").write_text("".join(lines[:200]))
    run("count", "few.csv", *LOG_COLUMNS, "-o", "few.parquet")
    run("count", "log.csv", *LOG_COLUMNS, "-o", "all.parquet")
    learnt = ["all.parquet", *PRODUCTS, "--estimator", "naive"]
    run("train", *learnt, "-o", "model")
    write_with_a_word(shop / "log.csv", "position", shop / "word_as_rank.csv")
    write_with_a_word(shop / "products.csv", "price", shop / "word_as_price.csv")
    files = sorted(shop.iterdir())

    faults = []
    for typed, place, remedy in WRONG_TURNS:
        words = [word for part in typed.split() for word in WORDS.get(part, [part])]
        status = main(words)
        printed = capsys.readouterr().err.splitlines()
        sentences = [line for line in printed if line.startswith("affinerank: ")]
        named = place in printed[-1] and remedy in printed[-1]
        if status != 2 or sentences != printed[-1:] or not named:
            faults.append((typed, status, printed))
        assert sorted(shop.iterdir()) == files  # nothing was written
    assert faults == []
