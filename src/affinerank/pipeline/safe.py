r"""Safe learning: a ranker that departs from production only as far as clicks justify.

The ranker is a blend of production and of a learnt ranker,

.. math:: (1 - a) \, \mathrm{production} + a \, \mathrm{learnt},

both in units of the spread of their scores within queries. The share a is the largest
that passes two tests:

- Both evaluators (``second_evaluator``: affine, which uses the click
  model, and one that does not) find that the blend raises DCG@10 over the logged
  ranking by z standard errors over queries, :math:`z = 2 \min(1, \sqrt{10^5 / N})` with
  N sessions. The learnt rankers of this test did not learn from the queries.
- :math:`a \le \sqrt{N / 200{,}000}`, and a = 0 up to 100 sessions: a limit that relies
  on no evaluator.

If no share passes, the ranker is production itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from affinerank.clicks.models import ClickModel
from affinerank.counts.counts import ClickCounts
from affinerank.counts.holdout import train_part
from affinerank.counts.rows import ClickRows, join_counts
from affinerank.data.dataset import RankingDataset
from affinerank.defaults import CORRECTION, ESTIMATOR, RANKER
from affinerank.evaluation.click_value import estimate
from affinerank.evaluation.rank_weights import DCG_10, over_logged, ranks_of
from affinerank.pipeline.compare import ChoiceSettings, hold_out
from affinerank.pipeline.steps.second_evaluator import second_evaluator
from affinerank.pipeline.steps.weighing import click_model_for, weigh
from affinerank.pipeline.train import Trained, train
from affinerank.rankers.blend import (
    production_of,
    spread_within_lists,
    with_production,
)
from affinerank.support.arrays import Floats
from affinerank.support.errors import ConfigError, DataError, warn
from affinerank.support.progress import Progress, no_progress

SHARES = (0.1, 0.25, 0.5, 0.75, 1.0)  # of the learnt ranker; these are evaluated
ERRORS = 2.0  # standard errors by which a share must gain
MIN_SESSIONS = 100  # with no more sessions than this, production stays
SESSIONS_FOR_FULL_SHARE = 2e5  # from here the learnt ranker may stand alone
SESSIONS_FOR_FULL_ERRORS = 1e5  # with more sessions, fewer standard errors suffice
MIN_SAME_RANK = 0.8  # share of impressions whose rank production's score must explain


@dataclass(frozen=True, slots=True)
class Step:
    """The gain from one share of the learnt ranker, by the less favourable evaluator.

    Attributes:
        share: Share of the learnt ranker in the blend.
        gain: Change of DCG@10 over the logged ranking, on held-out queries.
        standard_error: Standard error of the gain, over queries.
        evaluator: Name of the evaluator.
    """

    share: float
    gain: float
    standard_error: float
    evaluator: str


def train_safe(
    counts: ClickCounts,
    data: RankingDataset,
    click_model: ClickModel | None = None,
    *,
    production: str,
    settings: ChoiceSettings | None = None,
    progress: Progress = no_progress,
) -> Trained:
    """Train a ranker that is hardly worse than production, whatever the clicks show.

    Args:
        counts: Impressions and clicks. If they are split, only ``train`` is used.
        data: Features of the documents, including production's score.
        click_model: The click model: how users click; estimated if ``None`` and needed.
        production: Name of the feature that holds production's score (higher is ranked
            earlier). The ranker needs this feature when it serves, too.
        settings: Settings of the training, with one estimator and one ranker; ``None``:
            the defaults.
        progress: Called as training advances.

    Returns:
        The one trained ranker, whose provenance holds the evaluated shares.
    """
    settings = settings or ChoiceSettings((RANKER,), estimators=(ESTIMATOR,))
    if len(settings.candidates) > 1:
        raise ConfigError("safe learning trains one ranker by one estimator")
    [estimator] = settings.estimators
    [ranker] = settings.rankers
    production_scores = _scores_of_production(data, production)

    # How users click, for the estimator and for the first evaluator.
    click_model, click_model_estimate = click_model_for(
        (CORRECTION, estimator),
        counts,
        data,
        click_model,
        seed=settings.seed,
        progress=progress,
    )

    # The share that held-out clicks justify.
    share, steps = _find_safe_share(
        production,
        production_scores,
        counts,
        data,
        click_model,
        settings,
        progress=progress,
    )

    # The learnt ranker, trained on all queries.
    trained = train(
        counts,
        data,
        click_model,
        settings.training_of(ranker, data),
        check_click_model=False,  # done above
        progress=progress,
    )
    [(name, learnt)] = trained.rankers.items()

    # Its blend with production. Importance of features is that of the learnt ranker
    # alone, so it is left out.
    provenance = dict(learnt.provenance)
    provenance.pop("importance", None)
    provenance["safe"] = {
        "production": production,
        "share": share,
        "steps": [asdict(step) for step in steps],
    }
    blend = with_production(learnt, share, production_of(production), data, provenance)
    report = {**trained.reports[name], "share_of_learnt": share}
    return replace(
        trained,
        rankers={name: blend},
        reports={name: report},
        estimate=click_model_estimate,
    )


def _scores_of_production(data: RankingDataset, feature: str) -> Floats:
    """Return production's scores; reject data that lack some of them."""
    if feature not in data.feature_names:
        raise ConfigError(
            f"--production names the feature that holds production's score; the data "
            f"have no feature {feature!r}"
        )
    column = data.feature_names.index(feature)
    scores = data.features[:, column].astype(np.float64)
    n_missing = int(np.isnan(scores).sum())
    if n_missing:
        raise DataError(
            f"--production {feature}: {n_missing} of {len(scores)} documents have no "
            "score of production, so production could not rank them; fill the scores "
            "in, or read missing values as 0 (--missing 0)"
        )
    return scores


