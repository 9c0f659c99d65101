"""Rankers judged by clicks: which users an estimator needs, and what is reported."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from affinerank.clicks.counts import ClickCounts
from affinerank.clicks.models.trust import EstimatedBy, TrustModel
from affinerank.clicks.simulate import simulate_counts
from affinerank.data.catalog import DataSource
from affinerank.data.dataset import RankingDataset
from affinerank.defaults import CORRECTION, EM
from affinerank.errors import ConfigError, DataError
from affinerank.estimators import ESTIMATORS, Estimator, affine
from affinerank.pipeline import prepare_simulation, train_production_ranker
from affinerank.pipeline.judges import RANKS
from affinerank.pipeline.offpolicy import (
    OffPolicySettings,
    evaluate_from_clicks,
    gain_over_logged,
)
from affinerank.rankers.ranker import Ranker

KNOWN = TrustModel.paper(depth=120)
GAUGE = TrustModel(
    alpha=2 * KNOWN.alpha,
    beta=KNOWN.beta + 0.3 * KNOWN.alpha,
    identified="gauge",
    estimated=EstimatedBy("two-level"),
)
BENT = Estimator(
    "bent",
    "Not linear",
    "gauge",
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

    def judge(self, users: TrustModel | None, **settings: Any) -> dict[str, Any]:
        """Judge the better ranker; return its row, and what holds for all."""
        found = evaluate_from_clicks(
            {"better": self.better},
            self.counts,
            self.data,
            users,
            settings=OffPolicySettings(**settings),
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
            held.judge(KNOWN, estimator=name)
        return
    known = held.judge(KNOWN, estimator=name, against_logged=True)
    assert known["value"]["estimate"] - known["logged"]["estimate"] == pytest.approx(
        known["against_logged"]["estimate"]
    )
    assert not known["users_estimated"]
    if row.needs_users:
        with pytest.raises(ConfigError, match=f"{name} needs a user model"):
            held.judge(None, estimator=name)
    if row.needs == "examination":
        with pytest.raises(ConfigError, match=f"{name} needs users that are known"):
            held.judge(GAUGE, estimator=name)
    if row.needs == "gauge":
        found = held.judge(GAUGE, estimator=name, replicates=2)
        assert found["users_estimated"]
        assert found["refits"]["replicates"] == 2
        assert "value" not in found
    if row.needs == "nothing":
        assert held.judge(GAUGE, estimator=name, against_logged=True) == known
        assert "against_logged" not in held.judge(None, estimator=name)


def test_an_estimator_of_ones_own_is_judged_by_like_any_other(held: Held) -> None:
    with ESTIMATORS.added(BENT):
        own, plain = (
            held.judge(KNOWN, estimator=name, against_logged=True)
            for name in (BENT.name, CORRECTION)
        )
        estimated = held.judge(GAUGE, estimator=BENT.name, replicates=2)
    assert own["value"] == plain["value"]
    names = ("impressions", "effective_impressions", "top_percent_share")
    assert all(own[name] is None for name in names)
    assert all(plain[name] is not None for name in names)
    assert estimated["against_logged"]["over_queries"]["standard_error"] > 0


def test_options_of_an_estimator_are_read(held: Held) -> None:
    plain = held.judge(KNOWN)
    clipped = held.judge(KNOWN, estimator=f"{CORRECTION}(clip=0.05)")
    assert clipped["effective_impressions"] > plain["effective_impressions"]
    assert clipped["value"] != plain["value"]


def test_the_logged_ranker_is_neither_better_nor_worse_than_itself(held: Held) -> None:
    found = evaluate_from_clicks(
        {"same": held.production},
        held.counts,
        held.data,
        KNOWN,
        settings=OffPolicySettings(against_logged=True),
    ).to_dict()
    difference = found["rankers"][0]["against_logged"]
    assert (difference["estimate"], difference["verdict"]) == (0.0, "undecided")
    assert difference["clicks_needed"] is None
    assert gain_over_logged(held.production, held.counts, held.data, GAUGE) == 0.0


def test_the_gain_is_the_difference_whatever_the_gauge(held: Held) -> None:
    gains = [
        gain_over_logged(held.better, held.counts, held.data, users)
        for users in (KNOWN, GAUGE)
    ]
    assert gains[0] == pytest.approx(gains[1], rel=1e-9)
    found = held.judge(GAUGE, replicates=2)
    assert found["against_logged"]["estimate"] == pytest.approx(gains[0], rel=1e-9)


def test_users_that_cannot_be_refitted_and_queries_learnt_from_are_rejected(
    held: Held,
) -> None:
    slow = replace(GAUGE, estimated=EstimatedBy(EM))
    with pytest.raises(ConfigError, match=f"estimated by {EM}, which is too slow"):
        held.judge(slow)
    seen = tuple(str(name) for name in held.data.query_ids[:3])
    leaky = replace(held.better, learnt_from=seen)
    with pytest.raises(DataError, match=rf"leaky: trained on 3 of the .*'{seen[0]}'"):
        evaluate_from_clicks({"leaky": leaky}, held.counts, held.data, KNOWN)


def test_what_two_judges_dispute_cannot_be_decided(
    held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chance is worse than the logged ranking; users of eta 2 say that it is better."""
    chance = np.random.default_rng(0).random(held.data.n_docs)
    monkeypatch.setattr("affinerank.pipeline.offpolicy.score", lambda *_: chance)
    wrong = TrustModel.paper(eta=2, depth=120)
    found = [held.judge(users, against_logged=True) for users in (KNOWN, wrong)]
    assert found[0]["against_logged"]["verdict"] == "worse"
    assert found[1]["against_logged"]["over_queries"]["low"] > 0
    assert found[1]["against_logged"]["verdict"] == "cannot be decided"
    assert found[1]["against_logged"]["clicks_needed"] is None
    for row in found:
        assert row["second_judge"]["verdict"] == "worse"
        assert row["second_judge"]["judge"] == RANKS
