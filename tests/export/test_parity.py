"""``export`` notices a file that does not score as its ranker, and leaves nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
from benchmarks import engines as real
from benchmarks import export as benchmark
from tests.export.planted_faults import TREE_FAULTS, below_for_at_most

from affinerank.data.dataset import RankingDataset
from affinerank.data.feature_mapping import FeatureMapping
from affinerank.export import engine_linear as linear_engines
from affinerank.export import engine_trees as engines
from affinerank.export.engine_linear import LinearFile, RawLinear
from affinerank.export.engine_readers import LINEAR_READERS, TREE_READERS
from affinerank.export.export import export_ranker
from affinerank.export.parity import (
    TOLERANCE,
    Cut,
    cuts_of,
    lies_between,
    lists_at_splits,
)
from affinerank.rankers import Ranker, linear
from affinerank.rankers.linear import LinearModel
from affinerank.rankers.ranker import score
from affinerank.rankers.trees import xgboost_json
from affinerank.rankers.trees.lightgbm import TreeModel
from affinerank.rankers.trees.nodes import (
    from_lightgbm,
    numbered_breadth_first,
)
from affinerank.support.errors import ConfigError, DataError

F = np.float32
NAMES = ("price", "rating", "age", "text")


@cache
def forest(to: str, kind: str = "lightgbm") -> Ranker:
    """Trees that the format can hold: RankLib's learnt without missing values."""
    return benchmark.forest("none", 0.0 if to == "ranklib" else 0.05, kind)


@cache
def line(scaling: str) -> Ranker:
    """A linear model of features of very different sizes, some values missing."""
    return real.trained(linear.ROW.name, with_labels(0.1), scaling=scaling)


def with_labels(missing: float) -> RankingDataset:
    data = benchmark.data(missing)
    value = benchmark.relevance(data)
    return replace(data, labels=(value > np.median(value)).astype(F))


