"""The command: what it prints and writes, and its page in a browser."""

import json
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from affinerank.audit import audit_file
from affinerank.cli import main
from affinerank.counts.counts import ClickCounts

pytestmark = pytest.mark.slow

Capture = pytest.CaptureFixture[str]
WriteLog = Callable[..., str]

MARK = '</script><img src=x onerror="document.title=1">&'
WORLD = "yahoo-like:80"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of two rankers with hostile names, swaps, segments and a few faults."""
    path = tmp_path_factory.mktemp("hostile") / "log.parquet"
    command = ["simulate", WORLD, "--clicks", "2e4", "--top-k", "5"]
    several = ["--ranker", "production", "--ranker", "production:5"]
    swaps = ["--policy", "swap(share=0.3)"]
    assert main([*command, *several, *swaps, "--log", str(path)]) == 0
    table = pq.read_table(path)
    session = table["session_id"].to_numpy()
    rank = table["rank"].to_numpy().copy()
    rank[(session % 100 == 0) & (rank == 2)] = 1
    changed = {
        "query_id": [f"{MARK}{q}" for q in table["query_id"].to_pylist()],
        "doc_id": [f"{MARK}{d}" for d in table["doc_id"].to_pylist()],
        "ranker": [f"{MARK}{r}" for r in table["ranker"].to_pylist()],
        "rank": rank,
    }
    for name, values in changed.items():
        table = table.set_column(table.column_names.index(name), name, [values])
    device = [f"{MARK}phone" if s % 3 else "" for s in session]
    pq.write_table(table.append_column("device", [device]), path)
    return path


@pytest.fixture(scope="module")
def audited(hostile: Path) -> tuple[dict[str, Any], Path]:
    """What the command answers about it, and the page it writes."""
    target = hostile.with_name("audit.html")
    command = ["audit", str(hostile), "--segment", "device", "-o", str(target)]
    printed = StringIO()
    with redirect_stdout(printed):
        assert main([*command, "--json"]) == 0
    return json.loads(printed.getvalue()), target


def test_audit_answers_in_json(audited: tuple[dict[str, Any], Path]) -> None:
    about, _ = audited
    verdicts = {name: about[name]["verdict"] for name in ("usable", "identified")}
    assert verdicts == {"usable": "partly", "identified": "yes"}
    assert about["position_bias"]["verdict"] == "yes"
    assert about["trust_bias"]["verdict"] == "yes"
    groups = about["click_rates"]["by_segment"]
    assert {group["name"] for group in groups} == {f"{MARK}phone", ""}
    assert len(about["click_rates"]["by_ranker"]) == 2
    assert about["identified"]["method"] == "interventions"
    assert about["usable"]["dropped"]["sessions"] > 0
    first = about["first_rank"]
    parts = ("another_first", "first_stays", "undecided")
    assert first["evaluated"] == sum(first[name] for name in parts)


def test_audit_prints_what_it_found(
    write_log: WriteLog, tmp_path: Path, capsys: Capture
) -> None:
    target = tmp_path / "audit.html"
    rows = [("s", "q1", "a", 1, 1), ("s", "q1", "b", 2, 0)]
    assert main(["audit", write_log(rows), "-o", str(target)]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert "usable: no" in printed.out
    assert "next: Collect clicks" in printed.out
    assert f"written: {target}" in printed.out.replace("\n", "")
    assert "too few to tell ranks apart" in target.read_text()


def test_ids_cannot_inject_html(audited: tuple[dict[str, Any], Path]) -> None:
    page = audited[1].read_text()
    assert MARK not in page
    assert "&lt;/script&gt;&lt;img" in page


def test_counts_are_audited_as_the_log_is(
    hostile: Path, tmp_path: Path, capsys: Capture
) -> None:
    counts = tmp_path / "counts.parquet"
    command = ["count", str(hostile), "--segment", "device", "--bad-rows", "drop"]
    assert main([*command, "-o", str(counts)]) == 0
    capsys.readouterr()
    found = audit_file(str(counts)).to_dict()
    assert found["usable"]["dropped"] is None
    numbers = {c["what"]: c["number"] for c in found["usable"]["checks"]}
    assert numbers["lists"] is None
    assert numbers["sessions"] == ClickCounts.load(counts).n_sessions


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nothing.parquet"], "there is no such file"),
        (["LOG", "-o", "page.txt"], "must end in .html"),
        (["LOG", "--days", "0"], "days must be above 0"),
        (["LOG", "--column", "rank=place"], "no column 'place'"),
        (
            ["LOG", "--data", "mslr-like:20"],
            "the counts and the data share no document",
        ),
        (["COUNTS", "--segment", "device"], "holds counts"),
    ],
)
def test_wrong_input_is_one_sentence(
    arguments: list[str],
    said: str,
    write_log: WriteLog,
    tmp_path: Path,
    capsys: Capture,
) -> None:
    rows = [("s", f"q{i}", f"d{k}", k, int(k == 1)) for i in range(9) for k in (1, 2)]
    files = {
        "LOG": write_log(rows),
        "COUNTS": str(tmp_path / "counts.parquet"),
    }
    ClickCounts.from_columns(
        query_id=["q"], doc_id=["d"], rank=[1], impressions=[2], clicks=[1]
    ).save(files["COUNTS"])
    target = tmp_path / "audit.html"
    words = ["audit", *(files.get(word, word) for word in arguments)]
    if "-o" not in words:
        words += ["-o", str(target)]
    assert main(words) == 2
    printed = capsys.readouterr()
    assert said in printed.err
    assert len(printed.err.splitlines()) == 1
    assert not target.exists()


def test_the_page_works_offline_in_a_browser(
    audited: tuple[dict[str, Any], Path], browse: Callable[[Path], Any]
) -> None:
    page = browse(audited[1])
    page.wait_for_selector("[data-figure=bias] svg .mark-symbol path")
    assert page.locator("[data-figure] svg.marks").count() == 5
    assert page.title().startswith("Click log")
    assert page.locator("img").count() == 0
    assert page.locator(".card").count() == 7
    page.locator("[data-figure=rates] .mark-symbol.role-mark path").first.hover(
        force=True
    )
    page.wait_for_selector("#vg-tooltip-element.visible")
    assert "as logged" in page.locator("#vg-tooltip-element").inner_text()
    page.set_viewport_size({"width": 390, "height": 800})
    page.wait_for_timeout(300)
    wide = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
    assert not page.evaluate(wide)
