"""Judging by clicks and debiased labels, as a user of the command line meets them."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from affinerank.cli import main
from affinerank.clicks.models.files import load_click_model
from affinerank.clicks.models.trust import EstimatedBy, TrustModel
from affinerank.clicks.simulation import simulate_counts
from affinerank.clicks.traffic import Traffic
from affinerank.counts.counts import ClickCounts
from affinerank.data.sources import DataSource
from affinerank.pipeline.simulate import prepare_simulation
from affinerank.pipeline.steps.production import train_production_ranker
from affinerank.pipeline.steps.second_evaluator import RANKS

pytestmark = pytest.mark.slow

WORLD = "yahoo-like:300"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of a production ranker on the test split, and a better ranker."""
    here = tmp_path_factory.mktemp("offpolicy")
    source = DataSource.parse(WORLD)
    train, test = source.read("train"), source.read("test")
    production = train_production_ranker(train)
    train_production_ranker(train, n_queries=100, seed=1).save(here / "better")
    shown: dict[str, Traffic] = {"all": Traffic(), "ten": Traffic(top_k=10)}
    for name, traffic in shown.items():
        simulation = prepare_simulation(
            test, rankers={"production": production}, traffic=traffic
        )
        counts = simulate_counts(
            simulation, simulation.sessions_for(2e5), rng=np.random.default_rng(0)
        )
        counts.save(here / f"{name}.parquet")
    counts.holdout(0.5).save(here / "split.parquet")
    simulation = prepare_simulation(train, rankers={"production": production})
    simulate_counts(
        simulation, simulation.sessions_for(2e5), rng=np.random.default_rng(1)
    ).save(here / "learnt.parquet")
    click_model = TrustModel.paper(depth=int(test.docs_per_query.max()))
    click_model.save(here / "click-model.json")
    gauged = TrustModel(
        alpha=2 * click_model.alpha,
        beta=click_model.beta + 0.3 * click_model.alpha,
        identified="relative",
        estimated=EstimatedBy("two-level", features=True),
    )
    gauged.save(here / "estimated.json")
    return here


def evaluate(folder: Path, *options: str, counts: str = "all") -> int:
    return main(
        [
            "evaluate",
            str(folder / "better"),
            "--data",
            WORLD,
            "--counts",
            str(folder / f"{counts}.parquet"),
            *options,
        ]
    )


def click_model(folder: Path, name: str = "click-model") -> tuple[str, str]:
    return "--click-model", str(folder / f"{name}.json")


