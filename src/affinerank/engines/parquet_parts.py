"""Split a Parquet file of any size by a hash of one of its columns."""

from __future__ import annotations

import glob
from pathlib import Path
from typing import Any

from affinerank.support.arrow import parquet_errors
from affinerank.support.errors import DataError
from affinerank.support.files import one_line

MEMORY = "2GB"


def split_parquet(file: Path, folder: Path, column: str, n_parts: int) -> None:
    """Write the rows of a file into folders ``part=0``, ``part=1``, ... of ``folder``.

    The part of a row goes by a hash of ``column`` as text. A part without rows has no
    folder.
    """
    import duckdb  # only for what is large: it takes time to load

    source = glob.escape(str(file)).replace("'", "''")
    target = str(folder).replace("'", "''")
    query = f"""COPY (
            SELECT *, hash({column}::VARCHAR) % {n_parts} AS part
            FROM read_parquet('{source}', hive_partitioning = false)
        ) TO '{target}' (FORMAT parquet, PARTITION_BY (part))"""  # noqa: S608
    settings: dict[str, Any] = {
        "memory_limit": MEMORY,
        "preserve_insertion_order": False,
    }
    with parquet_errors(file), duckdb.connect(config=settings) as connection:
        try:
            connection.execute(query)
        except duckdb.Error as error:
            raise DataError(one_line(error)) from None
