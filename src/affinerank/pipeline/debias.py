"""Counts turned into debiased labels, for those who train elsewhere."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from affinerank.clicks.counts import ClickCounts
from affinerank.clicks.join import join_counts
from affinerank.clicks.usermodel import UserModel
from affinerank.corrections import parse_estimator
from affinerank.data.dataset import RankingDataset
from affinerank.errors import ConfigError, DataError
from affinerank.evaluation.labels import label_documents
from affinerank.files import written_whole

GAUGE = "affinerank.gauge"


def debias(
    counts: ClickCounts,
    users: UserModel | None,
    *,
    estimator: str = "affine",
    clip: str | float | None = None,
) -> pa.Table:
    """Correct the clicks of each document that was shown.

    Args:
        counts: Clicks; where they are split, labels keep the ``split``.
        users: How users click; the naive estimator needs none.
        estimator: Of ``ESTIMATORS``.
        clip: Lower bound of alpha, as :meth:`Correction.clipped` takes it.

    Returns:
        ``query_id, doc_id, [split], relevance, standard_error, impressions, clicks``,
        one row per query and document, with the estimator and the gauge (what 0 and 1
        mean) in the metadata. Relevance may be below 0 or above 1.
    """
    if users is None and estimator != "naive":
        raise ConfigError(f"the estimator {estimator} needs a user model (--users)")
    if not counts.table.num_rows or not counts.impressions.any():
        raise DataError("the counts hold no impressions, so there is nothing to label")
    model = users or UserModel.position_bias([1.0])
    if "split" not in counts.keys:
        labels = _labels(counts, model, estimator, clip)
    else:
        parts = []
        for value in pc.unique(counts.table["split"]).to_pylist():
            part = _labels(counts.select("split", value), model, estimator, clip)
            column = pa.array([value] * part.num_rows, type=pa.string())
            parts.append(part.add_column(2, "split", column))
        labels = pa.concat_tables(parts)
    about = {"affinerank.estimator": estimator, GAUGE: _gauge(model, estimator)}
    return labels.replace_schema_metadata(about)


def save_labels(labels: pa.Table, path: str | os.PathLike[str]) -> dict[str, Any]:
    """Write labels as Parquet, whole or not at all; return what there is to say."""
    with written_whole(Path(path)) as aside:
        pq.write_table(labels, aside, compression="zstd")
    metadata = {k.decode(): v.decode() for k, v in labels.schema.metadata.items()}
    return {
        "documents": labels.num_rows,
        "queries": len(pc.unique(labels["query_id"])),
        "impressions": pc.sum(labels["impressions"]).as_py(),
        "clicks": pc.sum(labels["clicks"]).as_py(),
        "estimator": metadata["affinerank.estimator"],
        "gauge": metadata[GAUGE],
        "written": str(path),
    }


def _labels(
    counts: ClickCounts, users: UserModel, estimator: str, clip: str | float | None
) -> pa.Table:
    ids = ids_of(counts)
    data = documents_of(ids)
    joined = join_counts(counts, data)
    correction = parse_estimator(estimator)(joined.counts, users)
    if clip is not None:
        correction = correction.clipped(clip, counts.n_sessions)
    found = label_documents(joined, correction, data)
    columns = {
        "query_id": ids["query_id"],
        "doc_id": ids["doc_id"],
        "relevance": found.relevance,
        "standard_error": found.standard_error,
        "impressions": found.impressions.astype(np.int64),
        "clicks": found.clicks.astype(np.int64),
    }
    return pa.table(columns).filter(pa.array(found.shown))


def ids_of(counts: ClickCounts) -> pa.Table:
    """The queries and documents of counts, sorted."""
    keys = ["query_id", "doc_id"]
    pairs = counts.table.group_by(keys).aggregate([])
    return pairs.sort_by([(key, "ascending") for key in keys])


def documents_of(ids: pa.Table) -> RankingDataset:
    """Data of these documents, without features."""
    query = ids["query_id"].combine_chunks().dictionary_encode()
    return RankingDataset.from_groups(
        np.zeros((ids.num_rows, 0), dtype=np.float32),
        np.asarray(query.indices),
        query.dictionary.to_numpy(zero_copy_only=False),
        doc_ids=ids["doc_id"].to_numpy(),
    )


def _gauge(users: UserModel, estimator: str) -> str:
    """What 0 and 1 mean, in words."""
    if estimator == "naive":
        return "clicks per impression, not corrected"
    if users.identified == "gauge":
        return (
            "that of the user model: relevance up to a factor and a shift, the same "
            "for all documents; compare documents, do not read as probabilities"
        )
    if estimator != "affine":
        return f"relevance as {estimator} has it: trust bias is not taken off"
    if "estimated_by" in users.provenance:
        return "relevance: 0 is irrelevant and 1 relevant, as far as users are known"
    return "relevance: 0 is irrelevant, 1 is relevant"
