"""Counts turned into debiased labels, for training elsewhere."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from affinerank.clicks.counts import ClickCounts
from affinerank.clicks.models import ClickModel
from affinerank.clicks.rows import document_ids, rows_of
from affinerank.defaults import ESTIMATOR
from affinerank.errors import DataError
from affinerank.estimators import Estimator
from affinerank.estimators.correction import standard_error
from affinerank.files import written_whole
from affinerank.pipeline.weighing import rows_named, weigh, with_clip
from affinerank.settings import Spec

ESTIMATED_BY = "affinerank.estimator"
GAUGE = "affinerank.gauge"


def debias(
    counts: ClickCounts,
    users: ClickModel | None = None,
    *,
    estimator: str = ESTIMATOR,
    clip: str | float | None = None,
) -> pa.Table:
    """Estimate the relevance of each document from its clicks.

    Args:
        counts: Clicks; where they are split, labels keep the ``split``.
        users: How users click, if the estimator needs them.
        estimator: A row of ``ESTIMATORS``, with options as in ``affine(clip=0.1)``.
        clip: Clipping rule of an estimator that divides.

    Returns:
        ``query_id, doc_id, [split], relevance, standard_error, impressions, clicks``,
        one row per query and document that is known, with the estimator and the gauge
        (what 0 and 1 mean) in the metadata. Relevance may be below 0 or above 1.
    """
    [row] = rows_named([estimator])
    if not counts.impressions.any():
        raise DataError("the counts hold no impressions, so there is nothing to label")
    spec = with_clip(estimator, clip)
    if "split" not in counts.keys:
        labels = _labels(counts, users, spec)
    else:
        parts = []
        for value in pc.unique(counts.table["split"]).to_pylist():
            part = _labels(counts.select("split", value), users, spec)
            column = pa.array([value] * part.num_rows, type=pa.string())
            parts.append(part.add_column(2, "split", column))
        labels = pa.concat_tables(parts)
    about = {ESTIMATED_BY: estimator, GAUGE: _gauge(row, users)}
    return labels.replace_schema_metadata(about)


def save_labels(labels: pa.Table, path: str | os.PathLike[str]) -> dict[str, Any]:
    """Write labels as Parquet, whole or not at all; return a summary."""
    with written_whole(Path(path)) as aside:
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


def _labels(counts: ClickCounts, users: ClickModel | None, spec: Spec) -> pa.Table:
    rows, ids = rows_of(counts), document_ids(counts)
    weights = weigh(rows, spec, users)
    columns = {
        "query_id": ids["query_id"],
        "doc_id": ids["doc_id"],
        "relevance": weights.weight,
        "standard_error": standard_error(weights, rows),
        "impressions": rows.by_doc(rows.impressions).astype(np.int64),
        "clicks": rows.by_doc(rows.clicks).astype(np.int64),
    }
    known = pa.table(columns).filter(pa.array(weights.known))
    return known.sort_by([("query_id", "ascending"), ("doc_id", "ascending")])


def _gauge(row: Estimator, users: ClickModel | None) -> str:
    """What 0 and 1 mean, in words."""
    if users is None or not row.needs_users:
        return row.meaning
    if users.identified == "gauge":
        return (
            "that of the user model: relevance up to a factor and a shift, the same "
            "for all documents; compare documents, do not read as probabilities"
        )
    if users.estimated is not None:
        return f"{row.meaning}, as far as users are known"
    return row.meaning
