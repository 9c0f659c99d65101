"""Arrow, imported when it is first used: tables and their help do without."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
else:

    class _Later:
        def __init__(self, name: str) -> None:
            self.__name__ = name

        def __getattr__(self, name: str) -> Any:
            return getattr(import_module(self.__name__), name)

    pa, pc = _Later("pyarrow"), _Later("pyarrow.compute")
    pq = _Later("pyarrow.parquet")

__all__ = ["is_text", "pa", "pc", "pq"]


def is_text(kind: pa.DataType) -> bool:
    """Tell whether a type is one of Arrow's for text."""
    return kind in (pa.string(), pa.large_string(), pa.string_view())
