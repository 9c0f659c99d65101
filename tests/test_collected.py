"""No test is lost unseen: how many there are is committed, and so is what went."""

import tomllib
from pathlib import Path

import pytest

RECORD = Path(__file__).with_name("collected.toml")
SELECTIONS = ("keyword", "markexpr", "deselect", "ignore", "ignore_glob", "lf")


def is_whole_suite(config: pytest.Config) -> bool:
    """Whether nothing was selected on the command line: all test paths run."""
    has_selection = any(config.getoption(name, None) for name in SELECTIONS)
    return config.args == config.getini("testpaths") and not has_selection


def test_tests_that_went_are_listed_by_name(request: pytest.FixtureRequest) -> None:
    if not is_whole_suite(request.config):
        pytest.skip("only a part of the suite is run")
    record = tomllib.loads(RECORD.read_text())

    # A test is a function, or the examples of a docstring; its cases are not counted.
    tests = {item.nodeid.split("[")[0] for item in request.session.items}
    expected = record["tests"] - sum(len(names) for names in record["gone"].values())
    assert len(tests) >= expected, (
        f"{len(tests)} tests were collected, and {expected} are expected: list those "
        f"that went, with the reason, in {RECORD.name}"
    )
