"""Blends: scores that add up, saved, exported and trained member by member."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from affinerank.clicks.models.trust import TrustModel
from affinerank.counts.counts import ClickCounts
from affinerank.data.dataset import RankingDataset
from affinerank.data.feature_mapping import FeatureMapping
from affinerank.export.export import export_ranker
from affinerank.pipeline.train import train
from affinerank.rankers.blend import (
    Blend,
    BlendSettings,
    production_of,
    spread_within_lists,
    with_production,
)
from affinerank.rankers.linear import LinearModel
from affinerank.rankers.loading import load_ranker
from affinerank.rankers.ranker import Member, Ranker, score
from affinerank.support.errors import AffineRankWarning, ConfigError, DataError

SMALL = BlendSettings(trees=20, leaves=6, learning_rate=0.2, min_documents=5)
BRANDS = ("nike", "puma", "asics", "hoka")


def linear(weights: dict[str, float], scaling: str = "none") -> Ranker:
    """A ranker whose score is written out."""
    model = LinearModel(np.array([*weights.values()]), 0.0)
    return Ranker("linear-model", model, FeatureMapping((*weights,), scaling), {})


def two_lists() -> RankingDataset:
    return RankingDataset.from_rows(
        np.array([[1, 10], [3, 20], [2, 30], [8, 40]], np.float32),
        ["q1", "q1", "q2", "q2"],
        feature_names=("price", "rating"),
    )


def blend() -> Blend:
    """Half the price in units of 2; and half the place of the rating in its list."""
    members = (
        Member("plain", linear({"price": 1.0}), 0.5, 2.0),
        Member("in-list", linear({"rating": 1.0}, "list"), 0.5),
    )
    return Blend("blend", members, {"estimator": "affine"}, ("q1",))


def test_a_score_is_the_sum_of_the_members_in_their_units() -> None:
    """1/4 of the price; and 0 or 1/2, as each list has two ratings."""
    expected = [1 / 4, 3 / 4 + 1 / 2, 2 / 4, 8 / 4 + 1 / 2]
    np.testing.assert_allclose(score(blend(), two_lists()), expected)
    assert blend().features == ("price", "rating")
    assert repr(blend()) == (
        "Blend(blend of plain 50%, in-list 50%, 2 features, by affine)"
    )


def test_a_blend_is_the_same_after_its_folder(tmp_path: Path) -> None:
    blend().save(tmp_path / "model")
    names = sorted(path.name for path in (tmp_path / "model").iterdir())
    assert names == ["in-list", "plain", "ranker.json"]
    again = load_ranker(tmp_path / "model")
    np.testing.assert_array_equal(
        score(again, two_lists()), score(blend(), two_lists())
    )
    assert (again.kind, again.training_queries) == ("blend", ("q1",))
    assert again.provenance == {"estimator": "affine"}
    # A member is a ranker of its own.
    alone = load_ranker(tmp_path / "model" / "plain")
    np.testing.assert_array_equal(score(alone, two_lists()), [1, 3, 2, 8])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"folder": "../plain"}, "a plain name, got '../plain'"),
        ({"folder": "lost"}, "lost: no ranker's folder"),
        ({"folder": "in-list"}, "names of their own"),
        ({"unit": 0.0}, "the unit above 0"),
        ({"share": "half"}, "share and unit must be numbers"),
        ({"share": None}, "share and unit must be numbers"),
    ],
)
def test_a_changed_blend_is_rejected(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    blend().save(tmp_path / "model")
    path = tmp_path / "model" / "ranker.json"
    about = json.loads(path.read_text())
    about["members"][0] |= change
    path.write_text(json.dumps(about))
    with pytest.raises(DataError, match=message) as fault:
        load_ranker(tmp_path / "model")
    assert str(tmp_path) in str(fault.value)


def test_a_blend_within_a_blend_is_rejected(tmp_path: Path) -> None:
    blend().save(tmp_path / "model")
    inner = tmp_path / "model" / "plain" / "ranker.json"
    inner.write_text((tmp_path / "model" / "ranker.json").read_text())
    with pytest.raises(DataError, match="must not be a blend"):
        load_ranker(tmp_path / "model")


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_production_keeps_the_rest_of_the_share(share: float) -> None:
    """Prices differ by 1 and 3 from their lists' means, ratings by 5: known units."""
    data = two_lists()
    learnt = linear({"rating": 1.0})
    blended = with_production(learnt, share, production_of("price"), data, {})
    unit = np.sqrt((1 + 1 + 9 + 9) / 4)
    expected = (1 - share) * data.features[:, 0] / unit
    expected = expected + share * data.features[:, 1] / 5.0
    np.testing.assert_allclose(score(blended, data), expected, rtol=1e-6)
    # A blend of a blend is flat, and scores the same.
    again = with_production(blend(), share, production_of("price"), data, {})
    inner = score(blend(), data)
    inner_unit = spread_within_lists(inner, data.query_of_doc)
    expected = (1 - share) * data.features[:, 0] / unit + share * inner / inner_unit
    np.testing.assert_allclose(score(again, data), expected, rtol=1e-6)
    assert all(isinstance(member.ranker, Ranker) for member in again.members)


