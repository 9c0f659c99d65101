"""estimate, and train that estimates first, as a user meets them."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from affinerank.cli import display, main
from affinerank.clicks.models.files import load_click_model
from affinerank.output.charts import bias_figure

# Ibis asks DuckDB by a method that DuckDB has renamed.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning"),
]

Capture = pytest.CaptureFixture[str]
WORLD = "yahoo-like:80"
NETWORK = [
    "--set",
    "hidden=4",
    "--set",
    "epochs=1",
    "--set",
    "device=cpu",
]
RANKER = ["--ranker", "mlp", *NETWORK]


@pytest.fixture(scope="module")
def counts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Counts of a small world, and ``truth.json`` beside them."""
    folder = tmp_path_factory.mktemp("world")
    found = folder / "counts.parquet"
    asked = ["simulate", WORLD, "--clicks", "2e4", "--top-k", "5"]
    saved = ["--counts", str(found), "--save-click-model", str(folder / "truth.json")]
    assert main([*asked, *saved]) == 0
    return found


def answered(capsys: Capture, *arguments: str) -> Any:
    capsys.readouterr()
    status = main([*arguments, "--json"])
    printed = capsys.readouterr()
    assert status == 0, printed.err
    return json.loads(printed.out)


def refused(capsys: Capture, *arguments: str) -> str:
    """The one sentence that a command refuses with."""
    capsys.readouterr()
    assert main(list(arguments)) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert len(printed.err.splitlines()) == 1
    assert printed.err.startswith("affinerank: ")
    return printed.err


