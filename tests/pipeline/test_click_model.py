"""A click model that a user gives is held against the log, whatever it is used for."""

import warnings

import numpy as np
import pytest

from affinerank.clicks.models.trust import TrustModel
from affinerank.clicks.simulation import simulate_counts
from affinerank.counts.counts import ClickCounts
from affinerank.data.dataset import RankingDataset
from affinerank.data.sources import DataSource
from affinerank.defaults import QUICK
from affinerank.pipeline.compare import ChoiceSettings, train_chosen
from affinerank.pipeline.debias import debias
from affinerank.pipeline.simulate import prepare_simulation
from affinerank.pipeline.train import train
from affinerank.support.errors import AffineRankWarning

RIGHT = TrustModel.paper(depth=130)
WRONG = TrustModel.paper(eta=3, depth=130)
DOES_NOT_FIT = "the click model does not fit this log"


@pytest.fixture(scope="module")
def log() -> tuple[ClickCounts, RankingDataset]:
    data = DataSource.parse("yahoo-like:60").read("train")
    simulation = prepare_simulation(data)
    sessions = simulation.sessions_for(2e4)
    counts = simulate_counts(simulation, sessions, rng=np.random.default_rng(0))
    return counts, data


def warnings_of(caught: list[warnings.WarningMessage]) -> list[str]:
    texts = [str(warning.message) for warning in caught]
    return [text for text in texts if DOES_NOT_FIT in text]


def test_a_wrong_click_model_is_named_where_it_trains_or_labels(
    log: tuple[ClickCounts, RankingDataset],
) -> None:
    counts, data = log
    with pytest.warns(AffineRankWarning, match=DOES_NOT_FIT):
        train(counts, data, WRONG, ranker=QUICK, estimators=["affine"])
    with pytest.warns(AffineRankWarning, match=DOES_NOT_FIT):
        debias(counts, WRONG, estimator="affine")
    # No word where it fits, or where nothing reads it.
    train(counts, data, RIGHT, ranker=QUICK, estimators=["affine"])
    train(counts, data, WRONG, ranker=QUICK, estimators=["naive"])
    debias(counts, WRONG, estimator="naive")


def test_a_comparison_of_many_trainings_says_it_once(
    log: tuple[ClickCounts, RankingDataset],
) -> None:
    counts, data = log
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        train_chosen(counts, data, WRONG, settings=ChoiceSettings((QUICK,)))
    assert len(warnings_of(caught)) == 1
