"""Ranking data from a table of a database, wherever Ibis reaches."""

from __future__ import annotations

import pyarrow.parquet as pq

from affinerank.data.dataset import RankingDataset
from affinerank.data.parquet import OF_LOGS, read_parquet
from affinerank.data.read_options import Missing, ReadOptions, Split
from affinerank.data.sources import DataSource
from affinerank.engines.databases import without_password
from affinerank.engines.errors import engine_errors
from affinerank.engines.opening import open_table
from affinerank.support.errors import ConfigError, DataError
from affinerank.support.files import scratch_folder
from affinerank.support.large_arrays import ROWS_AT_ONCE


def database_source(
    text: str,
    *,
    missing: Missing = "keep",
    list_id: str | None = None,
    chosen: ReadOptions | None = None,
) -> DataSource:
    """Name the table of a database: the URL of an Ibis connection, ``#``, its name.

    As in ``duckdb:///shop.duckdb#features``.
    """
    url, mark, table = text.rpartition("#")
    name = without_password(text)
    if not (mark and table):
        raise ConfigError(f"{name}: expected a table after #, as in {name}#features")
    own, taken = list_id or "query_id", chosen or ReadOptions()
    keys = [taken.named(key) for key in (own, "doc_id", "label")]

    def read(split: Split | None) -> RankingDataset:
        """Read the table through a Parquet file, in the order of its ids."""
        del split
        with scratch_folder() as folder, open_table(url, table=table) as rows:
            file = folder / "features.parquet"
            with engine_errors(name):
                used = {*keys, *OF_LOGS.split()}
                names = [n for n in rows.columns if n in used or taken(n)]
                order = [n for n in keys[:2] if n in names]
                ordered = rows.select(names).order_by(order)
                batches = ordered.to_pyarrow_batches(chunk_size=ROWS_AT_ONCE)
                with pq.ParquetWriter(file, batches.schema) as writer:
                    for batch in batches:
                        writer.write_batch(batch)
            try:
                return read_parquet(file, missing=missing, list_id=own, chosen=taken)
            except DataError as error:
                raise DataError(str(error).replace(str(file), name)) from None

    return DataSource(name, (), None, read)