def test_estimate_prints_and_writes(
    counts: Path, tmp_path: Path, capsys: Capture
) -> None:
    target = tmp_path / "click-model.json"
    truth = str(counts.with_name("truth.json"))
    arguments = ["estimate", str(counts), "--data", WORLD, "-o", str(target)]
    assert main([*arguments, "--truth", truth]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    said = " ".join(printed.out.split())
    assert "by mixture: features indicate which documents to expect relevant" in said
    assert "documents were shown at several ranks; that connects no ranks" in said
    assert "the scale is arbitrary" in said
    assert "note: levels of relevance found: 0, 1" in said
    assert "there is trust bias (p = " in said
    assert "against the truth, modulo gauge: E = 0.0" in said
    assert f"written: {target}".replace(" ", "") in said.replace(" ", "")
    click_model = load_click_model(target)
    assert click_model.identified == "relative"
    assert click_model.provenance["estimated_by"] == "mixture"


@pytest.mark.parametrize(
    ("reach", "shown"), [(1e-12, "1.0000"), (0.02, "1.0000 +- 0.0200")]
)
def test_what_is_fixed_has_no_band(reach: float, shown: str) -> None:
    """Rounding leaves a little of the first rank's band, or nothing."""
    row = {"alpha": 1.0, "alpha_low": 1.0 - reach, "alpha_high": 1.0 + reach}
    assert display.with_band(row, "alpha") == shown


def test_estimate_answers_in_json(
    counts: Path, tmp_path: Path, capsys: Capture
) -> None:
    target = str(tmp_path / "click-model.json")
    truth = str(counts.with_name("truth.json"))
    arguments = ["estimate", str(counts), "--data", WORLD, "-o", target]
    about = answered(capsys, *arguments, "--truth", truth)
    assert about["method"] == "mixture"
    assert about["written"] == target
    assert [row["ranks"] for row in about["by_rank"]] == list("12345")
    assert 0 < about["against_truth"]["error"] < 0.08
    assert about["trust_bias"]["found"] is True
    assert about["connected"] == []
    assert "against_truth" not in answered(capsys, *arguments)


@pytest.mark.parametrize(("ending", "start"), [("png", b"\x89PNG"), ("svg", b"<svg")])
def test_estimate_draws(
    ending: str, start: bytes, counts: Path, tmp_path: Path, capsys: Capture
) -> None:
    plot, target = tmp_path / f"bias.{ending}", str(tmp_path / "click-model.json")
    arguments = ["estimate", str(counts), "--data", WORLD, "-o", target]
    truth = ["--truth", str(counts.with_name("truth.json"))]
    about = answered(capsys, *arguments, "--plot", str(plot), *truth)
    assert about["plot"] == str(plot)
    assert plot.read_bytes().startswith(start)
    if ending == "svg":
        drawn = plot.read_text()
        assert "Alpha: what a click rate gains by relevance" in drawn
        assert "truth" in drawn


def test_a_figure_without_bands_or_truth_has_the_estimate_alone() -> None:
    rows = [
        {"ranks": "1", "mean_rank": 1.0, "inference": {"alpha": 0.5, "beta": 0.2}},
        {"ranks": "2-3", "mean_rank": 2.4, "inference": {"alpha": 0.3, "beta": 0.1}},
    ]
    values = bias_figure(rows, None)["data"]["values"]
    assert [(v["parameter"], v["rank"], v["value"]) for v in values] == [
        ("alpha", "1", 0.5),
        ("beta", "1", 0.2),
        ("alpha", "2-3", 0.3),
        ("beta", "2-3", 0.1),
    ]
    assert {v["series"] for v in values} == {"estimate"}
    assert not any("low" in v for v in values)
    beside = bias_figure(rows, {"alpha": [0.6, 0.4], "beta": [0.0, 0.0]})
    true = [v for v in beside["data"]["values"] if v["series"] == "truth"]
    assert [v["value"] for v in true] == [0.6, 0.0, 0.4, 0.0]


def test_the_em_is_asked_for_by_name(
    counts: Path, tmp_path: Path, capsys: Capture
) -> None:
    target = str(tmp_path / "click-model.json")
    arguments = ["estimate", str(counts), "--data", WORLD, "-o", target, *NETWORK]
    about = answered(capsys, *arguments, "--method", "softmax", "--replicates", "2")
    assert about["method"] == "softmax"
    assert "alpha_low" in about["by_rank"][1]["display"]
    assert any("2 resamples" in note for note in about["notes"])
    assert main([*arguments, "--method", "em-three", "--replicates", "0"]) == 0
    assert "by em-three: " in capsys.readouterr().out


REFUSED: list[tuple[list[str], str]] = [
    (["--method", "magic"], "there is no method 'magic'"),
    (["--set", "epochs=3"], "--set is for methods that train a network"),
    (["--plot", "bias.gif"], "bias.gif: "),
    (["--plot", "nowhere/bias.png"], "there is no folder"),
    (["--truth", "nothing.json"], "nothing.json: there is no such file"),
    (["--replicates", "1"], "replicates must be 0, or 2 or more"),
    (["--method", "sigmoid", "--set", "hidden=wide"], "got 'wide'"),
    (["--data", "nothing-like:5"], "no built-in world 'nothing-like'"),
    (["--data", "yahoo-like:80@5"], "of documents that the data have no features"),
    (["--method", "interventions"], "0 of 399 documents were shown at several ranks"),
    (["--min-clicks", "1e7"], "clicks are too few to tell ranks apart"),
]


@pytest.mark.parametrize(("options", "why"), REFUSED)
def test_estimate_refuses_in_one_sentence_and_writes_nothing(
    options: list[str],
    why: str,
    counts: Path,
    tmp_path: Path,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    given = [] if "--data" in options else ["--data", WORLD]
    assert why in refused(capsys, "estimate", str(counts), *given, *options)
    assert not list(tmp_path.iterdir())


def test_estimate_refuses_counts_that_are_none(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = refused(capsys, "estimate", "nothing.parquet")
    assert said == "affinerank: nothing.parquet: there is no such file\n"
    (tmp_path / "text.parquet").write_text("no counts")
    assert "run count first" in refused(capsys, "estimate", "text.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["text.parquet"]


def test_train_estimates_users_where_none_are_given(
    counts: Path, tmp_path: Path, capsys: Capture
) -> None:
    model, click_model = tmp_path / "model", tmp_path / "click-model.json"
    arguments = ["train", str(counts), "--data", WORLD, "-o", str(model), *RANKER]
    assert main([*arguments, "--save-click-model", str(click_model)]) == 0
    printed = capsys.readouterr()
    said = " ".join((printed.out + printed.err).split())
    why = "features indicate which documents to expect relevant"
    assert f"no --click-model: estimated by mixture ({why})" in said
    assert load_click_model(click_model).provenance["estimated_by"] == "mixture"
    assert model.is_dir()
    other = [*arguments[:5], str(tmp_path / "other"), *RANKER]
    about = answered(capsys, *other)
    assert about
    again = [*arguments[:5], str(tmp_path / "again"), *RANKER]
    assert main([*again, "--click-model", str(click_model)]) == 0
    assert "no --click-model" not in capsys.readouterr().out


def test_train_needs_no_users_for_a_naive_ranker(
    counts: Path, tmp_path: Path, capsys: Capture
) -> None:
    arguments = ["train", str(counts), "--data", WORLD, "-o", str(tmp_path / "model")]
    assert main([*arguments, "--estimator", "naive", *RANKER]) == 0
    printed = capsys.readouterr()
    assert "no --click-model" not in printed.out + printed.err


@pytest.fixture(scope="module")
def tiangong(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Counts of the real pages of TianGong-ST."""
    root = Path(os.environ.get("AFFINERANK_DATA", "")) / "tiangong-st"
    if "AFFINERANK_DATA" not in os.environ or not root.is_dir():
        pytest.skip("AFFINERANK_DATA names no folder with tiangong-st")
    folder = tmp_path_factory.mktemp("tiangong")
    log, found = str(folder / "log.parquet"), str(folder / "counts.parquet")
    parts = ("train", "valid", "test")
    pages = [str(root / f"{part}_per_query_quid.txt") for part in parts]
    assert main(["import", "tiangong", *pages, "-o", log]) == 0
    assert main(["count", log, "-o", found, "--bad-rows", "drop"]) == 0
    return found


def test_a_real_log_of_queries_seen_once_is_refused_with_what_is_missing(
    tiangong: str, tmp_path: Path, capsys: Capture
) -> None:
    target = tmp_path / "click-model.json"
    said = refused(capsys, "estimate", tiangong, "-o", str(target))
    assert "clicks identify too little: " in said
    assert "were shown 3 times or more" in said
    assert "give features (--data), a longer log or swaps" in said
    said = refused(
        capsys, "estimate", tiangong, "--method", "interventions", "-o", str(target)
    )
    assert "connects ranks 4-10;" in said
    assert not target.exists()


def test_a_real_log_is_estimated_all_the_same_where_that_is_asked_for(
    tiangong: str, tmp_path: Path, capsys: Capture
) -> None:
    target = str(tmp_path / "click-model.json")
    arguments = ["estimate", tiangong, "--method", "mixture", "-o", target]
    about = answered(capsys, *arguments)
    assert any(
        note.startswith("ranks 1, 2, 3,") and "weakly identified" in note
        for note in about["notes"]
    )
    for row in about["by_rank"][1:]:
        shown = row["display"]
        assert shown["alpha_low"] < shown["alpha"] < shown["alpha_high"]
    assert 0 <= about["trust_bias"]["p"] <= 1  # what it is worth, the note says