def world(n_queries: int = 60, size: int = 8) -> tuple[ClickCounts, RankingDataset]:
    """Relevance is a low price, or any price of one brand; some ratings are missing."""
    rng = np.random.default_rng(1)
    n = n_queries * size
    price = rng.lognormal(3.0, 1.0, n)
    brand = rng.integers(len(BRANDS), size=n).astype(float)
    rating = rng.random(n)
    rating[rng.random(n) < 0.1] = np.nan
    relevant = (price < 15) | (brand == 2)
    brand[rng.random(n) < 0.05] = np.nan
    query = np.arange(n_queries).repeat(size)
    data = RankingDataset.from_groups(
        np.stack([price, rating, brand], axis=1),
        query,
        np.arange(n_queries),
        labels=4 * relevant,
        doc_ids=np.tile(np.arange(size), n_queries),
        feature_names=("price", "rating", "brand"),
        categories={"brand": BRANDS},
    )
    rank = np.tile(np.arange(1, size + 1), n_queries)
    chance = TrustModel.paper(depth=size).click_probability(rank, relevant * 1.0)
    counts = ClickCounts.from_columns(
        query_id=query,
        doc_id=np.tile(np.arange(size), n_queries),
        rank=rank,
        impressions=np.full(n, 200),
        clicks=rng.binomial(200, chance),
    )
    return counts, data


@pytest.fixture(scope="module")
def learnt() -> Any:
    counts, data = world()
    click_model = TrustModel.paper(depth=8)
    return counts, data, click_model, train(counts, data, click_model)


def test_the_default_ranker_is_a_blend_of_three_members(learnt: Any) -> None:
    _, data, _, trained = learnt
    [ranker] = trained.rankers.values()
    assert ranker.kind == "blend"
    rows = [
        (m.name, m.ranker.kind, m.ranker.mapping.scaling, round(m.share, 9))
        for m in ranker.members
    ]
    assert rows == [
        ("trees", "lightgbm", "none", 0.4),
        ("trees-in-list", "lightgbm", "list", 0.4),
        ("linear", "linear-model", "list", 0.2),
    ]
    # Trees read the text as it is, the linear member a feature for each value.
    assert "brand" in ranker.members[0].ranker.mapping.names
    assert "brand=hoka" in ranker.members[2].ranker.mapping.names
    assert ranker.features == ("price", "rating", "brand")
    for member in ranker.members:
        scores = member.ranker.scores(data)
        assert member.unit == spread_within_lists(scores, data.query_of_doc)
    relevant = np.asarray(data.labels) > 0
    assert np.corrcoef(score(ranker, data), relevant)[0, 1] > 0.7
    [report] = trained.reports.values()
    assert [row["member"] for row in report["members"]] == [
        member.name for member in ranker.members
    ]


def test_each_member_learns_what_it_would_alone(learnt: Any) -> None:
    """The weights are the same: trees and linear rankers share their prior."""
    counts, data, click_model, trained = learnt
    [ranker] = trained.rankers.values()
    trees, in_list, plain = ranker.members
    given: Any = {"ranker": "lightgbm"}
    for member, more in (
        (trees, {**given, "scaling": "none"}),
        (in_list, {**given, "scaling": "list"}),
        (plain, {"ranker": "linear-model", "categories": "one-hot"}),
    ):
        [alone] = train(counts, data, click_model, **more).rankers.values()
        np.testing.assert_array_equal(score(alone, data), member.ranker.scores(data))


