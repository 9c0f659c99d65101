"""A shop goes from its two CSV files to a served ranker; then it makes mistakes.

The first test follows the commands of the documentation. The shop gives the names of
its columns and otherwise uses defaults. The second test makes typical mistakes, and
expects an error message with the next command to run. Both tests always run: they need
no downloads, search engine or browser.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import polars as pl
import pytest

from affinerank.cli import main

SHOP = "shop-like:120"
# How the shop's columns are called, in its log and in its table of products.
LOG_COLUMNS_WITHOUT_OFFSET = [
    *("--column", "query_id=query"),
    *("--column", "doc_id=product_id"),
    *("--column", "rank=position"),
]
LOG_COLUMNS = [*LOG_COLUMNS_WITHOUT_OFFSET, "--offset", "results_before"]
DATA_COLUMNS = [
    *("--data-column", "query_id=query"),
    *("--data-column", "doc_id=product_id"),
]
PRODUCTS = ["--data", "products.csv", *DATA_COLUMNS]

Run = Callable[..., str]


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """Return a folder with the shop's log and its table of products."""
    log = str(tmp_path / "log.csv")
    products = str(tmp_path / "products.csv")
    files = ["--log", log, "--features", products]
    assert main(["simulate", SHOP, "--clicks", "6000", *files]) == 0
    return tmp_path


