"""Labels as judgments: the files, grades, and what is left out."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pyarrow as pa
import pytest

from affinerank.cli import main
from affinerank.export.judgments import save_judgments
from affinerank.support.errors import DataError

LABELS = pa.table(
    {
        "query_id": ["red shoes", "red shoes", "hat", "hat", "hat"],
        "doc_id": ["a", "b,c", "d", "e", "f"],
        "relevance": [-0.3, 0.5, 1.7, 0.199, 0.2],
        "impressions": [10, 99, 20, 30, 9],
    }
)


def test_relevance_is_divided_evenly_and_few_impressions_are_not_judged(
    tmp_path: Path,
) -> None:
    path = tmp_path / "ratings.csv"
    about = save_judgments(LABELS, path, to="quepid")
    with path.open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows == [
        ["query", "docid", "rating"],
        ["red shoes", "a", "0"],
        ["red shoes", "b,c", "2"],
        ["hat", "d", "4"],
        ["hat", "e", "0"],
    ]
    assert about["evaluated"] == 4
    assert about["left out"].startswith("1 documents with fewer than 10")
    assert about["grades"] == "0: 2, 1: 0, 2: 1, 3: 0, 4: 1"


def test_qrels_are_what_trec_tools_read(tmp_path: Path) -> None:
    path = tmp_path / "clicks.qrels"
    hats = LABELS.filter(pa.array([False, False, True, True, True]))
    save_judgments(hats, path, to="qrels", grades=1, min_impressions=1)
    assert path.read_text() == "hat 0 d 1\nhat 0 e 0\nhat 0 f 0\n"
    with pytest.raises(DataError, match=r"'red shoes' holds a space.*quepid"):
        save_judgments(LABELS, tmp_path / "other", to="qrels")
    assert not (tmp_path / "other").exists()


def test_the_workbench_gets_ratings_by_query(tmp_path: Path) -> None:
    path = tmp_path / "judgments.json"
    save_judgments(LABELS, path, to="opensearch", min_impressions=50)
    found = json.loads(path.read_text())
    assert found["type"] == "IMPORT_JUDGMENT"
    only = {"query": "red shoes", "ratings": [{"docId": "b,c", "rating": "2"}]}
    assert found["judgmentRatings"] == [only]


def test_nothing_to_judge_is_said(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no document has 100 impressions"):
        save_judgments(LABELS, tmp_path / "x", to="quepid", min_impressions=100)


def test_the_command_writes_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    counts, click_model = tmp_path / "counts.parquet", tmp_path / "click-model.json"
    words = ["simulate", "yahoo-like:30", "--clicks", "3e3", "--counts", str(counts)]
    assert main([*words, "--save-click-model", str(click_model)]) == 0
    out = tmp_path / "clicks.qrels"
    words = ["debias", str(counts), "--click-model", str(click_model), "-o", str(out)]
    assert main([*words, "--format", "qrels"]) == 0
    parts = [line.split() for line in out.read_text().splitlines()]
    assert parts
    assert all(len(p) == 4 and p[1] == "0" and p[3] in "01234" for p in parts)
    capsys.readouterr()
    assert main([*words, "--format", "xml"]) == 2
    assert "--format must be parquet, qrels, quepid" in capsys.readouterr().err
