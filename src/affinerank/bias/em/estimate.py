"""Regression EM from start to end: run until the parameters rest, and report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from affinerank.arrays import Bools, Ints, Matrix, Rng
from affinerank.bias.em.run import EMSettings, Parameters, Run
from affinerank.bias.em.stack import EMStack, Trace, fallen_cells
from affinerank.bias.em.updates import as_zeta, start_of
from affinerank.bias.method import Estimate, EstimationSettings, HeldOutLogs
from affinerank.clicks.models.trust import TrustModel
from affinerank.clicks.rows import ClickRows
from affinerank.errors import DataError, warn
from affinerank.progress import Progress, quiet
from affinerank.rankers.held_out import Best
from affinerank.rankers.mlp import NetworkSettings
from affinerank.rankers.ranker import Fitted
from affinerank.rankers.targets import Targets, Validation, require_numbers
from affinerank.seeds import stage_rng


@dataclass(frozen=True, slots=True, eq=False)
class EMFit:
    """A user model and a ranker, and how the estimation came to them.

    Attributes:
        users: Click rates by rank; where a rank had fallen at the end or had no
            impressions, those of the nearest rank that had not.
        fitted: What training gave: networks, stacks of one.
        trace: Its updates, in turn.
        converged: Whether the parameters came to rest.
        fallen_ranks: Ranks that had fallen at the end.
    """

    users: TrustModel
    fitted: Fitted | None
    trace: Sequence[Trace]
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
    fits = iter(
        fit_em(
            features,
            runs,
            settings=EMSettings(parameters=parameters),
            network=settings[0].network,
            progress=progress,
            train_on=train_on,
            held_out=held_out,
        )
    )
    found = []
    for first, (rows, own) in zip(list(islice(fits, len(pairs))), pairs, strict=True):
        others = list(islice(fits, own.replicates))
        rested = "converged" if first.converged else "not converged"
        notes = [f"{len(first.trace)} updates, {rested}"]
        if others:
            notes.append(
                f"bands from {len(others)} resamples of the queries; their coverage "
                "is not known"
            )
        estimate = Estimate.of(first.users, rows, [other.users for other in others])
        found.append(replace(estimate, ranker=first.fitted, notes=tuple(notes)))
    return found


def resampled(rows: ClickRows, rng: Rng) -> ClickRows:
    """Weight each query that was shown by how often a bootstrap draws it.

    A draw without a click is drawn again: nothing could be estimated from it.
    """
    query, clicks = rows.query, np.zeros(1)
    shown = np.unique(query)
    while not clicks.any():
        drawn = rng.choice(shown, size=len(shown))
        weight = np.bincount(drawn, minlength=rows.n_queries)
        clicks = rows.clicks * weight[query]
    return replace(
        rows,
        impressions=rows.impressions * weight[query],
        clicks=clicks,
        sessions=rows.sessions * weight,
    )


def fit_em(
    features: Matrix,
    runs: Sequence[Run],
    *,
    settings: EMSettings | None = None,
    network: NetworkSettings | None = None,
    progress: Progress = quiet,
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
    if any(run.rows.n_docs != len(features) for run in runs):
        raise DataError(f"features must be of the documents, got {len(features)} rows")
    em, shape = settings or EMSettings(), network or NetworkSettings()
    stack = EMStack(features, runs, em, shape)
    best = None if held_out is None else _unjudged(stack, held_out)
    for epoch in range(1, shape.epochs + 1):
        progress("estimating", epoch - 1, shape.epochs)
        found = stack.epoch(epoch - 1)
        if best is not None and held_out is not None:
            found = found | stack.active if epoch == shape.epochs else found
            for i, targets in enumerate(held_out.targets):
                if found[i]:
                    best.held.change(i, targets(fit_of(stack, i).users))
            best.look(epoch)
        if not train_on and not stack.active.any():
            break
    progress("estimating", shape.epochs, shape.epochs)
    last = stack.trainer.networks(None if train_on else stack.kept).apart()
    fitted = [Fitted(model, None, None, {}) for model in last]
    if best is not None:
        chosen, at = stack.trainer.networks(best.flat).apart(), best.at.tolist()
        fitted = [
            replace(one, chosen=chosen[i], chosen_at=at[i]) if at[i] else one
            for i, one in enumerate(fitted)
        ]
    fits = [fit_of(stack, i, one) for i, one in enumerate(fitted)]
    _advise(fits, em)
    return fits


def _unjudged(stack: EMStack, held: HeldOutLogs) -> Best:
    """Return what keeps the best networks, of none of which users are known yet."""
    unknown = np.full((len(stack.runs), len(held.features)), np.nan)
    targets = Targets(unknown, np.ones(unknown.shape, dtype=bool))
    return Best(stack.trainer, Validation(held.features, targets, held.offsets))


def fit_of(stack: EMStack, i: int, fitted: Fitted | None = None) -> EMFit:
    """What was estimated from run ``i``, with what training gave."""
    run, depth = stack.runs[i], stack.runs[i].rows.depth
    trace = [each.of_run(i, depth) for each in stack.trace[: stack.updates[i]]]
    start = as_zeta(start_of(stack.settings, depth))
    zeta = trace[-1].zeta if trace else start
    fallen = fallen_cells(zeta, stack.settings.fallen).numpy()
    usable = stack.learnt[i, :depth].cpu().numpy() & ~fallen
    # Every alpha of the users is above 0: that of the nearest rank, or the start.
    about = {
        "family": "regression EM",
        "activation": run.activation,
        "settings": asdict(stack.settings),
        "updates": len(trace),
        "converged": not stack.active[i],
        "ranks_with_values_of_the_nearest": _ranks(~usable),
    }
    rates = zeta[:, _nearest(usable)] if usable.any() else start
    users = TrustModel.from_zeta(*rates.numpy(), provenance=about)
    return EMFit(users, fitted, trace, not stack.active[i], tuple(_ranks(fallen)))


def _ranks(where: Bools) -> list[int]:
    return (np.flatnonzero(where) + 1).tolist()


def _nearest(usable: Bools) -> Ints:
    """For each place, the nearest usable one, the earlier of two.

    >>> _nearest(np.array([False, True, False, False, True])).tolist()
    [1, 1, 1, 4, 4]
    """
    places = np.flatnonzero(usable)
    away = np.abs(np.arange(len(usable))[:, None] - places)
    return np.asarray(places[away.argmin(axis=1)])


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
            "documents from others, and the user model has the values of the nearest "
            "rank that did not fall, or the start where all did; use more clicks, or "
            "leave such ranks out"
        )