@pytest.mark.parametrize("to", TREE_READERS)
@pytest.mark.parametrize("fault", TREE_FAULTS)
def test_a_fault_of_a_writer_of_trees_is_refused(
    to: str, fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = engines.TREE_ENGINES[to]
    export_ranker(forest(to), tmp_path / "sound", to=to)
    before = sorted(tmp_path.iterdir())

    def write(trees: Any, names: tuple[str, ...]) -> Any:
        return engine.write(TREE_FAULTS[fault](trees), names)

    monkeypatch.setitem(engines.TREE_ENGINES, to, replace(engine, write=write))
    with pytest.raises(
        DataError, match=f"differ from the ranker's .* not {TOLERANCE:g}"
    ):
        export_ranker(forest(to), tmp_path / "faulty", to=to)
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("to", TREE_READERS)
def test_one_wrong_split_of_hundreds_is_refused(
    to: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten splits, one at a time, each cut one float32 lower."""
    engine = engines.TREE_ENGINES[to]
    rng = np.random.default_rng(5)
    splits = [
        (i, number)
        for i, tree in enumerate(forest(to).model.nodes())  # type: ignore[attr-defined]
        for number, node in enumerate(tree)
        if node.left
    ]
    assert len(splits) > 500
    noticed = 0
    for i, number in rng.permutation(splits)[:10]:

        def write(
            trees: Any, names: tuple[str, ...], i: int = i, n: int = number
        ) -> Any:
            [[node]] = below_for_at_most([[trees[i][n]]])
            tree = [*trees[i][:n], node, *trees[i][n + 1 :]]
            return engine.write([*trees[:i], tree, *trees[i + 1 :]], names)

        with monkeypatch.context() as patch:
            patch.setitem(engines.TREE_ENGINES, to, replace(engine, write=write))
            try:
                export_ranker(forest(to), tmp_path / "faulty", to=to)
            except DataError:
                noticed += 1
    # Solr cannot cut closer than 1e-13, so some steps of one float32 change nothing.
    assert noticed >= (7 if to == "solr" else 10)


def test_depth_first_numbers_are_refused_for_xgboost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(xgboost_json, "numbered_breadth_first", lambda tree: tree)
    with pytest.raises(DataError, match=r"tree 0, node 0: .* right child at 2, got "):
        export_ranker(forest("opensearch-raw"), tmp_path / "m", to="opensearch-raw")
    assert not list(tmp_path.iterdir())


def test_thresholds_that_content_nodes_would_round_are_refused_for_vespa(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "next_above", lambda t: np.nextafter(t, np.inf))
    with pytest.raises(DataError, match="differ from the ranker"):
        export_ranker(forest("vespa"), tmp_path / "m", to="vespa")
    assert not list(tmp_path.iterdir())


def dropped_weight(model: RawLinear) -> RawLinear:
    weight = model.weight.copy()
    weight[np.argmax(np.abs(weight))] = 0.0
    return replace(model, weight=weight)


def swapped_weights(model: RawLinear) -> RawLinear:
    return replace(model, weight=model.weight[::-1])


def unscaled(model: RawLinear) -> RawLinear:
    return replace(model, low=model.low * F(0.9), span=model.span * F(1.1))


@pytest.mark.parametrize("to", LINEAR_READERS)
@pytest.mark.parametrize("fault", [dropped_weight, swapped_weights, unscaled])
def test_a_fault_of_a_writer_of_linear_models_is_refused(
    to: str,
    fault: Callable[[RawLinear], RawLinear],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write = linear_engines.LINEAR_ENGINES[to]

    def faulty(model: RawLinear) -> LinearFile:
        return write(fault(model))

    monkeypatch.setitem(linear_engines.LINEAR_ENGINES, to, faulty)
    with pytest.raises(DataError, match="differ from the ranker"):
        export_ranker(line("data"), tmp_path / "m", to=to)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("scaling", ["none", "data"])
@pytest.mark.parametrize("to", LINEAR_READERS)
def test_linear_models_go_to_engines(to: str, scaling: str, tmp_path: Path) -> None:
    ranker = line(scaling)
    made = export_ranker(ranker, tmp_path / "m", to=to)
    assert made.parity.relative < 2e-6
    about = json.loads((tmp_path / "m.json").read_text())
    assert about["parity"]["relative"] == made.parity.relative
    # What stands in for a missing value, in units of raw features: the median.
    missing = about["missing"]
    assert missing["filled_by"] == ("the file" if to == "vespa" else "the caller")
    known = np.nanmedian(with_labels(0.1).features, axis=0)
    low = np.nanmin(with_labels(0.1).features, axis=0)
    high = np.nanmax(with_labels(0.1).features, axis=0)
    got = np.array(list(missing["before_scaling"].values()))
    np.testing.assert_array_less(np.abs(got - known), 2 * (high - low) / 2**14)


def test_a_linear_file_is_the_written_out_formula(tmp_path: Path) -> None:
    """2 * (x - 1) / 4 - 3 * (y + 2) / 0.5 + 5, which is x / 2 - 6 y - 7.5."""
    mapping = FeatureMapping(
        ("x", "y"), "data", fill=(0.25, 0.5), low=(1.0, -2.0), high=(5.0, -1.5)
    )
    model = LinearModel(np.array([2.0, -3.0]), 5.0)
    ranker = Ranker(linear.ROW.name, model, mapping, {})
    contents = {}
    for to in LINEAR_READERS:
        export_ranker(ranker, tmp_path / to, to=to)
        contents[to] = (tmp_path / to).read_text()
        about = json.loads((tmp_path / f"{to}.json").read_text())
        assert about["missing"]["before_scaling"] == {"x": 2.0, "y": -1.75}
        constant = {"opensearch": -7.5, "solr": 5.0, "vespa": 0.0, "ranklib": 0.0}[to]
        assert about["add_to_scores"] == constant
    assert json.loads(contents["opensearch"]) == {"x": 0.5, "y": -6.0}
    assert contents["ranklib"] == "## Linear Regression\n0:-7.5 1:0.5 2:-6.0\n"
    assert contents["vespa"] == (
        "5.0 +\n"
        "2.0 * (if (isNan(x), 2.0, x) - 1.0) / 4.0 +\n"
        "-3.0 * (if (isNan(y), -1.75, y) - -2.0) / 0.5\n"
    )
    solr = json.loads(contents["solr"])
    assert solr["params"]["weights"] == {"x": 2.0, "y": -3.0}
    ends = [feature["norm"]["params"] for feature in solr["features"]]
    assert ends == [{"min": "1.0", "max": "5.0"}, {"min": "-2.0", "max": "-1.5"}]


def test_a_feature_of_one_value_needs_no_scale_in_solr(tmp_path: Path) -> None:
    mapping = FeatureMapping(("x", "y"), "data", low=(1e9, 0.0), high=(1e9, 1.0))
    ranker = Ranker(
        linear.ROW.name, LinearModel(np.array([0.0, 1.0]), 0.0), mapping, {}
    )
    export_ranker(ranker, tmp_path / "m", to="solr")
    features = json.loads((tmp_path / "m").read_text())["features"]
    assert ["norm" in feature for feature in features] == [False, True]


def test_scales_that_float32_sums_cannot_hold_are_refused(tmp_path: Path) -> None:
    """Seconds since 1970 within a minute: weights of raw features lose all digits."""
    mapping = FeatureMapping(("x",), "data", low=(1.6e9,), high=(1.6e9 + 1280,))
    ranker = Ranker(linear.ROW.name, LinearModel(np.array([1.0]), 0.0), mapping, {})
    with pytest.raises(DataError, match="differ from the ranker"):
        export_ranker(ranker, tmp_path / "m", to="opensearch")
    assert not list(tmp_path.iterdir())
    for to in ("solr", "vespa", "ranklib"):
        made = export_ranker(ranker, tmp_path / to, to=to)
        assert made.parity.relative < 1e-6


def test_linear_models_scaled_within_lists_are_refused(tmp_path: Path) -> None:
    for to in LINEAR_READERS:
        with pytest.raises(ConfigError, match="--scaling data"):
            export_ranker(line("list"), tmp_path / "m", to=to)
    for to in TREE_READERS.keys() - LINEAR_READERS.keys():
        with pytest.raises(ConfigError, match="exported to onnx, opensearch, solr, "):
            export_ranker(line("data"), tmp_path / "m", to=to)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("to", ["onnx", "lightgbm"])
@pytest.mark.parametrize("scaling", ["none", "data", "list"])
def test_trees_are_compared_at_their_splits_in_other_formats(
    to: str, scaling: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if to == "onnx":
        pytest.importorskip("onnxruntime")
    ranker = benchmark.forest(scaling, 0.05)
    made = export_ranker(ranker, tmp_path / "m", to=to)
    assert made.parity.made_up >= 2_400
    # A file that decides otherwise only at thresholds.
    other = TreeModel(moved_thresholds(ranker))
    if to == "onnx":
        monkeypatch.setattr(
            TreeModel, "nodes", lambda _: from_lightgbm(other.booster().dump_model())
        )
    else:
        plain = TreeModel.predict
        monkeypatch.setattr(
            "affinerank.export.export.trees.TreeModel",
            lambda _: type("Other", (), {"predict": lambda _, x: plain(other, x)})(),
        )
    with pytest.raises(DataError, match="differ from the ranker"):
        export_ranker(ranker, tmp_path / "other", to=to)


def moved_thresholds(ranker: Ranker) -> str:
    """The text of trees, each threshold one float32 lower."""
    assert isinstance(ranker.model, TreeModel)
    lines = []
    for text in ranker.model.text.split("\n"):
        key, _, numbers = text.partition("=")
        if key != "threshold":
            lines.append(text)
            continue
        values = np.array(numbers.split(), np.float64)
        lower = np.nextafter(values.astype(F), F(-np.inf)).astype(np.float64)
        lower = np.where(np.abs(values) < 1e30, lower, values)
        lines.append("threshold=" + " ".join(map(repr, lower.tolist())))
    # LightGBM finds trees by their sizes, which the last digits change.
    head, *trees = "\n".join(lines).split("\n\n\nTree=")
    start, first = head.split("\n\nTree=")
    bodies = [first, *trees]
    bodies[-1], _, rest = bodies[-1].partition("\n\n\nend of trees")
    sizes = " ".join(str(len("Tree=") + len(body) + 3) for body in bodies)
    start = "\n".join(
        f"tree_sizes={sizes}" if text.startswith("tree_sizes=") else text
        for text in start.split("\n")
    )
    joined = "\n\n\nTree=".join(bodies)
    return f"{start}\n\nTree={joined}\n\n\nend of trees{rest}"


def test_values_that_lightgbm_reads_as_zero_go_the_way_of_zero(tmp_path: Path) -> None:
    """Splits at -1e-35 and 1e-35, and values on and beside them, in every format."""
    signs = np.repeat([-1.0, 0.0, 1.0], 100).astype(F)
    features = np.stack([signs, np.tile([0.0, 1.0], 150)], axis=1)
    target = np.array([1.0, 5.0, 2.0]).repeat(100)
    data = lgb.Dataset(features, label=target)
    settings = {"objective": "regression", "verbosity": -1, "min_data_in_leaf": 1}
    text = lgb.train({**settings, "num_threads": 1}, data, 5).model_to_string()
    model = TreeModel(text)
    ranker = Ranker("lightgbm", model, FeatureMapping(("x", "y"), "none"), {})

    zero = F(1e-35)
    outside = np.nextafter(zero, F(1))
    inside = np.nextafter(zero, F(0))
    values = [-1, -outside, -zero, -inside, -1e-44, 0, 1e-44, inside, zero, outside, 1]
    rows = np.zeros((len(values), 2), F)
    rows[:, 0] = values
    wanted = model.predict(rows)
    # LightGBM itself: two values on the left, seven zeros, two on the right.
    assert len(set(wanted[:2])) == len(set(wanted[2:9])) == len(set(wanted[9:])) == 1
    assert len({wanted[0], wanted[5], wanted[10]}) == 3

    for to, read in TREE_READERS.items():
        export_ranker(ranker, tmp_path / to, to=to)
        got = read((tmp_path / to).read_bytes(), rows, ("x", "y"))
        about = json.loads((tmp_path / f"{to}.json").read_text())
        if to == "solr":  # -1e-35 and 1e-35 cannot be told from 0 there
            assert about["thresholds"]["not_exact"] > 0
            got, expected = got[[0, 5, 10]], wanted[[0, 5, 10]]
        else:
            assert about["thresholds"]["not_exact"] == 0
            expected = wanted
        np.testing.assert_allclose(got, expected, atol=1e-6)


def test_solr_says_where_missing_values_go_only_where_it_must(tmp_path: Path) -> None:
    for missing, says in ((0.0, False), (0.05, True)):
        export_ranker(benchmark.forest("none", missing), tmp_path / "m", to="solr")
        text = (tmp_path / "m").read_text()
        assert ('"missing":' in text) == says
        assert ("isNullSameAsZero" in text) == says
        about = json.loads((tmp_path / "m.json").read_text())
        expected = "NaN" if says else "a missing value counts as 0"
        assert about["missing"] == expected
        assert about.get("needs") == ("Solr 9.2 or later" if says else None)


def test_documents_between_a_true_and_a_declared_threshold_are_counted(
    tmp_path: Path,
) -> None:
    """Of 40 documents, 10 have a value that Solr cannot tell from the threshold."""
    data = lgb.Dataset(
        np.repeat([[-1.0], [0.0]], 50, axis=0), label=np.repeat([0.0, 1.0], 50)
    )
    settings = {"objective": "regression", "verbosity": -1, "num_threads": 1}
    text = lgb.train(settings, data, 3).model_to_string()  # a split at -1e-35
    ranker = Ranker("lightgbm", TreeModel(text), FeatureMapping(("x",), "none"), {})
    values = np.repeat([-1.0, -1e-20, 0.0, 1.0], 10)[:, None]
    lists = RankingDataset.from_rows(values, ["q"] * 40, feature_names=("x",))
    made = export_ranker(ranker, tmp_path / "m", to="solr", data=lists)
    assert made.parity.between == 10 / 40
    cut = Cut(0, -1e-35, float(F(-1.1368684e-13)))
    assert lies_between(lists.features, [cut]).sum() == 10
    about = json.loads((tmp_path / "m.json").read_text())
    assert about["parity"]["between"] == made.parity.between
    assert about["thresholds"] == {"not_exact": 3, "of": 3}


@pytest.mark.parametrize(
    "name", ["brand=nike", "a b", "a-b", "2x", "1", "$x", "true", "log(price)"]
)
def test_names_that_vespa_reads_otherwise_are_refused(
    name: str, tmp_path: Path
) -> None:
    ranker = forest("vespa")
    mapping = replace(ranker.mapping, names=(name, *NAMES[1:]))
    with pytest.raises(DataError, match="as the name of a rank feature"):
        export_ranker(replace(ranker, mapping=mapping), tmp_path / "m", to="vespa")
    mapping = replace(line("none").mapping, names=(name, *NAMES[1:]))
    with pytest.raises(DataError, match="as the name of a rank feature"):
        export_ranker(
            replace(line("none"), mapping=mapping), tmp_path / "m", to="vespa"
        )
    assert not list(tmp_path.iterdir())


def test_names_of_rank_features_are_written_for_vespa(tmp_path: Path) -> None:
    ranker = forest("vespa")
    names = ("attribute(price)", "fieldMatch(title).completeness", "bm25(text)", "age")
    mapping = replace(ranker.mapping, names=names)
    made = export_ranker(replace(ranker, mapping=mapping), tmp_path / "m", to="vespa")
    assert made.parity.relative < 1e-6


def test_breadth_first_numbers_keep_the_tree() -> None:
    ranker = forest("opensearch-raw")
    for tree in ranker.model.nodes():  # type: ignore[attr-defined]
        again = numbered_breadth_first(tree)
        assert all(node.right == node.left + 1 for node in again if node.left)
        assert numbered_breadth_first(again) == again
        assert walk(tree) == walk(again)


def walk(tree: Any, number: int = 0) -> Any:
    """The tree without its numbers."""
    node = tree[number]
    if not node.left:
        return node.value
    return (node.feature, node.value, walk(tree, node.left), walk(tree, node.right))


def test_ranklib_is_not_compared_on_missing_values_it_cannot_hold(
    tmp_path: Path,
) -> None:
    """Scaled by the data, 0 is the lowest value and not what RankLib puts there."""
    export_ranker(benchmark.forest("data", 0.0), tmp_path / "m", to="ranklib")
    about = json.loads((tmp_path / "m.json").read_text())
    assert about["missing"].startswith("no value may be missing")


def test_xgboost_itself_reads_the_raw_file_of_lightgbm(tmp_path: Path) -> None:
    ranker = forest("opensearch-raw")
    export_ranker(ranker, tmp_path / "m", to="opensearch-raw")
    data = real.documents(ranker, benchmark.data(0.05), 600, missing=0.1)
    got = real.by_xgboost(real.Job((tmp_path / "m").read_bytes(), data))
    wanted = score(ranker, data)
    assert np.abs(got - wanted).max() < 1e-6 * np.abs(wanted).max()


@pytest.mark.parametrize("to", TREE_READERS)
def test_a_tree_without_a_split_goes_to_engines(to: str, tmp_path: Path) -> None:
    """Its only leaf is the mean of the targets, 2.5."""
    data = lgb.Dataset(np.arange(4.0)[:, None], label=[1.0, 2.0, 3.0, 4.0])
    settings = {"objective": "regression", "verbosity": -1, "num_threads": 1}
    text = lgb.train(settings, data, 1).model_to_string()
    ranker = Ranker("lightgbm", TreeModel(text), FeatureMapping(("x",), "none"), {})
    made = export_ranker(ranker, tmp_path / "m", to=to)
    assert made.parity.made_up == 0
    content = (tmp_path / "m").read_bytes()
    got = TREE_READERS[to](content, np.ones((3, 1), F), ("x",))
    np.testing.assert_array_equal(got, [2.5] * 3)


def test_thousands_of_features_do_not_make_thousands_of_documents(
    tmp_path: Path,
) -> None:
    """At most 20 million values are made up: 5 sets of 20 lists of 20 documents."""
    width = 10_000
    rows = np.random.default_rng(0).random((100, 3))
    features = np.zeros((100, width))
    features[:, :3] = rows
    settings = {"objective": "regression", "verbosity": -1, "num_threads": 1}
    data = lgb.Dataset(features, label=rows.sum(axis=1))
    text = lgb.train(settings, data, 3).model_to_string()
    names = tuple(f"f{i}" for i in range(width))
    ranker = Ranker("lightgbm", TreeModel(text), FeatureMapping(names, "none"), {})
    made = export_ranker(ranker, tmp_path / "m", to="vespa")
    assert made.parity.made_up == 5 * 400


def test_documents_made_up_for_solr_have_no_value_between_thresholds(
    tmp_path: Path,
) -> None:
    """Features near 1e-9, where Solr's sums are 1e-13 apart: one wrong leaf shows."""
    rng = np.random.default_rng(0)
    features = (rng.normal(size=(2000, 4)) * [1e-9, -1e-12, 1e-6, 1]).astype(F)
    target = np.sign(features).sum(axis=1) + np.abs(features[:, 0]) * 1e9
    data = lgb.Dataset(features, label=target)
    settings = {"objective": "regression", "verbosity": -1, "num_threads": 1}
    model = TreeModel(lgb.train(settings, data, 20).model_to_string())
    ranker = Ranker("lightgbm", model, FeatureMapping(NAMES, "none"), {})
    folded = engines.fold_features(model.nodes(), ranker.mapping)
    cuts = cuts_of(folded, engines.reached_by_solr)
    lists = lists_at_splits(folded, cuts, NAMES, missing=False)
    assert lists is not None
    assert sum(cut.limit != cut.reached for cut in cuts) > 50
    assert not lies_between(lists.features, cuts).any()
    export_ranker(ranker, tmp_path / "m", to="solr")
    got = TREE_READERS["solr"]((tmp_path / "m").read_bytes(), lists.features, NAMES)
    wanted = score(ranker, lists)
    assert np.abs(got - wanted).max() < 1e-6 * np.abs(wanted).max()
