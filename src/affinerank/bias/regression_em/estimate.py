"""Regression EM from start to end: run until the parameters rest, and report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from affinerank.bias.method import Estimate, EstimationSettings, HeldOutLogs
from affinerank.bias.regression_em.run import EMSettings, Parameters, Run
from affinerank.bias.regression_em.stack import EMStack, fallen_cells
from affinerank.bias.regression_em.updates import as_zeta, start_of
from affinerank.clicks.models.trust import TrustModel
from affinerank.counts.rows import ClickRows
from affinerank.rankers.networks.held_out import Best
from affinerank.rankers.networks.settings import NetworkSettings
from affinerank.rankers.ranker import Fitted
from affinerank.rankers.targets import Targets, Validation, require_numbers
from affinerank.support.arrays import Bools, Matrix, Rng
from affinerank.support.errors import warn
from affinerank.support.progress import Progress, no_progress
from affinerank.support.seeds import stage_rng


class EMFit(NamedTuple):
    """A click model and a ranker, estimated together.

    Attributes:
        click_model: Click rates by rank; where a rank had fallen at the end or had no
            impressions, those of the nearest rank that had not.
        fitted: What training gave: networks, stacks of one.
        updates: How often its parameters were updated.
        converged: Whether they came to rest.
        fallen_ranks: Ranks that had fallen at the end.
    """

    click_model: TrustModel
    fitted: Fitted | None
    updates: int
    converged: bool
    fallen_ranks: tuple[int, ...]

    @property
    def ranker(self) -> Any:
        """The network after the last epoch that it was trained in."""
        return self.fitted and self.fitted.model


def estimate_many(
    logs: Sequence[ClickRows],
    features: Matrix,
    settings: Sequence[EstimationSettings],
    progress: Progress,
    *,
    activation: str,
    parameters: Parameters,
    train_on: bool = False,
    held_out: HeldOutLogs | None = None,
) -> list[Estimate]:
    """Estimate from several logs at once, with bands from resampled queries."""
    # All clicks of each log, and then resamples of their queries.
    pairs = list(zip(logs, settings, strict=True))
    runs = [Run(rows, activation, own.seed) for rows, own in pairs]
    for rows, own in pairs:
        rng = stage_rng("estimation", own.seed)
        drawn = [resampled(rows, rng) for _ in range(own.replicates)]
        runs += [Run(each, activation, own.seed) for each in drawn]
    em, network = EMSettings(parameters=parameters), settings[0].network
    more: Any = {"train_on": train_on, "held_out": held_out, "progress": progress}
    fits = fit_em(features, runs, settings=em, network=network, **more)
    found, left = [], iter(fits[len(pairs) :])
    for first, (rows, own) in zip(fits, pairs, strict=False):
        others = [fit.click_model for fit in islice(left, own.replicates)]
        rested = "converged" if first.converged else "not converged"
        notes = [f"{first.updates} updates, {rested}"]
        if others:
            bands = f"bands from {len(others)} resamples of the queries"
            notes.append(f"{bands}; their coverage is not known")
        estimate = Estimate.of(first.click_model, rows, others)
        found.append(replace(estimate, ranker=first.fitted, notes=tuple(notes)))
    return found


def resampled(rows: ClickRows, rng: Rng) -> ClickRows:
    """Weight each query that was shown by how often a bootstrap draws it.

    A draw without a click is drawn again: nothing could be estimated from it.
    """
    names, clicks = np.unique(rows.query), np.zeros(1)
    while not clicks.any():
        drawn = rng.choice(names, size=len(names))
        weight = np.bincount(drawn, minlength=rows.n_queries)
        clicks = rows.clicks * weight[rows.query]
    shown = rows.impressions * weight[rows.query]
    sessions = rows.sessions * weight
    return replace(rows, impressions=shown, clicks=clicks, sessions=sessions)


def fit_em(
    features: Matrix,
    runs: Sequence[Run],
    *,
    settings: EMSettings | None = None,
    network: NetworkSettings | None = None,
    progress: Progress = no_progress,
    train_on: bool = False,
    held_out: HeldOutLogs | None = None,
) -> list[EMFit]:
    """Estimate how users click from each run's clicks, all runs at once.

    A run's result does not depend on the others: users that have converged stay as
    they were then.

    Args:
        features: ``[n_docs, n_features]`` without missing values.
        runs: Clicks on the same documents, activation and seed of each estimation.
        settings: What is estimated, from where, and how often.
        network: Shape and training of the rankers; ``epochs`` is how long at most.
        progress: Called at each epoch.
        train_on: Train each network to the last epoch, and not until its users have
            converged.
        held_out: Chooses an epoch of the first runs, as many as it has ``targets``:
            from the one on in which users converged, or the last.
    """
    require_numbers(features)
    em, shape = settings or EMSettings(), network or NetworkSettings()
    stack = EMStack(features, runs, em, shape)
    best = None
    if held_out is not None:  # of no network users are known yet
        unknown = np.full((len(runs), len(held_out.features)), np.nan)
        targets = Targets(unknown, np.ones(unknown.shape, dtype=bool))
        evaluator = Validation(held_out.features, targets, held_out.offsets)
        best = Best(stack.trainer, evaluator)
    for epoch in range(1, shape.epochs + 1):
        progress("estimating", epoch - 1, shape.epochs)
        found = stack.epoch(epoch - 1)
        if best is not None and held_out is not None:
            found = found | stack.active if epoch == shape.epochs else found
            for i, targets_of in enumerate(held_out.targets):
                if found[i]:
                    best.held.change(i, targets_of(fit_of(stack, i).click_model))
            best.look(epoch)
        if not train_on and not stack.active.any():
            break
    progress("estimating", shape.epochs, shape.epochs)
    last = stack.trainer.networks(None if train_on else stack.kept).apart()
    fitted = [Fitted(model, None, None, {}) for model in last]
    if best is not None:
        chosen = stack.trainer.networks(best.flat).apart()
        for i, at in enumerate(best.at.tolist()):
            if at:
                fitted[i] = replace(fitted[i], chosen=chosen[i], best_length=at)
    fits = [fit_of(stack, i, one) for i, one in enumerate(fitted)]
    _advise(fits, em)
    return fits


def fit_of(stack: EMStack, i: int, fitted: Fitted | None = None) -> EMFit:
    """What was estimated from run ``i``, with what training gave."""
    run, depth = stack.runs[i], stack.runs[i].rows.depth
    zeta, updates = stack.zeta[:, i, :depth].cpu(), int(stack.updates[i])
    fallen = fallen_cells(zeta, stack.settings.fallen).numpy()
    usable = stack.learnt[i, :depth].cpu().numpy() & ~fallen
    about = {
        "family": "regression EM",
        "activation": run.activation,
        "settings": asdict(stack.settings),
        "updates": updates,
        "converged": not stack.active[i],
        "ranks_with_values_of_the_nearest": _ranks(~usable),
    }
    # Every alpha of the users is above 0: that of the nearest rank, or the start.
    rates = as_zeta(start_of(stack.settings, depth))
    if usable.any():
        places = np.flatnonzero(usable)
        away = np.abs(np.arange(depth)[:, None] - places)
        rates = zeta[:, places[away.argmin(axis=1)]]
    click_model = TrustModel.from_zeta(*rates.numpy(), provenance=about)
    return EMFit(
        click_model, fitted, updates, not stack.active[i], tuple(_ranks(fallen))
    )


def _ranks(where: Bools) -> list[int]:
    return (np.flatnonzero(where) + 1).tolist()


def _advise(fits: Sequence[EMFit], settings: EMSettings) -> None:
    """Warn of estimations that are not what they should be, and advise."""
    moving = [i for i, fit in enumerate(fits) if not fit.converged]
    if moving:
        warn(
            f"regression EM stopped with {len(moving)} of {len(fits)} estimations "
            f"(the first is run {moving[0]}) still moving by more than "
            f"{settings.tolerance:g} per epoch; raise epochs, updates_per_epoch or "
            "tolerance"
        )
    fell = [i for i, fit in enumerate(fits) if fit.fallen_ranks]
    if fell:
        ranks = ", ".join(map(str, fits[fell[0]].fallen_ranks))
        warn(
            f"zeta+ fell to zeta- in {len(fell)} of {len(fits)} estimations (in run "
            f"{fell[0]} at ranks {ranks}): clicks there do not separate relevant "
            "documents from others, and the click model has the values of the nearest "
            "rank that did not fall, or the start where all did; use more clicks, or "
            "leave such ranks out"
        )
