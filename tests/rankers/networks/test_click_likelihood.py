"""Networks that explain clicks: their loss, where they start, what they learn."""

from dataclasses import astuple, replace
from math import exp, log

import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar
from scipy.special import expit

from affinerank.rankers import Fitted, Validation
from affinerank.rankers.likelihood import mean_score
from affinerank.rankers.networks.batches import RaggedLists
from affinerank.rankers.networks.click_likelihood import ClickBatch, click_loss
from affinerank.rankers.networks.held_out import evaluator_of
from affinerank.rankers.networks.model import Networks
from affinerank.rankers.networks.settings import NetworkSettings
from affinerank.rankers.networks.training import NetworkTrainer, fit_networks
from affinerank.rankers.targets import ClickTargets
from affinerank.support.arrays import Floats
from affinerank.support.errors import DataError

SMALL = NetworkSettings(
    hidden=(16, 8), dropout=(0.0, 0.1), epochs=3, batch_queries=4, device="cpu"
)
OFFSETS = np.arange(0, 401, 10)
ALPHA, BETA = np.array([0.5, 0.3]), np.array([0.3, 0.05])

# Two documents of one query, two slots each; the last slot is empty.
TWO = ClickTargets(
    np.array([[[4, 10], [3, 0]]], dtype=np.float32),
    np.array([[[3, 2], [1, 0]]], dtype=np.float32),
    np.array([[[0.5, -0.2], [0.5, 0]]], dtype=np.float32),
    np.array([[[0.3, 0.4], [0.3, 0]]], dtype=np.float32),
)


def simulated(
    shown: int, seed: int = 0, rankers: int = 1
) -> tuple[np.ndarray, ClickTargets]:
    """Features of 40 queries, and clicks by the first: ``shown`` times at two ranks."""
    rng = np.random.default_rng(seed)
    features = rng.random((400, 3)).astype(np.float32)
    relevance = expit(6 * features[:, 0] - 4)
    rate = np.tile(ALPHA * relevance[:, None] + BETA, (rankers, 1, 1))
    clicks = rng.binomial(shown, rate)
    parts = (np.full_like(rate, shown), clicks, ALPHA + 0 * rate, BETA + 0 * rate)
    return features, ClickTargets(*(part.astype(np.float32) for part in parts))


def by_counts(targets: ClickTargets, factor: float) -> ClickTargets:
    """The same click rates in more or fewer impressions."""
    n, clicks = targets.impressions * factor, targets.clicks * factor
    return replace(
        targets, impressions=n.astype(np.float32), clicks=clicks.astype(np.float32)
    )


def scores_of(fitted: Fitted, features: np.ndarray) -> Floats:
    return fitted.kept.predict(features)


def test_the_loss_and_its_slope_written_out() -> None:
    at = [0.7, -1.2]
    value, slopes = 0.0, []
    for doc, score in enumerate(at):
        m, slope = 1 / (1 + exp(-score)), 0.0
        for n, c, alpha, beta in zip(*(p[0, doc] for p in astuple(TWO)), strict=True):
            if n == 0:
                continue
            p = alpha * m + beta
            value -= c * log(p) + (n - c) * log(1 - p)
            slope -= (c / p - (n - c) / (1 - p)) * alpha * m * (1 - m)
        slopes.append(slope)
    scores = torch.tensor([at], requires_grad=True)
    batch = ClickBatch.of(TWO, RaggedLists.of(np.array([2])))
    loss = click_loss(scores, batch)
    (found,) = torch.autograd.grad(loss.sum(), scores)
    assert loss.tolist() == pytest.approx([value], rel=1e-5)
    assert found[0].tolist() == pytest.approx(slopes, rel=1e-5)
    twice = click_loss(scores, replace(batch, scale=torch.tensor([2.0])))
    assert twice.tolist() == pytest.approx([2 * value], rel=1e-5)


def test_each_network_has_clicks_of_its_own() -> None:
    _, both = simulated(20, rankers=2)
    lists, scores = RaggedLists.of(np.diff(OFFSETS)), torch.randn(2, 400)
    batch = ClickBatch.of(both, lists)
    together = click_loss(scores, batch)
    for i in range(2):
        alone = ClickTargets(*(part[i : i + 1] for part in astuple(both)))
        own = click_loss(scores[i : i + 1], ClickBatch.of(alone, lists))
        torch.testing.assert_close(own, together[i : i + 1])
        part = click_loss(scores[i : i + 1], batch.part(slice(i, i + 1)))
        torch.testing.assert_close(part, together[i : i + 1])
    assert together[0] != together[1]


def test_filling_documents_count_nothing() -> None:
    batch = ClickBatch.of(TWO, RaggedLists.of(np.array([2])))
    before = batch.values.clone()
    one = RaggedLists.of(np.array([1]))
    scores = torch.tensor([[0.7, -1.2, 0.3]], requires_grad=True)
    filled = click_loss(scores, batch.at(torch.tensor([1, 0, 0]), one))
    alone = click_loss(scores[:, :1], batch.at(torch.tensor([1]), one))
    assert filled.item() == alone.item()
    (slope,) = torch.autograd.grad(filled.sum(), scores)
    assert slope[0, 0] != 0
    assert slope[0, 1:].tolist() == [0.0, 0.0]
    assert torch.equal(batch.values, before)


