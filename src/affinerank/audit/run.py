"""Audit a click log: is it usable, is it biased, what can be done.

What this log cannot show is a finding too, never a failure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from affinerank.audit import (
    assumptions,
    bias,
    changes,
    click_rates,
    identified,
    own_clicks,
    usable,
)
from affinerank.audit.facts import facts_of
from affinerank.audit.findings import Audit, Section, Step
from affinerank.audit.next_steps import next_steps
from affinerank.counts.counts import ClickCounts
from affinerank.data.dataset import RankingDataset
from affinerank.support.errors import ConfigError
from affinerank.support.files import scratch_folder
from affinerank.support.progress import Progress, no_progress

if TYPE_CHECKING:
    from affinerank.audit.survey import LogSurvey
    from affinerank.logs.options import LogOptions


SECTIONS = (
    (usable.QUESTION, usable.usable),
    (click_rates.QUESTION, click_rates.click_rates),
    (assumptions.QUESTION, assumptions.assumptions),
    (bias.POSITION, bias.position_bias),
    (bias.TRUST, bias.trust_bias),
    (identified.QUESTION, identified.identified),
    (own_clicks.QUESTION, own_clicks.own_clicks),
    (changes.QUESTION, changes.first_rank),
)


def audit_file(
    source: str,
    data: RankingDataset | None = None,
    *,
    options: LogOptions | None = None,
    opening: Mapping[str, Any] | None = None,
    days: float | None = None,
    seed: int = 0,
    progress: Progress = no_progress,
) -> Audit:
    """Audit a log or a file of counts; see :func:`audit`.

    Args:
        source: A log as ``count`` reads it, or the counts it writes.
        data: Features of the documents, if there are any.
        options: How the log is to be read.
        opening: Arguments of ``open_table``, as in ``{"memory": "1GB"}``.
        days: How many days it covers; a log with dates says so itself.
        seed: Of everything random.
        progress: Called at each stage.
    """
    from affinerank.audit.survey import survey_log
    from affinerank.engines.opening import open_table
    from affinerank.logs.options import LogOptions

    settings, survey = options or LogOptions(), None
    counts: ClickCounts | None
    with open_table(source, **opening or {}) as table, scratch_folder() as folder:
        counted = {"impressions", "clicks", "sessions"} <= set(table.columns)
        if counted and "clicked" not in table.columns:
            since, until, lists = settings.since, settings.until, settings.list_id
            if settings != LogOptions(since=since, until=until, list_id=lists):
                raise ConfigError(f"{source}: holds counts; the options are for logs")
            counts = ClickCounts.load(source, since=since, until=until)
        else:
            target = folder / "counts.parquet"
            survey = survey_log(table, target, settings, progress)
            counts = survey.counts
    found = audit(counts, data, survey=survey, days=days, seed=seed, progress=progress)
    return replace(found, source=source)


def audit(
    counts: ClickCounts | None,
    data: RankingDataset | None = None,
    *,
    survey: LogSurvey | None = None,
    days: float | None = None,
    seed: int = 0,
    progress: Progress = no_progress,
) -> Audit:
    """Find out what a log is good for.

    Args:
        counts: Its counts; none where nothing of it could be counted.
        data: Features of the documents, if there are any.
        survey: Of the log that was counted.
        days: How many days it covers, where the log has no dates.
        seed: Of everything random.
        progress: Called at each stage.
    """
    if days is not None and not 0 < days < np.inf:
        raise ConfigError(f"days must be above 0, got {days:g}")
    if counts is None or not counts.impressions.any():
        return _nothing(survey)
    length = days if days is not None else survey.days if survey else None
    facts = facts_of(counts, data, survey, length, seed=seed, progress=progress)
    sections = tuple(write(facts) for _, write in SECTIONS)
    return Audit(sections, tuple(next_steps(facts)), worth=changes.worth(facts))


def _nothing(survey: LogSurvey | None) -> Audit:
    """Return the audit of a log of which nothing could be counted."""
    empty = ("There is nothing to look at.",)
    sections = [Section(question, "unknown", empty) for question, _ in SECTIONS[1:]]
    says = "Correct the faults, or log impressions, clicked or not."
    repair = Step("repair", "Repair the log", (says,))
    return Audit((usable.unusable(survey), *sections), (repair,))
