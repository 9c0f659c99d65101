r"""Regression EM: how users click and a ranker, estimated together from clicks.

Two steps take turns (the paper's section 5.3):

- click rates :math:`\zeta^+_k, \zeta^-_k` are updated from the posterior relevance of
  what was clicked and what was not (:mod:`affinerank.bias.expectation`), with
  probabilities of relevance that the ranker's scores give
  (:mod:`affinerank.bias.relevance`);
- the ranker trains on the affine correction with :math:`\alpha_k = \zeta^+_k -
  \zeta^-_k` and :math:`\beta_k = \zeta^-_k`.

The second step minimises a ranking loss, not the likelihood, so the likelihood may
fall: it is traced, and the estimation ends when the parameters rest. Where it ends
depends on the activation, because clicks alone do not fix the scale of relevance.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from affinerank.bias.em_runs import EMRun, EMSettings
from affinerank.bias.em_stack import EMStack, fallen_cells
from affinerank.bias.expectation import as_zeta
from affinerank.clicks.usermodel import UserModel
from affinerank.errors import AffineRankWarning, ConfigError, DataError
from affinerank.progress import Progress, quiet
from affinerank.rankers.mlp import Networks, NetworkSettings, require_numbers
from affinerank.rankers.operations import views

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class RegressionEM:
    """A user model and a ranker, and how the estimation came to them.

    Attributes:
        users: Click rates by rank; where a rank had fallen at the end or had no
            impressions, those of the nearest rank that had not.
        networks: The ranker, a stack of one.
        zeta_plus: ``[updates + 1, depth]`` trace, the start first.
        zeta_minus: ``[updates + 1, depth]`` trace.
        log_likelihood: ``[updates]`` of the observed clicks, per impression that had
            a relevance.
        steps: ``[updates]`` training steps behind each update.
        left_out: ``[updates]`` queries whose relevance was 0/0.
        fallen: ``[updates]`` ranks left out of training.
        converged: Whether the parameters came to rest.
        fallen_ranks: Ranks that had fallen at the end.
    """

    users: UserModel
    networks: Networks
    zeta_plus: Floats
    zeta_minus: Floats
    log_likelihood: Floats
    steps: Ints
    left_out: Ints
    fallen: Ints
    converged: bool
    fallen_ranks: tuple[int, ...]

    @property
    def updates(self) -> int:
        """Number of updates until it converged or was stopped."""
        return len(self.steps)


def fit_regression_em(
    features: NDArray[np.float32],
    offsets: Ints,
    runs: Sequence[EMRun],
    *,
    settings: EMSettings | None = None,
    network: NetworkSettings | None = None,
    progress: Progress = quiet,
) -> list[RegressionEM]:
    """Estimate how users click from each run's clicks, all runs at once.

    A run's result does not depend on the others: one that has converged stays as it
    was then.

    Args:
        features: ``[n_docs, n_features]`` without missing values.
        offsets: ``[n_queries + 1]`` query boundaries.
        runs: Clicks, activation and seed of each estimation.
        settings: What is estimated, from where, and how often.
        network: Shape and training of the rankers; ``epochs`` is how long at most.
        progress: Told of each epoch.
    """
    require_numbers(features)
    _require_fitting(runs, len(features), len(offsets) - 1)
    asked, shape = settings or EMSettings(), network or NetworkSettings()
    stack = EMStack(features, offsets, runs, asked, shape)
    for epoch in range(shape.epochs):
        progress("estimating", epoch, shape.epochs)
        stack.epoch(epoch)
        if not stack.active.any():
            break
    progress("estimating", shape.epochs, shape.epochs)
    results = [result_of(stack, i) for i in range(len(runs))]
    _advise(results, asked)
    return results


def result_of(stack: EMStack, i: int) -> RegressionEM:
    """What was estimated from run ``i``."""
    depth = int(stack.runs[i].rank.max())
    notes = stack.trace[: stack.updates[i]]
    start = as_zeta(stack.settings.start(depth))
    zeta = torch.stack([start, *(n.zeta[:, i, :depth].cpu() for n in notes)])
    fallen = fallen_cells(zeta[-1], stack.settings.fallen).numpy()
    converged = not bool(stack.active[i])
    return RegressionEM(
        users=_users(stack, i, zeta[-1].numpy(), fallen, converged),
        networks=_network(stack, i),
        zeta_plus=zeta[:, 0].numpy(),
        zeta_minus=zeta[:, 1].numpy(),
        log_likelihood=np.array([float(n.log_likelihood[i]) for n in notes]),
        steps=np.array([n.steps for n in notes], dtype=np.int64),
        left_out=np.array([int(n.left_out[i]) for n in notes], dtype=np.int64),
        fallen=np.array([int(n.fallen[i]) for n in notes], dtype=np.int64),
        converged=converged,
        fallen_ranks=tuple((np.flatnonzero(fallen) + 1).tolist()),
    )


def _users(
    stack: EMStack, i: int, zeta: Floats, fallen: NDArray[np.bool_], converged: bool
) -> UserModel:
    """A user model whose every alpha is above 0, and how it came about."""
    run = stack.runs[i]
    seen = stack.learnt[i, : len(fallen)].cpu().numpy()
    nearest = _nearest(seen & ~fallen)
    if nearest is None:
        zeta = as_zeta(stack.settings.start(len(fallen))).numpy()
        nearest = np.arange(len(fallen))
    borrowed = np.flatnonzero(fallen | ~seen) + 1
    provenance = {
        "family": "regression EM",
        "activation": run.activation,
        "seed": run.seed,
        "settings": asdict(stack.settings),
        "updates": int(stack.updates[i]),
        "converged": converged,
        "ranks_with_values_of_the_nearest": borrowed.tolist(),
    }
    return UserModel.from_zeta(*zeta[:, nearest], provenance=provenance)


def _network(stack: EMStack, i: int) -> Networks:
    """The network of run ``i`` alone."""
    trainer, seeds = stack.trainer, (stack.runs[i].seed,)
    tensors = views(stack.kept[i : i + 1].clone(), trainer.shapes)
    return Networks(tuple(tensors), trainer.n_features, trainer.settings, seeds)


def _require_fitting(runs: Sequence[EMRun], n_docs: int, n_queries: int) -> None:
    """Refuse counts of documents or queries that there are no features of."""
    if not runs:
        raise ConfigError("give one run or more to estimate from")
    for i, run in enumerate(runs):
        if run.doc.min() < 0 or run.doc.max() >= n_docs:
            raise DataError(
                f"run {i}: documents must be from 0 to {n_docs - 1}, the rows of the "
                f"features, got {run.doc.min()} to {run.doc.max()}"
            )
        if len(run.share) != n_queries:
            raise DataError(
                f"run {i}: shares must be one for each of {n_queries} queries, got "
                f"{len(run.share)}"
            )


def _nearest(usable: NDArray[np.bool_]) -> Ints | None:
    """For each place, the nearest usable one, the earlier of two; None if none is.

    >>> _nearest(np.array([False, True, False, False, True])).tolist()
    [1, 1, 1, 4, 4]
    """
    places = np.flatnonzero(usable)
    if not places.size:
        return None
    away = np.abs(np.arange(len(usable))[:, None] - places)
    return np.asarray(places[away.argmin(axis=1)])


def _advise(results: Sequence[RegressionEM], settings: EMSettings) -> None:
    """Warn of estimations that are not what they should be, and say what to do."""
    moving = [i for i, result in enumerate(results) if not result.converged]
    if moving:
        warnings.warn(
            f"regression EM stopped with {len(moving)} of {len(results)} estimations "
            f"(the first is run {moving[0]}) still moving by more than "
            f"{settings.tolerance:g} an epoch; raise epochs, updates_per_epoch or "
            "tolerance",
            AffineRankWarning,
            stacklevel=3,
        )
    fell = [i for i, result in enumerate(results) if result.fallen_ranks]
    if fell:
        ranks = ", ".join(map(str, results[fell[0]].fallen_ranks))
        warnings.warn(
            f"zeta+ fell to zeta- in {len(fell)} of {len(results)} estimations (in run "
            f"{fell[0]} at ranks {ranks}): clicks there do not tell relevant documents "
            "from others, and the user model has the values of the nearest rank that "
            "did not fall, or the start where all did; use more clicks, or leave such "
            "ranks out",
            AffineRankWarning,
            stacklevel=3,
        )
