"""Results in files: written and read again, and what is not results at all."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from affinerank.research.results import read_results, write_results
from affinerank.support.errors import DataError

pytestmark = pytest.mark.slow

SAMPLE = Path(__file__).parents[1] / "samples" / "run" / "results.parquet"


@pytest.fixture
def table(tmp_path: Path) -> pa.Table:
    """Rows as they are written."""
    write_results(tmp_path / "whole.parquet", read_results(SAMPLE))
    return pq.read_table(tmp_path / "whole.parquet")


def test_rows_are_read_as_they_were_written(table: pa.Table, tmp_path: Path) -> None:
    again = read_results(tmp_path / "whole.parquet")
    assert [row.cell for row in again] == [row.cell for row in read_results(SAMPLE)]
    assert table.equals(pq.read_table(SAMPLE))


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("ndcg", pa.array(["x"])),
        ("ndcg", pa.array([[[0.5]]])),
        ("ndcg", pa.array([None], pa.float64())),
        ("per_query", pa.array([0.5])),
        ("per_query", pa.array(["x"])),
        ("beta", pa.array([None], pa.list_(pa.float64()))),
        ("beta", pa.array([[0.1, 0.2, 0.3]])),
        ("run", pa.array([0.5])),
        ("estimator", pa.array([None], pa.string())),
        ("clicks", pa.array([{"a": 1}])),
        ("digest", None),
        ("cell", None),
    ],
)
def test_wrong_columns_are_one_sentence(
    table: pa.Table, name: str, values: Any, tmp_path: Path
) -> None:
    path, first = tmp_path / "results.parquet", table.slice(0, 1)
    if name in first.column_names:
        first = first.drop_columns(name)
    else:
        first = first.drop_columns("data")
    if values is not None:
        first = first.append_column(name, values)
    pq.write_table(first, path)
    with pytest.raises(DataError) as caught:
        read_results(path)
    assert str(caught.value).startswith(f"{path}: not results of AffineRank")
    assert str(caught.value).endswith("measure them again (affinerank reproduce)")
    assert "\n" not in str(caught.value)


def test_names_of_folders_are_not_columns(table: pa.Table, tmp_path: Path) -> None:
    folder = tmp_path / "ndcg=0.5"
    folder.mkdir()
    pq.write_table(table, folder / "results.parquet")
    found = [row.ndcg for row in read_results(folder / "results.parquet")]
    assert found == table["ndcg"].to_pylist()


@pytest.mark.parametrize("content", [b"", b"PAR1", b"x" * 1000])
def test_what_is_no_parquet_is_one_sentence(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "results.parquet"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"results.parquet: not results of AffineRank"):
        read_results(path)


def test_text_that_is_not_utf_8_is_one_sentence(
    table: pa.Table, tmp_path: Path
) -> None:
    path = tmp_path / "results.parquet"
    texts = pa.array(["zqzq"] * table.num_rows)
    place = table.schema.get_field_index("digest")
    pq.write_table(table.set_column(place, "digest", texts), path)
    path.write_bytes(path.read_bytes().replace(b"zqzq", b"z\xff\xffq"))
    with pytest.raises(DataError, match=r"results.parquet: not results"):
        read_results(path)
