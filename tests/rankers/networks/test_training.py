"""Stacks of networks: what they learn, on what they depend, how they resume."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from affinerank.evaluation.metrics import Metric
from affinerank.rankers import Fitted, Targets, Validation, predict_all
from affinerank.rankers.networks.batches import RaggedLists
from affinerank.rankers.networks.held_out import HeldOut
from affinerank.rankers.networks.losses import LOSSES
from affinerank.rankers.networks.model import Networks, initial_parameters
from affinerank.rankers.networks.operations import activate, activate_and_score
from affinerank.rankers.networks.parallel import Group
from affinerank.rankers.networks.scaling import scaled
from affinerank.rankers.networks.settings import NetworkSettings
from affinerank.rankers.networks.training import (
    NetworkTrainer,
    Sample,
    choose_device,
    fit_networks,
)
from affinerank.support.errors import ConfigError, DataError

pytestmark = pytest.mark.slow

SMALL = NetworkSettings(
    hidden=(16, 8), dropout=(0.0, 0.1), epochs=3, batch_queries=4, device="cpu"
)
PLAIN = replace(SMALL, dropout=(0.0, 0.0))


def salt(number: int) -> torch.Tensor:
    return torch.tensor(number, dtype=torch.int32)


def problem(
    networks: int = 2, queries: int = 30, seed: int = 0
) -> tuple[np.ndarray, Targets, np.ndarray]:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 12, queries)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    features = rng.random((offsets[-1], 5)).astype(np.float32)
    relevance = features[:, 1] - 0.5 * features[:, 3]
    noise = rng.normal(size=(networks, offsets[-1])) * 0.1
    known = np.ones((networks, offsets[-1]), dtype=bool)
    return features, Targets(relevance + noise, known), offsets


def fit(
    targets: Targets,
    seeds: list[int],
    settings: NetworkSettings = SMALL,
    *,
    features: np.ndarray | None = None,
    validation: Validation | None = None,
    checkpoint: Path | None = None,
) -> list[Fitted]:
    """Fit the problem's features to these targets."""
    read, _, offsets = problem(networks=1)
    return fit_networks(
        read if features is None else features,
        targets,
        offsets,
        seeds=seeds,
        settings=settings,
        validation=validation,
        checkpoint=checkpoint,
    )


def scores_of(fitted: list[Fitted], features: np.ndarray) -> np.ndarray:
    return predict_all([one.kept for one in fitted], features)


def assert_same(fits: list[list[Fitted]]) -> None:
    """The same numbers in all networks of two stacks, bit for bit."""
    for one, other in zip(*fits, strict=True):
        assert isinstance(one.model, Networks)
        assert isinstance(other.model, Networks)
        pairs = zip(one.model.parameters, other.model.parameters, strict=True)
        assert all(torch.equal(a, b) for a, b in pairs)


def start(seeds: list[int]) -> Networks:
    tensors = initial_parameters(5, seeds, SMALL)
    return Networks(tuple(tensors), 5, SMALL, tuple(seeds))


def test_networks_learn_an_order() -> None:
    features, targets, offsets = problem(networks=1, queries=120)
    (fitted,) = fit_networks(
        features, targets, offsets, seeds=[0], settings=replace(SMALL, epochs=15)
    )
    labels = targets.weights[0] - targets.weights[0].min()
    best = Metric("nDCG")(fitted.model.predict(features), labels, offsets).mean
    before = Metric("nDCG")(start([0]).predict(features), labels, offsets).mean
    assert best > 0.97 > before
    assert fitted.report["last_loss"] < fitted.report["first_loss"]
    assert fitted.report["epochs"] == 15
    assert fitted.chosen is None
    assert fitted.best_length is None


def test_negative_weights_are_learnt_like_their_shifted_selves() -> None:
    features, targets, _ = problem(networks=1)
    shifted = Targets(targets.weights * 7.0 - 100.0, targets.known)
    a, b = (scores_of(fit(t, [0], PLAIN), features) for t in (targets, shifted))
    np.testing.assert_allclose(a, b, atol=1e-3)


def test_same_seed_same_weights_bit_for_bit() -> None:
    _, targets, _ = problem()
    assert_same([fit(targets, [4, 5]) for _ in range(2)])


def test_a_network_does_not_depend_on_its_neighbours_without_dropout() -> None:
    features, targets, _ = problem(networks=3)
    together = scores_of(fit(targets, [7, 8, 9], PLAIN), features)
    one = Targets(targets.weights[1:2], targets.known[1:2])
    alone = scores_of(fit(one, [8], PLAIN), features)
    np.testing.assert_allclose(together[1], alone[0], rtol=1e-4, atol=1e-4)


