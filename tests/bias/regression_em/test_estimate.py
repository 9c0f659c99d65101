"""Regression EM: what it leaves alone, what it finds, and what it advises."""

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tests.bias.logs import click_rows

from affinerank.bias.method import HeldOutLogs
from affinerank.bias.regression_em.estimate import EMFit, fit_em, fit_of, resampled
from affinerank.bias.regression_em.run import EMSettings, Parameters, Run
from affinerank.bias.regression_em.stack import EMStack
from affinerank.clicks.models.trust import TrustModel
from affinerank.clicks.simulation import simulate_counts
from affinerank.counts.rows import ClickRows, join_counts
from affinerank.data.dataset import RankingDataset
from affinerank.data.feature_mapping import FeatureMapping
from affinerank.data.sources import DataSource
from affinerank.estimators.correction import corrected
from affinerank.pipeline.simulate import prepare_simulation
from affinerank.rankers.networks.held_out import HeldOut
from affinerank.rankers.networks.settings import NetworkSettings
from affinerank.rankers.networks.training import NetworkTrainer
from affinerank.rankers.targets import Targets, Validation
from affinerank.support.arrays import Floats, Matrix
from affinerank.support.errors import AffineRankWarning, DataError
from affinerank.support.seeds import stage_rng

SMALL = NetworkSettings(
    hidden=(16, 8), dropout=(0.0, 0.1), epochs=2, batch_queries=8, device="cpu"
)
LEARNED = replace(SMALL, epochs=8, batch_queries=4, learning_rate=0.1)
RESTLESS = EMSettings(tolerance=0.0, rescored=0.5)
NAME = "soft-min-max"


def problem(seed: int = 0, queries: int = 40) -> tuple[Matrix, Run]:
    """Lists of 5 documents shown at ranks 1 to 4, the last never; clear trust bias."""
    rng = np.random.default_rng(seed)
    features = rng.random((queries * 5, 4)).astype(np.float32)
    rank = np.tile(np.arange(1, 6), queries)
    doc = np.arange(queries * 5)[rank < 5]
    rank = rank[rank < 5]
    relevance = features[doc, 0] > 0.6
    chance = np.where(relevance, 0.9, 0.4 / rank) / rank**0.5
    clicks = rng.binomial(20, chance)
    return features, Run(in_lists(doc, rank, [20] * len(doc), clicks, queries), NAME)


def in_lists(
    doc: Any, rank: Any, seen: Any, clicks: Any, queries: int, size: int = 5
) -> ClickRows:
    """Rows of lists of one size."""
    n_docs = queries * size
    rows = click_rows(doc, np.asarray(doc) // size, rank, seen, clicks, n_docs=n_docs)
    return replace(
        rows, query_of_doc=np.arange(n_docs) // size, sessions=np.ones(queries)
    )


def with_rows(run: Run, **columns: Any) -> Run:
    return replace(run, rows=replace(run.rows, **columns))


def fit(
    features: Matrix,
    runs: list[Run],
    settings: EMSettings = RESTLESS,
    network: NetworkSettings = SMALL,
    **how: Any,
) -> list[EMFit]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AffineRankWarning)
        return fit_em(features, runs, settings=settings, network=network, **how)


