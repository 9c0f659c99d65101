"""Debiased labels as judgments that search tools read: graded, with a least evidence.

TREC qrels, Quepid's CSV, and judgments of OpenSearch's Search Relevance Workbench.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from affinerank.support.errors import DataError
from affinerank.support.files import PathLike, atomic_write

Rows = list[tuple[str, str, int]]  # query, document, grade


def save_judgments(
    labels: pa.Table,
    path: PathLike,
    *,
    to: str,
    grades: int = 4,
    min_impressions: int = 10,
) -> dict[str, Any]:
    """Write labels as judgments, whole or not at all; return a summary.

    Args:
        labels: What :func:`debias` returned.
        path: The file.
        to: A key of ``JUDGMENTS``.
        grades: The highest grade; relevance from 0 to 1 is divided evenly.
        min_impressions: Documents with fewer are left out: not judged is not
            irrelevant.
    """
    if "relevance" not in labels.column_names:
        raise DataError(
            "judgments grade relevance, and these clicks have a value: count without "
            "--value, or write --format parquet"
        )
    seen = labels["impressions"].to_numpy() >= min_impressions
    kept = labels.filter(pa.array(seen))
    if not kept.num_rows:
        raise DataError(
            f"no document has {min_impressions:,} impressions or more; lower "
            "--min-impressions"
        )
    share = np.clip(kept["relevance"].to_numpy(), 0.0, 1.0)
    grade = np.minimum((share * (grades + 1)).astype(int), grades)
    names = (map(str, kept[name].to_pylist()) for name in ("query_id", "doc_id"))
    rows = list(zip(*names, grade.tolist(), strict=True))
    with atomic_write(Path(path)) as aside:
        aside.write_text(JUDGMENTS[to](rows), encoding="utf-8")
    numbers = enumerate(np.bincount(grade, minlength=grades + 1))
    return {
        "evaluated": len(rows),
        "queries": len({query for query, _, _ in rows}),
        "left out": f"{labels.num_rows - len(rows):,} documents with fewer than "
        f"{min_impressions:,} impressions",
        "grades": ", ".join(f"{g}: {n:,}" for g, n in numbers),
        "written": str(path),
    }


def _qrels(rows: Rows) -> str:
    for text in {part for query, doc, _ in rows for part in (query, doc)}:
        if len(text.split()) != 1:
            raise DataError(
                f"{text!r:.60} holds a space, and TREC qrels separate by spaces; use "
                "--format quepid"
            )
    return "".join(f"{query} 0 {doc} {grade}\n" for query, doc, grade in rows)


def _quepid(rows: Rows) -> str:
    text, head = io.StringIO(newline=""), ("query", "docid", "rating")
    csv.writer(text, lineterminator="\n").writerows([head, *rows])
    return text.getvalue()


def _opensearch(rows: Rows) -> str:
    ratings: dict[str, list[dict[str, str]]] = {}
    for query, doc, grade in rows:
        ratings.setdefault(query, []).append({"docId": doc, "rating": str(grade)})
    evaluated = [{"query": query, "ratings": own} for query, own in ratings.items()]
    body = {
        "name": "affinerank",
        "description": "Debiased clicks, graded",
        "type": "IMPORT_JUDGMENT",
        "judgmentRatings": evaluated,
    }
    return json.dumps(body, ensure_ascii=False) + "\n"


JUDGMENTS: Mapping[str, Callable[[Rows], str]] = {
    "qrels": _qrels,
    "quepid": _quepid,
    "opensearch": _opensearch,
}
