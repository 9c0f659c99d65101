"""What tests of several modules share: a small log, and a page in a browser."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import TIMEOUT_MAX
from typing import Any

import pytest
from hypothesis import settings

from affinerank.cli import main, options

WORLD = "yahoo-like:60"

# How long an example takes says how busy the machine is, not whether it is right.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")
# On a slow one, commands must not print how far they are into what tests compare.
options.SECONDS_BETWEEN_LINES = TIMEOUT_MAX


@pytest.fixture(scope="session")
def small_log(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str, str]:
    """Counts and true users of a small world, and the world; for reading only."""
    folder = tmp_path_factory.mktemp("clicks")
    counts, click_model = (
        str(folder / "counts.parquet"),
        str(folder / "click-model.json"),
    )
    arguments = ["simulate", WORLD, "--clicks", "2e4", "--counts", counts]
    assert main([*arguments, "--save-click-model", click_model, "--json"]) == 0
    return counts, click_model, WORLD


@pytest.fixture
def browse() -> Iterator[Callable[[Path], Any]]:
    """Open a page in a browser; in the end, nothing went wrong or was asked for."""
    api = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("there is no chromium here")
    opened: list[str] = []
    asked_for: list[str] = []
    faults: list[str] = []
    with api.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])

        def browsed(path: Path) -> Any:
            tab = browser.new_page(viewport={"width": 1280, "height": 900})
            tab.on("console", lambda said: faults.append(said.text))
            tab.on("pageerror", lambda error: faults.append(str(error)))
            tab.on("request", lambda asked: asked_for.append(asked.url))
            opened.append(path.as_uri())
            tab.goto(path.as_uri())
            return tab

        yield browsed
        browser.close()
    assert faults == []
    assert asked_for == opened
