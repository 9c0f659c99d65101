"""Limits stand in one module, and in one table of the documentation."""

import re
from pathlib import Path

from affinerank.support import limits

TABLE = Path(__file__).parents[2] / "docs" / "limits.md"
ROW = re.compile(r"\| `([A-Z_]+)` \| ([^|]+) \| ([^|]+) \|")


def test_the_table_holds_every_limit_with_its_value() -> None:
    rows = [ROW.fullmatch(line) for line in TABLE.read_text().splitlines()]
    written = {row[1]: float(row[2].replace(",", "").split()[0]) for row in rows if row}
    own = {name: value for name, value in vars(limits).items() if name.isupper()}
    assert written == own
