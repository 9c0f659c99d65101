"""Regression EM: what an update is, what it leaves alone, and what it finds."""

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from affinerank.bias.em_runs import EMRun, EMSettings
from affinerank.bias.em_stack import EMStack
from affinerank.bias.expectation import (
    UPDATES,
    Rows,
    as_eps,
    as_zeta,
    log_likelihood,
    mean_movement,
    update_eps,
    update_zeta,
)
from affinerank.bias.regression_em import (
    RegressionEM,
    fit_regression_em,
    result_of,
)
from affinerank.bias.relevance import ACTIVATIONS, sigmoid, soft_min_max, softmax
from affinerank.clicks.join import join_counts
from affinerank.clicks.simulate import simulate_counts
from affinerank.corrections import affine, document_weights
from affinerank.data.catalog import DataSource
from affinerank.data.features import FeatureMapping
from affinerank.errors import AffineRankWarning, ConfigError, DataError
from affinerank.pipeline import prepare_simulation
from affinerank.rankers.losses import Lists
from affinerank.rankers.mlp import NetworkSettings
from affinerank.rankers.targets import Targets
from affinerank.rankers.training import NetworkTrainer
from affinerank.seeds import stage_rng

Floats = NDArray[np.float64]

SMALL = NetworkSettings(
    hidden=(16, 8), dropout=(0.0, 0.1), epochs=2, batch_queries=8, device="cpu"
)
LEARNED = replace(SMALL, epochs=8, batch_queries=4, learning_rate=0.1)
RESTLESS = EMSettings(tolerance=0.0, rescored=0.5)


