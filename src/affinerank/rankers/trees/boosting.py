"""What the trees of LightGBM and XGBoost share: settings, row and training in turn."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from affinerank.data.feature_mapping import SCALINGS
from affinerank.rankers.held_out import value_of_scores
from affinerank.rankers.ranker import Fitted, Model, RankerKind, Task
from affinerank.rankers.trees import parameters
from affinerank.support import limits
from affinerank.support.arrays import Floats
from affinerank.support.errors import ConfigError, DataError
from affinerank.support.settings import require_at_least

if TYPE_CHECKING:
    from affinerank.export.onnx import Graph
    from affinerank.rankers.trees.nodes import Tree
    from affinerank.rankers.trees.objectives import Lesson

boosted_row = partial(
    RankerKind,
    reads_missing=True,
    explains_clicks=True,
    patience=25,
    scaling=SCALINGS[-1],
    is_trees=True,
)


@dataclass(frozen=True, slots=True)
class BoostedSettings:
    """Settings that both kinds have, each with a docstring of its own."""

    PASSED: ClassVar[Mapping[str, parameters.Rule]]
    OURS: ClassVar[Mapping[str, str]]

    trees: int = 300
    leaves: int = 15
    learning_rate: float = 0.1
    truncation: int = 30
    min_documents: float = 20
    bins: int = 63
    feature_share: float = 1.0
    patience: int | None = None
    threads: int = 0

    def __post_init__(self) -> None:
        """Reject what cannot be trained."""
        least = {"trees": 1, "leaves": 2, "truncation": 1, "patience": 1}
        least |= {"threads": 0, "bins": 2}
        most = {"trees": limits.MODEL_TREES, "leaves": limits.MODEL_LEAVES}
        most |= {"bins": limits.MODEL_BINS, "threads": limits.THREADS}
        positive = ("learning_rate", "min_documents")
        require_at_least(self, least=least, most=most, positive=positive)
        if not 0 < self.feature_share <= 1:
            raise ConfigError(
                f"feature_share must be above 0 and up to 1, got {self.feature_share}"
            )
        parameters.passed(self)


class Trees(ABC):
    """What models of trees have in common."""

    @abstractmethod
    def nodes(self) -> list[Tree]:
        """Return the trees node by node."""

    @abstractmethod
    def gain(self) -> Floats:
        """Return what the splits by each feature gained, ``[n_features]``."""

    def about(self) -> dict[str, Any]:
        """Return nothing: the file says it all."""
        return {}

    def add_to_onnx(self, graph: Graph, values: str) -> str:
        """Add the trees as one node of the machine learning domain."""
        return graph.add_trees(values, len(self.gain()), self.nodes())


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """One ranker to train.

    Attributes:
        task: What it is one of.
        lesson: What it learns.
        evaluator: What scores are worth to held-out queries, if there are any.
        seed: Its own.
        trees: Most of them; where lengths are planned, it is chosen there.
        done: Trees of the rankers before.
        total: Trees of all rankers.
    """

    task: Task
    lesson: Lesson
    evaluator: Callable[[Floats], float] | None
    seed: int
    trees: int
    done: int
    total: int

    def tell(self, tree: int) -> None:
        """Report that a tree is there, from 1."""
        self.task.progress("training trees", self.done + tree, self.total)

    def fitted(
        self, upto: Callable[[int], Model], trees: int, trace: Sequence[float]
    ) -> Fitted:
        """All trees, and those up to the best value of ``trace``, or to the length."""
        best = self.trees if self.task.lengths else None
        if trace:
            best = int(np.argmax(trace)) + 1
        report = {
            "trees": best or trees,
            "first_held_out": trace[0] if trace else None,
            "best_held_out": max(trace, default=None),
        }
        return Fitted(upto(trees), upto(best) if best else None, best, report, trace)

    def require_splits(self, found: bool) -> None:
        """Reject trees of one leaf each."""
        if not found:
            raise DataError(
                f"{self.lesson.known.sum()} documents are known, too few or too much "
                "alike to split into leaves of "
                f"{self.task.settings.min_documents:g} (min_documents)"
            )


def jobs(task: Task, *, native: bool | None, position: bool) -> Iterator[Job]:
    """Yield each ranker to train; see :func:`~.tree_objective.lessons` for the rest."""
    from affinerank.rankers.trees.objectives import lessons

    trees = task.lengths or [task.settings.trees] * len(task.seeds)
    given = (task.targets, task.offsets, task.settings.truncation)
    for i, lesson in enumerate(lessons(*given, native=native, position=position)):
        evaluator = None
        if task.validation is not None:
            value = value_of_scores(task.validation, i)
            evaluator = partial(_value_from_start, value, lesson.start)
        own = (task.seeds[i], trees[i], sum(trees[:i]), sum(trees))
        yield Job(task, lesson, evaluator, *own)


def _value_from_start(
    value: Callable[[Floats], float], start: float, scores: Floats
) -> float:
    """Return the value of scores that leave out what they begin with."""
    return value(scores + start)
