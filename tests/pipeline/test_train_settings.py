"""How rankers are trained, said as one value or by keyword."""

import numpy as np
import pytest

import affinerank as ar
from affinerank.counts.counts import ClickCounts
from affinerank.defaults import ESTIMATOR, NO_TUNING, QUICK, RANKER
from affinerank.pipeline.steps.train_settings import train_settings_from
from affinerank.rankers.blend import BlendSettings
from affinerank.rankers.trees.lightgbm import TreeSettings
from affinerank.support.errors import ConfigError


def test_settings_are_said_as_a_whole_by_keyword_or_of_the_ranker_alone() -> None:
    whole = ar.TrainSettings("lightgbm", TreeSettings(trees=3), seeds=[1, 2])
    assert train_settings_from(whole, {}) == whole
    assert train_settings_from(whole, {"seeds": [7]}).seeds == (7,)
    alone = train_settings_from(TreeSettings(trees=3), {"ranker": "lightgbm"})
    assert alone.settings_of_ranker.trees == 3
    default = train_settings_from(None, {})
    assert (default.ranker, default.estimators) == (RANKER, (ESTIMATOR,))
    assert default.settings_of_ranker == BlendSettings()
    assert whole.names == [(ESTIMATOR, 1), (ESTIMATOR, 2)]


def test_a_clip_is_an_option_of_the_estimators_that_divide() -> None:
    settings = ar.TrainSettings(estimators=["affine", "naive"], clip=0.1)
    assert list(map(str, settings.clipped_estimators)) == ["affine(clip=0.1)", "naive"]
    assert [name for name, _ in settings.names] == ["affine", "naive"]


def test_members_scale_as_they_are_told() -> None:
    [member] = ar.TrainSettings("lightgbm", scaling="data").members
    assert member.scaling == "data"
    assert len(ar.TrainSettings().members) == 3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"estimators": []}, "an estimator or more"),
        ({"seeds": []}, "a seed or more"),
        ({"ranker_settings": TreeSettings()}, "the ranker blend takes BlendSettings"),
        ({"scaling": "list"}, "each member of the blend scales"),
        ({"tuning": "sometimes"}, "tuning must be"),
        ({"categories": "two-hot"}, "categories must be"),
        ({"estimators": ["naive"], "clip": 0.1}, "nothing to clip"),
        ({"ranker": "blond"}, "no ranker 'blond'"),
    ],
)
def test_what_no_ranker_can_be_trained_with_is_refused(
    options: dict[str, object], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        ar.TrainSettings(**options)  # type: ignore[arg-type]


def test_keywords_train_as_the_whole_does() -> None:
    data = ar.load("yahoo-like:30").train
    simulation = ar.prepare_simulation(data)
    counts: ClickCounts = ar.simulate_counts(
        simulation, 2000, rng=np.random.default_rng(0)
    )
    settings = ar.TrainSettings(
        QUICK, estimators=["affine"], seeds=[3], tuning=NO_TUNING
    )

    def scores(*args: object, **options: object) -> list[float]:
        trained = ar.train(counts, data, simulation.click_model, *args, **options)  # type: ignore[arg-type]
        return list(ar.score(trained.rankers["affine", 3], data).tolist())

    by_keyword = scores(
        ranker=QUICK, estimators=["affine"], seeds=[3], tuning=NO_TUNING
    )
    assert scores(settings) == by_keyword
    assert scores(settings=settings) == by_keyword
