"""Ranking data as Parquet: out and in again, and what is rejected."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from affinerank.data.dataset import RankingDataset
from affinerank.data.parquet import read_parquet, write_parquet
from affinerank.support import limits
from affinerank.support.errors import AffineRankWarning, ConfigError, DataError

GOOD: dict[str, Any] = {
    "query_id": ["a", "a", "b"],
    "doc_id": [1, 2, 3],
    "label": [0, 2, 1],
    "bm25": [0.5, None, 2.0],
    "clicks": [1, 2, 3],
}


def written(folder: Path, columns: dict[str, Any]) -> Path:
    path = folder / "data.parquet"
    pq.write_table(pa.table(columns), path)
    return path


def test_columns_become_ids_labels_and_named_features(tmp_path: Path) -> None:
    data = read_parquet(written(tmp_path, GOOD))
    assert data.query_ids.tolist() == ["a", "b"]
    assert data.doc_ids.tolist() == [1, 2, 3]
    assert data.known_labels().tolist() == [0, 2, 1]
    assert data.feature_names == ("bm25", "clicks")
    np.testing.assert_array_equal(data.features, [[0.5, 1], [np.nan, 2], [2, 3]])


def test_labels_are_optional(tmp_path: Path) -> None:
    columns = {name: GOOD[name] for name in ("query_id", "doc_id", "bm25")}
    assert read_parquet(written(tmp_path, columns)).labels is None


@pytest.mark.parametrize("labelled", [True, False])
@pytest.mark.parametrize("ids", [[7, 3, 7], ["x", "é/'; drop", "x"]])
def test_what_is_written_is_read_again(
    tmp_path: Path, ids: list[Any], labelled: bool
) -> None:
    with pytest.warns(AffineRankWarning):
        data = RankingDataset.from_rows(
            [[1.0, np.nan], [2.0, 3.0], [4.0, 5.0]],
            ids,
            labels=[0, 1, 2] if labelled else None,
            doc_ids=["p", "q", "r"],
        )
    path = tmp_path / "out.parquet"
    write_parquet(data, path)
    with pytest.warns(AffineRankWarning):
        again = read_parquet(path)
    for name in ("features", "offsets", "query_ids", "doc_ids", "source_rows"):
        np.testing.assert_array_equal(getattr(again, name), getattr(data, name))
    assert (again.labels is None) == (not labelled)
    assert again.feature_names == data.feature_names


def test_rows_beyond_one_batch_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("affinerank.data.parquet.ROWS_AT_ONCE", 3)
    rows = np.arange(20.0).reshape(10, 2)
    data = RankingDataset.from_rows(rows, np.arange(10) // 4)
    write_parquet(data, tmp_path / "out.parquet")
    np.testing.assert_array_equal(
        read_parquet(tmp_path / "out.parquet").features, data.features
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"query_id": None}, "there is no column 'query_id'"),
        ({"doc_id": None}, "there is no column 'doc_id'"),
        (
            {"query_id": [1.5, 2.5, 2.5]},
            "'query_id' must hold integers or",
        ),
        ({"query_id": ["a", None, "b"]}, "row 1: query_id is null"),
        ({"label": [0, None, 1]}, "row 1: label is null"),
        ({"label": [0, -1, 1]}, "row 1: a label"),
        ({"title": ["1", "2", "z"]}, "column 'title' must hold numbers or text"),
        ({"bm25": [1.0, float("inf"), 0.0]}, "row 1, feature 1: "),
        ({"bm25": None, "clicks": None}, "expected columns of features"),
    ],
)
def test_wrong_columns_are_named(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    columns = {k: v for k, v in {**GOOD, **change}.items() if v is not None}
    path = written(tmp_path, columns)
    with pytest.raises(DataError) as caught:
        read_parquet(path)
    assert message in str(caught.value)
    assert "data.parquet" in str(caught.value)


def test_missing_values_are_rejected_kept_or_replaced(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD)
    with pytest.raises(DataError, match="row 1: bm25 "):
        read_parquet(path, missing="error")
    assert read_parquet(path, missing=-1.0).features[1, 0] == -1
    with pytest.raises(ConfigError, match=r"missing .*got 'drop'"):
        read_parquet(path, missing="drop")  # type: ignore[arg-type]


def test_empty_tables_and_repeated_names_are_handled(tmp_path: Path) -> None:
    empty = {"query_id": pa.array([], pa.uint64()), "doc_id": pa.array([], pa.uint64())}
    path = written(tmp_path, {**empty, "f1": pa.array([], pa.float32())})
    assert read_parquet(path).n_docs == 0
    twice = pa.table([[1], [2], [3.0], [4.0]], names=["query_id", "doc_id", "f", "f"])
    pq.write_table(twice, path)
    with pytest.raises(DataError, match="two columns have the same name"):
        read_parquet(path)


def test_a_file_that_is_not_parquet_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "data.parquet"
    path.write_bytes(b"not parquet at all")
    with pytest.raises(DataError, match=r"data\.parquet: .*Parquet"):
        read_parquet(path)


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    data = RankingDataset.from_rows([[1.0]], [1])
    with pytest.raises(DataError, match="there is no folder"):
        write_parquet(data, tmp_path / "no" / "out.parquet")
    assert list(tmp_path.iterdir()) == []


LOGGED: dict[str, Any] = {
    "session_id": ["s1", "s1", "s2"],
    "query_id": ["q", "q", "q"],
    "doc_id": [1, 2, 1],
    "rank": [1, 2, 1],
    "clicked": [True, False, False],
    "timestamp": [5, 5, 6],
    "bm25": [0.5, 1.0, 2.0],
}


def test_another_column_can_tell_lists_apart(tmp_path: Path) -> None:
    columns = {name: LOGGED[name] for name in ("session_id", "doc_id", "bm25")}
    data = read_parquet(written(tmp_path, columns), list_id="session_id")
    assert data.query_ids.tolist() == ["s1", "s2"]
    assert data.offsets.tolist() == [0, 2, 3]
    assert data.feature_names == ("bm25",)


def test_the_columns_of_a_log_are_no_features(tmp_path: Path) -> None:
    path = written(tmp_path, LOGGED)
    message = "query_id, rank, clicked, timestamp: .* not taken for features"
    with pytest.warns(AffineRankWarning, match=message):
        data = read_parquet(path, list_id="session_id")
    assert data.feature_names == ("bm25",)
    assert data.features[:, 0].tolist() == [0.5, 1.0, 2.0]


def test_a_log_under_other_names_teaches_nobody_its_clicks(tmp_path: Path) -> None:
    columns = {"position": LOGGED["rank"], **LOGGED}
    del columns["rank"]
    with pytest.warns(AffineRankWarning, match=r"position, query_id, clicked, time"):
        data = read_parquet(written(tmp_path, columns), list_id="session_id")
    assert data.feature_names == ("bm25",)


def test_a_list_id_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no column 'request'"):
        read_parquet(written(tmp_path, GOOD), list_id="request")


def test_ids_and_features_have_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = "a" * limits.ID_BYTES
    for name in ("query_id", "doc_id"):
        read_parquet(written(tmp_path, {**GOOD, name: ["a", "a", long]}))
        with pytest.raises(DataError, match=f"{name} must have at most 65,536 bytes"):
            read_parquet(written(tmp_path, {**GOOD, name: ["a", "a", long + "a"]}))
    monkeypatch.setattr(limits, "FEATURES", 1)
    with pytest.raises(DataError, match="up to 1, found 2"):
        read_parquet(written(tmp_path, GOOD))
    monkeypatch.setattr(limits, "DOCUMENTS_PER_QUERY", 1)
    monkeypatch.setattr(limits, "FEATURES", 2)
    with pytest.raises(DataError, match=r"data.parquet: query 'a' has more documents"):
        read_parquet(written(tmp_path, GOOD))


@pytest.mark.parametrize("rows", [100, 151, 8000])
def test_a_file_that_names_other_rows_than_it_holds_is_rejected(
    tmp_path: Path, rows: int
) -> None:
    def written_as(number: int) -> bytes:  # a field of the footer, in Thrift
        return bytes([0x16, 2 * number & 0x7F | 0x80, 2 * number >> 7])

    path = written(tmp_path, {name: values * 50 for name, values in GOOD.items()})
    data = path.read_bytes()
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    at = data.index(written_as(150), footer)
    path.write_bytes(data[:at] + written_as(rows) + data[at + 3 :])
    with pytest.raises(DataError, match=r"data.parquet: "):
        read_parquet(path)


@pytest.mark.parametrize("name", ["query_id", "doc_id"])
def test_ids_that_are_not_utf_8_are_rejected(tmp_path: Path, name: str) -> None:
    path = written(tmp_path, {**GOOD, name: ["aaaa", "aaaa", "zqzq"]})
    path.write_bytes(path.read_bytes().replace(b"zqzq", b"z\xff\xffq"))
    with pytest.raises(DataError, match=r"data.parquet: could not be read"):
        read_parquet(path)
