"""LightGBM rankers: they learn, they are saved and loaded, and refuse what is wrong."""

import json
from pathlib import Path

import lightgbm as lgb
import numpy as np
import pytest

from affinerank.data.dataset import FeatureMapping
from affinerank.errors import DataError
from affinerank.rankers.gbdt import TreeRanker, fit_lambdamart

RNG = np.random.default_rng(0)
FEATURES = RNG.random((400, 3)).astype(np.float32)
LABELS = (FEATURES[:, 1] > 0.7).astype(np.float32)
OFFSETS = np.arange(0, 401, 20)


def trained() -> TreeRanker:
    model = fit_lambdamart(FEATURES, LABELS, OFFSETS)
    return TreeRanker(model, FeatureMapping(("a", "b", "c")), {"seed": 0})


def test_lambdamart_learns_the_feature_that_matters() -> None:
    scores = trained().predict(FEATURES)
    assert scores[LABELS == 1].min() > scores[LABELS == 0].max()


def test_training_twice_gives_the_same_model() -> None:
    assert trained().model == trained().model


def test_a_saved_ranker_scores_as_before(tmp_path: Path) -> None:
    ranker = trained()
    ranker.save(tmp_path / "model")
    loaded = TreeRanker.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(FEATURES), ranker.predict(FEATURES))
    assert loaded.mapping == ranker.mapping
    assert loaded.provenance == {"seed": 0}
    plain = lgb.Booster(model_file=str(tmp_path / "model" / "model.txt"))
    np.testing.assert_array_equal(plain.predict(FEATURES), ranker.predict(FEATURES))


def test_an_existing_folder_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    with pytest.raises(DataError, match="exists already"):
        trained().save(tmp_path / "model")


def test_labels_that_are_all_the_same_are_refused() -> None:
    with pytest.raises(DataError, match="all 400 labels to learn from are the same"):
        fit_lambdamart(FEATURES, np.zeros(400, np.float32), OFFSETS)


def test_other_numbers_of_features_are_refused() -> None:
    with pytest.raises(DataError, match="reads 3 features, got 2"):
        trained().predict(FEATURES[:, :2])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, "expected format 'affinerank-ranker' version 1, got"),
        ({"features": ["a"]}, "names 1 features, and the model beside it reads 3"),
        ({"features": None}, "not a ranker saved by AffineRank"),
    ],
)
def test_a_changed_file_is_refused(
    tmp_path: Path, change: dict[str, object], message: str
) -> None:
    trained().save(tmp_path / "model")
    path = tmp_path / "model" / "ranker.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(DataError, match=message):
        TreeRanker.load(tmp_path / "model")


@pytest.mark.parametrize("name", ["ranker.json", "model.txt"])
def test_a_broken_folder_is_refused(tmp_path: Path, name: str) -> None:
    trained().save(tmp_path / "model")
    (tmp_path / "model" / name).write_text("{")
    with pytest.raises(DataError, match="not a ranker saved by AffineRank"):
        TreeRanker.load(tmp_path / "model")
