"""How a ranker is trained: learning rate and length chosen by held-out queries.

Some queries are held out, with the weights that the estimator gives them. Rankers of
each rate are trained on the others, and judged after each epoch (or tree) by the DCG
that the held-out weights estimate. The best rate and length then train on all queries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from affinerank.arrays import Bools
from affinerank.defaults import PAPER, RECIPE
from affinerank.errors import warn
from affinerank.pipeline.lists import Lists, fit_all
from affinerank.progress import Progress, quiet
from affinerank.rankers import RANKERS
from affinerank.rankers.ranker import Fitted, Model
from affinerank.seeds import stage_rng
from affinerank.settings import require_choice

HELD_OUT = 0.2
LEAST_QUERIES = 10


def require_recipe(recipe: str) -> bool:
    """Return whether rate and length are to be chosen; reject what is no recipe."""
    require_choice("recipe", recipe, (RECIPE, PAPER))
    return recipe == RECIPE


def fit_chosen(
    ranker: str,
    lists: Lists,
    *,
    seeds: Sequence[int],
    settings: Any,
    rates: Sequence[float] | None = None,
    seed: int = 0,
    checkpoint: Path | None = None,
    explain: Callable[[Model, Lists], Any] | None = None,
    progress: Progress = quiet,
) -> list[Fitted]:
    """Choose learning rate and length of each ranker, then train it on all queries.

    Args:
        ranker: A row of ``RANKERS`` with ``patience``.
        lists: Queries, and the weights of each ranker.
        seeds: One per ranker.
        settings: Of the row; its epochs or trees are the most.
        rates: Learning rates to choose from; left out, those of the row.
        seed: Draws the held-out queries.
        checkpoint: File that an interrupted training on all queries resumes from.
        explain: What is asked of each ranker that did not learn from the held-out
            queries, with these queries: what features are worth.
        progress: Called as training advances.
    """
    kind = RANKERS[ranker]
    tried = list(kind.rates if rates is None else rates) or [settings.learning_rate]
    held, fit = _held_out(lists, seed), partial(fit_all, ranker, progress=progress)
    if held is None:
        how = replace(settings, learning_rate=tried[-1])
        return fit(lists, seeds=seeds, settings=how, checkpoint=checkpoint)
    chosen: list[tuple[float, int, float]] = [(-np.inf, 1, tried[0]) for _ in seeds]
    outside: dict[tuple[int, float], Model] = {}
    learnt, judged = lists.part(~held), lists.part(held)
    patience = settings.patience or kind.patience
    for rate in tried:
        how = replace(settings, learning_rate=rate, patience=patience)
        fitted = fit(learnt, seeds=seeds, settings=how, held_out=judged)
        for i, one in enumerate(fitted):
            near = np.pad(one.trace, 1, mode="edge")  # held-out clicks are noisy
            smooth = (near[:-2] + near[1:-1] + near[2:]) / 3.0
            best = int(np.argmax(smooth))
            chosen[i] = max(chosen[i], (float(smooth[best]), best + 1, rate))
            outside[i, rate] = one.kept
    found: dict[int, Fitted] = {}
    rates_taken = dict.fromkeys(rate for _, _, rate in chosen)
    for rate in rates_taken:
        own = [i for i, (_, _, best) in enumerate(chosen) if best == rate]
        resumed = checkpoint
        if checkpoint is not None and len(rates_taken) > 1:  # a file for each training
            resumed = checkpoint.with_name(f"{checkpoint.name}.{rate:g}")
        fitted = fit(
            lists.of_rankers(own),
            seeds=[seeds[i] for i in own],
            settings=replace(settings, learning_rate=rate, patience=None),
            lengths=[chosen[i][1] for i in own],
            checkpoint=resumed,
        )
        for i, one in zip(own, fitted, strict=True):
            value, length, _ = chosen[i]
            about = {"learning_rate": rate, "length": length, "held_out": value}
            worth = explain and explain(outside[i, rate], judged.of_rankers([i]))
            report = {**one.report, **about}
            found[i] = replace(one, report=report, importance=worth)
    return [found[i] for i in range(len(seeds))]


def _held_out(lists: Lists, seed: int) -> Bools | None:
    """Draw queries to hold out among those that count; ``None`` if they are too few."""
    counts = np.flatnonzero(np.any(lists.targets.share > 0, axis=0))
    if len(counts) < LEAST_QUERIES:
        warn(
            f"{len(counts)} queries were issued, too few to hold some out and choose "
            "the learning rate by them"
        )
        return None
    rng = stage_rng("held out", seed)
    number = max(int(HELD_OUT * len(counts)), 2)
    held = np.zeros(len(lists.offsets) - 1, dtype=bool)
    held[rng.choice(counts, number, replace=False)] = True
    return held
