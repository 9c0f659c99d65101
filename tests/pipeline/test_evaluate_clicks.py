"""Rankers judged by clicks: which users an estimator needs, and what is reported."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from affinerank.clicks.models.trust import EstimatedBy, TrustModel
from affinerank.clicks.simulation import simulate_counts
from affinerank.clicks.traffic import Traffic
from affinerank.counts.counts import ClickCounts
from affinerank.counts.rows import join_counts
from affinerank.data.dataset import RankingDataset
from affinerank.data.sources import DataSource
from affinerank.defaults import CORRECTION, EM
from affinerank.estimators import ESTIMATORS, Estimator, affine
from affinerank.evaluation.refits import mean_alpha
from affinerank.pipeline.evaluate_clicks import (
    ClickEvaluationSettings,
    evaluate_from_clicks,
    gain_over_logged,
)
from affinerank.pipeline.simulate import prepare_simulation
from affinerank.pipeline.steps.production import train_production_ranker
from affinerank.pipeline.steps.second_evaluator import RANKS
from affinerank.rankers.ranker import Ranker
from affinerank.support.errors import AffineRankWarning, ConfigError, DataError

KNOWN = TrustModel.paper(depth=120)
GAUGE = TrustModel(
    alpha=2 * KNOWN.alpha,
    beta=KNOWN.beta + 0.3 * KNOWN.alpha,
    identified="relative",
    estimated=EstimatedBy("two-level"),
)
BENT = Estimator(
    "bent",
    "Not linear",
    "relative",
    lambda evidence: replace(affine.weigh(evidence), slope=None),
    options=affine.ROW.options,
)


@dataclass(frozen=True)
class Held:
    """Held-out clicks on a production ranker, and a better ranker."""

    counts: ClickCounts
    data: RankingDataset
    production: Ranker
    better: Ranker

    def evaluator(
        self, click_model: TrustModel | None, **settings: Any
    ) -> dict[str, Any]:
        """Judge the better ranker; return its row, and what holds for all."""
        found = evaluate_from_clicks(
            {"better": self.better},
            self.counts,
            self.data,
            click_model,
            settings=ClickEvaluationSettings(**settings),
        ).to_dict()
        [row] = found.pop("rankers")
        return {**found, **row}


@pytest.fixture(scope="module")
def held() -> Held:
    source = DataSource.parse("yahoo-like:120")
    train, test = source.read("train"), source.read("test")
    production = train_production_ranker(train)
    better = train_production_ranker(train, n_queries=100, seed=1)
    simulation = prepare_simulation(test, rankers={"p": production})
    sessions = simulation.sessions_for(5e4)
    counts = simulate_counts(simulation, sessions, rng=np.random.default_rng(0))
    return Held(counts, test, production, better)


@pytest.mark.parametrize("name", list(ESTIMATORS))
def test_needs_decide_which_users_an_estimator_is_asked_with(
    held: Held, name: str
) -> None:
    row = ESTIMATORS[name]
    if row.needs == "labels":
        with pytest.raises(ConfigError, match=f"{name} needs labels"):
            held.evaluator(KNOWN, estimator=name)
        return
    known = held.evaluator(KNOWN, estimator=name)
    assert known["value"]["estimate"] - known["logged"]["estimate"] == pytest.approx(
        known["against_logged"]["estimate"]
    )
    assert not known["click_model_estimated"]
    if row.needs_click_model:
        with pytest.raises(ConfigError, match=f"{name} needs a click model"):
            held.evaluator(None, estimator=name)
    if row.needs == "examination":
        with pytest.raises(ConfigError, match=f"{name} needs users that are known"):
            held.evaluator(GAUGE, estimator=name)
    if row.needs == "relative":
        found = held.evaluator(GAUGE, estimator=name, replicates=2)
        assert found["click_model_estimated"]
        assert found["refits"]["replicates"] == 2
        assert "value" not in found
    if row.needs == "nothing":
        assert held.evaluator(GAUGE, estimator=name) == known
        assert "second_evaluator" not in held.evaluator(None, estimator=name)


def test_an_estimator_of_ones_own_is_judged_by_like_any_other(held: Held) -> None:
    with ESTIMATORS.added(BENT):
        own, plain = (
            held.evaluator(KNOWN, estimator=name) for name in (BENT.name, CORRECTION)
        )
        estimated = held.evaluator(GAUGE, estimator=BENT.name, replicates=2)
    assert own["value"] == plain["value"]
    names = ("impressions", "effective_impressions", "top_percent_share")
    assert all(own[name] is None for name in names)
    assert all(plain[name] is not None for name in names)
    assert estimated["against_logged"]["over_queries"]["standard_error"] > 0


def test_options_of_an_estimator_are_read(held: Held) -> None:
    plain = held.evaluator(KNOWN)
    clipped = held.evaluator(KNOWN, estimator=f"{CORRECTION}(clip=0.05)")
    assert clipped["effective_impressions"] > plain["effective_impressions"]
    assert clipped["value"] != plain["value"]


def test_the_logged_ranker_is_neither_better_nor_worse_than_itself(held: Held) -> None:
    found = evaluate_from_clicks(
        {"same": held.production},
        held.counts,
        held.data,
        KNOWN,
        settings=ClickEvaluationSettings(),
    ).to_dict()
    difference = found["rankers"][0]["against_logged"]
    assert (difference["estimate"], difference["verdict"]) == (0.0, "undecided")
    assert difference["clicks_needed"] is None
    assert gain_over_logged(held.production, held.counts, held.data, GAUGE) == 0.0


def test_the_gain_is_the_difference_whatever_the_gauge(held: Held) -> None:
    gains = [
        gain_over_logged(held.better, held.counts, held.data, click_model)
        for click_model in (KNOWN, GAUGE)
    ]
    assert gains[0] == pytest.approx(gains[1], rel=1e-9)
    found = held.evaluator(GAUGE, replicates=2)
    assert found["against_logged"]["estimate"] == pytest.approx(gains[0], rel=1e-9)


def test_one_ranker_of_several_that_logged_is_production(held: Held) -> None:
    """Two rankers share the sessions: the judged one, and the one to compare with."""
    both = {"new": held.better, "old": held.production}
    traffic = Traffic(shares={"new": 0.4, "old": 0.6})
    simulation = prepare_simulation(held.data, rankers=both, traffic=traffic)
    counts = simulate_counts(simulation, 20_000, rng=np.random.default_rng(0))
    mixed = replace(held, counts=counts)
    found, other = mixed.evaluator(KNOWN), mixed.evaluator(KNOWN, production="new")
    assert (found["production"], other["production"]) == ("old", "new")
    assert other["against_production"]["estimate"] == pytest.approx(0, abs=1e-12)
    # The log holds both: the new ranker is ahead of it by 0.6 of its lead.
    lead, ahead = (found[f"against_{n}"]["estimate"] for n in ("production", "logged"))
    assert ahead == pytest.approx(0.6 * lead, rel=0.1)
    words = "better is better than production (ranker old, the one with most sessions)"
    assert found["conclusions"][0].startswith(words)
    # The second judge compares with the same ranker.
    second = [row["second_evaluator"]["estimate"] for row in (found, other)]
    assert second[0] > 0
    assert second[1] == pytest.approx(0, abs=1e-12)
    gauged = mixed.evaluator(GAUGE, replicates=2)["against_production"]
    assert gauged["estimate"] == pytest.approx(
        lead * mean_alpha(join_counts(counts, held.data), KNOWN), rel=0.02
    )
    with pytest.raises(ConfigError, match=r"no ranker 'x' .* there are new, old"):
        mixed.evaluator(KNOWN, production="x")


def test_users_that_cannot_be_refitted_and_queries_learnt_from_are_rejected(
    held: Held,
) -> None:
    slow = replace(GAUGE, estimated=EstimatedBy(EM))
    with pytest.raises(ConfigError, match=f"estimated by {EM}, which is too slow"):
        held.evaluator(slow)
    seen = tuple(str(name) for name in held.data.query_ids)
    leaky = replace(held.better, training_queries=seen)
    every = f"learnt from all {len(seen)} queries .*'{seen[0]}' for one"
    with pytest.raises(DataError, match=every):
        evaluate_from_clicks({"leaky": leaky}, held.counts, held.data, KNOWN)


def test_what_two_judges_dispute_cannot_be_decided(
    held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chance is worse than the logged ranking; users of eta 2 say that it is better."""
    chance = np.random.default_rng(0).random(held.data.n_docs)
    monkeypatch.setattr("affinerank.pipeline.evaluate_clicks.score", lambda *_: chance)
    wrong = TrustModel.paper(eta=2, depth=120)
    found = [held.evaluator(KNOWN)]
    with pytest.warns(AffineRankWarning, match="click model does not fit this log"):
        found.append(held.evaluator(wrong))
    assert found[0]["against_logged"]["verdict"] == "worse"
    assert found[1]["against_logged"]["over_queries"]["low"] > 0
    assert found[1]["against_logged"]["verdict"] == "cannot be decided"
    assert found[1]["against_logged"]["clicks_needed"] is None
    for row in found:
        assert row["second_evaluator"]["verdict"] == "worse"
        assert row["second_evaluator"]["evaluator"] == RANKS
