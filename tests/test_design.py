"""The design, held: names stand in one place, and the package stays light."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from types import ModuleType
from typing import Any

import pytest
from benchmarks.size import DOCUMENTED, SOURCE

import affinerank.bias
import affinerank.clicks.models
import affinerank.clicks.policies
import affinerank.estimators
import affinerank.rankers
import affinerank.rankers.networks.losses
from affinerank.support.registry import Registry

# Every table, and the module that makes it: its rows stand beside that module.
TABLES: list[tuple[ModuleType, Registry[Any]]] = [
    (affinerank.estimators, affinerank.estimators.ESTIMATORS),
    (affinerank.bias, affinerank.bias.METHODS),
    (affinerank.clicks.models, affinerank.clicks.models.CLICK_MODELS),
    (affinerank.clicks.policies, affinerank.clicks.policies.POLICIES),
    (affinerank.rankers, affinerank.rankers.RANKERS),
    (affinerank.rankers.networks.losses, affinerank.rankers.networks.losses.LOSSES),
]
DEFAULTS = "defaults.py"


def folder_of(module: ModuleType) -> str:
    """Return the folder of a module, seen from the package."""
    assert module.__file__ is not None
    return str(Path(module.__file__).parent.relative_to(SOURCE))


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


def places_of_keys() -> dict[str, set[str]]:
    """Modules where the key of a table stands as a string; defaults aside."""
    keys = {key for _, table in TABLES for key in table}
    places: dict[str, set[str]] = {}
    for path in SOURCE.rglob("*.py"):
        where = str(path.relative_to(SOURCE))
        for text, _ in literals(path):
            if text in keys and where != DEFAULTS:
                places.setdefault(text, set()).add(where)
    return places


def test_a_key_stands_in_its_row_and_among_the_defaults_alone() -> None:
    places = places_of_keys()
    for module, table in TABLES:
        folder = folder_of(module)
        for key in table:
            here = {where for where in places.get(key, ()) if where.startswith(folder)}
            assert len(here) <= 1, f"{key!r} stands in {sorted(here)}"

    # Rivals add rows to the tables of other rooms.
    rooms = {folder_of(module).split("/")[0] for module, _ in TABLES} | {"rivals"}
    for key, where in places.items():
        assert {place.split("/")[0] for place in where} <= rooms, f"{key!r}: {where}"
        tables = [table for _, table in TABLES if key in table]
        assert len(where) <= len(tables), f"{key!r} stands in {sorted(where)}"


@pytest.mark.parametrize("table", [table for _, table in TABLES], ids=lambda t: t.kind)
def test_rows_are_called_by_their_keys_and_have_titles(table: Registry[Any]) -> None:
    for key, row in table.items():
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
             "-o", {str(tmp_path / "click_model.json")!r}]) in (0, 2)
assert main(["debias", {counts!r}, "--estimator", "naive", "--json",
             "-o", {str(tmp_path / "labels.parquet")!r}]) == 0
assert main(["count", {str(log)!r}]) == 2
print([name for name in ("torch", "lightgbm") if name in sys.modules])
"""
    assert run(code).splitlines()[-1] == "[]"


def test_only_the_room_of_engines_asks_which_engine_has_a_table() -> None:
    asking = {
        str(path.relative_to(SOURCE).parent)
        for path in SOURCE.rglob("*.py")
        if "get_backend" in path.read_text()
    }
    assert asking == {"engines"}
