"""Other databases: any connection of Ibis, and what Postgres does its own way."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import ibis
import ibis.expr.types as ir

from affinerank.engines.engine import Engine, where_clause
from affinerank.support.errors import ConfigError, DataError
from affinerank.support.files import one_line

# Rows may arrive while Postgres counts; a query ends with the process that asked (14).
# What was never analysed would be joined row by row.
AS_OF_NOW = """
    BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY;
    SET LOCAL enable_nestloop = off;
    SELECT set_config(name, '5s', false)
    FROM (VALUES ('client_connection_check_interval')) AS settings (name)
    WHERE current_setting(name, true) IS NOT NULL
"""


@ibis.udf.scalar.builtin(name="convert_to")  # type: ignore[untyped-decorator]
def _encoded(text: str, encoding: str) -> bytes:  # type: ignore[empty-body]
    """Return text as bytes, on Postgres."""


class Postgres(Engine):
    """A server of Postgres."""

    def open_table(self, name: str, place: str) -> ir.Table:
        """Open a table as it is now; rows that arrive later are not read."""
        self.connection.raw_sql(AS_OF_NOW)
        return super().open_table(name, place)

    def in_byte_order(self, column: ir.Value) -> ir.Value:
        """Return texts as bytes; Postgres would order them by its language."""
        return _encoded(column, "UTF8") if column.type().is_string() else column

    def filter_by_sql(self, table: ir.Table, condition: str) -> ir.Table:
        """Keep the rows that meet a condition in the engine's own SQL."""
        # Ibis would make a view to learn the columns: they are known, and views are
        # writes.
        where = where_clause(condition)
        query = f"SELECT * FROM ({ibis.to_sql(table)}) AS log {where}"  # noqa: S608
        chosen = self.connection.sql(query, schema=table.schema())
        chosen.limit(0).to_pyarrow()  # a condition that is none is an error here
        return chosen


def connect_database(url: str) -> Any:
    """Connect to a database by its URL; return the connection of Ibis."""
    scheme, _, place = url.partition("://")
    # SQLite would make a file that is not there.
    database = place.partition("?")[0]
    if scheme.lower() == "sqlite" and not Path(database).is_file():
        raise DataError(f"{url}: there is no such file")
    try:
        return ibis.connect(url)
    except ImportError:
        kind = urlsplit(url).scheme.replace("postgresql", "postgres")
        extra = "affinerank" if kind == "postgres" else "ibis-framework"
        raise ConfigError(
            f"{without_password(url)}: what reads it is not installed: "
            f"pip install '{extra}[{kind}]'"
        ) from None
    except ValueError as error:
        shown = without_password(url)
        reason = one_line(error).replace(url, shown)
        raise ConfigError(f"{shown}: cannot be connected to: {reason[:200]}") from None


def require_url(text: str) -> str:
    """Check that a text is the URL of a connection; return its scheme."""
    scheme = text.partition("://")[0].lower()
    if not re.fullmatch(r"\w+", scheme) or scheme == "file":
        raise ConfigError(f"expected a URL as in duckdb:///clicks.duckdb, got {text!r}")
    return scheme


def without_password(url: str) -> str:
    """Hide the password in a URL that is going to be printed.

    >>> without_password("postgres://me:secret@host/db")
    'postgres://me:***@host/db'
    """
    with suppress(ValueError):
        if password := urlsplit(url).password:
            return url.replace(f":{password}@", ":***@")
    return url
