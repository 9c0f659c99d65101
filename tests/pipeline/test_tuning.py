"""Tuning: which rate and length are chosen, and what is then trained."""

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from affinerank.estimators import Weights
from affinerank.pipeline.steps.training_lists import TrainingLists
from affinerank.pipeline.steps.tuning import (
    held_out_queries,
    require_tuning,
    tune_then_train,
)
from affinerank.rankers import RANKERS
from affinerank.rankers.ranker import Fitted, RankerKind
from affinerank.support.errors import AffineRankWarning, ConfigError

# Held-out values after each of five epochs, by rate and ranker.
TRACES = {
    0.1: ([1.0, 2.0, 9.0, 2.0, 1.0], [1.0, 1.0, 1.0, 1.0, 1.0]),
    0.5: ([3.0, 3.0, 3.0, 3.0, 3.0], [2.0, 5.0, 6.0, 5.0, 2.0]),
}


@dataclass(frozen=True)
class Settings:
    learning_rate: float = 0.1
    patience: int | None = None


@dataclass
class Calls:
    made: list[SimpleNamespace] = field(default_factory=list)

    def fit(self, features: Any, targets: Any, offsets: Any, **given: Any) -> Any:
        self.made.append(SimpleNamespace(n_queries=len(offsets) - 1, **given))
        model: Any = SimpleNamespace()
        if given["validation"] is None:
            return [Fitted(model, model, 1, {}) for _ in given["seeds"]]
        traces = TRACES[given["settings"].learning_rate]
        return [Fitted(model, model, 1, {}, traces[seed]) for seed in given["seeds"]]


def lists(n_queries: int) -> TrainingLists:
    n = 2 * n_queries
    share = np.full(n_queries, 1 / n_queries)
    weights = Weights(
        np.tile([0.0, 1.0], n_queries), np.ones(n, bool), share, np.zeros(n)
    )
    offsets = np.arange(0, n + 1, 2)
    return TrainingLists.of(np.zeros((n, 1), np.float32), offsets, [weights, weights])


def chosen(n_queries: int, **given: Any) -> tuple[list[Fitted], Calls]:
    calls = Calls()
    row = RankerKind(
        "planned",
        "Planned",
        Settings,
        calls.fit,
        calls.fit,
        patience=3,
        rates=(0.1, 0.5),
    )
    with RANKERS.added(row):
        given = {"settings": Settings(), **given}
        learnt = lists(n_queries)
        held = held_out_queries(learnt.targets.share, 0)
        found = tune_then_train("planned", learnt, held, seeds=[0, 1], **given)
    return found, calls


def test_the_best_of_smoothed_values_is_trained_on_all_queries() -> None:
    """Ranker 0: (2 + 9 + 2) / 3 at epoch 3 of rate .1, above 3; ranker 1: 16 / 3."""
    found, calls = chosen(20)
    assert [one.report["learning_rate"] for one in found] == [0.1, 0.5]
    assert [one.report["length"] for one in found] == [3, 3]
    assert [one.report["held_out"] for one in found] == pytest.approx([13 / 3, 16 / 3])
    tried, refits = calls.made[:2], calls.made[2:]
    assert [call.n_queries for call in tried] == [16, 16]
    assert [call.settings.patience for call in tried] == [3, 3]
    assert [(call.seeds, call.lengths) for call in refits] == [([0], [3]), ([1], [3])]
    assert all(call.n_queries == 20 for call in refits)


def test_patience_of_ones_own_ends_the_choice_alone() -> None:
    _, calls = chosen(20, settings=Settings(patience=1))
    assert [call.settings.patience for call in calls.made] == [1, 1, None, None]


def test_each_training_has_a_checkpoint_of_its_own(tmp_path: Path) -> None:
    _, calls = chosen(20, checkpoint=tmp_path / "kept")
    names = [call.checkpoint and call.checkpoint.name for call in calls.made]
    assert names == [None, None, "kept.0.1", "kept.0.5"]
    _, calls = chosen(20, checkpoint=tmp_path / "kept", rates=[0.5])
    assert [call.checkpoint for call in calls.made] == [None, tmp_path / "kept"]


def test_too_few_queries_are_all_learnt_from() -> None:
    with pytest.warns(AffineRankWarning, match="9 queries were issued, too few"):
        found, calls = chosen(9)
    assert len(found) == 2
    assert [call.n_queries for call in calls.made] == [9]


def test_another_word_for_tuning_is_rejected() -> None:
    with pytest.raises(ConfigError, match="tuning must be held-out or none"):
        require_tuning("magic")
