"""Counts turned into debiased labels, for training elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from affinerank.clicks.models import ClickModel
from affinerank.counts.counts import ClickCounts
from affinerank.counts.holdout import ids_of, matched_rows
from affinerank.counts.rows import ClickRows
from affinerank.counts.table import VALUES
from affinerank.data.dataset import RankingDataset
from affinerank.defaults import ESTIMATOR
from affinerank.estimators import Estimator, Fold, Weights
from affinerank.estimators.click_value import value_variance
from affinerank.estimators.correction import standard_error
from affinerank.pipeline.steps.click_model import check_click_model_against_log
from affinerank.pipeline.steps.out_of_fold import RankerJob, train_quickly
from affinerank.pipeline.steps.weighing import learns_of, rows_named, weigh, with_clip
from affinerank.support.errors import DataError
from affinerank.support.files import PathLike, atomic_write
from affinerank.support.progress import Progress, no_progress

ESTIMATED_BY = "affinerank.estimator"
GAUGE = "affinerank.gauge"


def debias(
    counts: ClickCounts,
    click_model: ClickModel | None = None,
    *,
    data: RankingDataset | None = None,
    estimator: str = ESTIMATOR,
    clip: str | float | None = None,
    seed: int = 0,
    progress: Progress = no_progress,
) -> pa.Table:
    """Estimate the relevance of each document from its clicks.

    Estimators that expect something of a document before its own clicks expect it by
    features, with linear models of other queries' clicks, if there are ``data``; the
    default does so by the rank shown otherwise.

    Args:
        counts: Clicks; where they are split, labels keep the ``split``.
        click_model: How users click, if the estimator needs them.
        data: Features of the documents. Those of queries that were issued are labelled
            even if they were never shown, by estimators that expect something of them.
        estimator: A row of ``ESTIMATORS``, with options as in ``affine(clip=0.1)``.
        clip: Clipping rule of an estimator that divides.
        seed: Of the queries that linear models learn from.
        progress: Called as they learn.

    Returns:
        ``query_id, doc_id, [split], relevance, standard_error, impressions, clicks``,
        one row per query and document that is known, with the estimator and the gauge
        (what 0 and 1 mean) in the metadata. Relevance may be below 0 or above 1. Where
        clicks have a value, ``value`` is in its place: what relevance is worth.

        Where other documents have a say in the relevance, two columns are in the place
        of ``standard_error``: ``standard_deviation``, of what the document's relevance
        may be, and ``own_clicks``, the share of its own clicks in it (1: all of it; 0:
        it is predicted).
    """
    [row] = rows_named([estimator])
    if not counts.impressions.any():
        raise DataError("the counts hold no impressions, so there is nothing to label")
    spec = with_clip(estimator, clip)
    if row.needs_click_model:
        check_click_model_against_log(counts, click_model, seed=seed)

    splits: list[str | None] = [None]
    if "split" in counts.keys:
        splits = counts.column("split").unique().to_pylist()
    parts = []
    for split in splits:
        part = counts if split is None else counts.select("split", split)
        rows = matched_rows(part, data)
        folds: Sequence[Fold] = ()
        if data is not None and (click_model is not None or not row.needs_click_model):
            log = RankerJob(rows, click_model, learns_of(spec), seed)
            folds = train_quickly(log, data, progress)
        weights = weigh(rows, spec, click_model, folds=folds)
        found = _labels(rows, ids_of(part, data), weights)
        if split is not None:
            column = pa.array([split] * found.num_rows, type=pa.string())
            found = found.add_column(2, "split", column)
        parts.append(found)
    labels = pa.concat_tables(parts)
    gauge = _gauge(row, click_model)
    if VALUES[0] in counts.columns:
        gauge = f"relevance times value, in values of an average click; {gauge}"
    about = {ESTIMATED_BY: estimator, GAUGE: gauge}
    return labels.replace_schema_metadata(about)


def save_labels(labels: pa.Table, path: PathLike) -> dict[str, Any]:
    """Write labels as Parquet, whole or not at all; return a summary."""
    numbers = {"relevance", "value", "standard_error", "standard_deviation"}
    for name in numbers.intersection(labels.column_names):
        if not pc.all(pc.is_finite(labels[name])).as_py():
            raise DataError(
                f"{path}: {name} would not be finite: clicks are divided by too little "
                "at some rank; clip (--clip), or check alpha of the users"
            )
    with atomic_write(Path(path)) as aside:
        pq.write_table(labels, aside, compression="zstd")
    metadata = labels.schema.metadata
    return {
        "documents": labels.num_rows,
        "queries": len(pc.unique(labels["query_id"])),
        "impressions": pc.sum(labels["impressions"]).as_py(),
        "clicks": pc.sum(labels["clicks"]).as_py(),
        "estimator": metadata[ESTIMATED_BY.encode()].decode(),
        "gauge": metadata[GAUGE.encode()].decode(),
        "written": str(path),
    }


def _labels(rows: ClickRows, ids: pa.Table, weights: Weights) -> pa.Table:
    if weights.own_click_share is not None:
        deviation = np.sqrt(weights.variance)
        error = {"standard_deviation": deviation, "own_clicks": weights.own_click_share}
    else:
        own = standard_error(weights, rows)
        if rows.values is not None:
            own = np.sqrt(own**2 + value_variance(weights, rows))
        error = {"standard_error": own}
    columns = {
        **{name: ids[name] for name in ids.column_names},
        "relevance" if rows.values is None else "value": weights.weight,
        **error,
        "impressions": rows.by_doc(rows.impressions).astype(np.int64),
        "clicks": rows.by_doc(rows.clicks).astype(np.int64),
    }
    known = pa.table(columns).filter(pa.array(weights.known))
    return known.sort_by([("query_id", "ascending"), ("doc_id", "ascending")])


def _gauge(row: Estimator, click_model: ClickModel | None) -> str:
    """What 0 and 1 mean, in words."""
    if click_model is None or not row.needs_click_model:
        return row.meaning
    if click_model.identified == "relative":
        return (
            "that of the click model: relevance up to a factor and a shift, the same "
            "for all documents; compare documents, do not read as probabilities"
        )
    if click_model.estimated is not None:
        return f"{row.meaning}, as far as users are known"
    return row.meaning
