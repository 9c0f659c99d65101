"""Counts: laws against a plain loop, selections, halves, files, rejections."""

from collections import defaultdict
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.halves import halves

from affinerank.counts.counts import ClickCounts
from affinerank.support.errors import ConfigError, DataError

pytestmark = pytest.mark.slow

# A session: its query, and (document, clicked) from rank 1 on.
Session = tuple[int, list[tuple[int, bool]]]

SESSIONS = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.lists(
            st.tuples(st.integers(0, 4), st.booleans()),
            min_size=1,
            max_size=4,
            unique_by=lambda pair: pair[0],
        ),
    ),
    max_size=12,
)


def counted_by_loop(sessions: list[Session]) -> dict[str, Any]:
    """Rows and sessions, by the plainest loop there is."""
    shown: dict[Any, int] = defaultdict(int)
    clicked: dict[Any, int] = defaultdict(int)
    issued: dict[int, int] = defaultdict(int)
    for query, documents in sessions:
        issued[query] += 1
        for rank, (document, click) in enumerate(documents, start=1):
            shown[query, document, rank] += 1
            clicked[query, document, rank] += click
    keys = sorted(shown)
    return {
        "query_id": np.array([key[0] for key in keys], dtype=np.int64),
        "doc_id": np.array([key[1] for key in keys], dtype=np.int64),
        "rank": np.array([key[2] for key in keys], dtype=np.int64),
        "impressions": np.array([shown[key] for key in keys], dtype=np.int64),
        "clicks": np.array([clicked[key] for key in keys], dtype=np.int64),
        "sessions": np.array([issued[key[0]] for key in keys], dtype=np.int64),
    }


def counts_of(sessions: list[Session], *, text: bool = False) -> ClickCounts:
    columns = counted_by_loop(sessions)
    if text:
        for name in ("query_id", "doc_id"):
            texts = [f"{name[0]}{v}" for v in columns[name]]
            columns[name] = np.array(texts, dtype=object)
    return ClickCounts.from_columns(**columns)


def example(**changed: Any) -> ClickCounts:
    columns: dict[str, Any] = {
        "query_id": ["a", "a", "b"],
        "doc_id": [1, 2, 1],
        "rank": [1, 2, 1],
        "impressions": [5, 4, 3],
        "clicks": [2, 0, 3],
        "sessions": [6, 6, 3],
    }
    return ClickCounts.from_columns(**{**columns, **changed})


@settings(max_examples=50)
@given(SESSIONS, SESSIONS, st.booleans())
def test_counts_of_two_logs_add_up_to_those_of_both(
    a: list[Session], b: list[Session], text: bool
) -> None:
    whole = counts_of(a + b, text=text)
    if a and b:
        summed = counts_of(a, text=text) + counts_of(b, text=text)
        assert summed.equals(whole)
        assert summed.equals(counts_of(b, text=text) + counts_of(a, text=text))
    assert whole.n_sessions == len(a) + len(b)


@settings(max_examples=50)
@given(SESSIONS, SESSIONS)
def test_adding_labels_apart_and_merging_them_is_adding(
    a: list[Session], b: list[Session]
) -> None:
    if not (a and b):
        return
    one, two = counts_of(a), counts_of(b)
    both = one.labelled("ranker", "one") + two.labelled("ranker", "two")
    assert both.select("ranker", "one").equals(one)
    assert both.select("ranker", "two").equals(two)
    assert both.merged("ranker").equals(one + two)
    assert both.session_keys == ("query_id", "ranker")


def test_two_labels_can_be_forgotten_at_once() -> None:
    both = example().labelled("segment", "x").labelled("ranker", "y")
    assert both.keys == ("query_id", "doc_id", "rank", "ranker", "segment")
    assert both.merged("segment", "ranker").equals(example())


