"""Estimate how users click from the counts of ten million documents, 1e8 impressions.

Draws counts of lists of ten documents: ten sessions per query, two of them with two
neighbours exchanged, clicked by the paper's users with trust bias (eta = 1,
eps-_1 = 0.65). Then ``affinerank estimate`` runs in a process of its own. Printed: its
seconds, CPU seconds, peak memory, and the error against the truth. Bars: 600 s, 6 GB.

    python -m benchmarks.many_documents [--documents 1e7] [--method auto]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from affinerank.clicks.models.files import save_click_model
from benchmarks.large_log import CLICK_MODEL, LENGTH, measured

SESSIONS, SWAPPED = 10, 2  # of a query, and how many of them have an exchange
QUERIES_AT_ONCE = 100_000


def write(queries: int, path: Path) -> None:
    """Write counts, some queries at a time."""
    rng, writer = np.random.default_rng(0), None
    for first in range(0, queries, QUERIES_AT_ONCE):
        n = min(QUERIES_AT_ONCE, queries - first)
        grade = np.arange(LENGTH) % 2 == 0  # production knows little
        relevant = rng.random((n, LENGTH)) < np.where(grade, 0.35, 0.2)
        top = rng.integers(0, LENGTH - 1, n)  # the upper one of the pair
        place = np.broadcast_to(np.arange(LENGTH), (n, LENGTH))
        other = place + (place == top[:, None]) - (place == top[:, None] + 1)
        rank = np.stack([place, other], axis=-1) + 1
        swapped = np.where(other == place, 0, SWAPPED)
        impressions = np.stack([SESSIONS - swapped, swapped], axis=-1)
        chance = CLICK_MODEL.click_probability(rank, relevant[..., None])
        kept = impressions > 0
        query, doc, _ = np.nonzero(kept)
        table = pa.table(
            {
                "query_id": query + first,
                "doc_id": doc,
                "rank": rank[kept],
                "impressions": impressions[kept],
                "clicks": rng.binomial(impressions, chance)[kept],
                "sessions": np.full(len(query), SESSIONS),
            }
        )
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--documents", type=float, default=1e7)
    parser.add_argument("--method", default="auto")
    parser.add_argument("--folder", type=Path, help="keeps what is written there")
    parser.add_argument("--most", type=float, default=12.0, help="GB")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.folder or Path(temporary)
        folder.mkdir(exist_ok=True)
        counts, truth = folder / "counts.parquet", folder / "truth.json"
        if not counts.exists():
            write(int(args.documents) // LENGTH, counts)
        save_click_model(CLICK_MODEL, truth)
        rows = pq.read_metadata(counts).num_rows
        print(f"{int(args.documents):,} documents, {rows:,} rows of counts")
        program = str(Path(sys.executable).with_name("affinerank"))
        command = [program, "estimate", str(counts), "--truth", str(truth), "--json"]
        command += ["--method", args.method]
        took, text = measured(
            [*command, "-o", str(folder / "click-model.json")], args.most
        )
        about = json.loads(text)
        print(f"{'':10}{'seconds':>9}{'CPU s':>9}{'peak GB':>9}")
        error = about.get("against_truth", {}).get("error")
        print(f"{'estimate':10}{took}  {about.get('method')}, error {error}")


if __name__ == "__main__":
    main()
