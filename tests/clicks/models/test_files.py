"""Users in files: written and read again, by segment, and broken ones."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from affinerank.clicks.models.by_segment import SegmentedModel
from affinerank.clicks.models.files import load_click_model, save_click_model
from affinerank.clicks.models.trust import TrustModel
from affinerank.support.errors import DataError

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "click_model",
    [
        TrustModel.paper(depth=12),
        TrustModel.from_zeta([0.9, 0.4], [0.6, 0.1], provenance={"from": "é"}),
        TrustModel(alpha=np.array([3.0]), beta=np.array([-1.0]), identified="relative"),
    ],
)
def test_a_file_gives_the_model_back(click_model: TrustModel, tmp_path: Path) -> None:
    save_click_model(click_model, tmp_path / "click-model.json")
    again = load_click_model(tmp_path / "click-model.json")
    assert again.to_dict() == click_model.to_dict()
    np.testing.assert_array_equal(again.alpha, click_model.alpha)
    np.testing.assert_array_equal(again.beta, click_model.beta)


GOOD = {
    "format": "affinerank-click-model",
    "version": 1,
    **TrustModel.paper(depth=2).to_dict(),
}
ZETA = {**GOOD, "identified": "click-rates"}
GAUGE = {**GOOD, "identified": "relative"}
FAR = {
    **ZETA,
    "model": "browsing",
    "alpha": [[0.3, 0.1], [0.2, 0.3]],
    "beta": [[0.1, 0.1], [0.1, 0.1]],
}
SEGMENTS = {**GOOD, "model": "by-segment", "share": {}}
UNNAMED = {key: value for key, value in GOOD.items() if key != "model"}
DEPENDENT = {**GOOD, "model": "dependent-click", "depth": 3, "settings": {}}


@pytest.mark.parametrize(
    ("about", "message"),
    [
        (
            {**GOOD, "version": 2},
            r"version 1, got .* version 2; make the file again \(affinerank estimate\)",
        ),
        (UNNAMED, "'model' is missing, found .*; expected one of trust, .*; make the"),
        ({**SEGMENTS, "segments": {"a": UNNAMED}}, "the key 'model' is missing"),
        ({**GOOD, "format": "x"}, "format 'affinerank-click-model' .*got 'x'"),
        ({"alpha": [1]}, "not a click model"),
        ([], "not a click model"),
        (7, "not a click model"),
        ({**GOOD, "model": "x"}, "no click model 'x'"),
        ({**GOOD, "model": ["x"]}, "not a click model"),
        ({**GOOD, "theta": None}, "theta must be one number per rank"),
        ({**GOOD, "theta": "x"}, "not a click model"),
        ({**GOOD, "theta": [10**400, 1]}, "not JSON: .* 300 digits"),
        ({**ZETA, "alpha": [0.5] * 10_001, "beta": [0] * 10_001}, "down to 10000"),
        ({**GOOD, "theta": [5.0, 0.5]}, "theta at rank 1 must be .* got 5"),
        ({**GOOD, "eps_minus": [0.65, -0.1]}, r"eps_minus at rank 2 .* got -0\.1"),
        ({**ZETA, "beta": [-5, 0.1]}, "relevance 0 at rank 1 .* got -5"),
        ({**ZETA, "beta": [0.8, 0.1]}, r"relevance 1 at rank 1 .* got 1\.1"),
        ({**ZETA, "alpha": [0.3, 5e-324]}, "alpha at rank 2 must be 0, or from 1e-06"),
        ({**GAUGE, "alpha": [1e300, 0.1]}, "alpha at rank 1 must be .* got 1e"),
        ({**GAUGE, "beta": [-5, 0.1], "span": [0, 1]}, "relevance 0 at rank 1"),
        ({**GOOD, "alpha": [0.5, 0.5]}, "alpha does not follow from theta"),
        ({**GOOD, "alpha": [1, 2, 3]}, "not a click model"),
        ({**GOOD, "theta": [1.0]}, "'theta': 1, 'eps_plus': 2"),
        ({**ZETA, "alpha": [[1]]}, r"alpha must .*got shape \(1, 1\)"),
        ({**ZETA, "alpha": [1, float("nan")]}, "not JSON: .* got NaN"),
        ({**GOOD, "identified": "maybe"}, "identified .*got 'maybe'"),
        ({**GOOD, "identified": []}, r"identified .*got \[\]"),
        ({**GOOD, "provenance": "me"}, "provenance .*got 'me'"),
        ({**GOOD, "estimated": 7}, "not a click model"),
        ({**GOOD, "estimated": {"method": "m"}}, "not a click model"),
        ({**SEGMENTS, "segments": {}}, "segments"),
        ({**SEGMENTS, "segments": [1]}, "not a click model"),
        ({**SEGMENTS, "segments": {"a": 1}}, "not a click model"),
        ({**SEGMENTS, "segments": {"a": ZETA | {"beta": [-5, 0]}}}, "rank 1 .* got -5"),
        ({**SEGMENTS, "segments": {"a": GOOD}, "share": {"b": 1}}, "shares {'b': 1.0}"),
        ({**SEGMENTS, "segments": {"a": GOOD}, "share": {"a": 0}}, "shares {'a': 0.0}"),
        ({**FAR, "alpha": [0.3]}, r"alpha must be a list .*got shape \(1,\)"),
        ({**FAR, "alpha": [[0.3], [0.2, 0.1]]}, "not a click model"),
        ({**FAR, "beta": [[0.8, 0.1]]}, "the same ranks"),
        ({**FAR, "beta": [[0.1, 0.2], [0.3, 0.9]]}, "rank 2, column 1 .* got 1.2"),
        ({**FAR, "alpha": [[1e-9, 0.1], [0, 0]]}, "rank 1, column 0 must be 0, or"),
        ({**DEPENDENT, "settings": {"stay": 2}}, "settings: stay must be .* got 2"),
        ({**DEPENDENT, "settings": {"x": 2}}, "settings: there is no key 'x'"),
        ({**DEPENDENT, "settings": 7}, "settings must be a table, got 7"),
        ({**DEPENDENT, "depth": 10_001}, "depth must be from 1 to 10000, got 10001"),
    ],
)
def test_a_broken_file_is_one_sentence_that_names_it(
    about: Any, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "click-model.json"
    path.write_text(json.dumps(about))
    with pytest.raises(DataError, match=message) as caught:
        load_click_model(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", [b"", b"{", b"\xff\xfe", b"[" * 100_000])
def test_what_is_no_json_is_one_sentence(text: bytes, tmp_path: Path) -> None:
    (tmp_path / "click-model.json").write_bytes(text)
    with pytest.raises(DataError, match=r"click-model\.json: not (JSON|text): "):
        load_click_model(tmp_path / "click-model.json")


def test_a_file_that_is_not_there_is_reported(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no such file"):
        load_click_model(tmp_path / "none.json")
    with pytest.raises(DataError, match="this is a folder"):
        load_click_model(tmp_path)


def test_a_file_names_its_format_and_click_model(tmp_path: Path) -> None:
    save_click_model(TrustModel.paper(depth=2), tmp_path / "click-model.json")
    about = json.loads((tmp_path / "click-model.json").read_text())
    assert (about["format"], about["version"]) == ("affinerank-click-model", 1)
    assert about["model"] == TrustModel.name


@pytest.fixture
def of_segments(tmp_path: Path) -> Path:
    """A file with a model for each of two segments."""
    models = {
        "desktop": TrustModel.paper(depth=4),
        "mobile": TrustModel.paper(eta=2.0, depth=4),
    }
    path = tmp_path / "click-model.json"
    save_click_model(SegmentedModel(models, {"desktop": 0.7, "mobile": 0.3}), path)
    return path


def test_one_segment_of_a_file_is_read(of_segments: Path) -> None:
    click_model = load_click_model(of_segments, "mobile")
    wanted = TrustModel.paper(eta=2.0, depth=4)
    assert click_model.to_dict() == wanted.to_dict()
    with pytest.raises(DataError, match=r"segments 'desktop'.*, not for 'nowhere'"):
        load_click_model(of_segments, "nowhere")


def test_all_segments_of_a_file_are_one_model(of_segments: Path) -> None:
    click_model = load_click_model(of_segments)
    assert isinstance(click_model, SegmentedModel)
    assert click_model.share == {"desktop": 0.7, "mobile": 0.3}
    for segment, model in click_model.models.items():
        assert model.to_dict() == load_click_model(of_segments, segment).to_dict()
