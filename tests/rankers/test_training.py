"""Stacks of networks: what they learn, on what they depend, how they resume."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from affinerank.data.features import FeatureMapping
from affinerank.errors import ConfigError, DataError
from affinerank.metrics import ndcg
from affinerank.rankers.checkpoint import Checkpoint
from affinerank.rankers.early_stopping import Validation
from affinerank.rankers.load import load_ranker
from affinerank.rankers.losses import LOSSES, Lists
from affinerank.rankers.mlp import (
    MLPRanker,
    Networks,
    NetworkSettings,
    initial_parameters,
)
from affinerank.rankers.operations import activate
from affinerank.rankers.parallel import Group
from affinerank.rankers.targets import Targets
from affinerank.rankers.training import (
    Batch,
    NetworkTrainer,
    choose_device,
    fit_networks,
)

SMALL = NetworkSettings(
    hidden=(16, 8), dropout=(0.0, 0.1), epochs=3, batch_queries=4, device="cpu"
)
PLAIN = replace(SMALL, dropout=(0.0, 0.0))


def problem(
    networks: int = 2, queries: int = 30, seed: int = 0
) -> tuple[np.ndarray, Targets, np.ndarray]:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 12, queries)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    features = rng.random((offsets[-1], 5)).astype(np.float32)
    relevance = features[:, 1] - 0.5 * features[:, 3]
    noise = rng.normal(size=(networks, offsets[-1])) * 0.1
    shown = np.ones((networks, offsets[-1]), dtype=bool)
    return features, Targets(relevance + noise, shown), offsets


def test_networks_learn_an_order() -> None:
    features, targets, offsets = problem(networks=1, queries=120)
    fitted = fit_networks(
        features, targets, offsets, seeds=[0], settings=replace(SMALL, epochs=15)
    )
    scores = fitted.networks.predict(features)[0]
    labels = targets.weights[0] - targets.weights[0].min()
    best = ndcg(scores, labels, offsets).mean()
    start = Networks(tuple(initial_parameters(5, [0], SMALL)), 5, SMALL, (0,))
    assert best > 0.97 > ndcg(start.predict(features)[0], labels, offsets).mean()
    assert fitted.losses[-1] < fitted.losses[0]


def test_negative_weights_are_learnt_like_their_shifted_selves() -> None:
    features, targets, offsets = problem(networks=1)
    shifted = Targets(targets.weights * 7.0 - 100.0, targets.shown)
    fits = [
        fit_networks(features, t, offsets, seeds=[0], settings=PLAIN)
        for t in (targets, shifted)
    ]
    a, b = (fit.networks.predict(features) for fit in fits)
    np.testing.assert_allclose(a, b, atol=1e-3)


def test_same_seed_same_weights_bit_for_bit() -> None:
    features, targets, offsets = problem()
    fits = [
        fit_networks(features, targets, offsets, seeds=[4, 5], settings=SMALL)
        for _ in range(2)
    ]
    for a, b in zip(
        fits[0].networks.parameters, fits[1].networks.parameters, strict=True
    ):
        assert torch.equal(a, b)


def test_a_network_does_not_depend_on_its_neighbours_without_dropout() -> None:
    features, targets, offsets = problem(networks=3)
    together = fit_networks(features, targets, offsets, seeds=[7, 8, 9], settings=PLAIN)
    one = Targets(targets.weights[1:2], targets.shown[1:2])
    alone = fit_networks(features, one, offsets, seeds=[8], settings=PLAIN)
    np.testing.assert_allclose(
        together.networks.predict(features)[1],
        alone.networks.predict(features)[0],
        rtol=1e-4,
        atol=1e-4,
    )


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
    both = activate(values, bias, rows, seeds, 3, 0.5)
    some = rows[10:20]
    single = activate(values[1:, 10:20], bias[1:], some, seeds[1:], 3, 0.5)
    assert torch.equal(both[1:, 10:20], single)


def test_dropout_drops_its_share_and_keeps_the_mean() -> None:
    rows = torch.arange(2000, dtype=torch.int32)
    seeds = torch.tensor([1, 2, 3], dtype=torch.int32)
    values = torch.ones(3, 2000, 100)
    dropped = activate(values, torch.zeros(3, 1, 100), rows, seeds, 5, 0.1)
    n = dropped.numel()
    share = (dropped == 0).double().mean().item()
    assert abs(share - 0.1) < 5 * np.sqrt(0.1 * 0.9 / n)
    for axis in ((0, 1), (0, 2), (1, 2)):  # no unit, document or network stands out
        means = (dropped == 0).double().mean(dim=axis)
        spread = np.sqrt(0.1 * 0.9 * len(means) / n)
        assert (means - 0.1).abs().max() < 6 * spread
    assert not torch.equal(dropped[0], dropped[1])
    other = activate(values, torch.zeros(3, 1, 100), rows, seeds, 6, 0.1)
    assert not torch.equal(dropped, other)


def test_batches_come_from_the_data_seed_and_the_epoch_alone() -> None:
    features, targets, offsets = problem()
    rows = []
    for seeds, settings in (([1, 2], SMALL), ([9, 8], replace(SMALL, loss="squared"))):
        trainer = NetworkTrainer(features, offsets, seeds, settings)
        rows.append([batch.rows.tolist() for batch in trainer.batches(1)])
    assert rows[0] == rows[1]
    other = NetworkTrainer(features, offsets, [1, 2], replace(SMALL, data_seed=1))
    assert [batch.rows.tolist() for batch in other.batches(1)] != rows[0]
    seen = [r for batch in trainer.batches(0) for r in _own_rows(batch)]
    assert sorted(seen) == list(range(len(features)))
    assert targets.shown.all()


def _own_rows(batch: Batch) -> list[int]:
    rows: list[int] = batch.rows[: int(batch.lists.sizes.sum())].tolist()
    return rows


def test_masked_documents_do_not_matter() -> None:
    features, targets, offsets = problem(networks=1)
    shown = np.random.default_rng(0).random(targets.shown.shape) < 0.7
    wild = np.where(shown, targets.weights, 1e6)
    fits = [
        fit_networks(features, Targets(w, shown), offsets, seeds=[0], settings=SMALL)
        for w in (targets.weights, wild)
    ]
    for a, b in zip(
        fits[0].networks.parameters, fits[1].networks.parameters, strict=True
    ):
        assert torch.equal(a, b)


def test_weights_are_scaled_by_their_spread_within_queries() -> None:
    weights = np.array([[1.0, 3.0, 10.0, 10.0, 99.0]])
    shown = np.array([[True, True, True, True, False]])
    scaled, _ = Targets(weights, shown).scaled(Lists.of(np.array([2, 3])))
    spread = np.sqrt((1 + 1 + 0 + 0) / 4)
    np.testing.assert_allclose(scaled, [[1, 3, 10, 10, 0]] / spread, rtol=1e-6)


@pytest.mark.parametrize("centred", [False, True])
def test_the_spread_of_weights_is_that_of_a_loop_over_queries(centred: bool) -> None:
    rng = np.random.default_rng(0)
    weights, shown = rng.normal(size=(3, 6)), rng.random((3, 6)) < 0.8
    share = rng.random((3, 3))
    sizes = np.array([3, 1, 2])
    scaled, counts_for = Targets(weights, shown, share).scaled(
        Lists.of(sizes), centred=centred
    )
    for i in range(3):
        squares, count, expected = 0.0, 0, np.zeros(6)
        for query, docs in enumerate(np.split(np.arange(6), [3, 4])):
            seen = docs[shown[i, docs]]
            away = weights[i, seen] - weights[i, seen].sum() / max(len(seen), 1)
            counts = 3 * share[i, query] / share[i].sum()
            squares += np.sum((away * counts) ** 2)
            count += len(seen)
            expected[seen] = away if centred else weights[i, seen]
            np.testing.assert_allclose(counts_for[i, docs], counts, rtol=1e-6)
        np.testing.assert_allclose(
            scaled[i], expected / np.sqrt(squares / count), rtol=1e-5, atol=1e-7
        )


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([[1.0, 1.0, 2.0]], "same for all documents of each query"),
        ([[1.0, np.nan, 2.0]], "network 0: weights must be finite"),
        ([[1.0, 0.0, 2.0], [1.0, np.inf, 2.0]], "network 1: weights must be finite"),
        ([[1.0, 0.0, 2.0], [1.0, 1.0, 2.0]], "network 1: the weights are the same"),
        ([[1e200, 0.0, 1e200]], "and so must their squares"),
    ],
)
def test_weights_that_teach_nothing_are_refused(
    weights: list[list[float]], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        Targets(np.array(weights), np.ones((len(weights), 3), dtype=bool)).scaled(
            Lists.of(np.array([2, 1]))
        )


def test_training_goes_on_step_by_step_with_changing_weights() -> None:
    features, targets, offsets = problem(networks=1)
    trainer = NetworkTrainer(features, offsets, [0], SMALL)
    trainer.set_targets(targets)
    first = trainer.step(trainer.batch(np.arange(4)))
    trainer.set_targets(Targets(-targets.weights, targets.shown))
    second = trainer.step(trainer.batch(np.arange(4)))
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


def test_a_killed_training_ends_with_the_same_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    features, targets, offsets = problem()
    path = tmp_path / "training.safetensors"
    undisturbed = fit_networks(features, targets, offsets, seeds=[0, 1], settings=SMALL)
    real = NetworkTrainer.epoch

    def killed(self: NetworkTrainer, number: int) -> torch.Tensor:
        if number == 2:
            raise KeyboardInterrupt
        return real(self, number)

    monkeypatch.setattr(NetworkTrainer, "epoch", killed)
    with pytest.raises(KeyboardInterrupt):
        fit_networks(
            features, targets, offsets, seeds=[0, 1], settings=SMALL, checkpoint=path
        )
    assert path.exists()
    monkeypatch.setattr(NetworkTrainer, "epoch", real)
    resumed = fit_networks(
        features, targets, offsets, seeds=[0, 1], settings=SMALL, checkpoint=path
    )
    assert not path.exists()
    np.testing.assert_array_equal(resumed.losses, undisturbed.losses)
    for a, b in zip(
        resumed.networks.parameters, undisturbed.networks.parameters, strict=True
    ):
        assert torch.equal(a, b)


def test_a_checkpoint_of_another_training_is_refused(tmp_path: Path) -> None:
    features, targets, offsets = problem()
    path = tmp_path / "training.safetensors"
    trainer = NetworkTrainer(features, offsets, [0, 1], SMALL)
    Checkpoint(path, "other").write(trainer, None, [np.zeros(2)])
    for content in (path.read_bytes(), b"broken"):
        path.write_bytes(content)
        with pytest.raises(DataError, match="remove it to start anew"):
            fit_networks(
                features,
                targets,
                offsets,
                seeds=[0, 1],
                settings=SMALL,
                checkpoint=path,
            )


def test_a_checkpoint_is_of_the_same_features(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    features, targets, offsets = problem()
    path = tmp_path / "training.safetensors"
    monkeypatch.setattr(Checkpoint, "remove", lambda _: None)
    for given in (features, features):
        fit_networks(
            given, targets, offsets, seeds=[0, 1], settings=SMALL, checkpoint=path
        )
    with pytest.raises(DataError, match="a checkpoint of another training"):
        fit_networks(
            1 - features,
            targets,
            offsets,
            seeds=[0, 1],
            settings=SMALL,
            checkpoint=path,
        )


def test_early_stopping_keeps_the_best_of_each_network() -> None:
    features, targets, offsets = problem()
    held, held_targets, held_offsets = problem(seed=1)
    validation = Validation(held, held_targets, held_offsets)
    settings = replace(SMALL, epochs=30, patience=2, learning_rate=0.5)
    fitted = fit_networks(
        features,
        targets,
        offsets,
        seeds=[0, 1],
        settings=settings,
        validation=validation,
    )
    assert len(fitted.losses) <= 30
    best = validation.values(fitted.networks)
    trainer = NetworkTrainer(features, offsets, [0, 1], settings)
    trainer.set_targets(targets)
    expected, waited = np.full(2, -np.inf), np.zeros(2)
    for epoch in range(len(fitted.losses)):
        trainer.epoch(epoch)
        for i, value in enumerate(validation.values(trainer.networks())):
            if waited[i] < 2:  # its own patience, not its neighbour's
                waited[i] = 0 if value > expected[i] else waited[i] + 1
                expected[i] = max(expected[i], value)
    np.testing.assert_allclose(best, expected)
    with pytest.raises(ConfigError, match="needs validation weights"):
        fit_networks(features, targets, offsets, seeds=[0, 1], settings=settings)


def test_early_stopping_of_a_network_does_not_depend_on_its_neighbours() -> None:
    features, targets, offsets = problem(networks=4, queries=12)
    held, held_targets, held_offsets = problem(networks=4, queries=12, seed=1)
    settings = replace(PLAIN, epochs=12, patience=1, learning_rate=0.3)

    def scores(chosen: list[int]) -> np.ndarray:
        def part(t: Targets) -> Targets:
            return Targets(t.weights[chosen], t.shown[chosen])

        fitted = fit_networks(
            features,
            part(targets),
            offsets,
            seeds=chosen,
            settings=settings,
            validation=Validation(held, part(held_targets), held_offsets),
        )
        return fitted.networks.predict(features)

    together = scores([0, 1, 2, 3])
    for i in range(4):
        np.testing.assert_allclose(together[i], scores([i])[0], atol=1e-3)


def test_validation_does_not_move_with_the_gauge_where_lists_were_cut() -> None:
    features, targets, offsets = problem(networks=2, queries=20)
    shown = np.random.default_rng(0).random(targets.shown.shape) < 0.5
    networks = Networks(tuple(initial_parameters(5, [0, 1], SMALL)), 5, SMALL, (0, 1))
    shared = np.stack([targets.weights[0], targets.weights[0]])
    both = np.stack([shown[0], shown[0]])

    def gap(weights: np.ndarray) -> float:
        values = Validation(features, Targets(weights, both), offsets).values(networks)
        return float(values[0] - values[1])

    assert gap(2.0 * shared - 5.0) == pytest.approx(2.0 * gap(shared), abs=1e-9)


@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_a_step_depends_on_the_documents_of_its_queries_alone(loss: str) -> None:
    features, targets, offsets = problem(networks=1, queries=8)
    weights = np.abs(targets.weights) + 0.1
    others = np.arange(offsets[3], offsets[-1])
    found = []
    for change in (0.0, 0.5):
        trainer = NetworkTrainer(features, offsets, [0], replace(PLAIN, loss=loss))
        trainer.set_targets(Targets(weights, targets.shown))
        trainer._weights[:, torch.from_numpy(others)] += change
        found.append(trainer.step(trainer.batch(np.arange(3))).item())
    assert found[0] == found[1]


def test_squared_error_does_not_move_with_the_gauge() -> None:
    features, targets, offsets = problem(networks=1)
    settings = replace(PLAIN, loss="squared")
    a, b = (
        fit_networks(
            features, Targets(w, targets.shown), offsets, seeds=[0], settings=settings
        ).networks.predict(features)
        for w in (targets.weights, 3.0 * targets.weights - 5.0)
    )
    np.testing.assert_allclose(a, b, atol=1e-3)


def test_prediction_in_blocks_is_prediction_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    features, _, _ = problem()
    networks = Networks(tuple(initial_parameters(5, [0, 1], SMALL)), 5, SMALL, (0, 1))
    whole = networks.predict(features)
    monkeypatch.setattr("affinerank.rankers.mlp.DOCS_AT_ONCE", 7)
    np.testing.assert_allclose(networks.predict(features), whole, atol=1e-6)


def test_missing_values_and_other_features_are_refused() -> None:
    features, targets, offsets = problem()
    broken = features.copy()
    broken[3, 2] = np.nan
    with pytest.raises(DataError, match="document 3, feature 3: the value is missing"):
        fit_networks(broken, targets, offsets, seeds=[0, 1], settings=SMALL)
    networks = Networks(tuple(initial_parameters(5, [0], SMALL)), 5, SMALL, (0,))
    with pytest.raises(DataError, match="read 5 features, got 4"):
        networks.predict(features[:, :4])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden": ()}, "hidden layers need 1 unit or more"),
        ({"dropout": (0.1,)}, "one share for each of 3 hidden layers, got 1"),
        ({"dropout": (0.0, 0.1, 1.0)}, "from 0 to below 1"),
        ({"loss": "hinge"}, "loss must be lambda, squared, softmax, got 'hinge'"),
        ({"precision": "half"}, "got 'half'"),
        ({"epochs": 0}, "epochs must be 1 or more, got 0"),
        ({"learning_rate": 0.0}, "learning_rate must be above 0, got 0.0"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(
    change: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        NetworkSettings(**change)  # type: ignore[arg-type]
    assert message in str(caught.value)


def test_cuda_is_refused_where_there_is_none() -> None:
    if torch.cuda.is_available():
        assert choose_device("auto", Group(0, 1, 0)).type == "cuda"
        return
    with pytest.raises(ConfigError, match="there is none here"):
        choose_device("cuda", Group(0, 1, 0))
    with pytest.raises(ConfigError, match="device must be auto, cpu or cuda"):
        choose_device("gpu?", Group(0, 1, 0))


def saved(folder: Path) -> MLPRanker:
    networks = Networks(tuple(initial_parameters(3, [6], SMALL)), 3, SMALL, (6,))
    ranker = MLPRanker(networks, FeatureMapping(("a", "b", "c")), {"seed": 6})
    ranker.save(folder)
    return ranker


def test_what_fills_missing_values_is_saved_with_the_network(tmp_path: Path) -> None:
    ranker = saved(tmp_path / "before")
    mapping = replace(ranker.mapping, fill=(0.5, 0.0, 0.125))
    replace(ranker, mapping=mapping).save(tmp_path / "model")
    assert load_ranker(tmp_path / "model").mapping == mapping
    path = tmp_path / "model" / "ranker.json"
    path.write_text(path.read_text().replace("0.125", "NaN"))
    with pytest.raises(DataError, match="fill must be 3 numbers"):
        load_ranker(tmp_path / "model")


def test_a_network_of_before_refuses_missing_values(tmp_path: Path) -> None:
    saved(tmp_path / "model")
    path = tmp_path / "model" / "ranker.json"
    about = json.loads(path.read_text())
    del about["fill"]
    path.write_text(json.dumps(about))
    loaded = load_ranker(tmp_path / "model")
    assert loaded.mapping.fill is None
    with pytest.raises(DataError, match="was not taught what to put there"):
        loaded.predict(np.full((1, 3), np.nan, np.float32))


def test_a_saved_network_scores_as_before(tmp_path: Path) -> None:
    ranker = saved(tmp_path / "model")
    loaded = load_ranker(tmp_path / "model")
    features = np.random.default_rng(0).random((9, 3)).astype(np.float32)
    np.testing.assert_array_equal(loaded.predict(features), ranker.predict(features))
    assert loaded.mapping == ranker.mapping
    assert loaded.provenance == {"seed": 6}
    names = sorted(path.name for path in (tmp_path / "model").iterdir())
    assert names == ["model.safetensors", "ranker.json"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            '"version": 1',
            '"version": 9',
            "version 1, got 'affinerank-ranker' version 9",
        ),
        ('"c"', '"c", "d", "e", "f", "g", "h", "i"', "the tensors have shapes"),
        ('"mlp"', '"forest"', "there is no kind of ranker 'forest'"),
        ('"hidden"', '"layers"', "not a ranker saved by AffineRank"),
        ("{", "[", "not a ranker saved by AffineRank"),
    ],
)
def test_a_changed_folder_is_refused(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    saved(tmp_path / "model")
    path = tmp_path / "model" / "ranker.json"
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(DataError) as caught:
        load_ranker(tmp_path / "model")
    assert message in str(caught.value)


PARALLEL = """
import sys, numpy as np
sys.path.insert(0, {tests!r})
from test_training import problem, PLAIN
from affinerank.rankers.training import fit_networks
features, targets, offsets = problem()
fitted = fit_networks(features, targets, offsets, seeds=[0, 1], settings=PLAIN)
np.save(sys.argv[1] + __import__("os").environ.get("RANK", "0") + ".npy",
        fitted.networks.predict(features))
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
    features, targets, offsets = problem()
    alone = fit_networks(features, targets, offsets, seeds=[0, 1], settings=PLAIN)
    for rank in (0, 1):
        scores = np.load(tmp_path / f"two{rank}.npy")
        np.testing.assert_allclose(
            scores, alone.networks.predict(features), rtol=1e-3, atol=1e-3
        )


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
@pytest.mark.parametrize(("units", "docs"), [(8, 5), (48, 70), (160, 40), (256, 33)])
def test_the_cuda_activation_is_that_of_the_cpu(units: int, docs: int) -> None:
    """Values, dropped units and both gradients; units may fill a block or not."""
    torch.manual_seed(0)
    values, outer = torch.randn(2, 3, docs, units)
    bias = torch.randn(3, 1, units)
    rows = torch.randint(0, 10**6, (docs,), dtype=torch.int32)
    seeds = torch.tensor([1, -(2**31), 2**31 - 1], dtype=torch.int32)
    found = []
    for device in ("cpu", "cuda"):
        v, b = (x.to(device).requires_grad_() for x in (values, bias))
        y = activate(v, b, rows.to(device), seeds.to(device), 1234567, 0.3)
        slopes = torch.autograd.grad((y * outer.to(device)).sum(), [v, b])
        found.append([x.detach().cpu().numpy() for x in (y, *slopes)])
    for cpu, cuda in zip(*found, strict=True):
        np.testing.assert_allclose(cuda, cpu, rtol=1e-4, atol=1e-5)
