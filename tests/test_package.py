"""The package as a whole: what importing it costs, what it offers."""

import subprocess
import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

import affinerank

ROOT = Path(__file__).parents[1]


def _in_a_new_process(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_importing_is_fast_and_loads_no_heavy_library() -> None:
    code = (
        "import time, sys; t = time.process_time(); import affinerank; "
        "print(time.process_time() - t); "
        "print([m for m in ('torch', 'lightgbm', 'polars') if m in sys.modules])"
    )
    seconds, loaded = _in_a_new_process(code).splitlines()
    assert float(seconds) < 0.3
    assert loaded == "[]"


def test_what_trains_and_the_commands_do_without_what_draws() -> None:
    code = (
        "import sys, affinerank.output.charts, affinerank.cli, affinerank.pipeline; "
        "import affinerank.research.reproduce; "
        "print([m for m in ('altair', 'vl_convert') if m in sys.modules])"
    )
    assert _in_a_new_process(code) == "[]"


def test_every_public_name_is_there() -> None:
    for name in affinerank.__all__:
        assert getattr(affinerank, name) is not None
    assert affinerank.ClickCounts.__name__ == "ClickCounts"
    assert dir(affinerank) == sorted(affinerank.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(affinerank, "nothing")


def test_the_oldest_versions_tested_are_the_oldest_allowed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    optional = [
        line
        for name in ("delta", "export", "networks", "postgres", "sklearn", "xgboost")
        for line in extras[name]
    ]
    allowed = {}
    for line in [*project["dependencies"], *optional]:
        needed = Requirement(line)
        (bound,) = (s.version for s in needed.specifier if s.operator == ">=")
        allowed[needed.name] = Version(bound)
    lines = (ROOT / "constraints-oldest.txt").read_text().splitlines()
    pins = [line.split("==") for line in lines if not line.startswith("#")]
    tested = {name: Version(version) for name, version in pins}
    del allowed["torch"], tested["torch"], tested["polars"]  # said in that file
    assert tested == allowed
