"""What a regression EM is asked: its settings, and the clicks of each estimation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from affinerank.bias.expectation import as_eps
from affinerank.bias.relevance import require_activation
from affinerank.clicks.join import JoinedCounts
from affinerank.corrections import document_weights, naive
from affinerank.data.dataset import RankingDataset
from affinerank.errors import ConfigError, DataError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Parameters = Literal["two", "three", "position"]


@dataclass(frozen=True, slots=True)
class EMSettings:
    """What is estimated, from where, and how often.

    Attributes:
        parameters: ``two`` a rank: zeta+ and zeta-; ``three``: theta, eps+ and eps-, as
            Agarwal et al.; ``position``: position bias alone, zeta- = 0.
        zeta_plus: Starting value at every rank.
        zeta_minus: Starting value at every rank; ``position`` starts at 0.
        early_updates: Updates after each of the first so many steps.
        updates_per_epoch: Updates spread evenly over each epoch.
        iterations: E-steps an update, on the same scores. Few: many of them early on,
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
        """Refuse what cannot be estimated."""
        if self.parameters not in get_args(Parameters):
            known = ", ".join(get_args(Parameters))
            raise ConfigError(f"parameters must be {known}, got {self.parameters!r}")
        if not 0 <= self.zeta_minus < self.zeta_plus <= 1:
            raise ConfigError(
                "the starting zeta_minus must be below zeta_plus, both from 0 to 1, "
                f"got {self.zeta_minus:g} and {self.zeta_plus:g}"
            )
        for name in ("early_updates", "updates_per_epoch", "iterations"):
            if getattr(self, name) < 0:
                raise ConfigError(
                    f"{name} must be 0 or more, got {getattr(self, name)}"
                )
        for name in ("rescored", "rescored_first"):
            if not 0 < getattr(self, name) <= 1:
                raise ConfigError(
                    f"{name} must be above 0 and at most 1, got {getattr(self, name):g}"
                )
        for name in ("tolerance", "fallen"):
            if not 0 <= getattr(self, name) < 1:
                raise ConfigError(
                    f"{name} must be from 0 to below 1, got {getattr(self, name):g}"
                )

    def start(self, cells: int) -> Tensor:
        """Parameters to begin with, ``[2 or 3, cells]``."""
        minus = 0.0 if self.parameters == "position" else self.zeta_minus
        zeta = torch.tensor([self.zeta_plus, minus], dtype=torch.float64)
        zeta = zeta[:, None].repeat(1, cells)
        return as_eps(zeta) if self.parameters == "three" else zeta


@dataclass(frozen=True, slots=True, eq=False)
class EMRun:
    """The clicks that one estimation is from, and how it turns scores into relevance.

    Attributes:
        doc: ``[n_rows]`` document of each row of counts.
        rank: ``[n_rows]`` from 1.
        impressions: ``[n_rows]`` whole or weighted.
        clicks: ``[n_rows]`` at most the impressions.
        share: ``[n_queries]`` share of the sessions.
        activation: ``sigmoid``, ``softmax`` or ``soft-min-max``.
        seed: Of the network.
    """

    doc: Ints
    rank: Ints
    impressions: Floats
    clicks: Floats
    share: Floats
    activation: str = "soft-min-max"
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what is no counts."""
        names = ("doc", "rank", "impressions", "clicks")
        sizes = {name: len(getattr(self, name)) for name in names}
        if len(set(sizes.values())) > 1:
            raise DataError(f"the columns of counts differ in length: {sizes}")
        require_activation(self.activation)
        bad = np.flatnonzero(~((self.clicks >= 0) & (self.clicks <= self.impressions)))
        if bad.size:
            raise DataError(
                f"row {bad[0]}: clicks must be from 0 to the impressions, got "
                f"{self.clicks[bad[0]]:g} of {self.impressions[bad[0]]:g}"
            )
        if not np.any(self.clicks > 0):
            raise DataError("the counts hold no clicks to estimate from")
        if self.rank.min() < 1:
            raise DataError(f"ranks count from 1, got {self.rank.min()}")

    @classmethod
    def of(
        cls,
        joined: JoinedCounts,
        data: RankingDataset,
        *,
        activation: str = "soft-min-max",
        seed: int = 0,
        query_weights: Floats | None = None,
    ) -> EMRun:
        """Take counts as they are, or each query ``query_weights [n_queries]`` times.

        A bootstrap over queries is a run for each resample.
        """
        counts = joined.counts
        share = document_weights(joined, naive(counts), data).share
        weights = np.ones(data.n_queries) if query_weights is None else query_weights
        per_row = weights[data.query_of_doc[joined.doc]]
        return cls(
            joined.doc,
            counts.rank,
            counts.impressions * per_row,
            counts.clicks * per_row,
            share * weights,
            activation,
            seed,
        )
