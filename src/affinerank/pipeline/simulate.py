"""Labelled data, a ranker and users put together into a click log or counts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from affinerank.clicks.models import CLICK_MODELS, ClickModel
from affinerank.clicks.models.files import save_click_model as write_click_model
from affinerank.clicks.simulation import simulate_counts, write_session_log
from affinerank.clicks.traffic import Simulation, Traffic, prepare, sessions_for
from affinerank.data.dataset import RankingDataset
from affinerank.defaults import CLICK_MODEL, RELEVANT_ABOVE
from affinerank.pipeline.steps.production import train_production_ranker
from affinerank.rankers.blend import AnyRanker
from affinerank.rankers.loading import load_ranker
from affinerank.rankers.ranker import score
from affinerank.support.arrays import Matrix
from affinerank.support.errors import ConfigError, DataError
from affinerank.support.lists import ranks_by_score
from affinerank.support.progress import Progress, no_progress
from affinerank.support.seeds import stage_rng
from affinerank.support.settings import EntrySpec, require_choice


def prepare_simulation(
    data: RankingDataset,
    click_model: ClickModel | EntrySpec | str = CLICK_MODEL,
    *,
    rankers: Mapping[str, AnyRanker] | None = None,
    relevance: str = "binary",
    relevant_above: float = RELEVANT_ABOVE,
    traffic: Traffic | None = None,
    seed: int = 0,
) -> Simulation:
    """Rank labelled data and put users in front of it.

    Args:
        data: Labelled data.
        click_model: How users click: a click model, or a row of ``CLICK_MODELS`` with
            parameters, as in ``trust(eta=2)``.
        rankers: What ranks; a production ranker trained on ``data`` where left out.
        relevance: ``"binary"``: 1 above ``relevant_above``, as in the paper;
            ``"graded"``: label / 4.
        relevant_above: Labels above this are relevant.
        traffic: Which queries come, and what is shown.
        seed: Of the production ranker and of which queries are frequent.
    """
    given: dict[str, Any] = {"relevant_above": relevant_above, "seed": seed}
    used = rankers or {"production": train_production_ranker(data, **given)}
    how, depth = traffic or Traffic(), int(data.docs_per_query.max())
    scores = {name: score(ranker, data) for name, ranker in used.items()}
    return prepare(
        data,
        {name: ranks_by_score(by, data.offsets) for name, by in scores.items()},
        relevance_of(data, relevance, relevant_above),
        click_model_of(click_model, min(depth, how.top_k or depth)),
        traffic=how,
        scores=scores,
        rng=stage_rng("traffic", seed),
    )


def click_model_of(click_model: ClickModel | EntrySpec | str, depth: int) -> ClickModel:
    """Build what a row of ``CLICK_MODELS`` with parameters describes.

    A click model stays as it is.
    """
    if not isinstance(click_model, str | EntrySpec):
        return click_model
    spec = EntrySpec.of(click_model)
    row = CLICK_MODELS[spec.name]
    return row.make(spec.settings(row.settings), depth)


def relevance_of(data: RankingDataset, relevance: str, relevant_above: float) -> Matrix:
    """Probability of relevance of each document: 0 or 1, or its label divided by 4."""
    require_choice("relevance", relevance, ("binary", "graded"))
    if relevance == "binary":
        return data.relevance(relevant_above)
    graded = data.known_labels() / np.float32(4.0)
    if graded.max(initial=0.0) > 1:
        raise DataError(
            f"graded relevance is label / 4, and labels go up to {4 * graded.max():g}"
        )
    return graded


def simulation_rankers(
    names: Sequence[str],
    data: RankingDataset,
    *,
    relevant_above: float = RELEVANT_ABOVE,
    seed: int = 0,
) -> tuple[dict[str, AnyRanker], dict[str, float]]:
    """Read ``production``, ``production:SEED`` or a ranker's folder, each once.

    A share may follow, as in ``production=0.7``; give one for all or for none.

    Returns:
        The rankers and their shares, by name.
    """
    rankers: dict[str, AnyRanker] = {}
    shares: dict[str, float] = {}
    for text in names:
        name, equals, share = text.partition("=")
        match = re.fullmatch(r"production(?::(\d+))?", name)
        if name in rankers:
            raise ConfigError(f"the ranker {name!r} is named twice")
        if match is None:
            rankers[name] = load_ranker(name)
        else:
            own = int(match[1] or seed)
            rankers[name] = train_production_ranker(
                data, relevant_above=relevant_above, seed=own
            )
        if equals:
            try:
                shares[name] = float(share)
            except ValueError:
                raise ConfigError(f"a share is a number, got {text!r}") from None
    return rankers, shares


def wanted_sessions(
    clicks: float | None, sessions: float | None, clicks_per_session: float
) -> int:
    """Return how many sessions to draw, for a number of clicks or of sessions."""
    if (clicks is None) == (sessions is None):
        raise ConfigError("give either a number of clicks or a number of sessions")
    if clicks is not None:
        return sessions_for(clicks, clicks_per_session)
    if sessions is None or not float(sessions).is_integer():
        raise ConfigError(f"sessions must be a whole number, got {sessions}")
    return int(sessions)


def simulate(
    simulation: Simulation,
    *,
    clicks: float | None = None,
    sessions: float | None = None,
    log: Path | None = None,
    counts: Path | None = None,
    save_click_model: Path | None = None,
    context: str = "none",
    seed: int = 0,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Draw sessions, and write their log, their counts, or both.

    The target is a number of ``sessions``, or of ``clicks``, which expected clicks per
    session turn into sessions. Where both files are written, the counts are those of
    the log. With ``context="last-click"`` counts are by the rank of the last click
    above, too.

    Returns:
        Sizes, the clicks expected, and the files written, as plain data.
    """
    require_choice("context", context, ("none", "last-click"))
    wanted = wanted_sessions(clicks, sessions, simulation.expected_clicks)
    rng = stage_rng("clicks", seed)
    about: dict[str, Any] = {"expected_clicks": wanted * simulation.expected_clicks}
    if log is not None:
        about |= write_session_log(simulation, wanted, log, rng=rng, progress=progress)
    if counts is not None and log is not None:
        from affinerank.counts.counting import count_log, open_table
        from affinerank.logs.options import LogOptions

        how: dict[str, Any] = {"check": False, "context": context}
        if simulation.segments:
            how["options"] = LogOptions(segment="segment")
        with open_table(str(log)) as table:
            count_log(table, counts, progress=progress, **how)
    elif counts is not None:
        by = context == "last-click"
        drawn = simulate_counts(simulation, wanted, rng=rng, context=by)
        drawn.save(counts)
        about |= drawn.summary()
    if save_click_model is not None:
        write_click_model(simulation.click_model, save_click_model)
    named = {"log": log, "counts": counts, "click_model": save_click_model}
    written = {name: str(path) for name, path in named.items() if path is not None}
    return {**about, "written": written}
