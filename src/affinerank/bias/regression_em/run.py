"""What one regression EM is run with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from affinerank.counts.rows import ClickRows
from affinerank.support.errors import ConfigError, DataError
from affinerank.support.settings import require_at_least, require_choice

Parameters = Literal["two", "three", "position"]


@dataclass(frozen=True, slots=True)
class EMSettings:
    """What is estimated, from where, and how often.

    Attributes:
        parameters: ``two`` per rank: zeta+ and zeta-; ``three``: theta, eps+ and eps-,
            as Agarwal et al.; ``position``: position bias alone, zeta- = 0.
        zeta_plus: Starting value at every rank.
        zeta_minus: Starting value at every rank; ``position`` starts at 0.
        early_updates: Updates after each of the first so many steps.
        updates_per_epoch: Updates spread evenly over each epoch.
        iterations: E-steps per update, on the same scores. Few: many of them early on,
            when scores know little, make zeta+ and zeta- the same.
        rescored: Share of the queries that an update scores anew.
        rescored_first: The same, in the first epoch; the first update scores all.
        tolerance: Converged when click rates move no more than this over an epoch, on
            average over clicks.
        fallen: A rank has fallen where zeta+ exceeds zeta- by no more than this share
            of zeta+: then clicks there say nothing about relevance.
    """

    parameters: Parameters = "two"
    zeta_plus: float = 0.999
    zeta_minus: float = 0.001
    early_updates: int = 3
    updates_per_epoch: int = 4
    iterations: int = 2
    rescored: float = 0.1
    rescored_first: float = 0.25
    tolerance: float = 0.005
    fallen: float = 0.01

    def __post_init__(self) -> None:
        """Reject what cannot be estimated."""
        require_choice("parameters", self.parameters, get_args(Parameters))
        require_at_least(
            self,
            least={"early_updates": 0, "updates_per_epoch": 0, "iterations": 0},
            positive=("rescored", "rescored_first"),
        )
        if not 0 <= self.zeta_minus < self.zeta_plus <= 1:
            raise ConfigError(
                "zeta_minus must start below zeta_plus, both from 0 to 1, "
                f"got {self.zeta_minus:g} and {self.zeta_plus:g}"
            )


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """The clicks that one estimation is from, and how it turns scores into relevance.

    Attributes:
        rows: Counts, whole or weighted; the documents of a query follow each other.
        activation: Of ``ACTIVATIONS``.
        seed: Of the network.
    """

    rows: ClickRows
    activation: str
    seed: int = 0

    def __post_init__(self) -> None:
        """Reject counts without clicks."""
        if not np.any(self.rows.clicks > 0):
            raise DataError("the counts hold no clicks to estimate from")