def test_the_loss_is_scaled_to_a_slope_of_1() -> None:
    _, targets = simulated(20)
    targets.impressions[:, :100] = targets.clicks[:, :100] = 0
    batch = ClickBatch.of(targets, RaggedLists.of(np.diff(OFFSETS)))
    start = torch.tensor([-0.5])
    scores = torch.full((1, 400), -0.5, requires_grad=True)
    loss = click_loss(scores, batch.scaled(start)).sum()
    (slope,) = torch.autograd.grad(loss, scores)
    assert slope[0, 100:].square().mean().item() == pytest.approx(1, rel=1e-5)


def test_the_mean_score_explains_clicks_best() -> None:
    _, few = simulated(5)
    _, many = simulated(50, seed=1)
    both = ClickTargets(
        *(
            np.concatenate(pair)
            for pair in zip(astuple(few), astuple(many), strict=True)
        )
    )
    for found, own in zip(mean_score(both), (few, many), strict=True):
        n, c, alpha, beta = (part[0].astype(float) for part in astuple(own))

        def surprise(
            score: float,
            n: Floats = n,
            c: Floats = c,
            a: Floats = alpha,
            b: Floats = beta,
        ) -> float:
            rate = a * expit(score) + b
            return -float(np.sum(c * np.log(rate) + (n - c) * np.log(1 - rate)))

        best = minimize_scalar(surprise, bounds=(-6, 6), method="bounded").x
        assert found == pytest.approx(best, abs=1e-3)


def test_networks_start_at_the_mean_relevance() -> None:
    features, targets = simulated(20, rankers=2)
    trainer = NetworkTrainer(features, OFFSETS, [0, 1], SMALL)
    assert trainer.scores(0, 400).std(dim=1).min() > 0
    trainer.set_targets(targets)
    expected = np.repeat(mean_score(targets)[:, None], 400, axis=1)
    np.testing.assert_allclose(trainer.scores(0, 400).numpy(), expected, rtol=1e-6)


def test_a_network_explains_clicks_on_other_queries_better_than_the_mean() -> None:
    features, targets = simulated(20)
    others, theirs = simulated(20, seed=1)
    settings = replace(SMALL, epochs=10)
    (fitted,) = fit_networks(features, targets, OFFSETS, seeds=[0], settings=settings)
    evaluator = evaluator_of(Validation(others, theirs, OFFSETS), "cpu")
    mean = evaluator.value(0, np.full(400, mean_score(targets)[0]))
    truth = evaluator.value(0, expit_inverse(others))
    found = evaluator.value(0, scores_of(fitted, others))
    assert truth - mean > 0.01
    assert found > mean + 0.8 * (truth - mean)


def expit_inverse(features: np.ndarray) -> Floats:
    """Log-odds of relevance, as clicks are simulated."""
    return np.asarray(6.0 * features[:, 0] - 4.0, dtype=np.float64)


def test_held_out_clicks_choose_the_epoch() -> None:
    features, targets = simulated(2)
    others, theirs = simulated(2, seed=1)
    held = Validation(others, theirs, OFFSETS)
    settings = replace(SMALL, epochs=30, learning_rate=0.1, patience=4)
    (fitted,) = fit_networks(
        features, targets, OFFSETS, seeds=[0], settings=settings, validation=held
    )
    n = fitted.best_length
    assert n is not None
    assert len(fitted.trace) == fitted.report["epochs"] == n + 4
    assert fitted.trace[n - 1] == max(fitted.trace)
    value = evaluator_of(held, "cpu").value(0, scores_of(fitted, others))
    assert value == pytest.approx(fitted.trace[n - 1], rel=1e-5)


def test_how_often_documents_were_shown_makes_no_difference_to_steps() -> None:
    features, targets = simulated(20)
    found = [
        scores_of(
            fit_networks(features, own, OFFSETS, seeds=[0], settings=SMALL)[0], features
        )
        for own in (targets, by_counts(targets, 64))
    ]
    assert np.ptp(found[0]) > 0.5
    np.testing.assert_allclose(found[0], found[1], atol=1e-2)


def test_lengths_are_the_epochs_of_each_network() -> None:
    features, targets = simulated(20, rankers=2)
    lengths = [1, 3]
    planned = fit_networks(
        features,
        targets,
        OFFSETS,
        seeds=[4, 5],
        settings=replace(SMALL, epochs=6),
        lengths=lengths,
    )
    for i, n in enumerate(lengths):
        asked = replace(SMALL, epochs=n)
        whole = fit_networks(features, targets, OFFSETS, seeds=[4, 5], settings=asked)
        assert planned[i].best_length == n
        assert list(planned[i].trace) == []
        assert planned[i].report["epochs"] == 3  # none is trained further
        kept, expected = planned[i].kept, whole[i].model
        assert isinstance(kept, Networks)
        assert isinstance(expected, Networks)
        pairs = zip(kept.parameters, expected.parameters, strict=True)
        assert all(torch.equal(a, b) for a, b in pairs)
    first = planned[0]
    assert np.any(first.model.predict(features) != first.kept.predict(features))


def test_clicks_of_other_documents_are_rejected() -> None:
    features, targets = simulated(20)
    with pytest.raises(DataError, match=r"\[2 seeds, 400 documents\], got \(1, 400\)"):
        fit_networks(features, targets, OFFSETS, seeds=[0, 1], settings=SMALL)
