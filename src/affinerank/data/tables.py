"""Feature tables as CSV: ``query_id, doc_id, [label]``, and a column per feature.

Ids are text, whatever they look like; everything else must be a number, or empty where
it is missing. The table becomes Parquet first, block by block, and is read like that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from affinerank.data.dataset import RankingDataset
from affinerank.data.parquet import OF_LOGS, read_parquet
from affinerank.data.reading import Chosen, Missing
from affinerank.errors import DataError
from affinerank.files import PathLike, existing_file, one_line, scratch_folder

ABSENT = ["", "NA", "N/A", "NULL", "null", "None", "nan", "NaN"]


def read_csv(
    path: PathLike,
    *,
    missing: Missing = "keep",
    list_id: str = "query_id",
    chosen: Chosen = Chosen(),  # noqa: B008
) -> RankingDataset:
    """Read ranking data from CSV, as :func:`read_parquet` does from Parquet."""
    source = existing_file(path)
    with scratch_folder() as folder:
        file = folder / "features.parquet"
        with _named(source, file):
            _convert(source, file, list_id, chosen)
            return read_parquet(
                file,
                missing=missing,
                list_id=list_id,
                chosen=Chosen(columns=chosen.columns),
            )


@contextmanager
def _named(source: Path, file: Path) -> Iterator[None]:
    """Name the file that was given in errors of reading it."""
    try:
        yield
    except DataError as error:
        raise DataError(str(error).replace(str(file), str(source))) from None
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise DataError(
            f"{source}: could not be read as CSV: {one_line(error)}"
        ) from None


def _convert(source: Path, file: Path, list_id: str, chosen: Chosen) -> None:
    with pyarrow.csv.open_csv(source) as reader:  # the header, and the first block
        names = reader.schema.names
    ids, label = (chosen.named(list_id), chosen.named("doc_id")), chosen.named("label")
    for name in ids:
        if name not in names:
            raise DataError(
                f"{file}: there is no column {name!r}; expected {', '.join(ids)}, "
                f"optionally {label}, and features; found {', '.join(names[:8])}"
            )
    texts = {*ids, *OF_LOGS.split()}
    types = {n: pa.string() if n in texts else pa.float64() for n in names}
    how = pyarrow.csv.ConvertOptions(
        column_types=types,
        include_columns=[n for n in names if n in (*texts, label) or chosen(n)],
        null_values=ABSENT,
        strings_can_be_null=True,
    )
    try:
        with (
            pyarrow.csv.open_csv(source, convert_options=how) as reader,
            pq.ParquetWriter(file, reader.schema) as writer,
        ):
            for batch in reader:
                writer.write_batch(batch)
    except pa.ArrowInvalid as error:
        found = re.search(r"CSV column #(\d+): (.*?)conversion error", str(error))
        if found is None:
            raise
        name, value = names[int(found[1])], one_line(error).rpartition("value ")[2]
        raise DataError(
            f"{file}: column {name!r} must hold numbers, got {value:.60}; "
            "leave it out (--ignore), or replace it by numbers"
        ) from None
