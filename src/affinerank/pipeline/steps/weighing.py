"""From rows of counts to weights, by any estimator."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from affinerank.clicks.models import ClickModel
from affinerank.counts.counts import ClickCounts
from affinerank.counts.rows import ClickRows
from affinerank.data.dataset import RankingDataset
from affinerank.defaults import EVALUATOR
from affinerank.estimators import ESTIMATORS, Estimator, Evidence, Fold, Weights
from affinerank.estimators.click_value import valued
from affinerank.estimators.estimator import parse_clip
from affinerank.support.arrays import Floats
from affinerank.support.errors import ConfigError, DataError
from affinerank.support.progress import Progress, no_progress
from affinerank.support.settings import EntrySpec

if TYPE_CHECKING:
    from affinerank.bias.method import Estimate


def weigh(
    rows: ClickRows,
    estimator: str | EntrySpec,
    click_model: ClickModel | None = None,
    *,
    labels: Floats | None = None,
    folds: Sequence[Fold] = (),
    strict: bool = False,
) -> Weights:
    """Estimate the relevance of each document; or what it is worth, by values.

    Args:
        rows: Impressions and clicks.
        estimator: A row of ``ESTIMATORS`` with its options, ``affine(clip=0.1)``.
        click_model: How users click, where the estimator needs to know.
        labels: ``[n_docs]`` relevance, where the estimator needs it.
        folds: Rankers of other queries, where the estimator asks for some.
        strict: Reject ranks deeper than the click model instead of extending it.
    """
    row, options = _row(estimator)
    require_click_model(estimator, click_model)
    if strict:
        require_depth([estimator], rows, click_model)
    evidence = Evidence(rows, click_model, labels=labels, folds=folds, options=options)
    if row.needs == "labels":
        if rows.values is not None:
            raise ConfigError(
                f"{row.name} learns labels, which have no value: count without --value"
            )
        return row.weigh(evidence)
    # Ranks in few bytes: hundreds of weights are held at once.
    rank: Any = np.minimum(rows.shown_rank, np.iinfo(np.int16).max).astype(np.int16)
    found = replace(row.weigh(evidence), rank=rank)
    return valued(found, rows, click_model if row.needs_click_model else None)


def require_click_model(
    estimator: str | EntrySpec, click_model: ClickModel | None
) -> None:
    """Reject an estimator that corrects clicks where nobody says how users click."""
    row, _ = _row(estimator)
    if row.needs_click_model and click_model is None:
        raise ConfigError(
            f"the estimator {row.name} needs a click model: give the file that "
            "affinerank estimate COUNTS -o click-model.json wrote (--click-model "
            "click-model.json)"
        )


def learns_of(estimator: str | EntrySpec) -> tuple[str, ...]:
    """Return what rankers must learn out of fold for an estimator."""
    row, options = _row(estimator)
    return row.learns(options)


def _row(estimator: str | EntrySpec) -> tuple[Estimator, Any]:
    spec = EntrySpec.of(estimator)
    row = ESTIMATORS[spec.name]
    return row, spec.settings(row.options)


def require_depth(
    estimators: Sequence[str | EntrySpec],
    rows: ClickRows,
    click_model: ClickModel | None,
) -> None:
    """Reject ranks deeper than the click model, where an estimator needs one."""
    needed = any(row.needs_click_model for row in rows_named(estimators))
    if needed and click_model is not None and rows.depth > click_model.depth:
        raise DataError(
            f"the click model ends at rank {click_model.depth}, and the counts go "
            "down to "
            f"{rows.depth}; give a deeper one, or leave --strict out"
        )


def rows_named(estimators: Iterable[str | EntrySpec]) -> list[Estimator]:
    """Return the rows of ``ESTIMATORS`` that these name."""
    return [ESTIMATORS[EntrySpec.of(estimator).name] for estimator in estimators]


def with_clip(estimator: str | EntrySpec, clip: str | float | None) -> EntrySpec:
    """Give an estimator that divides its clipping rule."""
    spec = EntrySpec.of(estimator)
    names = [f.name for f in fields(ESTIMATORS[spec.name].options)]
    if clip is None or "clip" not in names or "clip" in dict(spec.parameters):
        return spec
    return EntrySpec(spec.name, (*spec.parameters, ("clip", clip)))


def require_clips(
    estimators: Sequence[str | EntrySpec], clip: str | float | None
) -> None:
    """Reject a clipping rule that cannot be read, or that no estimator would take."""
    if clip is None:
        return
    parse_clip(clip, 1)
    specs = list(map(EntrySpec.of, estimators))
    if all(with_clip(spec, clip) == spec for spec in specs):
        names = ", ".join(spec.name for spec in specs)
        divide = [name for name in ESTIMATORS if with_clip(name, clip).parameters]
        raise ConfigError(
            f"{names} does not divide by alpha, so there is nothing to clip; --clip is "
            f"for {', '.join(divide)}"
        )


def validation_estimator(estimator: str | EntrySpec) -> EntrySpec:
    """Return what judges by held-out clicks where this estimator is learnt from.

    Itself, without a clip, which biases; in place of one that needs rankers of other
    queries, the default with its prior by rank.
    """
    spec = EntrySpec.of(estimator)
    if learns_of(spec):
        return EntrySpec.parse(EVALUATOR)
    return EntrySpec(spec.name, tuple(p for p in spec.parameters if p[0] != "clip"))


def labels_for(
    estimators: Sequence[str | EntrySpec], data: RankingDataset, relevant_above: float
) -> Floats | None:
    """Relevance by labels, where one of these estimators needs it."""
    if not any(row.needs == "labels" for row in rows_named(estimators)):
        return None
    return data.relevance(relevant_above).astype(np.float64)


def require_click_model_possible(
    estimators: Sequence[str | EntrySpec], click_model: ClickModel | None
) -> bool:
    """Reject estimators whose users clicks cannot tell; return whether any are needed.

    From clicks, users are known up to gauge; some estimators need examination itself.
    """
    needing = [row for row in rows_named(estimators) if row.needs_click_model]
    for row in needing:
        if click_model is None and row.needs == "examination":
            raise ConfigError(
                f"{row.name} has to know examination: give --click-model; estimated "
                "from "
                "clicks, users are known up to gauge"
            )
    return bool(needing)


def click_model_for(
    estimators: Sequence[str | EntrySpec],
    counts: ClickCounts,
    data: RankingDataset,
    click_model: ClickModel | None = None,
    *,
    check: bool = True,
    seed: int = 0,
    progress: Progress = no_progress,
) -> tuple[ClickModel | None, Estimate | None]:
    """Return the click model that estimators need: the given one, or an estimate.

    Args:
        estimators: Rows of ``ESTIMATORS`` that use it.
        counts: Clicks.
        data: Features of the documents.
        click_model: The given one.
        check: Whether to warn if the log clearly contradicts the given one.
        seed: Of the estimate and the check.
        progress: Called as the estimation advances.

    Returns:
        The click model, and how it was estimated if it was.
    """
    is_needed = require_click_model_possible(estimators, click_model)
    if not is_needed:
        return click_model, None
    from affinerank.bias.method import EstimationSettings
    from affinerank.pipeline.steps.click_model import (
        check_click_model_against_log,
        estimate_click_model,
    )

    if click_model is not None:
        if check:
            check_click_model_against_log(counts, click_model, seed=seed)
        return click_model, None
    settings = EstimationSettings(seed=seed)
    estimate = estimate_click_model(counts, data, settings=settings, progress=progress)
    return estimate.click_model, estimate
