"""The design, held: names stand in one place, and the package stays light."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from typing import Any

import pytest
from benchmarks.size import DOCUMENTED, SOURCE

from affinerank.bias import METHODS
from affinerank.clicks.models import CLICK_MODELS
from affinerank.clicks.policies import POLICIES
from affinerank.estimators import ESTIMATORS
from affinerank.rankers import RANKERS
from affinerank.rankers.losses import LOSSES
from affinerank.tables import Table

TABLES: dict[str, Table[Any]] = {
    "estimators": ESTIMATORS,
    "bias": METHODS,
    "clicks/models": CLICK_MODELS,
    "clicks/policies": POLICIES,
    "rankers": RANKERS,
    "rankers/losses": LOSSES,
}
DEFAULTS = "defaults.py"


def literals(path: Path) -> Iterator[tuple[str, int]]:
    """Strings of a module that are no docstrings, with their lines."""
    tree = ast.parse(path.read_text())
    docs = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, DOCUMENTED)
        and ast.get_docstring(node) is not None
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in docs:
            yield str(node.value), node.lineno


def test_a_key_stands_in_its_row_and_among_the_defaults_alone() -> None:
    keys = {key for table in TABLES.values() for key in table}
    found: dict[str, set[str]] = {}
    for path in SOURCE.rglob("*.py"):
        where = str(path.relative_to(SOURCE))
        for text, _ in literals(path):
            if text in keys and where != DEFAULTS:
                found.setdefault(text, set()).add(where)
    for folder, table in TABLES.items():
        for key in table:
            own = {where for where in found.get(key, ()) if where.startswith(folder)}
            assert len(own) <= 1, f"{key!r} stands in {sorted(own)}"
    rows = tuple(folder.split("/", maxsplit=1)[0] for folder in TABLES)
    for key, places in found.items():
        homes = {where.split("/")[0] for where in places}
        assert homes <= set(rows), f"{key!r} stands in {sorted(places)}"
        tables = [folder for folder, table in TABLES.items() if key in table]
        assert len(places) <= len(tables), f"{key!r} stands in {sorted(places)}"


@pytest.mark.parametrize("folder", TABLES)
def test_rows_are_called_by_their_keys_and_have_titles(folder: str) -> None:
    for key, row in TABLES[folder].items():
        assert row.name == key
        assert row.title
        assert row.title[0].isupper()


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return done.stdout


def test_help_is_there_at_once() -> None:
    code = "from affinerank.cli import main; main(['--help'])"
    before = getrusage(RUSAGE_CHILDREN)
    run(code)
    after = getrusage(RUSAGE_CHILDREN)
    taken = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert taken < 1.0  # 0.4 on quiet cores; tests run on busy ones


def test_counting_and_estimating_load_neither_torch_nor_lightgbm(
    tmp_path: Path, small_log: tuple[str, str, str]
) -> None:
    counts, _, world = small_log
    log = tmp_path / "log.parquet"
    code = f"""
import sys
from affinerank.cli import main
assert main(["estimate", {counts!r}, "--data", {world!r}, "--json",
             "-o", {str(tmp_path / "users.json")!r}]) in (0, 2)
assert main(["debias", {counts!r}, "--estimator", "naive", "--json",
             "-o", {str(tmp_path / "labels.parquet")!r}]) == 0
assert main(["count", {str(log)!r}]) == 2
print([name for name in ("torch", "lightgbm") if name in sys.modules])
"""
    assert run(code).splitlines()[-1] == "[]"
