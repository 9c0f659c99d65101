"""Training a stack: what is judged on the device, and which epoch is chosen."""

import numpy as np
import torch

from affinerank.experiments.stack import HeldOut, train_stack
from affinerank.rankers.early_stopping import Validation
from affinerank.rankers.mlp import NetworkSettings
from affinerank.rankers.targets import Targets
from affinerank.rankers.training import NetworkTrainer, fit_networks

SETTINGS = NetworkSettings(
    hidden=(8, 4), epochs=4, learning_rate=0.05, batch_queries=4, device="cpu"
)
OFFSETS = np.array([0, 5, 6, 13, 20])


def lessons(seed: int) -> tuple[np.ndarray, Targets]:
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(20, 6)).astype(np.float32)
    weights = features[:, :1].T + rng.normal(size=(3, 20))
    shown = rng.random((3, 20)) < 0.8
    return features, Targets(weights, shown, rng.random((3, 4)))


def test_held_out_queries_are_worth_on_the_device_what_they_are_worth_off_it() -> None:
    features, targets = lessons(1)
    validation = Validation(features, targets, OFFSETS)
    trainer = NetworkTrainer(features, OFFSETS, [0, 1, 2], SETTINGS)
    found = HeldOut(validation, torch.device("cpu")).values(trainer.parameters)
    expected = validation.values(trainer.networks())
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5)


def test_the_last_and_the_chosen_are_what_two_trainings_would_give() -> None:
    features, targets = lessons(2)
    held_features, held = lessons(3)
    validation = Validation(held_features, held, OFFSETS)
    seeds = [4, 5, 6]
    both = train_stack(
        features,
        targets,
        OFFSETS,
        seeds=seeds,
        settings=SETTINGS,
        validation=validation,
    )
    plain = fit_networks(features, targets, OFFSETS, seeds=seeds, settings=SETTINGS)
    np.testing.assert_array_equal(
        both.last.predict(features), plain.networks.predict(features)
    )
    assert both.chosen is not None
    assert both.epochs is not None
    for i, epoch in enumerate(both.epochs.tolist()):
        shorter = NetworkSettings(
            hidden=(8, 4),
            epochs=epoch,
            learning_rate=0.05,
            batch_queries=4,
            device="cpu",
        )
        short = fit_networks(features, targets, OFFSETS, seeds=seeds, settings=shorter)
        np.testing.assert_array_equal(
            both.chosen.predict(features)[i], short.networks.predict(features)[i]
        )


def test_without_held_out_clicks_nothing_is_chosen() -> None:
    features, targets = lessons(2)
    alone = train_stack(features, targets, OFFSETS, seeds=[0, 1, 2], settings=SETTINGS)
    assert alone.chosen is None
    assert alone.epochs is None