def tensor(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def random_rows(seed: int = 0, n: int = 60, ranks: int = 4) -> tuple[Rows, Tensor]:
    """Counts at some ranks, none at the last, with documents of random relevance."""
    rng = np.random.default_rng(seed)
    impressions = rng.integers(1, 6, n)
    rows = Rows.sorted_by_cell(
        torch.from_numpy(rng.integers(0, ranks - 1, n)),
        torch.arange(n),
        torch.from_numpy(impressions),
        torch.from_numpy(rng.binomial(impressions, 0.4)),
        ranks,
    )
    return rows, torch.from_numpy(rng.random(n))[rows.doc]


def impressions_of(rows: Rows, relevance: Tensor) -> list[tuple[int, int, float]]:
    """Rank (from 0), click and relevance of every single impression."""
    return [
        (int(rows.cell[i]), int(j < rows.clicks[i]), float(relevance[i]))
        for i in range(len(rows.cell))
        for j in range(int(rows.impressions[i]))
    ]


def loop_zeta(zeta: Tensor, relevance: Tensor, rows: Rows) -> Floats:
    """The paper's update, an impression at a time."""
    ranks = zeta.shape[1]
    above, below = np.zeros((2, ranks)), np.zeros((2, ranks))
    for k, c, g in impressions_of(rows, relevance):
        p, m = float(zeta[0, k]), float(zeta[1, k])
        if c:
            relevant = p * g / (p * g + m * (1 - g))
        else:
            relevant = (1 - p) * g / (1 - p * g - m * (1 - g))
        for r, posterior in ((0, relevant), (1, 1 - relevant)):
            above[r, k] += c * posterior
            below[r, k] += posterior
    return np.where(below > 0, above / np.where(below > 0, below, 1), zeta.numpy())


def loop_eps(eps: Tensor, relevance: Tensor, rows: Rows) -> Floats:
    """Agarwal et al.'s update, an impression at a time, over all latent states."""
    ranks = eps.shape[1]
    above, below = np.zeros((3, ranks)), np.zeros((3, ranks))
    for k, c, g in impressions_of(rows, relevance):
        theta, plus, minus = (float(v) for v in eps[:, k])
        joint = {}
        for examined in (0, 1):
            for relevant in (0, 1):
                rate = examined * (plus if relevant else minus)
                prior = (theta if examined else 1 - theta) * (g if relevant else 1 - g)
                joint[examined, relevant] = prior * (rate if c else 1 - rate)
        total = sum(joint.values())
        seen = {r: joint[1, r] / total for r in (0, 1)}
        above[:, k] += [seen[0] + seen[1], c * seen[1], c * seen[0]]
        below[:, k] += [1, seen[1], seen[0]]
    return np.where(below > 0, above / np.where(below > 0, below, 1), eps.numpy())


ZETA = torch.tensor([[0.9, 0.7, 0.5, 0.8], [0.5, 0.1, 0.05, 0.2]], dtype=torch.float64)


def test_an_update_is_the_loop_over_impressions() -> None:
    rows, relevance = random_rows()
    updated = update_zeta(ZETA, relevance, rows)
    np.testing.assert_allclose(updated, loop_zeta(ZETA, relevance, rows), rtol=1e-12)
    assert updated[:, 3].tolist() == ZETA[:, 3].tolist()  # nothing was shown there


def test_an_update_of_three_parameters_is_the_loop_over_impressions() -> None:
    rows, relevance = random_rows()
    eps = torch.stack([*as_eps(ZETA)]) * tensor(1.0, 0.9, 1.0)[:, None]
    updated = update_eps(eps, relevance, rows)
    np.testing.assert_allclose(updated, loop_eps(eps, relevance, rows), rtol=1e-12)


def test_position_bias_alone_stays_without_clicks_on_irrelevant_documents() -> None:
    rows, relevance = random_rows()
    relevance[:5] = 0.0  # a click on these is impossible under the model
    zeta = torch.stack([ZETA[0], torch.zeros(4, dtype=torch.float64)])
    updated = update_zeta(zeta, relevance, rows)
    assert updated[1].tolist() == [0.0] * 4
    assert bool(updated.isfinite().all())
    inside = relevance.clamp(min=1e-9)
    np.testing.assert_allclose(
        update_zeta(zeta, inside, rows), loop_zeta(zeta, inside, rows), rtol=1e-9
    )


def test_an_update_never_divides_by_nothing() -> None:
    rows, relevance = random_rows()
    for p, m in ((0.0, 0.0), (1.0, 1.0), (1.0, 0.0)):
        for g in (torch.zeros_like(relevance), torch.ones_like(relevance)):
            zeta = torch.stack(
                [torch.full_like(ZETA[0], p), torch.full_like(ZETA[0], m)]
            )
            assert bool(update_zeta(zeta, g, rows).isfinite().all())
            assert bool(update_eps(as_eps(zeta), g, rows).isfinite().all())


@given(
    seed=st.integers(0, 10_000),
    name=st.sampled_from(sorted(UPDATES)),
    plus=st.floats(0.05, 0.99),
    ratio=st.floats(0.01, 0.99),
)
def test_updates_never_lower_the_likelihood_of_fixed_relevance(
    seed: int, name: str, plus: float, ratio: float
) -> None:
    rows, relevance = random_rows(seed, n=30)
    settings = EMSettings(
        parameters=name,  # type: ignore[arg-type]
        zeta_plus=plus,
        zeta_minus=plus * ratio,
    )
    values = settings.start(4)
    trace = [log_likelihood(as_zeta(values), relevance, rows).sum()]
    for _ in range(10):
        values = UPDATES[name](values, relevance, rows)
        trace.append(log_likelihood(as_zeta(values), relevance, rows).sum())
    assert np.all(np.diff(trace) >= -1e-9)


def test_the_log_likelihood_is_the_written_out_sum() -> None:
    rows = Rows.sorted_by_cell(
        torch.tensor([0]), torch.tensor([0]), tensor(3.0), tensor(2.0), 1
    )
    p = 0.8 * 0.25 + 0.1 * 0.75
    value = log_likelihood(torch.tensor([[0.8], [0.1]]).double(), tensor(0.25), rows)
    assert float(value) == pytest.approx(2 * math.log(p) + math.log(1 - p))


def test_weighted_counts_are_repeated_counts() -> None:
    rows, relevance = random_rows()
    thrice = replace(rows, impressions=rows.impressions * 3, clicks=rows.clicks * 3)
    np.testing.assert_allclose(
        update_zeta(ZETA, relevance, thrice), update_zeta(ZETA, relevance, rows)
    )


def test_rows_that_are_not_taken_count_for_nothing() -> None:
    rows, relevance = random_rows()
    taken = rows.doc % 3 > 0
    kept = Rows.sorted_by_cell(
        rows.cell[taken],
        rows.doc[taken],
        rows.impressions[taken],
        rows.clicks[taken],
        4,
    )
    np.testing.assert_allclose(
        update_zeta(ZETA, relevance, rows.only(taken)),
        update_zeta(ZETA, relevance[taken], kept),
    )


def test_movement_is_a_mean_over_clicks() -> None:
    before = torch.zeros(2, 1, 2, dtype=torch.float64)
    after = torch.tensor([[[0.4, 0.1]], [[0.2, 0.3]]], dtype=torch.float64)
    moved = mean_movement(before, after, torch.tensor([[3.0, 1.0]]).double())
    assert float(moved) == pytest.approx((3 * 0.4 + 1 * 0.3) / 4)


LISTS = Lists.of(np.array([3, 1, 2]))
SCORES = torch.tensor([[1.0, 2.0, -1.0, 5.0, 0.5, 0.0]], dtype=torch.float64)
ALL = torch.ones(1, 6, dtype=torch.bool)


def test_activations_are_the_written_out_arithmetic() -> None:
    e = math.exp
    mean = (1 + 2 - 1) / 3
    np.testing.assert_allclose(
        sigmoid(SCORES, ALL, LISTS)[0, :3],
        [1 / (1 + e(-(x - mean))) for x in (1, 2, -1)],
    )
    total = e(1) + e(2) + e(-1)
    np.testing.assert_allclose(
        softmax(SCORES, ALL, LISTS)[0, :4],
        [e(1) / total, e(2) / total, e(-1) / total, 1],
    )
    np.testing.assert_allclose(
        soft_min_max(SCORES, ALL, LISTS)[0, [0, 1, 2, 4, 5]],
        [(e(1) - e(-1)) / (e(2) - e(-1)), 1, 0, 1, 0],
        atol=1e-15,
    )


@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_activations_take_scores_of_any_size(name: str, dtype: torch.dtype) -> None:
    scores = torch.tensor([[1000.0, -1000.0, 999.0, 3e4, 1e-30, 0.0]], dtype=dtype)
    values = ACTIVATIONS[name](scores, ALL, LISTS)[0, [0, 1, 2, 4, 5]]
    assert bool(((values >= 0) & (values <= 1)).all())
    assert float(values[0]) >= float(values[2]) > float(values[1])
    assert float(values[3]) >= float(values[4])


@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
def test_documents_that_were_not_shown_take_no_part(name: str) -> None:
    shown = torch.tensor([[True, False, True, False, True, True]])
    values = ACTIVATIONS[name](SCORES, shown, LISTS)
    other = ACTIVATIONS[name](torch.where(shown, SCORES, 99.0), shown, LISTS)
    assert torch.equal(values.isnan(), ~shown)
    assert torch.equal(values[shown], other[shown])
    alone = ACTIVATIONS[name](
        SCORES[:, [0, 2]], torch.ones(1, 2).bool(), Lists.of(np.array([2]))
    )
    assert torch.equal(values[0, [0, 2]], alone[0])


def test_soft_min_max_keeps_differences_far_below_the_scores_themselves() -> None:
    scores = torch.tensor([[0.0, 1e-20, 3e-20]], dtype=torch.float64)
    values = soft_min_max(scores, torch.ones(1, 3).bool(), Lists.of(np.array([3])))
    np.testing.assert_allclose(values, [[0.0, 1.0 / 3.0, 1.0]])


def test_soft_min_max_of_one_document_or_of_equal_scores_is_left_out() -> None:
    scores = torch.tensor([[2.0, 2.0, 2.0, 5.0, 0.0, 1.0]])
    values = soft_min_max(scores, ALL, LISTS)
    assert values[0, :4].isnan().all()
    assert values[0, 4:].tolist() == [0.0, 1.0]


def problem(seed: int = 0, queries: int = 40) -> tuple[NDArray[np.float32], EMRun]:
    """Lists of 5 documents shown at ranks 1 to 4, the last never; clear trust bias."""
    rng = np.random.default_rng(seed)
    features = rng.random((queries * 5, 4)).astype(np.float32)
    rank = np.tile(np.arange(1, 6), queries)
    doc = np.arange(queries * 5)[rank < 5]
    rank = rank[rank < 5]
    relevance = features[doc, 0] > 0.6
    chance = np.where(relevance, 0.9, 0.4 / rank) / rank**0.5
    impressions = np.full(len(doc), 20.0)
    clicks = rng.binomial(20, chance).astype(np.float64)
    share = np.full(queries, 1.0 / queries)
    return features, EMRun(doc, rank, impressions, clicks, share)


def fit(
    features: NDArray[np.float32],
    runs: list[EMRun],
    settings: EMSettings = RESTLESS,
    network: NetworkSettings = SMALL,
) -> list[RegressionEM]:
    offsets = np.arange(0, len(features) + 1, 5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AffineRankWarning)
        return fit_regression_em(
            features, offsets, runs, settings=settings, network=network
        )


def fit_noting_advice(
    features: NDArray[np.float32], run: EMRun, settings: EMSettings
) -> tuple[list[RegressionEM], list[str]]:
    offsets = np.arange(0, len(features) + 1, 5)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", AffineRankWarning)
        fitted = fit_regression_em(
            features, offsets, [run], settings=settings, network=LEARNED
        )
    return fitted, [str(warning.message) for warning in caught]


def _stack(features: NDArray[np.float32], run: EMRun) -> EMStack:
    offsets = np.arange(0, len(features) + 1, 5)
    return EMStack(features, offsets, [run], RESTLESS, SMALL)


@pytest.mark.parametrize("parameters", sorted(UPDATES))
def test_no_steps_return_the_start(parameters: str) -> None:
    features, run = problem()
    settings = EMSettings(
        parameters=parameters,  # type: ignore[arg-type]
        zeta_plus=0.8,
        zeta_minus=0.3,
        iterations=0,
    )
    (fitted,) = fit(features, [run], settings)
    start = 0.0 if parameters == "position" else 0.3
    np.testing.assert_allclose(fitted.users.zeta_plus, np.full(4, 0.8))
    np.testing.assert_allclose(fitted.users.zeta_minus, np.full(4, start))
    (never,) = fit(
        features, [run], replace(settings, early_updates=0, updates_per_epoch=0)
    )
    assert never.updates == 0
    assert not never.converged
    np.testing.assert_allclose(never.users.zeta_plus, np.full(4, 0.8))


def test_runs_side_by_side_are_each_as_alone() -> None:
    features, run = problem()
    other = replace(problem(1)[1], activation="sigmoid", seed=3)
    weighted = replace(
        run, impressions=run.impressions * 0.5, clicks=run.clicks * 0.5, seed=1
    )
    runs = [run, other, weighted]
    settings, network = replace(RESTLESS, tolerance=0.02), LEARNED
    together = fit(features, runs, settings, network)
    assert len({result.updates for result in together}) > 1  # some rest before others
    for run_alone, result in zip(runs, together, strict=True):
        (alone,) = fit(features, [run_alone], settings, network)
        np.testing.assert_allclose(result.zeta_plus, alone.zeta_plus, rtol=1e-3)
        np.testing.assert_allclose(result.zeta_minus, alone.zeta_minus, rtol=1e-3)
        assert result.converged == alone.converged
        np.testing.assert_allclose(
            result.networks.predict(features),
            alone.networks.predict(features),
            atol=1e-3,
        )


def first_update(
    features: NDArray[np.float32], offsets: NDArray[np.int64], run: EMRun
) -> Floats:
    """Click rates after one update, before any training."""
    stack = EMStack(features, offsets, [run], RESTLESS, SMALL)
    stack.update()
    return np.asarray(stack.zeta)


def test_the_order_of_queries_changes_nothing_in_an_update() -> None:
    features, run = problem()
    offsets = np.arange(0, len(features) + 1, 5)
    order = np.random.default_rng(0).permutation(40)
    rows = (order[:, None] * 5 + np.arange(5)).ravel()
    moved = replace(run, doc=np.argsort(rows)[run.doc], share=run.share[order])
    np.testing.assert_allclose(
        first_update(features[rows], offsets, moved),
        first_update(features, offsets, run),
        rtol=1e-6,
    )


def test_documents_never_shown_change_nothing_in_an_update() -> None:
    features, run = problem()
    wide = np.full((40, 7, 4), 50.0, dtype=np.float32)
    wide[:, :5] = features.reshape(40, 5, 4)
    doc = run.doc // 5 * 7 + run.doc % 5
    np.testing.assert_allclose(
        first_update(wide.reshape(-1, 4), np.arange(0, 281, 7), replace(run, doc=doc)),
        first_update(features, np.arange(0, 201, 5), run),
        rtol=1e-6,
    )


def test_lists_that_leave_relevance_open_are_left_out_and_counted() -> None:
    features, run = problem()
    features[:10] = 0.5  # equal scores in two queries
    (fitted,) = fit(features, [run])
    assert fitted.left_out.tolist() == [2] * fitted.updates
    (smooth,) = fit(features, [replace(run, activation="softmax")])
    assert smooth.left_out.sum() == 0
    clear = run.doc >= 10
    without = EMRun(
        run.doc[clear],
        run.rank[clear],
        run.impressions[clear],
        run.clicks[clear],
        run.share,
    )
    offsets = np.arange(0, 201, 5)
    np.testing.assert_allclose(
        first_update(features, offsets, run),
        first_update(features, offsets, without),
        rtol=1e-9,
    )


def test_a_fallen_rank_is_left_out_of_training_until_it_recovers() -> None:
    features, run = problem()
    stack = _stack(features, run)
    stack.parameters[:, 1] = tensor(0.3, 0.4)
    stack._set_targets()
    second = torch.from_numpy(run.doc[run.rank == 2])
    assert not stack.trained[0, second].any()
    assert int(stack.trained.sum()) == 3 * 40
    stack.parameters[:, 1] = tensor(0.5, 0.4)
    stack._set_targets()
    assert stack.trained[0, second].all()
    last = stack.weights.clone()
    stack.parameters[0] = 0.0  # all ranks fall: it trains on what it knew
    stack._set_targets()
    assert torch.equal(stack.weights, last)


def test_a_rank_that_fell_takes_the_values_of_its_neighbour() -> None:
    features, run = problem()
    silent = replace(run, clicks=np.where(run.rank == 3, 0.0, run.clicks))
    (fitted,), advice = fit_noting_advice(features, silent, RESTLESS)
    assert any("in run 0 at ranks 3): clicks there" in text for text in advice)
    assert fitted.fallen_ranks == (3,)
    assert fitted.fallen[-1] == 1
    assert fitted.zeta_plus[-1, 2] == fitted.zeta_minus[-1, 2] == 0
    assert fitted.users.alpha[2] == fitted.users.alpha[1] > 0
    assert fitted.users.provenance["ranks_with_values_of_the_nearest"] == [3]


def test_where_all_ranks_fell_the_users_are_the_start() -> None:
    features, run = problem()
    weights = 1.0 + (run.doc % 5 == 0)  # an order to learn, and no click but one's
    clicks = np.where(run.doc < 5, weights, 0.0)
    clicks[4:] = 0.0
    stack = _stack(features, replace(run, clicks=clicks))
    stack.parameters[0] = 0.0
    stack.update()
    assert np.all(np.isfinite(result_of(stack, 0).zeta_plus))
    stack.trace[-1].zeta[:] = 0.0
    assert result_of(stack, 0).fallen_ranks == (1, 2, 3, 4)
    assert result_of(stack, 0).users.zeta_plus.tolist() == [0.999] * 4


def test_what_still_moves_is_reported_with_advice() -> None:
    features, run = problem()
    (fitted,), advice = fit_noting_advice(features, run, RESTLESS)
    assert "with 1 of 1 estimations (the first is run 0)" in advice[0]
    assert "raise epochs, updates_per_epoch or tolerance" in advice[0]
    assert not fitted.converged
    assert fitted.steps[:7].tolist() == [1, 2, 3, 5, 7, 10, 12]
    assert fitted.zeta_plus.shape == (fitted.updates + 1, 4)
    assert np.all(np.isfinite(fitted.log_likelihood))


def test_what_rests_is_returned_without_a_word() -> None:
    features, run = problem()
    (fitted,), advice = fit_noting_advice(
        features, run, replace(RESTLESS, tolerance=0.9)
    )
    assert fitted.converged
    assert fitted.users.provenance["converged"]
    assert not [text for text in advice if "still moving" in text]


def test_weights_are_those_of_the_affine_correction() -> None:
    train = DataSource.parse("yahoo-like:20").read("train")
    simulation = prepare_simulation(train, seed=0)
    counts = simulate_counts(simulation, 500, rng=stage_rng("clicks", 0))
    joined = join_counts(counts, train)
    run = EMRun.of(joined, train)
    settings = replace(RESTLESS, zeta_plus=0.7, zeta_minus=0.2)
    stack = EMStack(train.features, train.offsets, [run], settings, SMALL)
    users = result_of(stack, 0).users
    expected = document_weights(joined, affine(joined.counts, users), train)
    np.testing.assert_allclose(stack.weights[0], expected.weight, atol=1e-12)
    np.testing.assert_array_equal(stack.trained[0], expected.shown)
    np.testing.assert_allclose(stack.share[0], expected.share)
    targets = Targets(expected.weight[None], expected.shown[None], expected.share[None])
    trainer = NetworkTrainer(train.features, train.offsets, [0], SMALL)
    trainer.set_targets(targets)
    batch = trainer.batch(np.arange(8))
    np.testing.assert_allclose(
        trainer.step(batch), stack.trainer.step(batch), rtol=1e-5
    )


def test_a_trainer_scores_as_its_networks_predict() -> None:
    features, _ = problem()
    trainer = NetworkTrainer(features, np.arange(0, 201, 5), [0, 1], SMALL)
    expected = trainer.networks().predict(features)
    np.testing.assert_allclose(trainer.scores(20, 90), expected[:, 20:90], rtol=1e-5)


def test_parts_in_turn_score_all_queries_anew() -> None:
    features, run = problem()
    stack = _stack(features, run)
    stack.update()
    stack.trainer.steps = stack.epoch_steps + 1
    stack.trainer.flat.mul_(1.1)
    for _ in range(2):  # halves
        stack.update()
    expected = stack.trainer.networks().predict(features)
    np.testing.assert_allclose(stack._rescored(), expected, rtol=1e-5)


def test_a_query_counted_twice_weighs_twice() -> None:
    train = DataSource.parse("yahoo-like:20").read("train")
    simulation = prepare_simulation(train, seed=0)
    joined = join_counts(
        simulate_counts(simulation, 500, rng=stage_rng("clicks", 0)), train
    )
    weights = np.ones(train.n_queries)
    weights[[2, 3]] = 2.0, 0.0
    plain = EMRun.of(joined, train)
    run = EMRun.of(joined, train, query_weights=weights)
    query = train.query_of_doc[run.doc]
    np.testing.assert_allclose(run.clicks[query == 2], 2 * plain.clicks[query == 2])
    assert run.impressions[query == 3].sum() == 0
    assert run.share[2] == 2 * plain.share[2]


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
    run = EMRun.of(join_counts(counts, train), train)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AffineRankWarning)
        (fitted,) = fit_regression_em(features, train.offsets, [run], network=network)
    # Biased itself, as the paper has it: beta comes out close, alpha too low.
    truth = simulation.users
    np.testing.assert_allclose(fitted.users.beta[:5], truth.beta[:5], atol=0.1)
    np.testing.assert_allclose(fitted.users.alpha[:5], truth.alpha[:5], atol=0.2)
    assert np.all(fitted.users.alpha[:5] > 0.3 * truth.alpha[:5])
    assert fitted.log_likelihood[-1] > fitted.log_likelihood[0]


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"parameters": "four"}, "parameters must be two, three, position, got 'four'"),
        ({"zeta_plus": 0.1, "zeta_minus": 0.2}, "got 0.2 and 0.1"),
        ({"iterations": -1}, "iterations must be 0 or more, got -1"),
        ({"rescored": 0.0}, "rescored must be above 0 and at most 1, got 0"),
        ({"tolerance": -0.1}, "tolerance must be from 0 to below 1, got -0.1"),
    ],
)
def test_settings_that_cannot_be_are_refused(
    setting: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        EMSettings(**setting)  # type: ignore[arg-type]


def test_counts_that_cannot_be_are_refused() -> None:
    features, run = problem()
    clicks = run.clicks.copy()
    clicks[2] = 21.0
    with pytest.raises(DataError, match=r"row 2: clicks must .* got 21 of 20"):
        replace(run, clicks=clicks)
    with pytest.raises(DataError, match="ranks count from 1, got 0"):
        replace(run, rank=run.rank - 1)
    with pytest.raises(DataError, match="no clicks"):
        replace(run, clicks=run.clicks * 0)
    with pytest.raises(DataError, match="differ in length"):
        replace(run, doc=run.doc[1:])
    with pytest.raises(ConfigError, match=r"activation must be .* got 'relu'"):
        replace(run, activation="relu")
    with pytest.raises(ConfigError, match="one run or more"):
        fit(features, [])
    with pytest.raises(DataError, match=r"run 0: documents .* 199, .* got 1 to 200"):
        fit(features, [replace(run, doc=run.doc + 1 + (run.doc == 198))])
    with pytest.raises(DataError, match=r"run 0: shares must .* 40 queries, got 39"):
        fit(features, [replace(run, share=run.share[1:])])
