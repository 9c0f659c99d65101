"""The package as a whole: what importing it costs, what it offers."""

import subprocess
import sys

import affinerank


def _in_a_new_process(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_importing_is_fast_and_loads_no_heavy_library() -> None:
    code = (
        "import time, sys; t = time.perf_counter(); import affinerank; "
        "print(time.perf_counter() - t); "
        "print([m for m in ('torch', 'lightgbm', 'polars') if m in sys.modules])"
    )
    seconds, loaded = _in_a_new_process(code).splitlines()
    assert float(seconds) < 0.3
    assert loaded == "[]"


def test_what_trains_and_the_commands_do_without_what_draws() -> None:
    code = (
        "import sys, affinerank.charts, affinerank.cli, affinerank.pipeline; "
        "import affinerank.experiments.reproduce; "
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
