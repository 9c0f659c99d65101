"""The second judge: who it is, and what it finds where the users are wrong."""

from dataclasses import replace

import numpy as np
import pytest

from affinerank.clicks.models.trust import EstimatedBy, TrustModel
from affinerank.clicks.simulation import simulate_counts
from affinerank.clicks.traffic import Traffic
from affinerank.counts.rows import ClickRows, join_counts
from affinerank.data.sources import DataSource
from affinerank.defaults import CORRECTION, METHOD_FROM_SWAPS
from affinerank.evaluation.click_value import estimate
from affinerank.evaluation.rank_weights import DCG_10, over_logged
from affinerank.pipeline.simulate import prepare_simulation
from affinerank.pipeline.steps.second_evaluator import RANKS, SWAPS, second_evaluator
from affinerank.pipeline.steps.weighing import weigh
from affinerank.support.arrays import Floats

TRUE = TrustModel.paper(depth=10)
WRONG = TrustModel.paper(eta=2, depth=10)


def clicks(policy: str) -> tuple[ClickRows, Floats, Floats]:
    """Clicks on lists of ten, relevance, and scores that are mere chance."""
    data = DataSource.parse("yahoo-like:200").read("train")
    traffic = Traffic(policies=(policy,), top_k=10)
    world = prepare_simulation(data, TRUE, traffic=traffic)
    sessions = world.sessions_for(1e5)
    rows = join_counts(
        simulate_counts(world, sessions, rng=np.random.default_rng(0)), data
    )
    chance = np.random.default_rng(1).random(data.n_docs)
    return rows, data.relevance(2.0).astype(np.float64), chance


@pytest.mark.parametrize(
    ("policy", "name"), [("fixed", RANKS), ("rotate(share=0.1)", SWAPS)]
)
def test_it_finds_what_wrong_users_hide(policy: str, name: str) -> None:
    """Chance is worse than the logged ranking, and users of eta 2 say the opposite."""
    rows, relevance, chance = clicks(policy)
    over = over_logged(chance, rows, DCG_10)
    query = rows.query_of_doc
    truth = rows.share @ np.bincount(query, relevance * over, minlength=rows.n_queries)
    evaluator, weights = second_evaluator(rows, [chance], WRONG)
    assert evaluator == name
    found = [
        estimate(w, over, query) for w in (weigh(rows, CORRECTION, WRONG), weights)
    ]
    assert found[0].queries.low > 0 > truth
    assert found[1].queries.high < 0
    if (
        evaluator == SWAPS
    ):  # and it knows by how much, up to the factor that is the gauge
        better = over_logged(relevance + chance, rows, DCG_10)
        ratio = estimate(weights, better, query).least / found[1].least
        expected = estimate(weigh(rows, CORRECTION, TRUE), better, query).least
        by_truth = estimate(weigh(rows, CORRECTION, TRUE), over, query).least
        assert ratio == pytest.approx(expected / by_truth, rel=0.1)


def test_users_estimated_from_swaps_are_not_judged_by_them_again() -> None:
    rows, _, chance = clicks("rotate(share=0.3)")
    gauge = TrustModel(alpha=TRUE.alpha, beta=TRUE.beta, identified="relative")
    click_model = replace(gauge, estimated=EstimatedBy(METHOD_FROM_SWAPS))
    evaluator, _ = second_evaluator(rows, [chance], click_model)
    assert evaluator == RANKS


def test_few_clicks_are_judged_by_rank_effects() -> None:
    rows, _, chance = clicks("rotate(share=0.3)")
    few = replace(rows, clicks=rows.clicks // 10)
    assert second_evaluator(few, [chance], TRUE)[0] == RANKS