def test_initialisation_and_dropout_depend_on_a_networks_seed_alone() -> None:
    settings = NetworkSettings(hidden=(4,), dropout=(0.5,))
    two = initial_parameters(5, [1, 2], settings)
    one = initial_parameters(5, [2], settings)
    for a, b in zip(two, one, strict=True):
        assert torch.equal(a[1:], b)
    rows = torch.arange(50, dtype=torch.int32)
    seeds = torch.tensor([11, 22], dtype=torch.int32)
    values = torch.ones(2, 50, 64)
    bias = torch.zeros(2, 1, 64)
    both = activate(values, bias, rows, seeds, salt(3), 0.5)
    some = rows[10:20]
    single = activate(values[1:, 10:20], bias[1:], some, seeds[1:], salt(3), 0.5)
    assert torch.equal(both[1:, 10:20], single)


def test_dropout_drops_its_share_and_keeps_the_mean() -> None:
    rows = torch.arange(2000, dtype=torch.int32)
    seeds = torch.tensor([1, 2, 3], dtype=torch.int32)
    values = torch.ones(3, 2000, 100)
    dropped = activate(values, torch.zeros(3, 1, 100), rows, seeds, salt(5), 0.1)
    n = dropped.numel()
    share = (dropped == 0).double().mean().item()
    assert abs(share - 0.1) < 5 * np.sqrt(0.1 * 0.9 / n)
    for axis in ((0, 1), (0, 2), (1, 2)):  # no unit, document or network stands out
        means = (dropped == 0).double().mean(dim=axis)
        spread = np.sqrt(0.1 * 0.9 * len(means) / n)
        assert (means - 0.1).abs().max() < 6 * spread
    assert not torch.equal(dropped[0], dropped[1])
    other = activate(values, torch.zeros(3, 1, 100), rows, seeds, salt(6), 0.1)
    assert not torch.equal(dropped, other)


def test_batches_come_from_the_data_seed_and_the_epoch_alone() -> None:
    features, targets, offsets = problem()
    rows = []
    for seeds, settings in (([1, 2], SMALL), ([9, 8], replace(SMALL, loss="squared"))):
        trainer = NetworkTrainer(features, offsets, seeds, settings)
        rows.append([batch.rows.tolist() for batch in trainer.samples(1)])
    assert rows[0] == rows[1]
    other = NetworkTrainer(features, offsets, [1, 2], replace(SMALL, data_seed=1))
    assert [batch.rows.tolist() for batch in other.samples(1)] != rows[0]
    seen = [r for batch in trainer.samples(0) for r in _own_rows(batch)]
    assert sorted(seen) == list(range(len(features)))
    assert targets.known.all()


def _own_rows(batch: Sample) -> list[int]:
    rows: list[int] = batch.rows[: int(batch.lists.sizes.sum())].tolist()
    return rows


def test_unknown_documents_do_not_matter() -> None:
    _, targets, _ = problem(networks=1)
    known = np.random.default_rng(0).random(targets.known.shape) < 0.7
    wild = np.where(known, targets.weights, 1e6)
    assert_same([fit(Targets(w, known), [0]) for w in (targets.weights, wild)])


def test_weights_are_scaled_by_their_spread_within_queries() -> None:
    weights = np.array([[1.0, 3.0, 10.0, 10.0, 99.0]])
    known = np.array([[True, True, True, True, False]])
    found = scaled(Targets(weights, known), RaggedLists.of(np.array([2, 3])))
    spread = np.sqrt((1 + 1 + 0 + 0) / 4)
    expected = [[1, 3, 10, 10, 0]] / spread
    np.testing.assert_allclose(found.weights, expected, rtol=1e-6)


