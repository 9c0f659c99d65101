r"""Safe learning: a ranker that leaves production as far as clicks show that it may.

A blend of production and of what was learnt,

.. math:: (1 - a) \, \mathrm{production} + a \, \mathrm{learnt},

both in units of their spread within queries. The share a is the largest for which the
DCG@10 of rankers that had not seen the queries is above that of the logged ranking by
z standard errors (over queries), by two judges: affine, with the users, and one that
uses none. :math:`z = 2 \min(1, \sqrt{10^5 / N})` with N sessions, and
:math:`a \le \sqrt{N / 200{,}000}`, a limit that needs no judge. Where no share is, and
up to 100 sessions, the ranker is production itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from affinerank.arrays import Floats
from affinerank.clicks.counts import ClickCounts
from affinerank.clicks.models import ClickModel
from affinerank.clicks.rows import ClickRows, rows_of
from affinerank.data.dataset import RankingDataset
from affinerank.defaults import CORRECTION, ESTIMATOR, RANKER
from affinerank.errors import ConfigError, DataError, warn
from affinerank.evaluation.offpolicy import estimate
from affinerank.evaluation.rank_weights import DCG_10, over_logged, ranks_of
from affinerank.pipeline.choice import ChoiceSettings, hold_out
from affinerank.pipeline.judges import second_judge
from affinerank.pipeline.parts import train_part
from affinerank.pipeline.training import Trained, train
from affinerank.pipeline.weighing import users_for, weigh
from affinerank.progress import Progress, quiet
from affinerank.rankers.blend import (
    production_of,
    spread_within_lists,
    with_production,
)

SHARES = (0.1, 0.25, 0.5, 0.75, 1.0)
ERRORS = 2.0
KEPT = 100  # sessions up to which production stays
LEAST_SAME = 0.8  # share of impressions that production's score must place
MANY = 1e5  # sessions from which fewer standard errors do
WHOLE = 2e5  # sessions from which the learnt ranker may stand alone


@dataclass(frozen=True, slots=True)
class Step:
    """What a share of the learnt ranker changes, by the judge that likes it least.

    Attributes:
        share: a.
        gain: DCG@10 over the logged ranking, on queries that were held out.
        standard_error: Over queries.
        judge: Its name.
    """

    share: float
    gain: float
    standard_error: float
    judge: str


def train_safe(
    counts: ClickCounts,
    data: RankingDataset,
    users: ClickModel | None = None,
    *,
    production: str,
    settings: ChoiceSettings | None = None,
    strict: bool = False,
    progress: Progress = quiet,
) -> Trained:
    """Train a ranker that is hardly worse than production, whatever the clicks say.

    Args:
        counts: Clicks; of their ``split``, where they have one, the part ``train``.
        data: Features of the documents, production's score among them.
        users: How users click; estimated first where left out and needed.
        production: Name of the feature that holds production's score, higher is
            earlier. The ranker needs it to serve, too.
        settings: Of the trainings: one estimator, one ranker; the defaults where left
            out.
        strict: Reject ranks deeper than the user model instead of extending it.
        progress: Called as training advances.

    Returns:
        The one ranker, whose provenance holds the steps.
    """
    settings = settings or ChoiceSettings((RANKER,), estimators=(ESTIMATOR,))
    if len(settings.candidates) > 1:
        raise ConfigError("safe learning trains one ranker by one estimator")
    [estimator] = settings.estimators
    if production not in data.feature_names:
        raise ConfigError(
            f"--production names the feature that holds production's score; the data "
            f"have no feature {production!r}"
        )
    place = data.feature_names.index(production)
    n_missing = int(np.isnan(data.features[:, place]).sum())
    if n_missing:
        raise DataError(
            f"--production {production}: {n_missing} of {len(data.features)} documents "
            "have no score of production, which could not rank them; fill it in, or "
            "read what is missing as 0 (--missing 0)"
        )
    own = (CORRECTION, estimator)
    known, found = users_for(
        own, counts, data, users, seed=settings.seed, progress=progress
    )
    given: dict[str, Any] = {"strict": strict, "progress": progress}
    raw = data.features[:, place].astype(np.float64)
    share, steps = 0.0, list[Step]()
    try:
        if rows_of(train_part(counts), data).n_sessions > KEPT:
            scores, rows, _ = hold_out(counts, data, known, settings=settings, **given)
            _note_other_order(raw, rows, production)
            [learnt_outside] = scores.values()
            steps = steps_of(raw, learnt_outside, rows, known)
            share = largest(steps, rows.n_sessions)
    except DataError as error:
        warn(f"production is kept: {error}")
    [ranker] = settings.rankers
    trained = train(
        counts,
        data,
        known,
        estimators=[estimator],
        **settings.training(ranker, data),
        **given,
    )
    [(name, learnt)] = trained.rankers.items()
    # What features are worth to the learnt ranker is not what they are to the blend.
    provenance = {k: v for k, v in learnt.provenance.items() if k != "importance"}
    provenance["safe"] = {
        "production": production,
        "share": share,
        "steps": [asdict(step) for step in steps],
    }
    blend = with_production(learnt, share, production_of(production), data, provenance)
    reports = {name: {**trained.reports[name], "share_of_learnt": share}}
    return replace(trained, rankers={name: blend}, reports=reports, estimate=found)


def steps_of(
    production: Floats, learnt: Floats, rows: ClickRows, users: ClickModel | None
) -> list[Step]:
    """Judge each share, of scores ``[n_docs]`` of rankers without these queries."""
    query = rows.query_of_doc

    # Both in units of their spread within the lists that were scored, as in the blend.
    is_scored = np.isin(query, rows.query)
    logged, own = (
        each / spread_within_lists(each[is_scored], query[is_scored])
        for each in (production, learnt)
    )
    judges = {CORRECTION: weigh(rows, CORRECTION, users)}
    judges |= [second_judge(rows, [learnt], users)]
    steps = []
    for share in SHARES:
        mixed = (1.0 - share) * logged + share * own
        over = over_logged(mixed, rows, DCG_10)
        found = [
            Step(share, value.least, value.queries.standard_error, name)
            for name, weights in judges.items()
            for value in [estimate(weights, over, query)]
        ]
        steps.append(min(found, key=_errors_above))
    return steps


def _note_other_order(production: Floats, rows: ClickRows, name: str) -> None:
    """Warn where production's score is not what ordered the log."""
    shown = rows.by_doc(rows.impressions) > 0
    rank = ranks_of(np.where(shown, production, -np.inf), rows)[rows.doc]
    same = float(np.average(rank == rows.rank, weights=rows.impressions))
    if same < LEAST_SAME:
        warn(
            f"{name} puts {same:.0%} of the impressions at the rank they were shown "
            "at: it is not the score that ordered this log, and nothing is promised"
        )


def largest(steps: Sequence[Step], sessions: int) -> float:
    """Return the largest share that is safe; 0 where none is."""
    wanted = ERRORS * min(1.0, np.sqrt(MANY / max(sessions, 1)))
    safe = [step.share for step in steps if _errors_above(step) >= wanted]
    most = np.sqrt(sessions / WHOLE) if sessions > KEPT else 0.0
    return float(min(max(safe, default=0.0), most))


def _errors_above(step: Step) -> float:
    """Gain in standard errors; nothing that cannot be told is a gain."""
    error = step.standard_error
    return step.gain / error if error > 0 else -np.inf
