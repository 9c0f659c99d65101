"""How a ranker is trained: learning rate and length chosen by held-out queries.

Some queries are held out, with the weights that the estimator gives them. Rankers of
each rate are trained on the others, and judged after each epoch (or tree) by the DCG
that the held-out weights estimate. The best rate and length then train on all queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from affinerank.defaults import NO_TUNING, TUNING
from affinerank.pipeline.steps.training_lists import TrainingLists, fit_all
from affinerank.rankers import RANKERS
from affinerank.rankers.ranker import Fitted, Model
from affinerank.support.arrays import Bools, Floats
from affinerank.support.errors import warn
from affinerank.support.progress import Progress, no_progress
from affinerank.support.seeds import stage_rng
from affinerank.support.settings import require_choice

HELD_OUT = 0.2
MIN_QUERIES = 10


def require_tuning(tuning: str) -> bool:
    """Return whether rate and length are to be chosen; reject other words."""
    require_choice("tuning", tuning, (TUNING, NO_TUNING))
    return tuning == TUNING


class Choice(NamedTuple):
    """What held-out queries chose for a ranker.

    Attributes:
        value: What it was worth to them, smoothed.
        length: After so many epochs or trees.
        rate: Learning rate.
        outside: The ranker of that rate, which did not learn from these queries.
    """

    value: float
    length: int
    rate: float
    outside: Model


def tune_then_train(
    ranker: str,
    lists: TrainingLists,
    held: Bools | None,
    *,
    seeds: Sequence[int],
    settings: Any,
    rates: Sequence[float] | None = None,
    checkpoint: Path | None = None,
    keep_outside: bool = False,
    progress: Progress = no_progress,
) -> list[Fitted]:
    """Choose learning rate and length of each ranker, then train it on all queries.

    A row without ``patience`` has nothing to choose.

    Args:
        ranker: A row of ``RANKERS``.
        lists: Queries, and the weights of each ranker.
        held: ``[n_queries]`` which are held out to choose by; ``None``: nothing is
            chosen, and the last of the rates is taken.
        seeds: One per ranker.
        settings: Of the row; its epochs or trees are the most.
        rates: Learning rates to choose from; left out, those of the row.
        checkpoint: File that an interrupted training on all queries resumes from.
        keep_outside: Whether to return the rankers that did not learn from the held-out
            queries, too.
        progress: Called as training advances.
    """
    kind = RANKERS[ranker]
    to_the_end = _without_patience(settings)

    # Nothing to choose, as of a linear model: train once; and once more without the
    # held-out queries, if that is asked for.
    if not kind.patience:
        fitted = fit_all(
            ranker,
            lists,
            seeds=seeds,
            settings=to_the_end,
            checkpoint=checkpoint,
            progress=progress,
        )
        if held is None or not keep_outside:
            return fitted
        outside = fit_all(ranker, lists.part(~held), seeds=seeds, settings=to_the_end)
        pairs = zip(fitted, outside, strict=True)
        return [replace(one, outside=other.kept) for one, other in pairs]

    # Nothing to choose by: the last rate, and the full length.
    tried = list(kind.rates if rates is None else rates) or [settings.learning_rate]
    if held is None:
        return fit_all(
            ranker,
            lists,
            seeds=seeds,
            settings=replace(to_the_end, learning_rate=tried[-1]),
            checkpoint=checkpoint,
            progress=progress,
        )
    choices = _choices(ranker, lists, held, seeds, settings, tried, progress)

    # Train on all queries. Rankers of one rate are trained together.
    by_place: dict[int, Fitted] = {}
    rates_taken = dict.fromkeys(choice.rate for choice in choices)
    for rate in rates_taken:
        places = [i for i, choice in enumerate(choices) if choice.rate == rate]
        resumed = checkpoint
        if checkpoint is not None and len(rates_taken) > 1:  # a file for each training
            resumed = checkpoint.with_name(f"{checkpoint.name}.{rate:g}")
        fitted = fit_all(
            ranker,
            lists.of_rankers(places),
            seeds=[seeds[i] for i in places],
            settings=replace(to_the_end, learning_rate=rate),
            lengths=[choices[i].length for i in places],
            checkpoint=resumed,
            progress=progress,
        )
        for i, one in zip(places, fitted, strict=True):
            choice = choices[i]
            report = {
                **one.report,
                "learning_rate": rate,
                "length": choice.length,
                "held_out": choice.value,
            }
            kept = choice.outside if keep_outside else None
            by_place[i] = replace(one, report=report, outside=kept)
    return [by_place[i] for i in range(len(seeds))]


def _without_patience(settings: Any) -> Any:
    """Return settings that train to the end; those of a row may have no patience."""
    if hasattr(settings, "patience"):
        return replace(settings, patience=None)
    return settings


def _choices(
    ranker: str,
    lists: TrainingLists,
    held: Bools,
    seeds: Sequence[int],
    settings: Any,
    rates: Sequence[float],
    progress: Progress,
) -> list[Choice]:
    """Train rankers of each rate without the held-out queries; take the best."""
    learnt, evaluated = lists.part(~held), lists.part(held)
    patience = settings.patience or RANKERS[ranker].patience
    best: dict[int, Choice] = {}
    for rate in rates:
        fitted = fit_all(
            ranker,
            learnt,
            seeds=seeds,
            settings=replace(settings, learning_rate=rate, patience=patience),
            held_out=evaluated,
            progress=progress,
        )
        for i, one in enumerate(fitted):
            values = _smoothed(one.trace)
            longest = int(np.argmax(values))
            new = Choice(float(values[longest]), longest + 1, rate, one.kept)
            if i not in best or new[:3] > best[i][:3]:
                best[i] = new
    return [best[i] for i in range(len(seeds))]


def _smoothed(trace: Sequence[float]) -> Floats:
    """Average each value with those beside it: held-out clicks are noisy."""
    near = np.pad(trace, 1, mode="edge")
    return np.asarray((near[:-2] + near[1:-1] + near[2:]) / 3.0)


def held_out_queries(shares: Floats, seed: int) -> Bools | None:
    """Draw queries to hold out among those that count; ``None`` if they are too few.

    Args:
        shares: ``[n_rankers, n_queries]`` share of the sessions.
        seed: Draws them.
    """
    counts = np.flatnonzero(np.any(shares > 0, axis=0))
    if len(counts) < MIN_QUERIES:
        warn(
            f"{len(counts)} queries were issued, too few to hold some out and choose "
            "by them how long to train"
        )
        return None
    rng = stage_rng("held out", seed)
    number = max(int(HELD_OUT * len(counts)), 2)
    held = np.zeros(shares.shape[1], dtype=bool)
    held[rng.choice(counts, number, replace=False)] = True
    return held