def _find_safe_share(
    production: str,
    production_scores: Floats,
    counts: ClickCounts,
    data: RankingDataset,
    click_model: ClickModel | None,
    settings: ChoiceSettings,
    *,
    progress: Progress,
) -> tuple[float, list[Step]]:
    """Find the largest share of the learnt ranker that held-out clicks justify.

    Returns:
        The share, and the evaluated steps. With few sessions, or if the clicks cannot
        be evaluated, the share is 0 and there are no steps.
    """
    try:
        if join_counts(train_part(counts), data).n_sessions <= MIN_SESSIONS:
            return 0.0, []
        scores, rows, _ = hold_out(
            counts,
            data,
            click_model,
            settings=settings,
            progress=progress,
        )
        _warn_if_other_order(production_scores, rows, production)
        [learnt_scores] = scores.values()
        steps = evaluate_shares(production_scores, learnt_scores, rows, click_model)
    except DataError as error:
        warn(f"the ranker stays with production: {error}")
        return 0.0, []
    return largest_safe_share(steps, rows.n_sessions), steps


def _warn_if_other_order(
    production_scores: Floats, rows: ClickRows, feature: str
) -> None:
    """Warn if production's score does not explain the order of the logged lists."""
    # The rank that production's score gives each document among those shown.
    was_shown = rows.by_doc(rows.impressions) > 0
    scores_of_shown = np.where(was_shown, production_scores, -np.inf)
    rank_by_score = ranks_of(scores_of_shown, rows)[rows.doc]

    has_same_rank = rank_by_score == rows.rank
    same_rank_share = float(np.average(has_same_rank, weights=rows.impressions))
    if same_rank_share < MIN_SAME_RANK:
        warn(
            f"{feature} explains the rank of only {same_rank_share:.0%} of the "
            "impressions: it is not the score that ordered this log, so the ranker may "
            "be worse than production"
        )


def evaluate_shares(
    production_scores: Floats,
    learnt_scores: Floats,
    rows: ClickRows,
    click_model: ClickModel | None,
) -> list[Step]:
    """Evaluate each of ``SHARES`` on held-out queries.

    Args:
        production_scores: ``[n_docs]``.
        learnt_scores: ``[n_docs]``, by rankers that did not learn from the query.
        rows: The clicks on the held-out queries.
        click_model: How users click, for the first evaluator.

    Returns:
        For each share, the result of the less favourable evaluator.
    """
    # Both scores in units of their spread within the held-out lists, as in the blend.
    query = rows.query_of_doc
    is_held_out = np.isin(query, rows.query)
    query_held_out = query[is_held_out]
    unit_of_production = spread_within_lists(
        production_scores[is_held_out], query_held_out
    )
    unit_of_learnt = spread_within_lists(learnt_scores[is_held_out], query_held_out)
    production_in_units = production_scores / unit_of_production
    learnt_in_units = learnt_scores / unit_of_learnt

    # The relevance of documents, estimated from clicks by each evaluator.
    second_name, second_weights = second_evaluator(rows, [learnt_scores], click_model)
    relevance_by_evaluator = {
        CORRECTION: weigh(rows, CORRECTION, click_model),
        second_name: second_weights,
    }

    # The gain of each blend over the logged ranking.
    steps = []
    for share in SHARES:
        blended = (1.0 - share) * production_in_units + share * learnt_in_units
        added_weights = over_logged(blended, rows, DCG_10)
        steps_by_evaluator = []
        for evaluator, relevance in relevance_by_evaluator.items():
            gain = estimate(relevance, added_weights, query)
            error = gain.queries.standard_error
            steps_by_evaluator.append(Step(share, gain.least, error, evaluator))
        steps.append(min(steps_by_evaluator, key=_gain_in_errors))
    return steps


def largest_safe_share(steps: Sequence[Step], sessions: int) -> float:
    """Return the largest share whose gain is clear; 0 if there is none."""
    if sessions <= MIN_SESSIONS:
        return 0.0

    # With many sessions, a gain of fewer standard errors is clear enough.
    fewer_errors = np.sqrt(SESSIONS_FOR_FULL_ERRORS / sessions)
    errors_required = ERRORS * min(1.0, fewer_errors)
    clear_shares = [
        step.share for step in steps if _gain_in_errors(step) >= errors_required
    ]

    # Whatever the evaluators say, few sessions allow only a small share.
    limit = np.sqrt(sessions / SESSIONS_FOR_FULL_SHARE)
    return float(min(max(clear_shares, default=0.0), limit))


def _gain_in_errors(step: Step) -> float:
    """Return a gain in standard errors; without a standard error it is no gain."""
    if step.standard_error > 0:
        return step.gain / step.standard_error
    return -np.inf
