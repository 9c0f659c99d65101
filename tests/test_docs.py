"""Every command and every Python block of the documentation runs, in order."""

import re
import runpy
import shlex
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import sklearn

import affinerank
from affinerank.cli import main
from affinerank.counts.table import COLUMNS

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
PAGES = (
    "README.md",
    "docs/start.md",
    "docs/click-logs.md",
    "docs/audit.md",
    "docs/estimation.md",
    "docs/learning.md",
    "docs/policies.md",
    "docs/swaps.md",
    "docs/serving.md",
    "docs/scikit-learn.md",
    "docs/moving.md",
    "docs/researcher.md",
    "docs/adding-a-row.md",
    "docs/reproduction.md",
    "docs/worlds.md",
)
TABLES = ("ESTIMATORS", "METHODS", "CLICK_MODELS", "POLICIES", "RANKERS", "LOSSES")
WIDEST = 120
# These need what a test machine lacks, and are tested with made-up files elsewhere.
NEEDS_MORE = (
    "MSLR-WEB30K",
    "my_module",
    "--data DIR",
    "data describe mslr-like",
    "spark",
    "duckdb:///",
    "postgres://",
    "import ubi",
    "import tiangong",
    "--safe",
)
SMALLER = {
    r"\btrees=\d+": "trees=5",
    r"(\w+-like):\d+": r"\1:60",
    r"\b1e6\b": "2e4",
    r"\bepochs=\d+": "epochs=2",
    r'"epochs": \d+': '"epochs": 2',
    r"\bn_jobs=\d+": "n_jobs=1",  # a search in two processes has a test of its own
}
QUICK = ["--set", "hidden=8,4", "--set", "epochs=2"]


def steps(page: str) -> list[tuple[str, str]]:
    """The commands and Python blocks of a page, in order."""
    text = (ROOT / page).read_text().replace("\\\n", " ")
    pattern = r"```python\n(?P<python>[\s\S]*?)```|^(?:    )?(?P<shell>affinerank .*)$"
    found = []
    for match in re.finditer(pattern, text, flags=re.MULTILINE):
        if match["python"]:
            found.append(("python", match["python"]))
        elif not any(word in match["shell"] for word in NEEDS_MORE):
            found.append(("shell", re.split(r"\s{2,}#", match["shell"])[0]))
    return found


def smaller(text: str) -> str:
    """The same on a smaller world, with fewer clicks, trees, epochs and processes."""
    for written, less in SMALLER.items():
        text = re.sub(written, less, text)
    return text


def run_alone(script: Path) -> None:
    """As a script of its own, but without starting Python once more."""
    with sklearn.config_context():
        runpy.run_path(str(script))


@pytest.fixture
def own_tables() -> Iterator[None]:
    """Remove the rows that a page adds: other tests go over all rows."""
    with ExitStack() as stack:
        for name in TABLES:
            stack.enter_context(getattr(affinerank, name).restored())
        yield


@pytest.mark.usefixtures("own_tables")
@pytest.mark.parametrize("page", PAGES)
def test_every_command_and_block_runs(
    page: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = 0
    for kind, text in steps(page):
        ran += 1
        if kind == "shell":
            words = shlex.split(smaller(text))[1:]
            is_network = words[0] == "train" and "mlp" in words
            quick = QUICK if is_network else []
            quick = ["--replicates", "2"] if words[0] == "evaluate" else quick
            assert main([*words, *quick]) == 0, f"{text}: {capsys.readouterr().err}"
        else:
            script = tmp_path / "block.py"
            script.write_text(smaller(text))
            run_alone(script)
    assert ran


def test_lines_are_short_enough_to_read() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
    for page in pages:
        for number, line in enumerate(page.read_text().splitlines(), start=1):
            assert len(line) <= WIDEST, f"{page.name}:{number}: {len(line)} columns"


def test_every_page_with_a_command_or_block_is_run() -> None:
    pages = {f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")}
    with_steps = {page for page in pages if steps(page)}
    assert with_steps <= set(PAGES)


def section_of(page: str, title: str) -> str:
    """The text below a heading of a page, up to the next heading of its level."""
    return (ROOT / page).read_text().split(f"## {title}\n")[1].split("\n## ")[0]


def test_the_page_of_formats_names_every_column_of_counts() -> None:
    named = set(re.findall(r"`(\w+)`", section_of("docs/formats.md", "Counts")))
    assert set(COLUMNS) <= named


@pytest.mark.filterwarnings("ignore::affinerank.support.errors.AffineRankWarning")
@pytest.mark.parametrize("estimator", ["affine", "naive", "mixture-based", "posterior"])
def test_the_page_of_formats_names_the_columns_that_labels_have(
    estimator: str, small_log: tuple[str, str, str]
) -> None:
    section = section_of("docs/formats.md", "Labels")
    with_own_clicks = re.search(r"`own_clicks` \(double\): of (.+?), where", section)
    assert with_own_clicks is not None
    errors = {"standard_error"}
    if f"`{estimator}`" in with_own_clicks[1]:
        errors = {"standard_deviation", "own_clicks"}
    counts = affinerank.ClickCounts.load(small_log[0])
    options = "(prior=rank)" if estimator == "posterior" else ""
    labels = affinerank.debias(
        counts,
        affinerank.load_click_model(small_log[1]),
        estimator=f"{estimator}{options}",
    )
    always = {"query_id", "doc_id", "relevance", "impressions", "clicks"}
    assert set(labels.column_names) == always | errors
    assert all(f"`{name}`" in section for name in always | errors)
