"""Policies at the command line: lists are drawn, logged, counted and learnt from."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from affinerank.cli import main

pytestmark = pytest.mark.slow

KEYS = ["query_id", "doc_id", "rank"]
POLICY = "plackett-luce(temperature=0.7)"


def run(*words: Any, code: int = 0) -> None:
    assert main([str(word) for word in words]) == code


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ranker, its scores, and a log of lists drawn by it."""
    at = tmp_path_factory.mktemp("policies")
    seen = ["yahoo-like:40", "--policy", POLICY, "--top-k", 3]
    run("simulate", *seen, "--sessions", 2000, "--counts", at / "first.parquet",
        "--save-click-model", at / "click-model.json")  # fmt: skip
    run("train", at / "first.parquet", "--data", "yahoo-like:40", "--click-model",
        at / "click-model.json", "--ranker", "lightgbm", "--estimator", "policy-aware",
        "--tuning", "none", "--set", "trees=5", "-o", at / "model")  # fmt: skip
    run("rank", at / "model", "--data", "yahoo-like:40", "--split", "train",
        "-o", at / "scores.parquet")  # fmt: skip
    run("simulate", *seen, "--ranker", at / "model", "--sessions", 3000,
        "--log", at / "log.parquet")  # fmt: skip
    return at


def test_propensities_and_the_named_policy_give_one_exposure(folder: Path) -> None:
    log, ours, named = (folder / f"{n}.parquet" for n in ("log", "ours", "named"))
    assert "propensity" in pq.read_schema(log).names
    run("count", log, "-o", ours, "--context", "none")
    run("count", log, "-o", named, "--context", "none", "--policy", POLICY,
        "--scores", folder / "scores.parquet", "--top-k", 3)  # fmt: skip
    both = pq.read_table(named).join(
        pq.read_table(ours), KEYS, right_suffix="_logged", join_type="left outer"
    )
    shown = both.filter(pa.compute.is_valid(both["exposure_logged"]))
    np.testing.assert_allclose(shown["exposure_logged"], shown["exposure"], rtol=1e-9)
    for counted in (ours, named):  # both ways declare that documents moved at random
        table = pq.read_table(counted)
        assert table["randomised"].equals(table["impressions"])
    unshown = both.filter(pa.compute.equal(both["impressions"], 0))
    assert unshown.num_rows > 100
    assert np.all(np.asarray(unshown["exposure"]) > 0)
    # Ranks are filled: exposure adds up to sessions.
    by_rank = both.group_by(["query_id", "rank"]).aggregate(
        [("exposure", "sum"), ("sessions", "max")]
    )
    np.testing.assert_allclose(by_rank["exposure_sum"], by_rank["sessions_max"])


def test_a_list_is_drawn_again_by_its_seed(folder: Path) -> None:
    given = ["rank", folder / "model", "--data", "yahoo-like:40", "--policy", POLICY]
    tables = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        path = folder / f"{name}.parquet"
        run(*given, "--top-k", 4, "--seed", seed, "-o", path)
        tables.append(pq.read_table(path))
    assert tables[0].equals(tables[1])
    assert not tables[0].equals(tables[2])
    chance = np.asarray(tables[0]["propensity"])
    assert np.all((chance > 0) & (chance <= 1))
    assert tables[0].column_names == [*KEYS, "score", "propensity"]


def test_two_rankers_are_interleaved(folder: Path, capsys: Any) -> None:
    given = ["rank", folder / "model", "--data", "yahoo-like:40", "--policy"]
    run(*given, "team-draft", "-o", folder / "x.parquet", code=2)
    assert "second ranker" in capsys.readouterr().err
    assert not (folder / "x.parquet").exists()
    path = folder / "both.parquet"
    run(*given[:1], folder / "model", *given[1:], "team-draft", "-o", path)
    lists = pq.read_table(path)
    np.testing.assert_array_equal(lists["score"], lists["rival_score"])
    np.testing.assert_allclose(lists["propensity"], 1.0)  # of one mind


def test_expected_dcg_is_a_metric(folder: Path, capsys: Any) -> None:
    run("evaluate", folder / "model", "--data", "yahoo-like:40", "--metric", "eDCG@5",
        "--json")  # fmt: skip
    assert json.loads(capsys.readouterr().out)["metric"].startswith("eDCG@5")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (["--policy", POLICY], "--policy and --scores go together"),
        (["--policy", "plackett", "--scores", "S"], "there is no policy 'plackett'"),
        (["--policy", POLICY, "--scores", "S", "--top-k", "2"], "never shows it"),
    ],
)
def test_what_does_not_fit_is_a_sentence(
    folder: Path, change: list[str], said: str, capsys: Any
) -> None:
    words = [str(folder / "scores.parquet") if w == "S" else w for w in change]
    target = folder / "none.parquet"
    given = ["count", folder / "log.parquet", "-o", target, "--context", "none"]
    run(*given, *words, code=2)
    assert said in capsys.readouterr().err
    assert not target.exists()


@pytest.mark.parametrize("value", [0.0, 1.5, None, float("nan")])
def test_a_propensity_is_a_probability_above_0(
    tmp_path: Path, value: float | None, capsys: Any
) -> None:
    ids = {"session_id": [1, 2], "query_id": [1, 1], "doc_id": [1, 2], "rank": [1, 1]}
    rest = {"clicked": [0, 1], "propensity": [0.5, value]}
    pq.write_table(pa.table(ids | rest), tmp_path / "log.parquet")
    run("count", tmp_path / "log.parquet", "-o", tmp_path / "c.parquet", code=2)
    assert "propensity is not a probability above 0" in capsys.readouterr().err


def test_exposure_of_varying_propensities_is_the_written_out_mean(
    tmp_path: Path,
) -> None:
    ids = {"session_id": [1, 2, 3], "query_id": [1] * 3, "doc_id": [1, 1, 2]}
    rest = {"rank": [1] * 3, "clicked": [0, 1, 0], "propensity": [0.5, 0.25, 0.6]}
    pq.write_table(pa.table(ids | rest), tmp_path / "log.parquet")
    run("count", tmp_path / "log.parquet", "-o", tmp_path / "c.parquet")
    found = pq.read_table(tmp_path / "c.parquet").sort_by("doc_id")
    expected = [3 * 2 / (1 / 0.5 + 1 / 0.25), 3 * 0.6]
    np.testing.assert_allclose(found["exposure"], expected)
