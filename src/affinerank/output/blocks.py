"""How objects show in a notebook: one line, a small table, and a frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from affinerank.support.arrow import pa
from affinerank.support.errors import ConfigError

ROWS_SHOWN = 10


class Summary:
    """What can be said in a line, and shown in rows.

    A class gives ``_line()``, its sizes in words, and ``_rows()``, plain data.
    """

    __slots__ = ()

    def _line(self) -> str:
        raise NotImplementedError

    def _rows(self) -> Sequence[Mapping[str, Any]]:
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._line()})"

    def _repr_html_(self) -> str:
        from affinerank.output.html import html_table

        rows = self._rows()
        columns = _columns(rows[:ROWS_SHOWN])
        cells = zip(*(map(_cell, column) for column in columns.values()), strict=True)
        left = len(rows) - ROWS_SHOWN
        more = f"<p>... and {left:,} more</p>" if left > 0 else ""
        return f"<p>{escape(repr(self))}</p>{html_table([*columns], cells)}{more}"

    def to_arrow(self) -> pa.Table:
        """Return the rows as an Arrow table."""
        return pa.table(_columns(self._rows()))

    def to_frame(self) -> Any:
        """Return the same as a pandas frame."""
        try:
            return self.to_arrow().to_pandas()
        except ImportError:
            raise ConfigError(
                "to_frame needs pandas: pip install pandas, or take to_arrow()"
            ) from None


def _columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return values by column; ``None`` where a row lacks one."""
    flat = [_flat(row) for row in rows]
    names = dict.fromkeys(name for row in flat for name in row)
    return {name: [row.get(name) for row in flat] for name in names}


def _flat(row: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Name what is nested by its path, as in ``value_low``.

    >>> _flat({"rank": 1, "value": {"low": 2}, "interval": (3, 4)})
    {'rank': 1, 'value_low': 2, 'interval_low': 3, 'interval_high': 4}
    """
    flat: dict[str, Any] = {}
    for name, value in row.items():
        if name == "interval" and isinstance(value, list | tuple):
            value = dict(zip(("low", "high"), value, strict=True))  # noqa: PLW2901
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{above}{name}_")
        else:
            flat[f"{above}{name}"] = value
    return flat


def _cell(value: Any) -> str:
    """Return a value for a reader; numbers to four places."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    return escape(f"{value:,}" if isinstance(value, int) else str(value))