def test_an_unknown_value_selects_no_rows() -> None:
    none = example().labelled("ranker", "one").select("ranker", "three")
    assert none.summary() == {
        "groups": 0,
        "sessions": 0,
        "queries": 0,
        "documents": 0,
        "ranks": 0,
        "impressions": 0,
        "clicks": 0,
    }
    assert none.click_rate_by_rank() == []


def test_the_summary_is_the_written_out_one() -> None:
    assert example().summary() == {
        "groups": 3,
        "sessions": 6 + 3,
        "queries": 2,
        "documents": 3,
        "ranks": 2,
        "impressions": 5 + 4 + 3,
        "clicks": 2 + 0 + 3,
    }
    assert example().click_rate_by_rank() == [
        {"rank": 1, "impressions": 5 + 3, "clicks": 2 + 3, "rate": 5 / 8},
        {"rank": 2, "impressions": 4, "clicks": 0, "rate": 0.0},
    ]


def test_counts_are_printed_on_one_line_with_their_sizes() -> None:
    assert repr(example()) == (
        "ClickCounts(3 rows by query_id, doc_id, rank: 12 impressions, 5 clicks)"
    )


def test_rows_come_sorted_whatever_their_order() -> None:
    turned = ClickCounts(example().table.take([2, 0, 1]))
    assert turned.equals(example())


def test_without_sessions_a_query_has_those_of_its_fullest_rank() -> None:
    counts = ClickCounts.from_columns(
        query_id=[1, 1, 1],
        doc_id=[1, 2, 2],
        rank=[1, 1, 2],
        impressions=[2, 3, 4],
        clicks=[0, 0, 0],
    )
    assert counts.sessions.tolist() == [5, 5, 5]


@pytest.mark.parametrize(
    "ids", [[7, 8, 9], ["7", "8", "9"], np.array([7, 8, 9], dtype=np.uint64)]
)
def test_ids_are_integers_or_strings(ids: Any) -> None:
    counts = example(doc_id=ids)
    expected = pa.string() if ids[0] == "7" else pa.int64()
    assert counts.table["doc_id"].type == expected


def test_ids_too_large_for_an_integer_stay_as_text() -> None:
    ids = np.array([7, 8, 2**64 - 1], dtype=np.uint64)
    assert example(doc_id=ids).table["doc_id"].to_pylist() == [
        "7",
        "8",
        str(2**64 - 1),
    ]


def test_holding_out_is_by_query_and_the_same_everywhere() -> None:
    n = 2000
    columns = {
        "doc_id": np.arange(n),
        "rank": np.ones(n, dtype=int),
        "impressions": np.ones(n, dtype=int),
        "clicks": np.zeros(n, dtype=int),
    }
    numbers = ClickCounts.from_columns(query_id=np.arange(n), **columns)
    texts = ClickCounts.from_columns(query_id=[str(i) for i in range(n)], **columns)
    split = numbers.holdout(0.2)
    held = set(split.select("split", "holdout").table["query_id"].to_pylist())
    kept = set(split.select("split", "train").table["query_id"].to_pylist())
    assert not held & kept
    assert len(held | kept) == n
    assert abs(len(held) - 0.2 * n) < 4 * np.sqrt(0.2 * 0.8 * n)
    as_text = texts.holdout(0.2).select("split", "holdout").table["query_id"]
    assert {int(name) for name in as_text.to_pylist()} == held
    larger = set(numbers.holdout(0.3).select("split", "holdout").table[0].to_pylist())
    assert held < larger
    assert split.merged("split").equals(numbers)
    # Other versions and other machines must hold out the same queries.
    hashes = [blake2b(str(i).encode(), digest_size=8).digest() for i in range(n)]
    assert held == {
        i for i in range(n) if int.from_bytes(hashes[i], "big") / 2**64 < 0.2
    }


