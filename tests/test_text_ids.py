"""Commands of the pages on a log whose ids are texts and whose clicks depend.

A shop's users read down from their last click, so ``count`` counts by that click
without being asked. Queries, products and visits have texts as ids.
"""

import csv
import json
import re
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from tests.test_docs import steps

import affinerank as ar
from affinerank.cli import main
from affinerank.clicks.models.browsing import BrowsingModel
from affinerank.counts.rows import ClickRows
from affinerank.pipeline.plan_swaps import average_by_rank

QUERIES, PRODUCTS, SHOWN, VISITS = 40, 12, 8, 4000
CLICK_COMMANDS = ("count", "estimate", "train", "evaluate", "export")


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``log.csv`` and ``products.csv``, as a shop would write them."""
    folder = tmp_path_factory.mktemp("shop")
    rng = np.random.default_rng(0)
    relevance = rng.uniform(0.05, 0.75, (QUERIES, PRODUCTS))
    with (folder / "products.csv").open("w", newline="") as file:
        products = csv.writer(file)
        products.writerow(["query_id", "doc_id", "price", "stars"])
        for query, product in np.ndindex(relevance.shape):
            price, stars = rng.normal(relevance[query, product], [0.2, 0.1])
            ids = [f"shoes {query}", f"sku-{query}-{product}"]
            products.writerow([*ids, round(-price, 3), round(stars, 3)])
    with (folder / "log.csv").open("w", newline="") as file:
        log = csv.writer(file)
        log.writerow(["session_id", "query_id", "doc_id", "rank", "clicked"])
        for visit in range(VISITS):
            query = rng.integers(QUERIES)
            noisy = relevance[query] / 2 + rng.normal(0, 0.25, PRODUCTS)
            last_clicked_rank = 0
            for rank, product in enumerate(np.argsort(-noisy)[:SHOWN], start=1):
                # Examination falls from the last click on; trust adds clicks on top.
                examined = (rank - last_clicked_rank) ** -0.7
                wanted = relevance[query, product]
                click_rate = examined * (wanted + (1 - wanted) * 0.3 / rank)
                clicked = rng.random() < click_rate
                last_clicked_rank = rank if clicked else last_clicked_rank
                ids = [f"visit-{visit}", f"shoes {query}", f"sku-{query}-{product}"]
                log.writerow([*ids, rank, int(clicked)])
    return folder


@pytest.fixture(scope="module")
def counted(shop: Path) -> Path:
    """The same folder with counts, users and trees, made by default."""
    log, products, counts, click_model, trees = (
        str(shop / name)
        for name in (
            "log.csv",
            "products.csv",
            "counts.parquet",
            "click-model.json",
            "trees",
        )
    )
    data = ["--data", products]
    train = ["train", counts, *data, "--click-model", click_model, "-o", trees]
    for words in (
        ["count", log, "--holdout", "0.2", "-o", counts],
        ["estimate", counts, *data, "-o", click_model],
        [*train, "--ranker", "lightgbm", "--estimator", "affine", "--set", "trees=5"],
    ):
        assert main(words) == 0
    counts_table = pq.read_table(counts)
    assert "context" in counts_table.column_names
    assert pa.types.is_string(counts_table["doc_id"].type)
    return shop


def test_features_are_permuted_where_ids_are_texts(
    counted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clicks = ["--counts", str(counted / "counts.parquet")]
    clicks += ["--click-model", str(counted / "click-model.json")]
    data = ["--data", str(counted / "products.csv")]
    words = ["importance", str(counted / "trees"), *clicks, *data, "--json"]
    assert main(words) == 0, capsys.readouterr().err
    found = json.loads(capsys.readouterr().out)
    assert {row["feature"] for row in found["features"]} == {"price", "stars"}
    split = pq.read_table(counted / "counts.parquet")["split"].to_pylist()
    queries = pq.read_table(counted / "counts.parquet")["query_id"].to_pylist()
    pairs = zip(queries, split, strict=True)
    held_out = {query for query, part in pairs if part == "holdout"}
    assert found["queries"] == len(held_out) > 0


def test_queries_with_text_ids_that_the_ranker_learnt_from_are_left_out(
    counted: Path,
) -> None:
    ranker = ar.load_ranker(counted / "trees")
    table = pc.read_csv(counted / "products.csv")
    pq.write_table(table, counted / "products.parquet")
    data = ar.read_parquet(counted / "products.parquet")
    counts = ar.ClickCounts.load(counted / "counts.parquet")
    train_part = counts.select("split", "train")
    click_model = ar.load_click_model(counted / "click-model.json")
    queries = set(train_part.table["query_id"].to_pylist())
    assert set(ranker.training_queries) == queries
    # As if it had learnt from five of them.
    ranker = replace(ranker, training_queries=ranker.training_queries[:5])
    said = f"5 of {len(queries)} queries were left out"
    with pytest.warns(ar.AffineRankWarning, match=said):
        found = ar.feature_importance(ranker, train_part, data, click_model)
    assert found.queries == len(queries) - 5


@pytest.mark.parametrize("more", [[], ["--ranker"]], ids=["users", "difference"])
def test_swaps_are_planned_after_the_default_path(
    counted: Path,
    more: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    swaps = tmp_path / "swaps.parquet"
    words = ["plan-swaps", str(counted / "counts.parquet")]
    words += ["--click-model", str(counted / "click-model.json"), "-o", str(swaps)]
    words += ["--target", "0.025" if more else "0.05"]
    if more:
        data = ["--data", str(counted / "products.csv")]
        words += [*more, str(counted / "trees"), *data]
    assert main([*words, "--json"]) == 0, capsys.readouterr().err
    plan = json.loads(capsys.readouterr().out)
    table = pq.read_table(swaps)
    assert plan["sessions"] == sum(table["sessions"].to_pylist()) > 0
    assert set(table["query_id"].to_pylist()) <= {f"shoes {i}" for i in range(QUERIES)}
    assert plan["error"] <= plan["target"] * 1.001
    # What people read: each number stands below its name.
    assert main(words) == 0
    printed = capsys.readouterr().out
    assert re.search(r"ranks +sessions +queries +DCG lost", printed)
    first = plan["pairs"][0]
    numbers = f"{first['sessions']:,} {first['queries']:,} {first['dcg_lost']:.4f}"
    line = f"{first['upper']} with {first['lower']} {numbers}"
    assert line in [" ".join(row.split()) for row in printed.splitlines()]


def test_alpha_and_beta_of_a_rank_are_means_over_its_impressions() -> None:
    click_model = BrowsingModel.from_zeta(
        [[0.9, 0.9], [0.5, 0.8], [0.4, 0.6]], [[0.1, 0.0], [0.0, 0.2], [0.1, 0.1]]
    )
    # Rank 3 after no click once, after a click right above three times; none of rank 2.
    zeros = np.zeros(3, dtype=np.int64)
    rows = ClickRows(
        doc=zeros,
        rank=np.array([1, 3, 3]),
        context=np.array([0, 0, 2]),
        impressions=np.array([5.0, 1.0, 3.0]),
        clicks=np.zeros(3),
        query_of_doc=zeros[:1],
        sessions=np.array([5.0]),
        has_context=True,
    )
    alpha, beta = average_by_rank(click_model, rows, 3)
    rank_3 = (1 * 0.3 + 3 * 0.5) / 4
    np.testing.assert_allclose(alpha, [0.8, (0.8 + rank_3) / 2, rank_3])
    np.testing.assert_allclose(beta, [0.1, 0.1, 0.1])


# Smaller work than the pages ask for; which commands run stays the same.
FASTER = {"train": ["--set", "trees=10"], "evaluate": ["--replicates", "2"]}


@pytest.mark.parametrize("page", ["README.md", "docs/start.md"])
def test_the_five_commands_of_a_page_run_on_text_ids(
    page: str,
    shop: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    # As the pages call them, and Parquet, as the pages say.
    pq.write_table(pc.read_csv(shop / "log.csv"), "log.parquet")
    pq.write_table(pc.read_csv(shop / "products.csv"), "features.parquet")
    ran = []
    for kind, text in steps(page):
        words = shlex.split(text)[1:]
        if kind == "python" or words[0] not in CLICK_COMMANDS:
            continue  # makes a synthetic log, which is not this one
        if "--data" in words:
            words[words.index("--data") + 1] = "features.parquet"
        words += FASTER.get(words[0], [])
        assert main(words) == 0, f"{text}: {capsys.readouterr().err}"
        ran.append(words[0])
    # In this order; what comes again (another ranker for an engine) comes later.
    in_order = tuple(dict.fromkeys(ran))
    assert in_order == CLICK_COMMANDS[: len(in_order)]
    assert len(in_order) >= 4
    assert "context" in pq.read_schema("counts.parquet").names