@pytest.mark.parametrize("centred", [False, True])
def test_the_spread_of_weights_is_that_of_a_loop_over_queries(centred: bool) -> None:
    rng = np.random.default_rng(0)
    weights, known = rng.normal(size=(3, 6)), rng.random((3, 6)) < 0.8
    share = rng.random((3, 3))
    sizes = np.array([3, 1, 2])
    found = scaled(
        Targets(weights, known, share), RaggedLists.of(sizes), centred=centred
    )
    for i in range(3):
        squares, count, expected = 0.0, 0, np.zeros(6)
        for query, docs in enumerate(np.split(np.arange(6), [3, 4])):
            seen = docs[known[i, docs]]
            away = weights[i, seen] - weights[i, seen].sum() / max(len(seen), 1)
            counts = 3 * share[i, query] / share[i].sum()
            squares += np.sum((away * counts) ** 2)
            count += len(seen)
            expected[seen] = away if centred else weights[i, seen]
            np.testing.assert_allclose(found.share[i, docs], counts, rtol=1e-6)
        expected /= np.sqrt(squares / count)
        np.testing.assert_allclose(found.weights[i], expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([[1.0, 1.0, 2.0]], "ranker 0: .* no order to learn"),
        ([[1.0, np.nan, 2.0]], "ranker 0: weights must be finite"),
        ([[1.0, 0.0, 2.0], [1.0, np.inf, 2.0]], "ranker 1: weights must be finite"),
        ([[1.0, 0.0, 2.0], [1.0, 1.0, 2.0]], "ranker 1: .* no order to learn"),
        ([[1e200, 0.0, 1e200]], "and so must their squares"),
    ],
)
def test_weights_that_teach_nothing_are_rejected(
    weights: list[list[float]], message: str
) -> None:
    targets = Targets(np.array(weights), np.ones((len(weights), 3), dtype=bool))
    with pytest.raises(DataError, match=message):
        scaled(targets, RaggedLists.of(np.array([2, 1])))


def test_training_goes_on_step_by_step_with_changing_weights() -> None:
    features, targets, offsets = problem(networks=1)
    trainer = NetworkTrainer(features, offsets, [0], SMALL)
    trainer.set_targets(targets)
    first = trainer.step(*trainer.sampled([np.arange(4)]))
    trainer.set_targets(Targets(-targets.weights, targets.known))
    second = trainer.step(*trainer.sampled([np.arange(4)]))
    assert trainer.steps == 2
    assert torch.isfinite(first).all()
    assert second != first


def test_a_loss_that_is_not_finite_names_epoch_batch_and_network() -> None:
    features, targets, offsets = problem()
    trainer = NetworkTrainer(features, offsets, [3, 4], SMALL)
    trainer.set_targets(targets)
    trainer.flat[1] = float("inf")
    with pytest.raises(DataError, match=r"epoch 1, batch 1, network 1 \(seed 4\)"):
        trainer.epoch(0)


@contextmanager
def interrupted() -> Iterator[None]:
    """Interrupt every training at its third epoch."""
    real = NetworkTrainer.epoch

    def epoch(self: NetworkTrainer, number: int) -> torch.Tensor:
        if number == 2:
            raise KeyboardInterrupt
        return real(self, number)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NetworkTrainer, "epoch", epoch)
        yield


@pytest.mark.parametrize("patience", [None, 2])
def test_an_interrupted_training_ends_with_the_same_weights(
    tmp_path: Path, patience: int | None
) -> None:
    _, targets, _ = problem()
    validation = None if patience is None else Validation(*problem(seed=1))
    settings = replace(SMALL, epochs=6, patience=patience, learning_rate=0.3)
    undisturbed = fit(targets, [0, 1], settings, validation=validation)
    path = tmp_path / "training.safetensors"

    def resumed() -> list[Fitted]:
        return fit(targets, [0, 1], settings, validation=validation, checkpoint=path)

    with interrupted(), pytest.raises(KeyboardInterrupt):
        resumed()
    assert path.exists()
    again = resumed()
    assert not path.exists()
    assert_same([again, undisturbed])
    for one, other in zip(again, undisturbed, strict=True):
        assert one.report == other.report
        assert one.best_length == other.best_length
        features = problem()[0]
        np.testing.assert_array_equal(
            one.kept.predict(features), other.kept.predict(features)
        )


def test_a_checkpoint_of_another_training_is_rejected(tmp_path: Path) -> None:
    features, targets, _ = problem()
    path = tmp_path / "training.safetensors"
    with interrupted(), pytest.raises(KeyboardInterrupt):
        fit(targets, [0, 1], checkpoint=path)
    content = path.read_bytes()
    for settings, given in (
        (replace(SMALL, epochs=4), features),
        (SMALL, 1 - features),
    ):
        with pytest.raises(DataError, match="a checkpoint of another training"):
            fit(targets, [0, 1], settings, features=given, checkpoint=path)
    assert path.read_bytes() == content
    path.write_bytes(b"broken")
    with pytest.raises(DataError, match=r"training\.safetensors: not a checkpoint"):
        fit(targets, [0, 1], checkpoint=path)


