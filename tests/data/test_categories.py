"""Categories: read as codes, kept with the ranker, told apart or refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from benchmarks import categories as benchmark

from affinerank.cli import main
from affinerank.clicks.simulation import simulate_counts
from affinerank.data.dataset import RankingDataset
from affinerank.data.feature_mapping import FeatureMapping
from affinerank.data.parquet import read_parquet, write_parquet
from affinerank.data.read_options import ReadOptions
from affinerank.data.sources import DataSource
from affinerank.export.export import export_ranker
from affinerank.pipeline.simulate import prepare_simulation
from affinerank.pipeline.steps.train_settings import ranker_settings
from affinerank.pipeline.train import train
from affinerank.rankers.loading import load_ranker
from affinerank.rankers.ranker import score
from affinerank.support.errors import AffineRankWarning, DataError
from affinerank.support.seeds import stage_rng

NAN = float("nan")
TEXT = """query_id,doc_id,brand,price,in_stock,size
q,a,puma,1,true,40
q,b,adidas,2,False,XL
r,a,,3,,NA
r,b,puma,4,TRUE,M
"""


def data_of(brands: list[str | None], **more: Any) -> RankingDataset:
    n = len(brands)
    columns: dict[str, Any] = {"query_id": ["q"] * n, "doc_id": list(range(n))}
    return RankingDataset.from_frame(
        pa.table({**columns, "brand": pa.array(brands), "x": np.arange(n) * 1.0}),
        **more,
    )


def test_codes_are_places_among_the_sorted_values(tmp_path: Path) -> None:
    path = tmp_path / "shop.csv"
    path.write_text(TEXT)
    data = DataSource.parse(str(path)).read(None)
    assert data.categories == {
        "brand": ("adidas", "puma"),
        "size": ("40", "M", "XL"),
    }
    expected = [[1, 1, 1, 0], [0, 2, 0, 2], [NAN, 3, NAN, NAN], [1, 4, 1, 1]]
    np.testing.assert_array_equal(data.features, np.array(expected, np.float32))


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_every_format_gives_the_same_data(kind: str, tmp_path: Path) -> None:
    source, path = tmp_path / "shop.csv", tmp_path / f"other.{kind}"
    source.write_text(TEXT)
    data = DataSource.parse(str(source)).read(None)
    frame = pd.read_csv(source, dtype={"size": str})
    frame["in_stock"] = [True, False, None, True]
    if kind == "csv":
        frame.to_csv(path, index=False)
    elif kind == "jsonl":
        frame.to_json(path, orient="records", lines=True)
    else:
        write_parquet(data, path)
    found = DataSource.parse(str(path)).read(None)
    assert found.categories == data.categories
    np.testing.assert_array_equal(found.features, data.features)


@pytest.mark.parametrize(
    "column",
    [
        pd.Categorical(["b", "a", None]),
        pl.Series(["b", "a", None], dtype=pl.Categorical),
        pl.Series(["b", "a", None]),
        pa.array(["b", "a", None]).dictionary_encode(),
        ["b", "a", ""],
    ],
)
def test_frames_bring_categories(column: Any) -> None:
    ids = {"query_id": [1, 1, 1], "doc_id": [1, 2, 3]}
    frames = {pd.Categorical: pd.DataFrame, pl.Series: pl.DataFrame}
    make: Any = frames.get(type(column), pa.table)
    data = RankingDataset.from_frame(make({**ids, "x": column}))
    assert data.categories == {"x": ("a", "b")}
    np.testing.assert_array_equal(data.features[:, 0], [1, 0, NAN])


def test_numbers_are_categories_where_that_is_said() -> None:
    ids = {"query_id": [1] * 3, "doc_id": [1, 2, 3]}
    table = pa.table({**ids, "kind": [12.0, None, 3.0]})
    data = RankingDataset.from_frame(table, chosen=ReadOptions(category="ki*"))
    assert data.categories == {"kind": ("12", "3")}
    np.testing.assert_array_equal(data.features[:, 0], [0, NAN, 1])


@pytest.mark.parametrize(
    ("brands", "message"),
    [
        ([f"title {i}" for i in range(40)], "'brand' holds free text.*--ignore brand"),
        (["x" * 300] * 9, "'brand' holds free text"),
        (["1", "2", "3", "four"], "holds numbers and 'four'.*--category brand"),
        (["1", "2", "3", "4"], "holds numbers as text"),
    ],
)
def test_free_text_and_numbers_as_text_are_refused(
    brands: list[str], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        data_of([*brands])


def test_a_number_put_for_missing_ones_is_no_code() -> None:
    data = data_of(["b", None, "a"], missing=0.0)
    np.testing.assert_array_equal(data.features[:, 0], [1, NAN, 0])
    with pytest.raises(DataError, match="row 1: brand has no value"):
        data_of(["b", None, "a"], missing="error")


def test_values_that_training_never_saw_are_missing_and_counted() -> None:
    mapping = FeatureMapping.fit(data_of(["b", "d", None, "e"]), scaling="list")
    with pytest.warns(
        AffineRankWarning, match="2 documents have a value of 'brand' that training"
    ):
        mapped = mapping.apply(data_of(["a", "d", "c", "b", None, "e"]))
    assert mapped.categories == {"brand": ("b", "d", "e")}
    np.testing.assert_array_equal(mapped.features[:, 0], [NAN, 1, NAN, 0, NAN, 2])
    np.testing.assert_allclose(mapped.features[:, 1], np.arange(6) / 5)


def test_one_hot_is_1_at_the_value_and_0_elsewhere() -> None:
    data = data_of(["b", "d", None, "b", "c"])
    mapping = FeatureMapping.fit(data, scaling="none", one_hot=9)
    assert mapping.names == ("brand=b", "brand=c", "brand=d", "x")
    expected = [[1, 0, 0], [0, 0, 1], [0, 0, 0], [1, 0, 0], [0, 1, 0]]
    np.testing.assert_array_equal(mapping.apply(data).features[:, :3], expected)
    frequent = FeatureMapping.fit(data, scaling="none", one_hot=1)
    assert frequent.names == ("brand=b", "x")
    # An engine's own columns of these names are taken as they are.
    done = mapping.apply(data)
    assert done.categories == {}
    np.testing.assert_array_equal(mapping.apply(done).features, done.features)


def test_a_category_is_never_read_as_a_number_nor_a_number_as_one() -> None:
    text, plain = data_of(["a", "b"]), data_of([None, None])
    named = RankingDataset.from_rows(
        [[1.0, 2.0], [2.0, 3.0]], [0, 0], feature_names=("brand", "x")
    )
    with pytest.raises(DataError, match="'brand' is a category in the data"):
        FeatureMapping.fit(named).apply(text)
    with pytest.raises(DataError, match=r"'brand' holds numbers in .*--category"):
        FeatureMapping.fit(text).apply(named)
    assert np.isnan(FeatureMapping.fit(text).apply(plain).features[:, 0]).all()


def test_files_keep_categories(tmp_path: Path) -> None:
    data = data_of(["b", None, "a"])
    write_parquet(data, tmp_path / "d.parquet")
    again = read_parquet(tmp_path / "d.parquet")
    assert again.categories == data.categories
    np.testing.assert_array_equal(again.features, data.features)


@pytest.fixture(scope="module")
def shop() -> tuple[Any, RankingDataset, RankingDataset, Any]:
    data, test = benchmark.world(100, 3)
    simulation = prepare_simulation(data, seed=3)
    sessions = simulation.sessions_for(2e4)
    counts = simulate_counts(simulation, sessions, rng=stage_rng("clicks", 3))
    return counts, data, test, simulation.click_model


def trained(shop: Any, ranker: str, **how: Any) -> Any:
    counts, data, _, click_model = shop
    pairs = ["trees=20"] if ranker == "lightgbm" else []
    given = {"ranker": ranker, "settings": ranker_settings(ranker, pairs), **how}
    (made,) = train(counts, data, click_model, **given).rankers.values()
    return made


def test_trees_with_a_category_beat_trees_without() -> None:
    """Over seeds 0 to 7 at full size the lead is on docs/benchmarks.md."""
    found = benchmark.values(120, 1e4, 0, "lightgbm")
    assert found["native"] > found[benchmark.WITHOUT] + 0.02
    assert found["one-hot"] > found[benchmark.WITHOUT] + 0.02


def test_a_ranker_keeps_its_codes(shop: Any, tmp_path: Path) -> None:
    made, test = trained(shop, "lightgbm"), shop[2]
    made.save(tmp_path / "model")
    about = json.loads((tmp_path / "model/ranker.json").read_text())
    assert about["categories"]["brand"][:2] == ["brand 00", "brand 01"]
    # LightGBM tells sets of values apart, not codes below and above.
    trees = made.model.booster().trees_to_dataframe()
    splits = trees[trees.split_feature == f"Column_{test.n_features - 1}"]
    assert {*splits.decision_type} == {"=="}
    again = load_ranker(tmp_path / "model")
    scores = score(made, test)
    np.testing.assert_array_equal(score(again, test), scores)
    # Other codes of the same values change nothing.
    values = test.categories["brand"]
    turned = np.array(test.features)
    turned[:, -1] = len(values) - 1 - turned[:, -1]
    other = RankingDataset.from_groups(
        turned,
        test.query_of_doc,
        test.query_ids,
        feature_names=test.feature_names,
        categories={"brand": values[::-1]},
    )
    np.testing.assert_array_equal(score(again, other), scores)


@pytest.mark.parametrize("ranker", ["mlp", "linear-model"])
def test_networks_and_linear_models_name_the_options(shop: Any, ranker: str) -> None:
    with pytest.raises(DataError) as caught:
        trained(shop, ranker)
    for words in ("brand", "--categories one-hot", "--ignore brand", "--ranker blend"):
        assert words in str(caught.value)


def test_one_hot_serves_linear_models_and_engines(shop: Any, tmp_path: Path) -> None:
    linear = trained(shop, "linear-model", categories="one-hot")
    assert "brand=brand 07" in linear.mapping.names
    trees = trained(shop, "lightgbm", categories="one-hot")
    export_ranker(trees, tmp_path / "m.json", to="opensearch", data=shop[2])
    assert '"split": "brand=brand' in (tmp_path / "m.json").read_text()
    found = export_ranker(trees, tmp_path / "m.onnx", to="onnx", data=shop[2])
    assert found.parity is not None


def test_engines_refuse_categories_and_name_the_column(
    shop: Any, tmp_path: Path
) -> None:
    made = trained(shop, "lightgbm")
    for to in ("opensearch", "elasticsearch", "solr", "vespa", "ranklib"):
        with pytest.raises(DataError, match=r"'brand'.*--categories one-hot"):
            export_ranker(made, tmp_path / "m", to=to)
    assert not list(tmp_path.iterdir())


def test_lightgbm_reads_the_text_with_values_of_its_own(
    shop: Any, tmp_path: Path
) -> None:
    lgb = pytest.importorskip("lightgbm")
    made, test = trained(shop, "lightgbm"), shop[2]
    found = export_ranker(made, tmp_path / "m.txt", to="lightgbm")
    assert found.parity is not None
    assert found.parity.max_difference == 0.0
    frame = pd.DataFrame(test.features, columns=list(test.feature_names))
    values = np.array(test.categories["brand"])
    own = values[test.features[:, -1].astype(int)]
    frame["brand"] = pd.Categorical(own, categories=values[::-1])
    booster = lgb.Booster(model_file=str(tmp_path / "m.txt"))
    np.testing.assert_allclose(booster.predict(frame), score(made, test))


def test_commands_take_the_options(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "shop.csv"
    path.write_text(TEXT)
    assert main(["data", "describe", str(path)]) == 0
    assert "brand (2 values), size (3 values)" in capsys.readouterr().out
