"""A second judge of rankings by clicks, whose error is not that of the users."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from affinerank.bias import EstimationSettings
from affinerank.clicks.models import ClickModel
from affinerank.counts.rows import ClickRows
from affinerank.defaults import CORRECTION, METHOD_FROM_SWAPS
from affinerank.estimators import Weights
from affinerank.evaluation.rank_effects import rank_effects
from affinerank.pipeline.steps.click_model import estimate_from_rows
from affinerank.pipeline.steps.weighing import weigh
from affinerank.support.arrays import Floats
from affinerank.support.errors import DataError

SWAPS = "documents that changed rank"
RANKS = "rank effects"
MIN_CLICKS = 20_000  # from which documents that changed rank tell enough


def second_evaluator(
    rows: ClickRows, scores: Sequence[Floats], click_model: ClickModel | None
) -> tuple[str, Weights]:
    """Correct clicks without these users: by documents that changed rank, if enough.

    Otherwise by what clicks show of ranks (:mod:`affinerank.evaluation.rank_effects`).

    Args:
        rows: The clicks.
        scores: ``[n_docs]`` of rankings, by rankers that had not seen the query.
        click_model: Those of the first judge.

    Returns:
        Its name, and relevance up to gauge.
    """
    plain, how = rows.merged(), EstimationSettings(method=METHOD_FROM_SWAPS)
    used = (
        click_model.estimated.method
        if click_model is not None and click_model.estimated
        else None
    )
    if used != METHOD_FROM_SWAPS and plain.clicks.sum() >= MIN_CLICKS:
        with suppress(DataError):  # too few of them
            moved = estimate_from_rows(plain, settings=how).click_model
            return SWAPS, weigh(plain, CORRECTION, moved)
    return RANKS, weigh(plain, CORRECTION, rank_effects(plain, scores))