@pytest.fixture
def run(
    shop: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    """Return a function that runs a command in the shop's folder.

    It returns what the command prints; the command must succeed.
    """
    monkeypatch.chdir(shop)

    def run_command(*arguments: str) -> str:
        status = main([*arguments])
        output = capsys.readouterr()
        assert status == 0, output.err
        return output.out

    return run_command


def score_by_trees(
    trees: list[dict[str, Any]], features: Mapping[str, float | None]
) -> float:
    """Score a document by exported trees, as OpenSearch's documentation describes."""
    return sum(find_leaf(tree, features) for tree in trees)


def find_leaf(tree: dict[str, Any], features: Mapping[str, float | None]) -> float:
    """Return the value of the leaf that a document reaches."""
    node = tree
    while "leaf" not in node:
        value = features[node["split"]]
        if value is None:
            next_id = node["missing"]
        elif np.float32(value) < np.float32(node["split_condition"]):
            next_id = node["yes"]
        else:
            next_id = node["no"]
        [node] = [child for child in node["children"] if child["nodeid"] == next_id]
    return float(node["leaf"])


def features_of_product(
    product: Mapping[str, Any], feature_names: list[str]
) -> dict[str, float | None]:
    """Return a product's features as a search engine stores them.

    A feature such as ``brand=nike`` is 1 for products of that brand, and else 0.
    """
    features: dict[str, float | None] = {}
    for name in feature_names:
        column, equals, value = name.partition("=")
        if equals:
            features[name] = float(product[column] == value)
        else:
            features[name] = product[name]
    return features


def test_from_a_shops_files_to_a_served_ranker(run: Run, shop: Path) -> None:
    # Count the log, check it, estimate how users click, and train.
    run("count", "log.csv", *LOG_COLUMNS, "--holdout", "0.2")
    audit_report = run("audit", "log.csv", *LOG_COLUMNS)
    assert "trust bias: found" in audit_report
    run("estimate", "counts.parquet", *PRODUCTS, "-o", "click-model.json")
    inputs = ["counts.parquet", *PRODUCTS, "--click-model", "click-model.json"]
    train_output = run("train", *inputs, "-o", "model")
    assert "a blend of trees" in train_output

    # Held-out clicks say that the ranker is better than production. So do the labels.
    held_out_clicks = [
        "--counts",
        "counts.parquet",
        "--click-model",
        "click-model.json",
    ]
    by_clicks = run("evaluate", "model", *PRODUCTS, *held_out_clicks)
    assert "model is better than production" in by_clicks.splitlines()[-1]
    by_labels = run("evaluate", "model", "--data", SHOP)
    assert "model is better than production" in by_labels.splitlines()[-1]

    # ONNX can run the exported blend, and it scores as the ranker does.
    run("export", "model", "--to", "onnx", *PRODUCTS, "-o", "model.onnx")
    onnxruntime.InferenceSession(shop / "model.onnx")
    description = json.loads((shop / "model.onnx.json").read_text())
    assert description["parity"]["relative"] < 1e-5

    # OpenSearch serves trees. They are better than production, too.
    run("train", *inputs, "--for", "opensearch", "-o", "served")
    run("export", "served", "--to", "opensearch", *PRODUCTS, "-o", "served.json")
    served_by_labels = run("evaluate", "served", "--data", SHOP)
    assert "served is better than production" in served_by_labels.splitlines()[-1]

    # The ranker's scores, beside the shop's own table of products.
    run("rank", "served", *PRODUCTS, "-o", "ranked.parquet")
    products = pl.read_csv("products.csv", infer_schema_length=None)
    shop_names = {"query_id": "query", "doc_id": "product_id"}
    ranked = pl.read_parquet("ranked.parquet").rename(shop_names)
    scored_products = products.join(
        ranked, on=list(shop_names.values()), validate="1:1"
    )
    assert len(scored_products) == len(products) > 4000

    # The exported trees give the same scores.
    trees = json.loads((shop / "served.json").read_text())
    served_description = json.loads((shop / "served.json.json").read_text())
    for product in scored_products[::20].to_dicts():
        features = features_of_product(product, served_description["features"])
        expected_score = pytest.approx(product["score"], abs=1e-5)
        assert score_by_trees(trees, features) == expected_score


# A mistake; what the error message must name; and the remedy that it must give. Words
# in capitals stand for the arguments of ARGUMENTS.
MISTAKES = [
    # The names of columns are left out.
    ("count log.csv", "'query_id'", "--column query_id=NAME"),
    ("estimate all.parquet --data products.csv", "'query_id'", "--data-column"),
    # Positions start again on each page, and the option for that is left out.
    ("count log.csv COLUMNS_WITHOUT_OFFSET", "two documents at one rank", "--offset"),
    # A file of the wrong kind.
    ("count products.csv", "none of a log's columns", "--data"),
    ("estimate log.csv PRODUCTS", "log.csv", "affinerank count log.csv"),
    ("train log.csv PRODUCTS -o new", "log.csv", "affinerank count log.csv"),
    ("estimate all.parquet LOG_AS_DATA", "a click log", "affinerank count"),
    ("train all.parquet PRODUCTS --click-model all.parquet -o new", "all.", "estimate"),
    ("evaluate all.parquet PRODUCTS", "all.parquet", "affinerank train"),
    ("export products.csv --to onnx -o x.onnx", "products.csv", "affinerank train"),
    # A step is left out.
    ("evaluate model PRODUCTS", "labels", "--counts"),
    ("evaluate model PRODUCTS --counts all.parquet", "affine", "affinerank estimate"),
    ("evaluate model PRODUCTS ON_ALL_CLICKS", "learnt from all", "count --holdout 0.2"),
    # An engine that cannot serve the ranker, or that does not exist.
    ("export model --to opensearch -o x.json", "blend", "train --for opensearch"),
    ("train all.parquet PRODUCTS --for elastic -o new", "elastic", "elasticsearch"),
    # Too few clicks.
    ("estimate few.parquet PRODUCTS -o few.json", "too few", "--min-clicks"),
    ("train few.parquet PRODUCTS -o new", "too few", "--estimator naive"),
    # A word where numbers are expected.
    ("count word_as_rank.csv LOG", "rank is not a whole number", "--bad-rows drop"),
    ("train all.parquet WORD_AS_PRICE -o new", "'price'", "correct it"),
]
ARGUMENTS = {
    "PRODUCTS": PRODUCTS,
    "LOG": LOG_COLUMNS,
    "COLUMNS_WITHOUT_OFFSET": LOG_COLUMNS_WITHOUT_OFFSET,
    "LOG_AS_DATA": ["--data", "log.csv", *DATA_COLUMNS],
    "WORD_AS_PRICE": ["--data", "word_as_price.csv", *DATA_COLUMNS],
    "ON_ALL_CLICKS": ["--counts", "all.parquet", "--estimator", "naive"],
}


def test_a_mistake_gives_one_sentence_with_the_next_command(
    run: Run, shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Files that the mistakes need: few clicks, all clicks, a ranker, and words where
    # numbers should be.
    log_lines = (shop / "log.csv").read_text().splitlines(keepends=True)
    (shop / "few.csv").write_text("".join(log_lines[:200]))
    run("count", "few.csv", *LOG_COLUMNS, "-o", "few.parquet")
    run("count", "log.csv", *LOG_COLUMNS, "-o", "all.parquet")
    run("train", "all.parquet", *PRODUCTS, "--estimator", "naive", "-o", "model")
    copy_with_a_word(shop / "log.csv", "position", shop / "word_as_rank.csv")
    copy_with_a_word(shop / "products.csv", "price", shop / "word_as_price.csv")
    files_before = sorted(shop.iterdir())

    # Every mistake ends with one error message, and writes nothing.
    unhelpful = []
    for command, culprit, remedy in MISTAKES:
        arguments = []
        for word in command.split():
            arguments += ARGUMENTS.get(word, [word])
        status = main(arguments)
        stderr_lines = capsys.readouterr().err.splitlines()
        last_line = stderr_lines[-1]
        messages = [line for line in stderr_lines if line.startswith("affinerank: ")]
        is_helpful = culprit in last_line and remedy in last_line
        if status != 2 or messages != [last_line] or not is_helpful:
            unhelpful.append((command, status, stderr_lines))
        assert sorted(shop.iterdir()) == files_before
    assert unhelpful == []


def copy_with_a_word(source: Path, column: str, target: Path) -> None:
    """Copy a CSV file, and write "cheap" into one cell of a column of numbers."""
    lines = source.read_text().splitlines()
    names = lines[0].replace('"', "").split(",")
    cells = lines[1000].split(",")
    cells[names.index(column)] = "cheap"
    lines[1000] = ",".join(cells)
    target.write_text("\n".join(lines) + "\n")
