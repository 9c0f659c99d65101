"""Lists that moved for a reason that the log does not name: no verdict is confident."""

from typing import Any

import numpy as np
import pytest
from tests.pipeline.moving_lists import (
    CLICK_MODEL,
    N_QUERIES,
    READY_MADE,
    Log,
    fixed_lists,
    improved_production,
    personal_lists,
    swapped_lists,
    updated_index,
)

from affinerank.clicks.models.trust import EstimatedBy, TrustModel
from affinerank.counts.counts import ClickCounts
from affinerank.evaluation.results import ClickEvaluation
from affinerank.pipeline.evaluate_clicks import (
    ClickEvaluationSettings,
    evaluate_from_clicks,
)

# Lists that moved for a hidden reason contradict every click model.
pytestmark = pytest.mark.filterwarnings("ignore:the click model does not fit this log")


def evaluator(log: Log, counts: ClickCounts, **settings: Any) -> ClickEvaluation:
    return evaluate_from_clicks(
        {"ready-made": READY_MADE},
        counts,
        log.data(),
        CLICK_MODEL,
        settings=ClickEvaluationSettings(**settings),
    )


def verdicts(evaluated: ClickEvaluation) -> set[str]:
    """Every verdict that is given anywhere."""
    [row] = evaluated.to_dict()["rankers"]
    names = ("against_logged", "against_production", "second_evaluator")
    return {row[name]["verdict"] for name in names if name in row}


@pytest.mark.parametrize("seed", range(10))
def test_personal_lists_are_never_beaten_with_confidence(seed: int) -> None:
    log = personal_lists(np.random.default_rng(seed))
    evaluated = evaluator(log, log.counts())
    lead = evaluated.rankers[0].found["against_logged"]
    # What clicks say is wrong, with confidence.
    assert log.lead < -0.05
    assert lead.queries.low > 0
    assert verdicts(evaluated) == {"cannot be decided"}
    [sentence] = evaluated.to_dict()["conclusions"]
    assert "is better than production by" not in sentence
    assert "cannot be decided" in sentence
    for column in ("ranker", "segment", "policy", "propensity"):
        assert column in sentence


@pytest.mark.parametrize("seed", range(3))
def test_a_production_that_improved_is_never_beaten_with_confidence(seed: int) -> None:
    log = improved_production(np.random.default_rng(seed))
    evaluated = evaluator(log, log.counts())
    assert log.lead < 0
    assert verdicts(evaluated) == {"cannot be decided"}


def test_few_sessions_show_personal_lists_too() -> None:
    """Four sessions of each query, so that a document is shown four times."""
    log = personal_lists(np.random.default_rng(0), n_sessions=4 * N_QUERIES)
    movement = evaluator(log, log.counts()).movement
    assert movement.unexplained


def test_fixed_lists_are_decided() -> None:
    log = fixed_lists(np.random.default_rng(0))
    evaluated = evaluator(log, log.counts())
    assert log.lead > 0
    assert evaluated.movement.moved.share == 0
    assert evaluated.rankers[0].decide(
        "against_logged", 1, evaluated.movement
    ).verdict == ("better")


def test_swaps_are_decided_where_the_log_declares_them_alone() -> None:
    log = swapped_lists(np.random.default_rng(0))
    silent, declared = (
        evaluator(log, log.counts(randomised=randomised))
        for randomised in (False, True)
    )
    assert verdicts(silent) == {"cannot be decided"}
    assert silent.movement.randomised_share == 0
    assert "better" in verdicts(declared)
    assert declared.movement.randomised_share == 1
    assert declared.movement.impressions == 0


def test_what_moved_between_named_rankers_is_declared() -> None:
    log = improved_production(np.random.default_rng(0), named=True)
    evaluated = evaluator(log, log.counts())
    assert evaluated.movement.moved.share == 0
    obstacles = {
        evaluated.rankers[0].decide(name, 1, evaluated.movement).obstacle
        for name in ("against_logged", "against_production")
    }
    assert "lists moved for unknown reasons" not in obstacles


def test_what_moved_within_a_named_ranker_is_not() -> None:
    """Half of the sessions are called another ranker's, by chance."""
    log = personal_lists(np.random.default_rng(0))
    by_chance = np.random.default_rng(1).integers(0, 2, len(log.query))
    named = Log(log.query, log.order, log.clicked, log.scores, log.lead, by_chance)
    assert verdicts(evaluator(named, named.counts())) == {"cannot be decided"}


@pytest.mark.parametrize("seed", range(3))
def test_updates_of_an_index_are_decided(seed: int) -> None:
    """Two documents of each query enter or leave, and others shift by a rank."""
    log = updated_index(np.random.default_rng(seed), updates=2)
    evaluated = evaluator(log, log.counts())
    assert 0.05 < evaluated.movement.moved.share < 0.25
    assert not evaluated.movement.unexplained
    assert "better" in verdicts(evaluated)


def test_plain_data_carry_the_verdict_the_share_and_the_limit() -> None:
    log = personal_lists(np.random.default_rng(0))
    about = evaluator(log, log.counts()).to_dict()
    movement = about["movement"]
    assert movement["unexplained"]
    assert 0 < movement["limit"] < movement["share_low"] < movement["share"] < 0.5
    assert movement["far_limit"] < movement["far_share"] < movement["share"]
    assert about["baseline"] == "production (the logged order)"
    assert about["rankers"][0]["against_logged"]["obstacle"] == (
        "lists moved for unknown reasons"
    )


def test_estimated_users_make_no_difference() -> None:
    """Also where users are refitted, and differences are up to gauge."""
    log = personal_lists(np.random.default_rng(0), n_sessions=4_000)
    estimated = TrustModel(
        alpha=2 * CLICK_MODEL.alpha,
        beta=CLICK_MODEL.beta + 0.3 * CLICK_MODEL.alpha,
        identified="relative",
        estimated=EstimatedBy("two-level"),
    )
    evaluated = evaluate_from_clicks(
        {"ready-made": READY_MADE},
        log.counts(),
        log.data(),
        estimated,
        settings=ClickEvaluationSettings(replicates=2),
    )
    assert evaluated.refits is not None
    assert verdicts(evaluated) == {"cannot be decided"}
