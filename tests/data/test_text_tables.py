"""Feature tables as CSV."""

from __future__ import annotations

import gzip
import json
import sqlite3
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from affinerank.cli import main
from affinerank.data.dataset import RankingDataset
from affinerank.data.read_options import ReadOptions
from affinerank.data.sources import DataSource
from affinerank.data.text_tables import read_table
from affinerank.support.errors import DataError

TEXT = """query_id,doc_id,label,price,rating
007,a,1,9.5,
007,"b,c",0,10,4
8,a,2,1e3,NA
"""


def test_ids_are_text_and_empty_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "features.csv"
    path.write_text(TEXT)
    data = read_table(path)
    assert data.query_ids.tolist() == ["007", "8"]
    assert data.doc_ids.tolist() == ["a", "b,c", "a"]
    assert data.feature_names == ("price", "rating")
    expected = [[9.5, np.nan], [10, 4], [1000, np.nan]]
    np.testing.assert_array_equal(data.features, np.array(expected, np.float32))
    assert data.known_labels().tolist() == [1, 0, 2]


def test_whole_numbers_first_and_fractions_later_are_numbers(tmp_path: Path) -> None:
    rows = "".join(f"q{i // 10},d{i},{i}\n" for i in range(200_000))
    path = tmp_path / "features.csv.gz"
    path.write_bytes(gzip.compress(f"query_id,doc_id,x\n{rows}q,d,0.5\n".encode()))
    data = DataSource.parse(str(path)).read(None)
    assert data.n_docs == 200_001
    assert data.features[-1, 0] == 0.5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "query_id,doc_id,size\nq,a,40\nq,b,41\nq,c,XL\n",
            "column 'size' must hold numbers or text, holds numbers and 'XL'",
        ),
        ("query,doc_id,x\nq,a,1\n", "there is no column 'query_id'"),
        ("query_id,doc_id,x,x\nq,a,1,2\n", "same name|x"),
        ("query_id,doc_id,x\nq,a\n", "could not be read as CSV"),
        ("query_id,doc_id,x\n,a,1\n", "query_id is null"),
        ("", "could not be read as CSV"),
    ],
)
def test_what_is_wrong_is_one_sentence_about_the_file_given(
    text: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "shop.csv"
    path.write_text(text)
    with pytest.raises(DataError, match=message) as caught:
        read_table(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_names_that_are_not_utf_8_are_said(tmp_path: Path) -> None:
    path = tmp_path / "shop.csv"
    path.write_bytes(b"query_id,doc_id,pri\xff\nq,a,1\n")
    with pytest.raises(DataError, match="could not be read as CSV"):
        read_table(path)


def test_commands_read_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "features.csv"
    path.write_text(TEXT)
    assert main(["data", "describe", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["documents"] == 3


def test_columns_are_chosen_by_patterns(tmp_path: Path) -> None:
    path = tmp_path / "shop.csv"
    path.write_text("query_id,doc_id,brand,price,rating_a,rating_b\nq,a,nike,1,2,3\n")
    chosen = ReadOptions(ignore="brand, rating_b")
    assert read_table(path, chosen=chosen).feature_names == ("price", "rating_a")
    found = DataSource.parse(str(path), chosen=ReadOptions(features="price,rating*"))
    assert found.read(None).feature_names == ("price", "rating_a", "rating_b")
    world = DataSource.parse(
        "yahoo-like:20", chosen=ReadOptions(features="f1,f2*", ignore="f2")
    )
    names = world.read("train").feature_names
    assert names[:2] == ("f1", "f20")
    assert "f2" not in names
    none = DataSource.parse("yahoo-like:20", chosen=ReadOptions(features="x"))
    with pytest.raises(DataError, match="leave no feature"):
        none.read("train")


def test_commands_take_the_options(tmp_path: Path) -> None:
    path = tmp_path / "shop.csv"
    path.write_text("query_id,doc_id,size,price\nq,a,40,1\nq,b,XL,2\nq,c,41,2\n")
    assert main(["data", "describe", str(path)]) == 2
    assert main(["data", "describe", str(path), "--ignore", "size"]) == 0
    assert main(["data", "describe", str(path), "--category", "si*"]) == 0


COLUMNS: dict[str, list[Any]] = {
    "query_id": ["q", "q", 7],
    "doc_id": ["a", "b", "a"],
    "price": [1.0, None, 3.0],
}


def frames() -> dict[str, Any]:
    texts = {**COLUMNS, "query_id": list(map(str, COLUMNS["query_id"]))}
    table = pa.table(texts)
    found = {"pyarrow": table, "pandas": pd.DataFrame(texts, index=[5, 3, 1])}
    return found | {"polars": pl.DataFrame(texts), "duckdb": duckdb.from_arrow(table)}


@pytest.mark.parametrize("name", ["pyarrow", "pandas", "polars", "duckdb"])
def test_frames_go_in_without_a_file(name: str) -> None:
    data = RankingDataset.from_frame(frames()[name])
    assert data.query_ids.tolist() == ["q", "7"]
    assert data.feature_names == ("price",)
    np.testing.assert_array_equal(data.features[:, 0], np.array([1, np.nan, 3], "f4"))


def test_what_is_no_frame_is_said() -> None:
    with pytest.raises(DataError, match="expected a frame that speaks Arrow"):
        RankingDataset.from_frame(3)
    with pytest.raises(DataError, match="the frame: there is no column 'query_id'"):
        RankingDataset.from_frame(pa.table({"x": [1]}))


def test_columns_may_have_names_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "shop.csv"
    path.write_text("search,sku,grade,price\n1,a,0,5\n1,b,2,6\n")
    names = (("query_id", "search"), ("doc_id", "sku"), ("label", "grade"))
    data = read_table(path, chosen=ReadOptions(columns=names))
    assert data.feature_names == ("price",)
    assert data.known_labels().tolist() == [0, 2]
    words = ["data", "describe", str(path)]
    for ours, theirs in names:
        words += ["--data-column", f"{ours}={theirs}"]
    assert main(words) == 0
    table = tmp_path / "shop.parquet"
    pq.write_table(pa.table({"search": [1], "sku": ["a"], "price": [2.0]}), table)
    found = DataSource.parse(str(table), chosen=ReadOptions(columns=names)).read(None)
    assert found.query_ids.tolist() == [1]


LINES = """{"query_id": 7, "doc_id": "a", "label": 1, "price": 9.5, "brand": "puma"}

{"query_id": 7, "doc_id": "b", "label": 0, "price": null, "new": true}
{"brand": "nike", "query_id": 8, "doc_id": 3, "label": 2, "price": 1e3}
"""


@pytest.mark.parametrize("name", ["f.jsonl", "f.ndjson", "f.jsonl.gz"])
def test_json_lines_are_read(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    text = LINES.encode()
    path.write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    data = DataSource.parse(str(path)).read(None)
    assert data.query_ids.tolist() == [7, 8]
    assert data.doc_ids.tolist() == ["a", "b", "3"]
    assert data.feature_names == ("price", "brand", "new")
    assert data.categories == {"brand": ("nike", "puma")}
    nan = np.nan
    expected = [[9.5, 1, nan], [nan, nan, 1], [1000, 0, nan]]
    np.testing.assert_array_equal(data.features, np.array(expected, np.float32))


def test_json_lines_in_parts_are_those_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "f.jsonl"
    path.write_text(LINES + '{"query_id": 8, "doc_id": 4, "label": 0, "brand": 7}\n')
    whole = read_table(path, ReadOptions(category="brand"))
    monkeypatch.setattr("affinerank.data.text_tables.ROWS_AT_ONCE", 1)
    parts = read_table(path, ReadOptions(category="brand"))
    assert parts.categories == whole.categories == {"brand": ("7", "nike", "puma")}
    assert parts.doc_ids.tolist() == whole.doc_ids.tolist() == ["a", "b", "3", "4"]
    assert parts.feature_names == whole.feature_names
    np.testing.assert_array_equal(parts.features, whole.features)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"query_id": 1, "doc_id": 2, "x": [1]}', "'x' must hold a number, a text"),
        (
            '{"query_id": 1, "doc_id": 2, "x": 1, "x": 2}',
            "line 1: not JSON: the key 'x' st",
        ),
        ('{"query_id": 1, "doc_id": 2', "line 1: not JSON"),
        ("[1, 2]", "line 1: not JSON: expected an object"),
        ('{"query_id": 1, "x": 2}', "there is no column 'doc_id'"),
        ('{"query_id": 1, "doc_id": null, "x": 2}', "row 0: doc_id is null"),
        ('{"query_id": 1, "doc_id": 2, "x": "\\ud83d"}', "line 1: not JSON"),
        ("[" * 100_000, "line 1: not JSON"),
        (f'{{"query_id": 1, "doc_id": 2, "x": {"9" * 400}}}', "beyond all limits"),
    ],
)
def test_what_is_wrong_with_json_lines_is_said(
    line: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "f.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(DataError, match=message) as caught:
        read_table(path)
    assert str(path) in str(caught.value)


SVM = "2 1:0.5 3:1\n0 2:4\n1 3:2 # note\n"


@pytest.mark.parametrize(
    ("text", "names", "expected"),
    [
        (SVM, ("f1", "f2", "f3"), [[0.5, 0, 1], [0, 4, 0], [0, 0, 2]]),
        (SVM.replace("2:4", "0:4"), ("f0", "f1", "f2", "f3"), None),
        ("2,0.5,NA\n0,1,4\n1,2,3\n", ("f1", "f2"), [[0.5, np.nan], [1, 4], [2, 3]]),
        ("2\t0.5\t\n0\t1\t4\n1\t2\t3\n", ("f1", "f2"), [[0.5, np.nan], [1, 4], [2, 3]]),
        ("grade,x,b\n2,5,u\n0,1,v\n1,2,u\n", ("x", "b"), [[5, 0], [1, 1], [2, 0]]),
    ],
)
@pytest.mark.parametrize("side", [".query", ".group"])
def test_sizes_of_queries_are_read_beside_the_data(
    side: str, text: str, names: tuple[str, ...], expected: Any, tmp_path: Path
) -> None:
    path = tmp_path / "rank.train"
    path.write_text(text)
    Path(f"{path}{side}").write_text("2\n1\n")
    data = DataSource.parse(str(path)).read(None)
    assert data.offsets.tolist() == [0, 2, 3]
    assert data.query_ids.tolist() == [1, 2]
    assert data.known_labels().tolist() == [2, 0, 1]
    assert data.feature_names == names
    if expected is None:
        expected = [[0, 0.5, 0, 1], [4, 0, 0, 0], [0, 0, 0, 2]]
    np.testing.assert_array_equal(data.features, np.array(expected, np.float32))


def test_documents_with_sizes_beside_them_may_have_no_features(tmp_path: Path) -> None:
    path = tmp_path / "rank.train"
    path.write_text("1 2:5\n" + "0\n" * 999)
    Path(f"{path}.query").write_text("1000\n")
    data = DataSource.parse(str(path)).read(None)
    assert data.feature_names == ("f1", "f2")
    assert data.features.sum() == 5
    assert data.known_labels().tolist() == [1] + [0] * 999
    path.write_text("1 2:5\n0 2:x\n")
    with pytest.raises(DataError, match=r"rank.train, line 2: expected a number aft"):
        DataSource.parse(str(path)).read(None)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ("2\n2\n", "rank.train: has 3 documents, and the queries by .* have 4"),
        ("2\n", "rank.train: has 3 documents, and the queries by .* have 2"),
        ("2\n-1\n", "rank.train.query, line 2: expected the number of documents"),
    ],
)
def test_sizes_that_do_not_fit_are_said(
    sizes: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "rank.train"
    Path(f"{path}.query").write_text(sizes)
    for text in (SVM, "2,1\n0,1\n1,2\n"):
        path.write_text(text)
        with pytest.raises(DataError, match=message):
            DataSource.parse(str(path)).read(None)


def test_data_that_name_their_queries_need_no_sizes(tmp_path: Path) -> None:
    letor, table = tmp_path / "a.txt", tmp_path / "b.csv"
    letor.write_text("1 qid:5 1:2\n0 qid:5 1:3\n")
    table.write_text(TEXT)
    for path in (letor, table):
        Path(f"{path}.query").write_text("1\n")
    assert DataSource.parse(str(letor)).read(None).query_ids.tolist() == [5]
    assert DataSource.parse(str(table)).read(None).query_ids.tolist() == ["007", "8"]


def test_lightgbm_reads_the_same_lists(tmp_path: Path) -> None:
    lgb = pytest.importorskip("lightgbm")
    path, rng = tmp_path / "rank.train", np.random.default_rng(0)
    rows = [
        f"{rng.integers(3)} " + " ".join(f"{i}:{rng.random():.3f}" for i in range(4))
        for _ in range(60)
    ]
    path.write_text("\n".join(rows) + "\n")
    Path(f"{path}.query").write_text("20\n30\n10\n")
    theirs = lgb.Dataset(str(path), params={"verbosity": -1}, free_raw_data=False)
    theirs.construct()
    data = DataSource.parse(str(path)).read(None)
    assert theirs.get_group().tolist() == data.docs_per_query.tolist()
    assert theirs.get_label().tolist() == data.known_labels().tolist()
    assert theirs.num_feature() == data.n_features


@pytest.mark.filterwarnings("ignore")  # of Ibis and pandas, which it asks
@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_a_table_of_a_database_is_data(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / f"shop.{kind}"
    rows = [
        ("q", "b", 1, 9.5, "puma"),
        ("p", "a", 0, None, None),
        ("q", "a", 2, 1, "x"),
    ]
    made = (
        "CREATE TABLE items (search TEXT, doc_id TEXT, label INT, "
        "price DECIMAL(9, 2), brand TEXT)"
    )
    connect: Any = duckdb.connect if kind == "duckdb" else sqlite3.connect
    connection = connect(str(path))
    connection.execute(made)
    connection.executemany("INSERT INTO items VALUES (?, ?, ?, ?, ?)", rows)
    connection.commit()
    connection.close()
    source = f"{kind}:///{path}#items"
    words = ["data", "convert", source, str(tmp_path / "out.parquet")]
    assert main([*words, "--data-column", "query_id=search"]) == 0
    data = DataSource.parse(str(tmp_path / "out.parquet")).read(None)
    assert data.query_ids.tolist() == ["p", "q"]
    assert data.doc_ids.tolist() == ["a", "a", "b"]
    expected = np.array([[np.nan, np.nan], [1, 1], [9.5, 0]], np.float32)
    np.testing.assert_array_equal(data.features, expected)
    capsys.readouterr()
    for other, message in {
        f"{kind}:///{path}": "expected a table after #",
        f"{kind}:///{path}#nothing": "there is no table 'nothing'",
        source: f"{source}: there is no column 'query_id'",
    }.items():
        assert main(["data", "describe", other]) == 2
        assert message in capsys.readouterr().err
