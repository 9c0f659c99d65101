"""A click log told to its owner: is it usable, is it biased, what can be done.

Findings are plain data; every section has a ``verdict`` of one word and says in
``says`` what it means. What cannot be told is a finding too, never a failure.
"""

from __future__ import annotations

import tempfile
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from affinerank.bias.documents import ClickRows, numbered
from affinerank.bias.interventions import overlap_of
from affinerank.bias.pooling import pool_ranks
from affinerank.bias.swaps import plan_swaps
from affinerank.clicks.counts import EXTRA_KEYS, ClickCounts
from affinerank.clicks.join import join_counts
from affinerank.data.dataset import RankingDataset
from affinerank.errors import AffineRankWarning, ConfigError, DataError
from affinerank.pipeline.audit_advice import next_steps
from affinerank.pipeline.audit_bias import (
    first_rank,
    identified,
    position_bias,
    trust_bias,
)
from affinerank.pipeline.audit_log import Audited, Section, click_rates, usable
from affinerank.pipeline.estimation import estimate_users
from affinerank.pipeline.estimation_methods import EstimationSettings
from affinerank.pipeline.parts import note_unmatched, train_part
from affinerank.progress import Progress, quiet

if TYPE_CHECKING:
    from affinerank.clicks.log import LogOptions
    from affinerank.clicks.survey import LogSurvey


def audit_file(
    source: str,
    data: RankingDataset | None = None,
    *,
    options: LogOptions | None = None,
    days: float | None = None,
    seed: int = 0,
    progress: Progress = quiet,
) -> dict[str, Any]:
    """Audit a log or a file of counts; see :func:`audit`.

    Args:
        source: A log as ``count`` reads it, or the counts it writes.
        data: Features of the documents, if there are any.
        options: How the log is to be read.
        days: How many days it is of; a log that has dates tells by itself.
        seed: Of everything random.
        progress: Told of each stage.
    """
    from affinerank.clicks.counting import open_table
    from affinerank.clicks.log import LogOptions
    from affinerank.clicks.survey import survey_log

    asked = options or LogOptions()
    counts: ClickCounts | None
    with open_table(source) as table, tempfile.TemporaryDirectory() as folder:
        counted = {"impressions", "clicks", "sessions"} <= set(table.columns)
        if counted and "clicked" not in table.columns:
            if replace(asked, list_id=None) != LogOptions():  # features have it too
                raise ConfigError(
                    f"{source}: holds counts, and how a log is to be read was asked "
                    "for; ask it of count, or audit the log"
                )
            survey, counts = None, ClickCounts.load(source)
        else:
            target = Path(folder) / "counts.parquet"
            survey = survey_log(table, target, options=asked, progress=progress)
            counts = survey.counts
    return {
        "source": source,
        **audit(counts, data, survey=survey, days=days, seed=seed, progress=progress),
    }


def audit(
    counts: ClickCounts | None,
    data: RankingDataset | None = None,
    *,
    survey: LogSurvey | None = None,
    days: float | None = None,
    seed: int = 0,
    progress: Progress = quiet,
) -> dict[str, Any]:
    """Say what a log is good for, as plain data.

    Args:
        counts: Its counts; none where nothing of it could be counted.
        data: Features of the documents, if there are any.
        survey: Of the log that was counted.
        days: How many days it is of, where neither dates nor the log tell.
        seed: Of everything random.
        progress: Told of each stage.

    Returns:
        ``usable``, ``click_rates``, ``position_bias``, ``trust_bias``, ``identified``,
        ``first_rank`` and ``next``.
    """
    if days is not None and not 0 < days < np.inf:
        raise ConfigError(f"days must be above 0, got {days:g}")
    length = days if days is not None else survey.days if survey else None
    if counts is None or not counts.impressions.any():
        return _nothing(survey)
    about = _looked_at(counts, data, survey, seed, progress)
    sections = {
        "usable": usable(about, length),
        "click_rates": click_rates(about),
        "position_bias": position_bias(about),
        "trust_bias": trust_bias(about),
        "identified": identified(about),
        "first_rank": first_rank(about),
    }
    plan = plan_swaps(about.rows, about.pools)
    return {**sections, "next": next_steps(sections, plan, data is not None)}


def _looked_at(
    counts: ClickCounts,
    data: RankingDataset | None,
    survey: LogSurvey | None,
    seed: int,
    progress: Progress,
) -> Audited:
    merged = counts.merged(*(key for key in EXTRA_KEYS if key in counts.keys))
    doc, query = numbered(merged)
    seen = merged.impressions > 0
    rows = ClickRows(
        doc[seen],
        query[seen],
        merged.rank[seen],
        merged.impressions[seen].astype(np.float64),
        merged.clicks[seen].astype(np.float64),
    )
    pools = pool_ranks(rows.rank, rows.impressions, rows.clicks)
    found, refused = None, None
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", AffineRankWarning)
        try:
            asked = EstimationSettings(seed=seed)
            found = estimate_users(counts, data, settings=asked, progress=progress)
        except DataError as error:
            if data is not None:  # data of other documents are a mistake, no finding
                note_unmatched(join_counts(train_part(counts), data))
            refused = str(error)
    return Audited(
        counts,
        merged,
        rows,
        pools,
        overlap_of(rows, pools),
        found,
        refused,
        survey,
        data is not None,
        tuple(dict.fromkeys(str(each.message) for each in said)),
    )


def _nothing(survey: LogSurvey | None) -> dict[str, Any]:
    """The sections of a log of which nothing could be counted."""
    if survey is None or not survey.rows:
        why = "There are no impressions in it."
    else:
        why = (
            f"Every session has a fault: none of {survey.rows:,} rows could be counted."
        )
    empty = {"verdict": "unknown", "says": ["There is nothing to look at."]}
    found = list(survey.findings) if survey else []
    unusable: Section = {"verdict": "no", "says": [why], "checks": []}
    put_right = "Put the faults right, or log impressions, clicked or not."
    names = ("click_rates", "position_bias", "trust_bias", "identified", "first_rank")
    return {
        "usable": {**unusable, "findings": found},
        **{name: dict(empty) for name in names},
        "next": [{"step": "repair", "title": "Repair the log", "says": [put_right]}],
    }
