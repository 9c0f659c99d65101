"""Feature tables as CSV."""

from __future__ import annotations

import gzip
import json
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
from affinerank.data.catalog import DataSource
from affinerank.data.dataset import RankingDataset
from affinerank.data.reading import Chosen
from affinerank.data.tables import read_table
from affinerank.errors import DataError

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
    chosen = Chosen(ignore="brand, rating_b")
    assert read_table(path, chosen=chosen).feature_names == ("price", "rating_a")
    found = DataSource.parse(str(path), chosen=Chosen(features="price,rating*"))
    assert found.read(None).feature_names == ("price", "rating_a", "rating_b")
    world = DataSource.parse(
        "yahoo-like:20", chosen=Chosen(features="f1,f2*", ignore="f2")
    )
    names = world.read("train").feature_names
    assert names[:2] == ("f1", "f20")
    assert "f2" not in names
    none = DataSource.parse("yahoo-like:20", chosen=Chosen(features="x"))
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
    data = read_table(path, chosen=Chosen(columns=names))
    assert data.feature_names == ("price",)
    assert data.known_labels().tolist() == [0, 2]
    words = ["data", "describe", str(path)]
    for ours, theirs in names:
        words += ["--data-column", f"{ours}={theirs}"]
    assert main(words) == 0
    table = tmp_path / "shop.parquet"
    pq.write_table(pa.table({"search": [1], "sku": ["a"], "price": [2.0]}), table)
    found = DataSource.parse(str(table), chosen=Chosen(columns=names)).read(None)
    assert found.query_ids.tolist() == [1]