@settings(max_examples=50)
@given(SESSIONS.filter(bool), st.integers(0, 2**32))
def test_halves_add_up_to_the_whole_and_keep_within_their_sessions(
    sessions: list[Session], seed: int
) -> None:
    whole = counts_of(sessions)
    a, b = halves(whole, rng=np.random.default_rng(seed))
    assert (a + b).equals(whole)
    again, _ = halves(whole, rng=np.random.default_rng(seed))
    assert a.equals(again)
    assert abs(a.n_sessions - b.n_sessions) <= len(whole.sessions_per_query)


def test_halves_keep_the_sessions_of_a_query_that_showed_nothing_in_one() -> None:
    counts = example(impressions=[1, 1, 3], clicks=[0, 0, 0], sessions=[99, 99, 3])
    for seed in range(50):
        a, b = halves(counts, rng=np.random.default_rng(seed))
        assert (a + b).equals(counts)


def test_halves_tell_rankers_apart() -> None:
    counts = example().labelled("ranker", "x") + example().labelled("ranker", "y")
    a, b = halves(counts, rng=np.random.default_rng(0))
    assert (a + b).equals(counts)


def test_a_half_has_the_mean_and_spread_of_drawn_sessions() -> None:
    sessions, shown, clicked, draws = 100, 60, 30, 4000
    counts = ClickCounts.from_columns(
        query_id=np.arange(draws),
        doc_id=np.ones(draws, dtype=int),
        rank=np.ones(draws, dtype=int),
        impressions=np.full(draws, shown),
        clicks=np.full(draws, clicked),
        sessions=np.full(draws, sessions),
    )
    half, _ = halves(counts, rng=np.random.default_rng(5))
    for drawn, number in ((half.impressions, shown), (half.clicks, clicked)):
        share = number / sessions
        variance = 50 * share * (1 - share) * (100 - 50) / (100 - 1)
        assert abs(drawn.mean() - number / 2) < 5 * np.sqrt(variance / draws)
        assert drawn.var() == pytest.approx(variance, rel=5 * np.sqrt(2 / draws))


@pytest.mark.parametrize("split", [None, ["train", "train", "holdout"]])
def test_a_file_gives_the_counts_back(split: Any, tmp_path: Path) -> None:
    counts = example(split=split)
    counts.save(tmp_path / "c.parquet")
    assert ClickCounts.load(tmp_path / "c.parquet").equals(counts)


def test_a_file_that_is_no_counts_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "c.parquet"
    path.write_text("no")
    with pytest.raises(DataError, match=r"c\.parquet: .*run count first"):
        ClickCounts.load(path)
    pq.write_table(pa.table({"query_id": [1]}), path)
    with pytest.raises(DataError, match=r"c\.parquet: counts have no column 'doc_id'"):
        ClickCounts.load(path)
    with pytest.raises(DataError, match="there is no such file"):
        ClickCounts.load(tmp_path / "none.parquet")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"rank": [1, 0, 1]}, "'a', doc_id 2, rank 0: rank .*got 0"),
        ({"impressions": [-1, 4, 3]}, "impressions .*got -1"),
        ({"clicks": [-2, 0, 3]}, r"clicks .*got -2 \(1 such rows\)"),
        ({"clicks": [6, 0, 3]}, "clicks .*impressions, got 6"),
        ({"sessions": [6, 6, 2]}, "impressions .*sessions, got 3"),
        ({"sessions": [6, 7, 3]}, "query_id different sessions"),
        ({"rank": [1, 2]}, "differ in length: .*'rank': 2"),
        ({"doc_id": [1, 1, 1], "rank": [1, 1, 1]}, "several rows for one query_id"),
        ({"doc_id": [1.5, 2, 3]}, "doc_id .*holds double"),
        ({"rank": [1.5, 2, 3]}, "rank .*holds double"),
        ({"query_id": ["a", None, "b"]}, "query_id is null in 1 rows"),
        ({"query_id": [["a"], ["b"], ["c"]]}, "query_id must be a flat array"),
        ({"doc_id": np.array([1, "x", 2], object)}, "doc_id must be a flat array"),
        ({"ranker": [1, 2, 3]}, "ranker .*holds int64"),
    ],
)
def test_what_cannot_be_counts_is_rejected(
    changed: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        example(**changed)


def test_unknown_columns_are_rejected() -> None:
    with pytest.raises(DataError, match="unknown or there twice: 'x'"):
        ClickCounts(example().table.append_column("x", pa.array([1, 2, 3])))
    clicks = example().table["clicks"]
    with pytest.raises(DataError, match="there twice: 'clicks'"):
        ClickCounts(example().table.append_column("clicks", clicks))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"rank": [2**40]}, f"rank must be 10000 at most, got {2**40}"),
        ({"impressions": [2**62], "sessions": [2**62]}, "sessions must be 2.53"),
        ({"impressions": [2**62]}, "sessions must be 2.53"),
        ({"impressions": [float("nan")]}, "impressions must hold whole numbers"),
        ({"doc_id": ["x" * 65_537]}, "doc_id has more than 65536 characters"),
    ],
)
def test_numbers_and_ids_that_cannot_be_are_rejected(
    changed: dict[str, Any], message: str, tmp_path: Path
) -> None:
    row = {"query_id": ["q"], "doc_id": ["d"], "rank": [1], "clicks": [0]}
    numbers = {"impressions": [1], **changed}
    with pytest.raises(DataError, match=message):
        ClickCounts.from_columns(**{**row, **numbers})
    columns = {**row, "sessions": numbers["impressions"], **numbers}
    pq.write_table(pa.table(columns), tmp_path / "c.parquet")
    with pytest.raises(DataError, match=f"c.parquet: .*{message}"):
        ClickCounts.load(tmp_path / "c.parquet")