def dcg_of(validation: Validation, scores: np.ndarray) -> np.ndarray:
    """What each ranker's scores are worth, query by query."""
    targets: Any = validation.targets
    offsets = validation.offsets
    share = targets.of_queries(offsets)
    values = np.zeros(len(scores))
    for i, row in enumerate(scores):
        for query, (first, last) in enumerate(pairwise(offsets)):
            docs = np.arange(first, last)[targets.known[i, first:last]]
            order = docs[np.argsort(-row[docs], kind="stable")]
            gains = targets.weights[i, order] / np.log2(np.arange(len(order)) + 2)
            values[i] += share[i, query] * gains.sum()
    return values


def held_out(networks: int = 2, queries: int = 30) -> Validation:
    """Other queries of the same problem, some documents not known."""
    features, targets, offsets = problem(networks, queries, seed=1)
    rng = np.random.default_rng(2)
    known = rng.random(targets.known.shape) < 0.8
    share = rng.random((networks, queries))
    return Validation(features, Targets(targets.weights, known, share), offsets)


def test_the_held_out_value_is_the_written_out_sum() -> None:
    validation = held_out(networks=3)
    scores = start([0, 1, 2]).scores(validation.features)
    evaluator = HeldOut(validation, "cpu")
    expected = dcg_of(validation, scores)
    found = evaluator.evaluator(torch.from_numpy(scores))
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert evaluator.value(1, scores[1]) == pytest.approx(expected[1])


@pytest.mark.parametrize("patience", [None, 2])
def test_held_out_weights_choose_an_epoch_of_each_network(
    patience: int | None,
) -> None:
    features, targets, offsets = problem()
    validation = held_out()
    settings = replace(SMALL, epochs=30, patience=patience, learning_rate=0.5)
    fitted = fit(targets, [0, 1], settings, validation=validation)
    trainer = NetworkTrainer(features, offsets, [0, 1], settings)
    trainer.set_targets(targets)
    best, chosen, waited = np.full(2, -np.inf), np.zeros(2, int), np.zeros(2)
    scores = np.zeros((2, len(features)))
    for epoch in range(fitted[0].report["epochs"]):
        trainer.epoch(epoch)
        now = trainer.networks()
        for i, value in enumerate(dcg_of(validation, now.scores(validation.features))):
            if waited[i] < (patience or np.inf):  # its own patience
                waited[i] = 0 if value > best[i] else waited[i] + 1
                if value > best[i]:
                    best[i], chosen[i] = value, epoch + 1
                    scores[i] = now.scores(features)[i]
    assert [one.best_length for one in fitted] == chosen.tolist()
    np.testing.assert_array_equal(scores_of(fitted, features), scores)
    last = predict_all([one.model for one in fitted], features)
    np.testing.assert_array_equal(last, trainer.networks().scores(features))
    if patience is None:
        assert fitted[0].report["epochs"] == 30
    else:
        assert min(waited) >= patience
        with pytest.raises(ConfigError, match="needs validation weights"):
            fit(targets, [0, 1], settings)


def test_validation_does_not_change_what_is_trained() -> None:
    _, targets, _ = problem()
    evaluated = fit(targets, [0, 1], validation=held_out())
    assert_same([evaluated, fit(targets, [0, 1])])


def test_early_stopping_of_a_network_does_not_depend_on_its_neighbours() -> None:
    features, targets, offsets = problem(networks=4, queries=12)
    held = held_out(networks=4, queries=12)
    settings = replace(PLAIN, epochs=12, patience=1, learning_rate=0.3)

    def part(t: Any, chosen: list[int]) -> Targets:
        share = t.share[chosen] if t.share.size else t.share
        return Targets(t.weights[chosen], t.known[chosen], share)

    def scores(chosen: list[int]) -> np.ndarray:
        fitted = fit_networks(
            features,
            part(targets, chosen),
            offsets,
            seeds=chosen,
            settings=settings,
            validation=replace(held, targets=part(held.targets, chosen)),
        )
        return scores_of(fitted, features)

    together = scores([0, 1, 2, 3])
    for i in range(4):
        np.testing.assert_allclose(together[i], scores([i])[0], atol=1e-3)


