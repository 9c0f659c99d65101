"""Trees for search engines, read back by other libraries, and by each engine's rule.

The readers share nothing with what writes the files.
"""

from __future__ import annotations

from pathlib import Path

import lightgbm as lgb
import numpy as np
import pytest
from benchmarks import export as parity

from affinerank.export.export import export_ranker
from affinerank.rankers import Ranker, score
from affinerank.rankers.trees.lightgbm import TreeModel
from affinerank.rivals import xgboost
from affinerank.support.errors import ConfigError, DataError

pytestmark = pytest.mark.slow

forest = parity.forest
CASES = [
    (kind, scaling, reader)
    for kind in ("lightgbm", "xgboost")
    for scaling in ("none", "data")
    for reader, (to, _) in parity.READERS.items()
    if parity.reads(kind, scaling, to)
]


@pytest.mark.parametrize(("kind", "scaling", "reader"), CASES)
def test_a_file_scores_as_the_ranker_does(kind: str, scaling: str, reader: str) -> None:
    """On 10,000 documents: 500 on thresholds, 500 just below, 500 just above."""
    found, wanted, cannot = parity.compared(kind, scaling, reader)
    assert len(found) == 10_000
    assert len(np.unique(wanted)) > 3_000
    bar = parity.ROUNDING * np.abs(wanted).max()
    assert not np.any((np.abs(found - wanted) > bar) & ~cannot)
    assert np.count_nonzero(cannot) < 100


@pytest.mark.parametrize("scaling", ["none", "list"])
def test_onnx_in_node_scores_as_in_python(scaling: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    if lacks := parity.node_lacks():
        pytest.skip(lacks)
    ranker = forest(scaling, 0.05)
    docs = parity.documents(ranker, 0.05)
    path = tmp_path / "model.onnx"
    export_ranker(ranker, path, to="onnx")
    node, wanted = parity.node_scores(path, docs), score(ranker, docs)
    assert np.abs(node - parity.python_scores(path, docs)).max() < 1e-5
    assert np.abs(node - wanted).max() < 5e-7 * np.abs(wanted).max()


def test_lists_that_are_scaled_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--scaling none"):
        export_ranker(forest("list", 0.0), tmp_path / "model", to="opensearch")
    assert not list(tmp_path.iterdir())


def test_xgboost_is_not_written_as_text_of_lightgbm(tmp_path: Path) -> None:
    ranker = forest("none", 0.05, xgboost.ROW.name)
    with pytest.raises(ConfigError, match="exported to onnx, opensearch, opensearch-r"):
        export_ranker(ranker, tmp_path / "model", to="lightgbm")


def test_ranklib_refuses_missing_values_that_matter(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="RankLib cannot"):
        export_ranker(forest("none", 0.3), tmp_path / "model", to="ranklib")


def test_lightgbm_text_names_an_objective(tmp_path: Path) -> None:
    ranker = forest("none", 0.0)
    assert isinstance(ranker.model, TreeModel)
    text = ranker.model.text.replace("objective=regression\n", "")
    assert "\nobjective" not in text
    path = tmp_path / "model.txt"
    export_ranker(
        Ranker("lightgbm", TreeModel(text), ranker.mapping, {}), path, to="lightgbm"
    )
    read = lgb.Booster(model_file=str(path))
    assert read.dump_model()["objective"] == "lambdarank"
