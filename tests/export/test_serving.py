"""What an engine can serve is checked before training, and can be exported to it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from affinerank.cli import main
from affinerank.data.dataset import RankingDataset
from affinerank.export.serving import ENGINES, plan_for_engine
from affinerank.rankers.loading import load_ranker
from affinerank.support.errors import ConfigError, DataError

BRANDS = ("nike", "puma")


def products(*, text: bool = True, gaps: bool = True) -> RankingDataset:
    """Two lists of two products; a price is missing, a brand is text."""
    price = np.array([1.0, np.nan if gaps else 3.0, 2.0, 4.0])
    brand = np.array([0.0, 1.0, 1.0, 0.0])
    return RankingDataset.from_groups(
        np.stack([price, brand], axis=1),
        np.array([0, 0, 1, 1]),
        np.arange(2),
        feature_names=("price", "brand"),
        categories={"brand": BRANDS} if text else {},
    )


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_gets_trees_of_features_as_they_are(engine: str) -> None:
    plan = plan_for_engine(engine, None, None, None, products(text=False, gaps=False))
    assert plan == ("lightgbm", "none", None)


def test_text_becomes_features_of_0_and_1() -> None:
    assert plan_for_engine("solr", None, None, None, products()).categories == "one-hot"
    assert (
        plan_for_engine("solr", None, None, "one-hot", products()).categories
        == "one-hot"
    )
    linear = plan_for_engine("opensearch", "linear-model", None, None, products())
    assert linear == ("linear-model", "data", "one-hot")


@pytest.mark.parametrize(
    ("engine", "given", "message"),
    [
        ("solr", {"ranker": "blend"}, "solr cannot serve a blend ranker"),
        ("elasticsearch", {"ranker": "linear-model"}, "--ranker lightgbm or xgboost"),
        ("solr", {"scaling": "list"}, "give --scaling none or data"),
        ("solr", {"categories": "native"}, "give --categories one-hot"),
        ("lucene", {}, "--for"),
    ],
)
def test_what_an_engine_cannot_serve_is_refused(
    engine: str, given: dict[str, str], message: str
) -> None:
    asked: Any = {"ranker": None, "scaling": None, "categories": None, **given}
    with pytest.raises(ConfigError, match=message):
        plan_for_engine(engine, data=products(), **asked)


def test_what_an_engine_cannot_read_is_refused() -> None:
    with pytest.raises(DataError, match="--ignore brand"):
        plan_for_engine("vespa", None, None, None, products())
    with pytest.raises(DataError, match="--missing 0"):
        plan_for_engine("ranklib", None, None, None, products())


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("ranker", ["lightgbm", "linear-model"])
def test_what_is_trained_for_an_engine_is_exported_to_it(
    small_log: tuple[str, str, str], tmp_path: Path, engine: str, ranker: str
) -> None:
    """Export compares the file's scores with the ranker's, and refuses otherwise."""
    counts, click_model, data = small_log
    train = [
        "train",
        counts,
        "--data",
        data,
        "--click-model",
        click_model,
        "--for",
        engine,
    ]
    train += ["--ranker", ranker, "--estimator", "affine", "-o", str(tmp_path / "m")]
    if ranker == "lightgbm":
        train += ["--set", "trees=10", "--tuning", "none"]
    if (engine, ranker) == ("elasticsearch", "linear-model"):
        assert main(train) == 2
        return
    assert main(train) == 0
    assert load_ranker(tmp_path / "m").kind == ranker
    file = str(tmp_path / "m.json")
    assert main(["export", str(tmp_path / "m"), "--to", engine, "-o", file]) == 0


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--budget", "1m"], "--budget is for --auto and --safe"),
        (["--for", "solr", "--auto"], "--auto does not go with --for"),
        (["--for", "solr", "--scaling", "list"], "scaled within the list"),
    ],
)
def test_options_that_do_not_fit_are_one_sentence(
    small_log: tuple[str, str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    more: list[str],
    message: str,
) -> None:
    counts, click_model, data = small_log
    words = ["train", counts, "--data", data, "--click-model", click_model, *more]
    capsys.readouterr()
    assert main([*words, "-o", str(tmp_path / "model")]) == 2
    [said] = capsys.readouterr().err.splitlines()
    assert message in said
    assert not (tmp_path / "model").exists()