def test_validation_does_not_move_with_the_gauge_where_lists_were_cut() -> None:
    held = held_out(networks=1)
    scores = start([0, 1]).scores(held.features)
    learnt: Any = held.targets

    def gap(weights: np.ndarray) -> float:
        moved = replace(held, targets=replace(learnt, weights=weights))
        evaluator = HeldOut(moved, "cpu")
        return evaluator.value(0, scores[0]) - evaluator.value(0, scores[1])

    weights = learnt.weights
    assert gap(2.0 * weights - 5.0) == pytest.approx(2.0 * gap(weights), rel=1e-4)


@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_a_step_depends_on_the_documents_of_its_queries_alone(loss: str) -> None:
    features, targets, offsets = problem(networks=1, queries=8)
    weights = np.abs(targets.weights) + 0.1
    others = np.arange(offsets[3], offsets[-1])
    found = []
    for change in (0.0, 0.5):
        trainer = NetworkTrainer(features, offsets, [0], replace(PLAIN, loss=loss))
        trainer.set_targets(Targets(weights, targets.known))
        learnt: Any = trainer.learnt
        learnt.weights[:, torch.from_numpy(others)] += change
        found.append(trainer.step(*trainer.sampled([np.arange(3)])).item())
    assert found[0] == found[1]


def test_squared_error_does_not_move_with_the_gauge() -> None:
    features, targets, _ = problem(networks=1)
    settings = replace(PLAIN, loss="squared")
    a, b = (
        scores_of(fit(Targets(w, targets.known), [0], settings), features)
        for w in (targets.weights, 3.0 * targets.weights - 5.0)
    )
    np.testing.assert_allclose(a, b, atol=1e-3)


def test_a_loss_without_a_minimum_is_rejected_before_training() -> None:
    _, targets, _ = problem(networks=1)
    with pytest.raises(DataError, match="softmax has no minimum"):
        fit(targets, [0], replace(PLAIN, loss="softmax"))


def test_prediction_in_blocks_is_prediction_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    features, _, _ = problem()
    networks = start([0, 1])
    whole = networks.scores(features)
    monkeypatch.setattr("affinerank.rankers.networks.model.DOCS_AT_ONCE", 7)
    monkeypatch.setattr("affinerank.rankers.networks.model.MIN_AT_ONCE", 3)
    np.testing.assert_allclose(networks.scores(features), whole, atol=1e-6)


def test_networks_apart_score_as_in_their_stack() -> None:
    features, _, _ = problem()
    stack = start([3, 1, 2])
    apart = stack.apart()
    assert [one.seeds for one in apart] == [(3,), (1,), (2,)]
    for one, scores in zip(apart, stack.scores(features), strict=True):
        np.testing.assert_allclose(one.predict(features), scores, atol=1e-6)
        for own, whole in zip(one.parameters, stack.parameters, strict=True):
            assert own.untyped_storage().data_ptr() == (
                whole.untyped_storage().data_ptr()
            )