def test_a_trained_blend_is_one_graph_that_scores_alike(
    learnt: Any, tmp_path: Path
) -> None:
    """With text, gaps, and values that training never saw."""
    onnxruntime = pytest.importorskip("onnxruntime")
    _, data, _, trained = learnt
    [ranker] = trained.rankers.values()
    for lists in (None, data):
        path = tmp_path / f"{lists is None}.onnx"
        written = export_ranker(ranker, path, to="onnx", data=lists)
        assert written.parity.relative < 1e-5
        assert written.parity.documents > 400
    about = json.loads((tmp_path / "True.onnx.json").read_text())
    assert about["features"] == ["price", "rating", "brand"]
    assert about["categories"] == {"brand": [*BRANDS]}
    assert [row["share"] for row in about["members"]] == [0.4, 0.4, 0.2]
    session = onnxruntime.InferenceSession((tmp_path / "True.onnx").read_bytes())
    first = slice(*data.offsets[:2])
    features = np.array(data.features[first])
    [scores] = session.run(["scores"], {"features": features})
    np.testing.assert_allclose(scores, score(ranker, data)[first], atol=1e-5)
    # A code that no training value has is taken for missing.
    features[:, 2] = 99
    [beyond] = session.run(["scores"], {"features": features})
    features[:, 2] = np.nan
    [missing] = session.run(["scores"], {"features": features})
    np.testing.assert_array_equal(beyond, missing)


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_production_alone_is_exported_in_its_units(
    share: float, tmp_path: Path
) -> None:
    """A blend of one member still divides by its unit, here 2.2."""
    onnxruntime = pytest.importorskip("onnxruntime")
    data = two_lists()
    learnt = linear({"rating": 1.0})
    blended = with_production(learnt, share, production_of("price"), data, {})
    assert len(blended.members) == (2 if share else 1)
    assert blended.members[0].unit == pytest.approx(np.sqrt(5))
    export_ranker(blended, tmp_path / "model.onnx", to="onnx")
    session = onnxruntime.InferenceSession((tmp_path / "model.onnx").read_bytes())
    columns = [data.feature_names.index(name) for name in blended.features]
    [scores] = session.run(["scores"], {"features": data.features[:, columns]})
    np.testing.assert_allclose(scores, score(blended, data), rtol=1e-6)
    with pytest.raises(ConfigError, match="exported to onnx"):
        export_ranker(blended, tmp_path / "model.json", to="solr")


@pytest.mark.parametrize("to", ["lightgbm", "opensearch", "elasticsearch", "vespa"])
def test_engines_refuse_a_blend_and_name_what_serves(
    learnt: Any, tmp_path: Path, to: str
) -> None:
    [ranker] = learnt[-1].rankers.values()
    words = "onnx" if to == "lightgbm" else f"train --for {to}"
    with pytest.raises(ConfigError, match=words):
        export_ranker(ranker, tmp_path / "model", to=to)
    assert not list(tmp_path.iterdir())


def test_a_member_that_cannot_learn_is_left_out_with_a_warning() -> None:
    counts, data = world(n_queries=12)
    click_model = TrustModel.paper(depth=8)
    settings = replace(SMALL, min_documents=100)
    with pytest.warns(AffineRankWarning, match="does without its member trees"):
        trained = train(
            counts, data, click_model, settings=settings, estimators=["affine"]
        )
    [ranker] = trained.rankers.values()
    assert [(m.name, m.share) for m in ranker.members] == [("linear", 1.0)]


def test_patience_is_for_the_members_that_have_a_length() -> None:
    counts, data = world(n_queries=20)
    settings = replace(SMALL, patience=2)
    click_model = TrustModel.paper(depth=8)
    trained = train(counts, data, click_model, settings=settings, estimators=["affine"])
    [ranker] = trained.rankers.values()
    assert [member.name for member in ranker.members] == [
        *("trees", "trees-in-list", "linear")
    ]


def test_what_nobody_could_learn_is_an_error() -> None:
    counts, data = world(n_queries=12)
    none = ClickCounts(
        counts.table.set_column(
            counts.table.column_names.index("clicks"),
            "clicks",
            [np.zeros(counts.table.num_rows, np.int64)],
        )
    )
    click_model = TrustModel.paper(depth=8)
    with pytest.raises(DataError, match=r"all weights are the same|above 0"):
        train(none, data, click_model, settings=SMALL, estimators=["naive"])


def test_scaling_is_that_of_the_members() -> None:
    counts, data = world(n_queries=12)
    with pytest.raises(ConfigError, match="scales features its own way"):
        train(counts, data, TrustModel.paper(depth=8), scaling="none")


@pytest.mark.parametrize("name", ["trees", "leaves", "threads"])
def test_settings_of_members_are_checked(name: str) -> None:
    wrong: dict[str, Any] = {name: -1}
    with pytest.raises(ConfigError, match=name):
        BlendSettings(**wrong)
