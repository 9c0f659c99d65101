"""The losses that networks learn by, as rows of one table.

Listing them does not load torch: each row imports its function when it is first called.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from affinerank.support.errors import DataError
from affinerank.support.registry import Registry, later
from affinerank.support.settings import EntrySpec, require_at_least

if TYPE_CHECKING:
    from torch import Tensor

    from affinerank.rankers.networks.batches import Batch

FUNCTIONS = "affinerank.rankers.networks.loss_functions"


@dataclass(frozen=True, slots=True)
class NoOptions:
    """Options of a loss that has none."""


@dataclass(frozen=True, slots=True)
class Loss:
    """A row of ``LOSSES``.

    Attributes:
        name: Its key.
        title: What figures and messages call it.
        value: From scores and a batch to one number per network.
        centred: Whether it learns weights less their query's mean, because it depends
            on that mean, which is only gauge.
        signed: Whether it has a minimum where weights are negative.
        gathers: Whether it gathers lists by their length, so that no step is like
            another.
        options: Type of its options, which ``value`` takes as ``options`` if it has
            some.
    """

    name: str
    title: str
    value: Callable[..., Tensor]
    centred: bool = False
    signed: bool = True
    gathers: bool = False
    options: type = NoOptions

    @classmethod
    def named(cls, text: str) -> Loss:
        """Return the row that a text names, with its options."""
        spec = EntrySpec.parse(text)
        row = LOSSES[spec.name]
        options: Any = spec.settings(row.options)
        if isinstance(options, NoOptions):
            return row
        return replace(row, value=partial(row.value, options=options))

    def require_learnable(self, batch: Batch) -> None:
        """Reject negative weights where the loss has no minimum with them."""
        if not self.signed and bool((batch.known & (batch.weights < 0)).any()):
            others = " or ".join(row.name for row in LOSSES.values() if row.signed)
            raise DataError(
                f"the loss {self.name} has no minimum at negative weights; use {others}"
            )


@dataclass(frozen=True, slots=True)
class Sampling:
    """Options of PL-Rank.

    Attributes:
        samples: Lists drawn per query and step.
        cutoff: Deepest rank that counts.
    """

    samples: int = 32
    cutoff: int = 10

    def __post_init__(self) -> None:
        """Reject what cannot be drawn."""
        require_at_least(self, least={"samples": 1, "cutoff": 1})


LOSSES: Registry[Loss] = Registry(
    "loss",
    Loss("lambda", "LambdaLoss", later(f"{FUNCTIONS}:lambda_loss")),
    Loss(
        "squared",
        "Squared error",
        later(f"{FUNCTIONS}:squared_error"),
        centred=True,
    ),
    Loss(
        "softmax",
        "Softmax cross-entropy",
        later(f"{FUNCTIONS}:softmax"),
        signed=False,
        gathers=True,
    ),
    Loss(
        "pl-rank",
        "PL-Rank-3",
        later("affinerank.rankers.networks.pl_rank:pl_rank"),
        centred=True,
        gathers=True,
        options=Sampling,
    ),
)