def test_missing_values_and_targets_of_another_shape_are_rejected() -> None:
    features, targets, _ = problem()
    broken = features.copy()
    broken[3, 2] = np.nan
    missing = "document 3, feature 3: the value is missing"
    with pytest.raises(DataError, match=missing):
        fit(targets, [0, 1], features=broken)
    held = held_out()
    held.features[3, 2] = np.nan
    with pytest.raises(DataError, match=missing):
        fit(targets, [0, 1], validation=held)
    with pytest.raises(DataError, match=r"\[1 seeds, .* got \(2, "):
        fit(targets, [0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden": ()}, "hidden layers need 1 unit or more"),
        (
            {"dropout": (0.1,)},
            "3 shares from 0 to below 1, one for each hidden layer, got (0.1,)",
        ),
        ({"dropout": (0.0, 0.1, 1.0)}, "from 0 to below 1"),
        ({"loss": "hinge"}, "no loss 'hinge'; known are lambda, squared, softmax"),
        ({"precision": "half"}, "got 'half'"),
        ({"epochs": 0}, "epochs must be 1 or more, got 0"),
        ({"patience": 0}, "patience must be 1 or more, got 0"),
        ({"learning_rate": 0.0}, "learning_rate must be above 0, got 0.0"),
    ],
)
def test_settings_that_cannot_be_meant_are_rejected(
    change: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        NetworkSettings(**change)  # type: ignore[arg-type]
    assert message in str(caught.value)


def test_cuda_is_rejected_where_there_is_none() -> None:
    if torch.cuda.is_available():
        assert choose_device("auto", Group(0, 1, 0)).type == "cuda"
        return
    with pytest.raises(ConfigError, match="there is no device cuda:0"):
        choose_device("cuda", Group(0, 1, 0))
    with pytest.raises(ConfigError, match="device must be auto, cpu or cuda"):
        choose_device("gpu?", Group(0, 1, 0))


PARALLEL = """
import sys, numpy as np
sys.path.insert(0, {tests!r})
from test_training import PLAIN, fit, held_out, problem, scores_of
from affinerank.rankers.networks.parallel import Group
features, targets, _ = problem()
fitted = fit(targets, [0, 1], PLAIN, validation=held_out())
np.save(f"{{sys.argv[1]}}{{Group.current().rank}}.npy", scores_of(fitted, features))
"""


def test_two_processes_train_what_one_does(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(PARALLEL.format(tests=str(Path(__file__).parent)))
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    subprocess.run(
        [*command, "--nproc-per-node=2", str(script), str(tmp_path / "two")],
        check=True,
        capture_output=True,
        env=environment,
        timeout=120,
    )
    features, targets, _ = problem()
    alone = scores_of(fit(targets, [0, 1], PLAIN, validation=held_out()), features)
    for rank in (0, 1):
        scores = np.load(tmp_path / f"two{rank}.npy")
        np.testing.assert_allclose(scores, alone, rtol=1e-3, atol=1e-3)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
def test_held_out_queries_are_worth_on_cuda_what_they_are_worth_off_it() -> None:
    validation = held_out(networks=3)
    scores = torch.from_numpy(start([0, 1, 2]).scores(validation.features)).float()
    expected = HeldOut(validation, "cpu").evaluator(scores)
    found = HeldOut(validation, "cuda").evaluator(scores.cuda())
    torch.testing.assert_close(found.cpu(), expected, rtol=1e-5, atol=0)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
@pytest.mark.parametrize("precision", ["float32", "tf32", "bfloat16"])
def test_networks_are_fitted_and_chosen_on_cuda(precision: str) -> None:
    features, targets, _ = problem()
    settings = replace(SMALL, device="cuda", precision=precision, epochs=6)
    fitted = fit(targets, [0, 1], settings, validation=held_out())
    on_cpu = fit(targets, [0, 1], replace(SMALL, epochs=6), validation=held_out())
    loose = 0.15 if precision == "bfloat16" else 0.02
    np.testing.assert_allclose(
        predict_all([one.model for one in fitted], features),
        predict_all([one.model for one in on_cpu], features),
        atol=loose,
    )


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
@pytest.mark.parametrize(("units", "docs"), [(8, 5), (48, 70), (160, 40), (256, 33)])
def test_the_cuda_activation_is_that_of_the_cpu(units: int, docs: int) -> None:
    """Values, scores, dropped units, gradients; units may fill a block or not."""
    torch.manual_seed(0)
    values, outer = torch.randn(2, 3, docs, units)
    bias, shift = torch.randn(3, 1, units), torch.randn(3, 1, 1)
    weights = torch.randn(3, units, 1)
    rows = torch.randint(0, 10**6, (docs,), dtype=torch.int32)
    seeds = torch.tensor([1, -(2**31), 2**31 - 1], dtype=torch.int32)
    found = []
    for device in ("cpu", "cuda"):
        v, b = (x.to(device).requires_grad_() for x in (values, bias))
        w, s = weights.to(device).requires_grad_(), shift.to(device).requires_grad_()
        dropped = (rows.to(device), seeds.to(device), salt(1234567).to(device), 0.3)
        y = activate(v, b, *dropped)
        slopes = torch.autograd.grad((y * outer.to(device)).sum(), [v, b])
        scores = activate_and_score(v, b, w, s, *dropped)
        total = (scores * outer[..., 0].to(device)).sum()
        slopes += torch.autograd.grad(total, [v, b, w, s])
        found.append([x.detach().cpu().numpy() for x in (y, scores, *slopes)])
    for cpu, cuda in zip(*found, strict=True):
        np.testing.assert_allclose(cuda, cpu, rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
def test_a_replayed_step_learns_what_a_plain_one_does() -> None:
    features, targets, offsets = problem()
    settings = replace(SMALL, device="cuda", epochs=3)
    found = []
    for plain in (True, False):
        trainer = NetworkTrainer(features, offsets, [0, 1], settings)
        trainer.set_targets(targets)
        if plain:
            trainer.replayed = None
        losses = [trainer.epoch(number).cpu() for number in range(3)]
        found.append((torch.stack(losses), trainer.flat.cpu()))
    for plain, replayed in zip(*found, strict=True):
        torch.testing.assert_close(replayed, plain, rtol=1e-4, atol=1e-5)
