"""What `benchmarks/real_logs.py` measures with, and its bars where the data are."""

import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from benchmarks.real_logs import (
    PREDICTED,
    Evaluated,
    Lists,
    browsing_rates,
    by_click_model,
    evaluated,
    hotel_lists,
    last_click,
    listwise,
    read_hotels,
    read_pages,
)

import affinerank as ar
from affinerank.cli import main

ROOT = Path(os.environ.get("AFFINERANK_DATA", "missing"))


def without(name: str) -> pytest.MarkDecorator:
    reason = f"AFFINERANK_DATA names no folder with {name}"
    return pytest.mark.skipif(not (ROOT / name).is_dir(), reason=reason)


def test_the_last_click_above_is_that_of_the_same_page() -> None:
    clicked = [0, 1, 0, 1, 0, 0, 0, 0, 0, 1, *[0] * 10]
    log = pl.DataFrame({"rank": [*range(1, 11)] * 2, "clicked": clicked})
    expected = [0, 0, 2, 2, 4, 4, 4, 4, 4, 4, *[0] * 10]
    assert last_click(log).to_list() == expected


def test_a_coin_has_perplexity_two() -> None:
    coin = Evaluated.of(np.full(20, 0.5), np.arange(20.0) % 2)
    assert coin.line == "-0.6931 2.0000"  # log(1 / 2)


def test_the_user_browsing_model_finds_the_click_rates_of_its_own_users() -> None:
    """Of 30,000 pages of two documents, rates are known to about .005."""
    rng = np.random.default_rng(0)
    n, relevance = 30_000, np.array([0.8, 0.4])
    turned = rng.random(n) < 0.5  # the second document first
    first = rng.random(n) < relevance[turned.astype(int)]
    examined = np.where(first, 0.9, 0.3)  # rank 2, after a click and after none
    second = rng.random(n) < examined * relevance[(~turned).astype(int)]
    rows = ar.ClickRows(
        doc=np.concatenate([turned, ~turned]).astype(np.int64),
        rank=np.repeat([1, 2], n),
        context=np.concatenate([np.zeros(n, np.int64), first.astype(np.int64)]),
        impressions=np.ones(2 * n),
        clicks=np.concatenate([first, second]).astype(float),
        query_of_doc=np.zeros(2, np.int64),
        sessions=np.array([float(n)]),
        has_context=True,
    )
    found = browsing_rates(rows, rows, contexts=True)
    truth = relevance[rows.doc] * np.concatenate([np.ones(n), examined])
    assert np.abs(found - truth).max() < 0.02
    by_rank = browsing_rates(rows, rows, contexts=False)
    assert np.abs(by_rank - truth)[n:].max() > 0.1


def test_listwise_recovers_bias_from_lists_kept_only_where_there_was_a_click() -> None:
    """Sorted by a feature that clicks follow, so naive ratios are too steep."""
    rng = np.random.default_rng(1)
    n, bias = 20_000, np.array([1.0, 0.7, 0.5, 0.4])
    feature = -np.sort(-rng.normal(size=(n, 4)), axis=1)
    odds = 0.05 * bias * np.exp(0.8 * feature)
    clicks = rng.random((n, 4)) < odds / (1 + odds)
    kept = clicks.any(axis=1)
    lists = Lists(
        number=np.repeat(np.arange(kept.sum()), 4),
        rank=np.tile(np.arange(1, 5), kept.sum()),
        features=feature[kept].reshape(-1, 1).astype(np.float32),
        clicks=clicks[kept].ravel().astype(float),
    )
    found = listwise(lists.rows(), lists.features)
    # Some 400 clicks at the last rank: a standard error of about 6 %.
    np.testing.assert_allclose(found.alpha, bias, rtol=0.18)
    naive = clicks[kept].mean(axis=0) / clicks[kept].mean(axis=0)[0]
    assert naive[3] < 0.5 * bias[3]


def test_drawn_lists_are_whole() -> None:
    one = np.array([1.0, 0, 0, 1, 0])
    lists = Lists(
        np.array([0, 0, 1, 1, 1]), np.array([1, 2, 1, 2, 3]), one[:, None], one
    )
    taken = lists.take(np.array([1, 0, 1]))
    assert taken.number.tolist() == [0, 0, 0, 1, 1, 2, 2, 2]
    assert taken.rank.tolist() == [1, 2, 3, 1, 2, 1, 2, 3]
    assert taken.clicks.tolist() == [0, 1, 0, 1, 0, 0, 1, 0]


@without("yandex")
@pytest.mark.slow
def test_the_last_click_predicts_yandex_as_a_user_browsing_model_does() -> None:
    log = read_pages(ROOT / "yandex")
    found = evaluated(*(log.filter(part=name) for name in ("train", "test")))
    value = {name: each.log_likelihood.mean() for name, each in found.items()}
    by_context = value["affine by rank and last click, mixture-based"]
    assert by_context >= -0.3250
    assert by_context >= value["user browsing model"] - 0.001
    assert value["affine by rank, posterior"] >= -0.353


@without("expedia")
@pytest.mark.slow
def test_sorted_hotels_predict_the_randomised_ones(tmp_path: Path) -> None:
    table = read_hotels(ROOT / "expedia")
    sorted_, random = hotel_lists(table, tmp_path / "features.parquet")
    observed, at = random.rates(), PREDICTED - 1
    noise = np.sqrt(observed * (1 - observed) / random.seen())[at]

    def error(ratios: np.ndarray) -> float:
        return float(np.mean(((observed[0] * ratios - observed)[at] / noise) ** 2))

    click_model = listwise(sorted_.rows(), sorted_.features)
    assert error(by_click_model(sorted_, click_model)) <= 2
    assert error(sorted_.rates() / sorted_.rates()[0]) > 6


@without("open-bandit")
def test_open_bandit_runs_through_with_its_propensities(tmp_path: Path) -> None:
    """The random policy shows each item of a campaign with the same probability."""
    log = pl.read_parquet(ROOT / "open-bandit" / "sample.parquet")
    log = log.with_row_index("session_id").filter(policy="random")
    log.write_parquet(tmp_path / "log.parquet")
    names = {"query_id": "campaign", "doc_id": "item_id", "rank": "position"}
    names |= {"clicked": "click", "propensity": "propensity_score"}
    columns = [f"--column={ours}={theirs}" for ours, theirs in names.items()]
    counts, labels = str(tmp_path / "counts.parquet"), str(tmp_path / "labels.parquet")
    assert main(["count", str(tmp_path / "log.parquet"), *columns,
                 "--context", "none", "-o", counts]) == 0  # fmt: skip
    click_model = tmp_path / "click-model.json"
    ar.save_click_model(ar.TrustModel.position_bias(np.ones(3)), click_model)
    assert main(["debias", counts, "--click-model", str(click_model), "--estimator",
                 "intervention-aware", "-o", labels]) == 0  # fmt: skip
    # Clicks per expected exposure: 1 of 80, 34 or 46 items in each of 10,000 sessions.
    items = pl.Series([80, 34, 46])
    of = pl.DataFrame({"query_id": ["all", "men", "women"], "items": items})
    found = pl.read_parquet(labels).join(of, on="query_id")
    assert len(found) == items.sum()
    expected = found["clicks"] * found["items"] / 10_000
    np.testing.assert_allclose(found["relevance"], expected, rtol=1e-6)