def test_a_new_ranker_has_a_value_and_a_verdict(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = (*click_model(folder), "--against", "logged")
    assert evaluate(folder, *options, "--json") == 0
    about = json.loads(capsys.readouterr().out)
    (row,) = about["rankers"]
    assert about["metric"] == "DCG@10"
    assert not about["click_model_estimated"]
    assert row["never_shown_share"] == 0
    assert row["effective_impressions"] < row["impressions"]
    value, difference = row["value"], row["against_logged"]
    assert value["estimate"] - row["logged"]["estimate"] == pytest.approx(
        difference["estimate"]
    )
    for over in ("over_sessions", "over_queries"):
        low, high = value[over]["low"], value[over]["high"]
        assert low < value["estimate"] < high
    verdict = "better" if difference["over_queries"]["low"] > 0 else "undecided"
    assert difference["verdict"] == verdict
    assert evaluate(folder, *options) == 0
    text = capsys.readouterr().out
    assert text.count("over sessions (these queries)") == 3
    assert text.count("over queries (future ones)") == 3
    assert "verdict on future queries" in text
    assert f"by {RANKS}, not users" in text
    assert row["second_evaluator"]["verdict"] in ("better", "undecided")


def test_documents_never_shown_are_predicted_and_without_a_model_leave_bounds(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = []
    for options in (click_model(folder), ("--estimator", "naive")):
        assert evaluate(folder, *options, "--json", counts="ten") == 0
        found += json.loads(capsys.readouterr().out)["rankers"]
    assert found[0]["never_shown_share"] == found[1]["never_shown_share"] > 0.05
    assert [row["predicted"] for row in found] == [True, False]
    assert [row["value"]["bounds"] for row in found] == [False, True]
    assert found[1]["value"]["least"] < found[1]["value"]["most"]
    for options, words in (
        (click_model(folder), "on documents that were never shown: their relevance is"),
        (("--estimator", "naive"), "bounds over queries"),
    ):
        assert evaluate(folder, *options, counts="ten") == 0
        assert words in " ".join(capsys.readouterr().out.split())


def test_estimated_users_tell_differences_on_documents_never_shown(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = (*click_model(folder, "estimated"), "--replicates", "2", "--json")
    assert evaluate(folder, *options, counts="ten") == 0
    (row,) = json.loads(capsys.readouterr().out)["rankers"]
    assert row["predicted"]
    assert row["against_logged"]["over_sessions"]["standard_error"] > 0


def test_estimated_users_tell_only_differences(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = (*click_model(folder, "estimated"), "--replicates", "2")
    assert evaluate(folder, *options, "--json") == 0
    about = json.loads(capsys.readouterr().out)
    (row,) = about["rankers"]
    assert about["click_model_estimated"]
    assert "value" not in row
    assert "gauge" in about["units"]
    assert about["refits"]["to"].startswith("the held-out clicks")
    assert row["against_logged"]["over_queries"]["standard_error"] > 0
    assert evaluate(folder, *options) == 0
    assert "only differences are told" in capsys.readouterr().out
    source = ("--estimated-from", str(folder / "learnt.parquet"))
    assert evaluate(folder, *options, *source, "--json") == 0
    other = json.loads(capsys.readouterr().out)
    assert other["refits"]["to"] == "the clicks they were estimated from"
    (apart,) = other["rankers"]
    assert apart["against_logged"]["estimate"] == row["against_logged"]["estimate"]


def test_the_naive_estimator_and_listed_weights_need_no_users(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--estimator", "naive", "--rank-weights", "1,0.5", "--json")
    assert evaluate(folder, *options) == 0
    about = json.loads(capsys.readouterr().out)
    assert about["metric"] == "rank weights 1, 0.5"


def test_split_counts_are_judged_by_their_held_out_part(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evaluate(folder, *click_model(folder), "--json", counts="split") == 0
    about = json.loads(capsys.readouterr().out)
    held = ClickCounts.load(folder / "split.parquet").select("split", "holdout")
    assert about["queries"] == held.summary()["queries"]


def test_bad_questions_are_one_sentence(
    folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    known, estimated = click_model(folder), click_model(folder, "estimated")
    (tmp_path / "em.json").write_text((folder / "estimated.json").read_text())
    em = load_click_model(tmp_path / "em.json")
    replace(em, estimated=EstimatedBy("sigmoid")).save(tmp_path / "em.json")
    for options, counts, words in (
        ((*known, "--metric", "nDCG@10"), "all", "nDCG@10 cannot be estimated"),
        ((*known, "--against", "me"), "all", "no ranker 'me' logged"),
        ((*known, "--among", "me"), "all", "--among must be all or shown"),
        ((*known, "--rank-weights", "a"), "all", "rank weights are numbers"),
        ((*known, "--metric", "P@5", "--rank-weights", "1"), "all", "not both"),
        ((), "all", "needs a click model"),
        (("--estimator", "nope", *known), "all", "no estimator 'nope'"),
        (("--click-model", "nowhere.json"), "all", "no such file"),
        (known, "nowhere", "no such file"),
        ((*estimated, "--estimator", "ips"), "all", "estimated"),
        (("--click-model", str(tmp_path / "em.json")), "all", "too slow to repeat"),
        ((*known, "--split", "train"), "all", "share no document"),
    ):
        assert evaluate(folder, *options, counts=counts) == 2, options
        fault = capsys.readouterr().err
        assert words in fault
        assert "Traceback" not in fault
        assert fault.startswith("affinerank: ")
        assert fault.count("\n") == 1
    plain = ["evaluate", str(folder / "better"), "--data", WORLD]
    assert main([*plain, *known]) == 2
    assert "are about clicks: give --counts" in capsys.readouterr().err


def test_queries_that_the_model_learnt_from_are_left_out(
    folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    test = DataSource.parse(WORLD).read("test")
    ranker = train_production_ranker(test, n_queries=20)
    ranker.save(tmp_path / "leaky")
    plain = ["evaluate", str(tmp_path / "leaky"), "--data", WORLD]
    by_clicks = ["--counts", str(folder / "all.parquet"), *click_model(folder)]
    assert main([*plain, *by_clicks, "--json"]) == 0
    about = json.loads(capsys.readouterr().out)
    assert (about["left_out"], about["queries"]) == (20, test.n_queries - 20)
    for more in ([], by_clicks):
        assert main([*plain, *more]) == 0
        text = capsys.readouterr().out
        assert "left out: 20 queries that the rankers learnt from" in text
    every = tuple(str(name) for name in test.query_ids)
    replace(ranker, training_queries=every).save(tmp_path / "all")
    for more in ([], by_clicks):
        assert main(["evaluate", str(tmp_path / "all"), *plain[2:], *more]) == 2
        fault = capsys.readouterr().err
        assert f"learnt from all {test.n_queries} queries" in fault
        assert fault.count("\n") == 1


def test_labels_compare_with_production_and_end_in_words(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, data = str(folder / "better"), ["--data", WORLD]
    assert main(["evaluate", model, *data, "--json"]) == 0
    about = json.loads(capsys.readouterr().out)
    assert [row["ranker"] for row in about["rankers"]] == ["production", model]
    (found,) = about["comparisons"]
    means = [row["mean"] for row in about["rankers"]]
    assert found["difference"] == pytest.approx(means[1] - means[0])
    assert main(["evaluate", model, *data]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    interval = f"(95 % {found['low']:+.4f} to {found['high']:+.4f}, nDCG@10)"
    better = f"{model} is better than production by {found['difference']:.4f}"
    assert last == f"{better} {interval}"
    # Data of one's own have no production ranker: nothing to compare with, no column.
    own = str(folder / "own.parquet")
    assert main(["data", "convert", WORLD, own, "--split", "test"]) == 0
    capsys.readouterr()
    assert main(["evaluate", model, "--data", own]) == 0
    text = capsys.readouterr().out
    assert "compared with nothing" in text
    assert "Holm" not in text
    same = ["evaluate", model, "--data", own, "--against", model]
    assert main([*same, "--json"]) == 0
    assert "conclusions" in capsys.readouterr().out


def test_shown_documents_alone_are_judged_where_others_cannot_be(
    folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    # 19 queries are too few to predict documents that were never shown.
    table = ClickCounts.load(folder / "ten.parquet").table
    few = np.unique(table["query_id"])[:19]
    chosen = pc.is_in(table["query_id"], pa.array(few))
    ClickCounts(table.filter(chosen)).save(tmp_path / "few.parquet")
    known, gauged = (
        click_model(folder),
        (*click_model(folder, "estimated"), "--replicates", "2"),
    )
    learnt = ("--estimated-from", str(folder / "learnt.parquet"))
    counts = str(tmp_path / "few")
    assert evaluate(folder, *gauged, *learnt, counts=counts) == 2
    assert "(--among shown)" in capsys.readouterr().err
    for options in (known, (*gauged, *learnt)):
        shown = ("--among", "shown")
        assert evaluate(folder, *options, *shown, "--json", counts=counts) == 0
        about = json.loads(capsys.readouterr().out)
        (row,) = about["rankers"]
        assert about["among"] == "shown"
        assert not row["predicted"]
        assert not row["against_logged"]["bounds"]
        assert evaluate(folder, *options, *shown, counts=counts) == 0
        text = capsys.readouterr().out
        assert "rankings order the documents that were shown" in text
        assert "better than production (the logged order)" in text.splitlines()[-1]


def test_debias_writes_labels_with_their_gauge(
    folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    target = tmp_path / "labels.parquet"
    command = ["debias", str(folder / "all.parquet"), "-o", str(target)]
    assert main([*command, *click_model(folder), "--json"]) == 0
    about = json.loads(capsys.readouterr().out)
    labels = pq.read_table(target)
    counts = ClickCounts.load(folder / "all.parquet")
    assert labels.column_names == [
        "query_id",
        "doc_id",
        "relevance",
        "standard_deviation",
        "own_clicks",
        "impressions",
        "clicks",
    ]
    assert about["documents"] == labels.num_rows == counts.summary()["documents"]
    assert sum(labels["clicks"].to_pylist()) == counts.summary()["clicks"]
    assert about["gauge"] == "relevance: 0 is irrelevant, 1 is relevant"
    assert labels.schema.metadata[b"affinerank.gauge"].decode() == about["gauge"]
    test = DataSource.parse(WORLD).read("test")
    true = dict(zip(test.doc_ids.tolist(), test.relevance().tolist(), strict=True))
    off = labels["relevance"].to_numpy()
    off = off - [true[doc] for doc in labels["doc_id"].to_pylist()]
    squares = labels["standard_deviation"].to_numpy() ** 2
    assert np.mean(off**2) == pytest.approx(squares.mean(), rel=0.3)
    assert (
        main([*command, *click_model(folder), "--data", WORLD, "--split", "test"]) == 0
    )
    assert pq.read_table(target).num_rows == test.n_docs


def test_debias_keeps_the_split_and_names_an_unknown_gauge(
    folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    target = tmp_path / "labels.parquet"
    command = ["debias", str(folder / "split.parquet"), "-o", str(target)]
    assert main([*command, *click_model(folder, "estimated")]) == 0
    assert "up to a factor and a shift" in capsys.readouterr().out
    labels = pq.read_table(target)
    assert set(labels["split"].to_pylist()) == {"train", "holdout"}


def test_debias_leaves_a_file_alone_when_it_fails(
    folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    target = tmp_path / "labels.parquet"
    target.write_text("precious")
    log = str(folder / "all.parquet")
    for arguments, words in (
        ([log], "needs a click model"),
        ([log, "--click-model", "nowhere.json"], "no such file"),
        ([str(tmp_path / "none.parquet"), *click_model(folder)], "no such file"),
        ([str(target), *click_model(folder)], "would replace what is read"),
        ([log, *click_model(folder), "--estimator", "nope"], "no estimator 'nope'"),
        (
            [log, *click_model(folder), "--estimator", "affine", "--clip", "x"],
            "clip must be a number",
        ),
        ([log, *click_model(folder), "--estimator", "direct"], "give --data"),
        ([log, *click_model(folder, "estimated"), "--estimator", "ips"], "up to gauge"),
    ):
        assert main(["debias", *arguments, "-o", str(target)]) == 2
        fault = capsys.readouterr().err
        assert words in fault
        assert fault.count("\n") == 1
        assert target.read_text() == "precious"
    assert main(["debias", log, *click_model(folder), "-o", "labels.csv"]) == 2
    assert "must end in .parquet" in capsys.readouterr().err