def fit_noting_advice(
    features: Matrix, run: Run, settings: EMSettings
) -> tuple[list[EMFit], list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", AffineRankWarning)
        fitted = fit_em(features, [run], settings=settings, network=LEARNED)
    return fitted, [str(warning.message) for warning in caught]


def stack_of(features: Matrix, run: Run, settings: EMSettings = RESTLESS) -> EMStack:
    return EMStack(features, [run], settings, SMALL)


def result_of(stack: EMStack) -> EMFit:
    return fit_of(stack, 0)


def zetas(fitted: EMFit) -> Floats:
    """``[2, depth]``."""
    return np.stack([fitted.click_model.zeta_plus, fitted.click_model.zeta_minus])


@pytest.mark.parametrize("parameters", ["two", "three", "position"])
def test_no_steps_return_the_start(parameters: Parameters) -> None:
    features, run = problem()
    settings = EMSettings(parameters, zeta_plus=0.8, zeta_minus=0.3, iterations=0)
    (fitted,) = fit(features, [run], settings)
    start = 0.0 if parameters == "position" else 0.3
    np.testing.assert_allclose(fitted.click_model.zeta_plus, np.full(4, 0.8))
    np.testing.assert_allclose(fitted.click_model.zeta_minus, np.full(4, start))
    (never,) = fit(
        features, [run], replace(settings, early_updates=0, updates_per_epoch=0)
    )
    assert not never.updates
    assert not never.converged
    np.testing.assert_allclose(never.click_model.zeta_plus, np.full(4, 0.8))


@pytest.mark.parametrize("train_on", [False, True])
def test_runs_side_by_side_are_each_as_alone(train_on: bool) -> None:
    features, run = problem()
    other = replace(problem(1)[1], activation="sigmoid", seed=3)
    half = {"impressions": run.rows.impressions / 2, "clicks": run.rows.clicks / 2}
    runs = [run, other, replace(with_rows(run, **half), seed=1)]
    settings, network = replace(RESTLESS, tolerance=0.02), LEARNED
    together = fit(features, runs, settings, network, train_on=train_on)
    assert len({each.updates for each in together}) > 1  # some rest before others
    for run_alone, result in zip(runs, together, strict=True):
        (alone,) = fit(features, [run_alone], settings, network, train_on=train_on)
        np.testing.assert_allclose(zetas(result), zetas(alone), rtol=1e-3)
        assert result.converged == alone.converged
        np.testing.assert_allclose(
            result.ranker.predict(features),
            alone.ranker.predict(features),
            atol=1e-3,
        )


RESTS = replace(RESTLESS, tolerance=0.02)


def epochs_of(features: Matrix, run: Run, settings: EMSettings) -> tuple[EMStack, int]:
    """A stack whose run has come to rest, and the number of epochs that took."""
    stack = EMStack(features, [run], settings, LEARNED)
    for epoch in range(LEARNED.epochs):
        stack.epoch(epoch)
        if not stack.active.any():
            return stack, epoch + 1
    raise AssertionError("it never rests")


def test_after_rest_users_and_weights_stay_and_the_network_trains_on() -> None:
    features, run = problem()
    (stopped,) = fit(features, [run], RESTS, LEARNED)
    (trained,) = fit(features, [run], RESTS, LEARNED, train_on=True)
    np.testing.assert_array_equal(trained.click_model.alpha, stopped.click_model.alpha)
    np.testing.assert_array_equal(zetas(trained), zetas(stopped))
    # The same as a trainer that goes on with the weights at rest.
    stack, taken = epochs_of(features, run, RESTS)
    assert 1 < taken < LEARNED.epochs
    weights, at_rest = stack.weights.clone(), stack.trainer.networks()
    np.testing.assert_array_equal(
        stopped.ranker.predict(features), at_rest.scores(features)[0]
    )
    for epoch in range(taken, LEARNED.epochs):
        stack.trainer.epoch(epoch)
    expected = stack.trainer.networks().scores(features)[0]
    np.testing.assert_array_equal(trained.ranker.predict(features), expected)
    assert np.abs(expected - stopped.ranker.predict(features)).max() > 1e-3
    stack.update()  # in vain
    assert torch.equal(stack.weights, weights)


def held_out_by(features: Matrix, seen: list[TrustModel]) -> HeldOutLogs:
    """Held-out queries that like what the first feature does not."""

    def targets(click_model: TrustModel) -> Targets:
        seen.append(click_model)
        return Targets(-features[None, :, 0].astype(float), np.ones((1, 200), bool))

    return HeldOutLogs(features, np.arange(0, 201, 5), [targets])


def test_held_out_clicks_choose_an_epoch_from_rest_on() -> None:
    features, run = problem()
    seen: list[TrustModel] = []
    held = held_out_by(features, seen)
    (found,) = fit(features, [run], RESTS, LEARNED, train_on=True, held_out=held)
    assert found.fitted is not None
    assert [click_model.alpha.tolist() for click_model in seen] == [
        found.click_model.alpha.tolist()
    ]
    # What each epoch from rest on is worth, one by one.
    stack, taken = epochs_of(features, run, RESTS)
    evaluator = HeldOut(
        Validation(features, held.targets[0](seen[0]), held.offsets), "cpu"
    )
    worth = [evaluator.value(0, stack.trainer.networks().scores(features)[0])]
    for epoch in range(taken, LEARNED.epochs):
        stack.trainer.epoch(epoch)
        worth.append(evaluator.value(0, stack.trainer.networks().scores(features)[0]))
    assert found.fitted.best_length == taken + int(np.argmax(worth))
    kept = evaluator.value(0, found.fitted.kept.predict(features))
    assert kept == pytest.approx(max(worth))


def test_a_run_that_never_rests_is_judged_at_its_last_epoch_alone() -> None:
    features, run = problem()
    seen: list[TrustModel] = []
    held = held_out_by(features, seen)
    runs = [run, replace(run, seed=1)]  # the second has nothing to judge it by
    found, other = fit(features, runs, RESTLESS, SMALL, train_on=True, held_out=held)
    assert found.fitted is not None
    assert other.fitted is not None
    assert (found.fitted.best_length, other.fitted.best_length) == (SMALL.epochs, None)
    assert [click_model.alpha.tolist() for click_model in seen] == [
        found.click_model.alpha.tolist()
    ]
    np.testing.assert_array_equal(
        found.fitted.kept.predict(features), found.ranker.predict(features)
    )


def first_update(features: Matrix, run: Run) -> Floats:
    """Click rates after one update, before any training."""
    stack = stack_of(features, run)
    stack.update()
    return np.asarray(stack.zeta)


def test_the_order_of_queries_changes_nothing_in_an_update() -> None:
    features, run = problem()
    order = np.random.default_rng(0).permutation(40)
    rows = (order[:, None] * 5 + np.arange(5)).ravel()
    moved = replace(run, rows=run.rows.renumbered(rows, order))
    np.testing.assert_allclose(
        first_update(features[rows], moved), first_update(features, run), rtol=1e-6
    )


def test_documents_never_shown_change_nothing_in_an_update() -> None:
    features, run = problem()
    wide = np.full((40, 7, 4), 50.0, dtype=np.float32)
    wide[:, :5] = features.reshape(40, 5, 4)
    doc = run.rows.doc // 5 * 7 + run.rows.doc % 5
    columns = run.rows.rank, run.rows.impressions, run.rows.clicks
    longer = replace(run, rows=in_lists(doc, *columns, 40, size=7))
    np.testing.assert_allclose(
        first_update(wide.reshape(-1, 4), longer),
        first_update(features, run),
        rtol=1e-6,
    )


def test_lists_that_leave_relevance_open_are_left_out() -> None:
    features, run = problem()
    features[:10] = 0.5  # equal scores in two queries
    without = replace(run, rows=run.rows.select(run.rows.doc >= 10))
    np.testing.assert_allclose(
        first_update(features, run), first_update(features, without), rtol=1e-9
    )


def test_a_fallen_rank_is_left_out_of_training_until_it_recovers() -> None:
    features, run = problem()
    stack = stack_of(features, run)
    stack.parameters[:, 1] = torch.tensor([0.3, 0.4])
    stack._set_targets()
    second = torch.from_numpy(run.rows.doc[run.rows.rank == 2])
    assert not stack.trained[0, second].any()
    assert int(stack.trained.sum()) == 3 * 40
    stack.parameters[:, 1] = torch.tensor([0.5, 0.4])
    stack._set_targets()
    assert stack.trained[0, second].all()
    last = stack.weights.clone()
    stack.parameters[0] = 0.0  # all ranks fall: it trains on what it knew
    stack._set_targets()
    assert torch.equal(stack.weights, last)


def test_a_rank_that_fell_takes_the_values_of_its_neighbour() -> None:
    features, run = problem()
    rows = run.rows
    silent = with_rows(run, clicks=np.where(rows.rank == 3, 0.0, rows.clicks))
    (fitted,), advice = fit_noting_advice(features, silent, RESTLESS)
    assert any("in run 0 at ranks 3): clicks there" in text for text in advice)
    assert fitted.fallen_ranks == (3,)
    assert fitted.click_model.alpha[2] == fitted.click_model.alpha[1] > 0
    assert fitted.click_model.provenance["ranks_with_values_of_the_nearest"] == [3]


def test_where_all_ranks_fell_the_users_are_the_start() -> None:
    features, run = problem()
    doc = run.rows.doc
    weights = 1.0 + (doc % 5 == 0)  # an order to learn, and no click but one's
    clicks = np.where(doc < 5, weights, 0.0)
    clicks[4:] = 0.0
    stack = stack_of(features, with_rows(run, clicks=clicks))
    stack.parameters[0] = 0.0
    stack.update()
    assert np.all(np.isfinite(zetas(result_of(stack))))
    stack.parameters[:] = 0.0
    assert result_of(stack).fallen_ranks == (1, 2, 3, 4)
    assert result_of(stack).click_model.zeta_plus.tolist() == [0.999] * 4


def test_what_still_moves_is_reported_with_advice() -> None:
    features, run = problem()
    (fitted,), advice = fit_noting_advice(features, run, RESTLESS)
    assert "with 1 of 1 estimations (the first is run 0)" in advice[0]
    assert "raise epochs, updates_per_epoch or tolerance" in advice[0]
    assert not fitted.converged
    # After steps 1, 2, 3, 5, 7 and 10 of the first epoch, and 3, 5, 7, 10 of others.
    assert fitted.updates == 6 + 4 * (LEARNED.epochs - 1)


def test_what_rests_is_returned_without_a_word() -> None:
    features, run = problem()
    (fitted,), advice = fit_noting_advice(
        features, run, replace(RESTLESS, tolerance=0.9)
    )
    assert fitted.converged
    assert fitted.click_model.provenance["converged"]
    assert not [text for text in advice if "still moving" in text]


def world() -> tuple[RankingDataset, ClickRows]:
    train = DataSource.parse("yahoo-like:20").read("train")
    simulation = prepare_simulation(train, seed=0)
    counts = simulate_counts(simulation, 500, rng=stage_rng("clicks", 0))
    return train, join_counts(counts, train)


def test_weights_are_those_of_the_affine_correction() -> None:
    train, rows = world()
    settings = replace(RESTLESS, zeta_plus=0.7, zeta_minus=0.2)
    stack = stack_of(train.features, Run(rows, NAME), settings)
    expected = corrected(rows, *result_of(stack).click_model.at(rows))
    np.testing.assert_allclose(stack.weights[0], expected.weight, atol=1e-12)
    np.testing.assert_array_equal(stack.trained[0], expected.known)
    np.testing.assert_allclose(stack.share[0], expected.share)
    targets = Targets(expected.weight[None], expected.known[None], expected.share[None])
    trainer = NetworkTrainer(train.features, train.offsets, [0], SMALL)
    trainer.set_targets(targets)
    sample = next(trainer.samples(0))
    np.testing.assert_allclose(
        trainer.step(sample), stack.trainer.step(sample), rtol=1e-5
    )


def test_a_trainer_scores_as_its_networks_predict() -> None:
    features, _ = problem()
    trainer = NetworkTrainer(features, np.arange(0, 201, 5), [0, 1], SMALL)
    expected = trainer.networks().scores(features)
    np.testing.assert_allclose(trainer.scores(20, 90), expected[:, 20:90], rtol=1e-5)


def test_parts_in_turn_score_all_queries_anew() -> None:
    features, run = problem()
    stack = stack_of(features, run)
    stack.update()
    stack.trainer.steps = stack.epoch_steps + 1
    stack.trainer.flat.mul_(1.1)
    for _ in range(2):  # halves
        stack.update()
    expected = stack.trainer.networks().scores(features)
    np.testing.assert_allclose(stack._rescored(), expected, rtol=1e-5)


def test_a_bootstrap_draws_as_many_queries_as_there_are() -> None:
    doc = np.arange(50)
    rows = click_rows(doc, doc, [1] * 50, [2] * 50, [1] * 50)
    drawn = [resampled(rows, np.random.default_rng(seed)) for seed in range(200)]
    weights = np.stack([each.sessions for each in drawn])
    assert np.all(weights.sum(axis=1) == 50)
    # A query is left out with probability (1 - 1/50)^50; its s.e. is 0.0048.
    assert abs(np.mean(weights == 0) - (1 - 1 / 50) ** 50) < 4 * 0.0048
    for each in drawn:
        np.testing.assert_array_equal(each.impressions, 2 * each.sessions)
        np.testing.assert_array_equal(each.clicks, each.sessions)


def test_a_bootstrap_draws_queries_that_were_shown_and_some_that_were_clicked() -> None:
    rows = click_rows([1, 2, 3], [1, 2, 3], [1] * 3, [4] * 3, [0, 3, 0], n_docs=5)
    rows = replace(rows, query_of_doc=np.arange(5), sessions=np.ones(5))
    for seed in range(50):
        weights = resampled(rows, np.random.default_rng(seed)).sessions
        assert weights[[0, 4]].tolist() == [0, 0]
        assert weights[2] > 0
        assert weights.sum() == 3


def test_a_query_counted_twice_weighs_twice_in_training() -> None:
    train, rows = world()
    weights = np.ones(train.n_queries)
    weights[[2, 3]] = 2.0, 0.0
    each = weights[rows.query]
    weighted = replace(
        rows,
        impressions=rows.impressions * each,
        clicks=rows.clicks * each,
        sessions=rows.sessions * weights,
    )
    plain, twice = (stack_of(train.features, Run(r, NAME)) for r in (rows, weighted))
    share = np.asarray(twice.share[0] / plain.share[0])
    np.testing.assert_allclose(share / share[0], weights)
    assert not twice.trained[0, train.query_of_doc == 3].any()
    np.testing.assert_allclose(
        twice.weights[0, train.query_of_doc == 2],
        plain.weights[0, train.query_of_doc == 2],
    )


def test_click_rates_are_found_from_simulated_clicks() -> None:
    train = DataSource.parse("yahoo-like:100").read("train")
    simulation = prepare_simulation(train, seed=0)
    counts = simulate_counts(
        simulation, simulation.sessions_for(1e5), rng=stage_rng("clicks", 0)
    )
    network = NetworkSettings(
        hidden=(32,), epochs=12, batch_queries=8, learning_rate=0.02, device="cpu"
    )
    features = FeatureMapping.fit(train).apply(train).features
    run = Run(join_counts(counts, train), NAME)
    (fitted,) = fit(features, [run], EMSettings(), network)
    # Biased itself, as the paper has it: beta comes out close, alpha too low.
    truth = TrustModel.paper(depth=5)
    np.testing.assert_allclose(fitted.click_model.beta[:5], truth.beta, atol=0.1)
    np.testing.assert_allclose(fitted.click_model.alpha[:5], truth.alpha, atol=0.2)
    assert np.all(fitted.click_model.alpha[:5] > 0.3 * truth.alpha)


def test_counts_that_cannot_be_are_rejected() -> None:
    features, run = problem()
    with pytest.raises(DataError, match="no clicks"):
        with_rows(run, clicks=run.rows.clicks * 0)
    with pytest.raises(KeyError, match="relu"):
        fit(features, [replace(run, activation="relu")])