def test_sums_that_would_not_be_exact_are_rejected() -> None:
    queries, most = [f"q{i}" for i in range(1500)], [2**53] * 1500
    ones, none = [1] * 1500, [0] * 1500
    with pytest.raises(DataError, match="all impressions together"):
        ClickCounts.from_columns(
            query_id=queries, doc_id=ones, rank=ones, impressions=most, clicks=none
        )
    with pytest.raises(DataError, match="all sessions together"):
        ClickCounts.from_columns(
            query_id=queries,
            doc_id=ones,
            rank=ones,
            impressions=ones,
            clicks=none,
            sessions=most,
        )


@pytest.mark.parametrize("share", [0, 1, -0.1, float("nan")])
def test_a_share_that_cannot_be_held_out_is_rejected(share: float) -> None:
    with pytest.raises(ConfigError, match=f"got {share:g}"):
        example().holdout(share)


def test_keys_are_there_or_not() -> None:
    counts = example()
    with pytest.raises(ConfigError, match=r"'ranker' .*counts by query_id, doc_id"):
        counts.merged("ranker")
    with pytest.raises(ConfigError, match="'query_id'"):
        counts.select("query_id", "a")
    with pytest.raises(ConfigError, match="'device'"):
        counts.labelled("device", "phone")
    with pytest.raises(ConfigError, match="'ranker'"):
        counts.labelled("ranker", "a").labelled("ranker", "b")
    with pytest.raises(ConfigError, match="'split'"):
        counts.holdout().holdout()


def test_counts_by_other_keys_or_of_other_ids_do_not_add() -> None:
    with pytest.raises(DataError, match=r"cannot be added .*rank, ranker"):
        example() + example().labelled("ranker", "a")
    with pytest.raises(DataError, match=r"\(query_id string, doc_id int64\) cannot"):
        example() + example(query_id=[1, 1, 2])


def test_ids_that_are_not_utf8_are_refused() -> None:
    broken = pa.array([b"\xff\xfe"]).view(pa.string())
    numbers = {n: [1] for n in ("rank", "impressions", "clicks", "sessions")}
    with pytest.raises(DataError, match="query_id must be text in UTF-8"):
        ClickCounts(pa.table({"query_id": broken, "doc_id": ["d"], **numbers}))
