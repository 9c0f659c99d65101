"""Read the files of a log, of one layout or several, as one table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar

import ibis
import ibis.expr.datatypes as dt
import ibis.expr.types as ir
from ibis.common.exceptions import IbisTypeError

from affinerank.engines.engine import Engine
from affinerank.engines.files import Layout, layouts, require_distinct
from affinerank.support.errors import ConfigError, DataError, warn
from affinerank.support.limits import LOG_LAYOUTS


class FileEngine(Engine, ABC):
    """An engine that reads files.

    Attributes:
        reads_folders_as_columns: Whether folders named as in ``day=1`` can be columns.
    """

    reads_folders_as_columns: ClassVar[bool] = False

    def open_files(self, source: str, *, hive: bool = False) -> ir.Table:
        """Read files by their ending; what is text in them stays text."""
        if (Path(source) / "_delta_log").is_dir():
            return self.open_delta(source)
        files_by_layout = layouts(source)
        if len(files_by_layout) > LOG_LAYOUTS:
            many = f"{len(files_by_layout)} sets of columns, more than {LOG_LAYOUTS}"
            raise DataError(f"{source}: {many}; count it in parts")
        all_parquet = all(layout.format == "parquet" for layout in files_by_layout)
        if hive and not (self.reads_folders_as_columns and all_parquet):
            raise ConfigError("--hive is for Parquet files, read by the engine duckdb")
        tables = [
            self.read_files(layout, paths, hive=hive)
            for layout, paths in files_by_layout.items()
        ]
        return _union_by_name(tables)

    @abstractmethod
    def read_files(self, layout: Layout, paths: list[str], *, hive: bool) -> ir.Table:
        """Read files that have one layout."""

    def open_delta(self, source: str) -> ir.Table:
        """Read a Delta table as it is now; its folder holds deleted rows, too."""
        raise ConfigError(f"{source}: a Delta table is read by the engine duckdb")


def _union_by_name(tables: list[ir.Table]) -> ir.Table:
    """Put tables together by the names of their columns; what one has not is null."""
    types_by_name: dict[str, list[dt.DataType]] = {}
    for table in tables:
        for name, kind in table.schema().items():
            types_by_name.setdefault(name, []).append(kind)
    require_distinct(types_by_name, "the files of the log")
    types = {name: _common_type(name, kinds) for name, kinds in types_by_name.items()}
    if len(tables) == 1:
        return tables[0]

    def with_all_columns(table: ir.Table) -> ir.Table:
        own = {name: table[name] for name in table.columns}
        columns = {
            name: own.get(name, ibis.null()).cast(kind) for name, kind in types.items()
        }
        return table.select(**columns)

    return ibis.union(*map(with_all_columns, tables))


def _common_type(name: str, kinds: list[dt.DataType]) -> dt.DataType:
    """Return a type that holds all of the types a column has; else text."""
    try:
        return dt.highest_precedence(kinds)
    except IbisTypeError:
        several = " and ".join(sorted({str(kind) for kind in kinds}))
        warn(f"{name} holds {several} in different files; it is kept as text")
        return dt.string
