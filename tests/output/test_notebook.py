"""Objects in a notebook: a short line, a table in HTML, a frame."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import affinerank as ar
from affinerank.clicks.models.by_segment import SegmentedModel
from affinerank.evaluation.rank_weights import RankWeights
from affinerank.output.blocks import ROWS_SHOWN, Summary
from affinerank.pipeline.evaluate_clicks import ClickEvaluationSettings

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "docs/notebook.ipynb"
LONGEST = 400


@pytest.fixture(scope="module")
def objects() -> dict[str, Any]:
    """One of each kind that users meet."""
    splits = ar.load("yahoo-like:60")
    data, test = splits.train, splits.test
    assert test is not None
    world = ar.prepare_simulation(data)
    counts = ar.simulate_counts(world, 20_000, rng=np.random.default_rng(0))
    click_model = ar.TrustModel.paper(depth=200)
    trees = ar.TreeSettings(trees=2)
    trained = ar.train(
        counts, data, click_model, ranker="lightgbm", tuning="none", settings=trees
    )
    ranker = next(iter(trained.rankers.values()))
    ndcg = ar.Metric.parse("nDCG@10")
    rankers = {"production": ar.train_production_ranker(data), "ours": ranker}
    settings = ClickEvaluationSettings(
        rank_weights=RankWeights.of_metric(ar.Metric.parse("DCG@10")),
        estimator="affine",
    )
    return {
        "data": data,
        "world": world,
        "counts": counts,
        "rows": ar.join_counts(counts, data),
        "users": click_model,
        "segments": SegmentedModel({"phone": click_model, "desk": click_model}),
        "estimate": ar.estimate_click_model(counts, data),
        "trained": trained,
        "ranker": ranker,
        "labels": ar.evaluate_rankers(rankers, test, metric=ndcg),
        "clicks": ar.evaluate_from_clicks(
            {
                "ours": replace(ranker, training_queries=())
            },  # as if it had not seen them
            *(counts, data, click_model),
            settings=settings,
        ),
        "values": ar.evaluate_scores(ar.score(ranker, test), test, 2.0),
    }


NAMES = (
    *("data", "world", "counts", "rows", "users", "segments", "estimate"),
    *("trained", "ranker", "labels", "clicks", "values"),
)


@pytest.mark.parametrize("name", NAMES)
def test_it_is_one_short_line_a_table_and_a_frame(
    name: str, objects: dict[str, Any]
) -> None:
    found = objects[name]
    assert isinstance(found, Summary)
    assert len(repr(found)) <= LONGEST
    assert "\n" not in repr(found)
    assert repr(found).startswith(f"{type(found).__name__}(")
    page = found._repr_html_()
    assert page.count("<tr>") <= ROWS_SHOWN + 1
    assert "<table>" in page
    frame, table = found.to_frame(), found.to_arrow()
    assert isinstance(table, pa.Table)
    assert list(frame.columns) == table.column_names
    assert len(frame) == table.num_rows > 0
    assert pl.DataFrame(table).shape == frame.shape


def test_values_are_those_of_the_object(objects: dict[str, Any]) -> None:
    click_model = objects["users"]
    assert click_model.to_frame()["alpha"].tolist() == click_model.alpha.tolist()
    assert click_model.to_frame()["rank"].tolist() == list(range(1, 201))
    np.testing.assert_allclose(
        click_model.to_frame().eval("theta * (eps_plus - eps_minus)"), click_model.alpha
    )
    counts = objects["counts"]
    assert counts.to_frame()["clicks"].sum() == counts.clicks.sum()
    data = objects["data"]
    again = ar.RankingDataset.from_frame(data.to_frame())
    np.testing.assert_array_equal(again.features, data.features)
    labels = objects["labels"].to_frame().set_index("ranker")
    assert labels.loc["ours", "mean"] == objects["labels"].rankers["ours"].mean
    assert labels.loc["ours", "interval_low"] < labels.loc["ours", "mean"]
    gain = labels.loc["ours", "mean"] - labels.loc["production", "mean"]
    assert labels.loc["ours", "against_difference"] == pytest.approx(gain)


def test_text_of_data_is_escaped_in_html() -> None:
    data = ar.RankingDataset.from_rows([[1.0], [2.0]], ["<script>", "b"])
    assert "&lt;script&gt;" in data._repr_html_()
    assert "<script>" not in data._repr_html_()


@pytest.mark.parametrize("name", ["data", "counts", "users", "ranker"])
def test_it_travels_by_joblib(
    name: str, objects: dict[str, Any], tmp_path: Path
) -> None:
    joblib.dump(objects[name], tmp_path / "kept")
    again = joblib.load(tmp_path / "kept")
    assert repr(again) == repr(objects[name])
    assert again.to_frame().equals(objects[name].to_frame())


def cells() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(NOTEBOOK.read_text())["cells"]
    return found


def test_the_notebook_runs_in_one_piece(tmp_path: Path) -> None:
    """Cell after cell, as a kernel would; what a cell ends with is shown."""
    sources = ["".join(c["source"]) for c in cells() if c["cell_type"] == "code"]
    script = tmp_path / "notebook.py"
    script.write_text("\n".join(sources).replace("yahoo-like:300", "yahoo-like:100"))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(script)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_notebook_is_kept_with_what_it_shows() -> None:
    assert len(NOTEBOOK.read_bytes()) < 200_000
    code = [c for c in cells() if c["cell_type"] == "code"]
    assert [c["execution_count"] for c in code] == list(range(1, len(code) + 1))
    assert sum(bool(c["outputs"]) for c in code) >= 5
    kinds = {k for c in code for o in c["outputs"] for k in o.get("data", {})}
    assert "text/html" in kinds
    assert not any(o["output_type"] == "error" for c in code for o in c["outputs"])
