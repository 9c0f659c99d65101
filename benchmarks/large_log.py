"""Measure the memory of each command on a log of lists that were shown once each.

Writes a log and its features into a temporary folder, a chunk at a time: lists of ten
documents with 50 features by the law of ``yahoo-like``, ordered by a production ranker
and clicked by the paper's users with trust bias (eta = 1, eps-_1 = 0.65). Every list is
a session of its own, with ids of its own (``--list-id session_id``). Then it runs
count, estimate (by features) and train (one epoch of a network), each a process of its
own, and prints seconds, CPU seconds and peak memory. A process that exceeds ``--most``
is stopped. Without ``estimate`` in ``--steps``, ``train`` is given the true users.

Peak memory is what the system reports at the end of the process (``ru_maxrss``); it
includes pages of mapped files, which the system takes back if memory is short. "of its
own" leaves those pages out (``RssAnon``, looked at five times per second).

    python -m benchmarks.large_log [--rows 2e7] [--folder DIR] [--hidden 512,256,128]
        [--steps count,train] [--device cuda]
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from affinerank.clicks.models.files import save_click_model
from affinerank.clicks.models.trust import TrustModel
from affinerank.data.dataset import RankingDataset
from affinerank.data.dataset_checks import default_feature_names
from affinerank.data.synthetic import WORLDS, World, _draw_split
from affinerank.pipeline.steps.production import train_production_ranker
from affinerank.rankers.ranker import Ranker, score
from affinerank.support.lists import ranks_by_score

LENGTH = 10
LISTS_AT_ONCE = 20_000
CATALOGUE = 5_000_000
# A tenth of the features, each sqrt(10) times as clear: as informative together.
YAHOO = cast(World, WORLDS["yahoo-like"])
WORLD = replace(
    YAHOO,
    n_features=50,
    median_docs=float(LENGTH),
    docs_spread=0.0,
    max_docs=LENGTH,
    clear=(8, 1.6),
    faint=(33, 1.3),
)
CLICK_MODEL = TrustModel.paper(eta=1.0, eps_minus_1=0.65, depth=LENGTH)


def lists(n_lists: int, chunk: int) -> RankingDataset:
    """Draw the lists of a chunk, with labels."""
    first = chunk * LISTS_AT_ONCE
    n = min(LISTS_AT_ONCE, n_lists - first)
    sizes, features, labels = _draw_split(WORLD, n, 0, chunk)
    rng = np.random.default_rng([1, chunk])
    start, step = rng.integers(CATALOGUE, size=n), rng.integers(1, 1000, size=n)
    doc = start[:, None] + step[:, None] * np.arange(LENGTH)
    return RankingDataset(
        features=features,
        offsets=np.concatenate([[0], np.cumsum(sizes)]),
        labels=labels,
        query_ids=np.arange(first, first + n),
        doc_ids=rng.permuted(doc, axis=1).reshape(-1),
    )


def columns(n_lists: int, ranker: Ranker, chunk: int) -> tuple[pa.Table, pa.Table]:
    """The rows of a log, and of features, of some lists that are shown once."""
    data = lists(n_lists, chunk)
    rank = ranks_by_score(score(ranker, data), data.offsets)
    first = int(data.query_ids[0])
    rng = np.random.default_rng([2, first])
    p = CLICK_MODEL.click_probability(rank, data.relevance())
    session = data.query_ids[data.query_of_doc]
    ids = {"session_id": session, "doc_id": data.doc_ids}
    query = rng.zipf(1.3, data.n_queries) % 100_000
    log = {
        **ids,
        "query_id": query[data.query_of_doc],
        "rank": rank.astype(np.int32),
        "clicked": rng.random(data.n_docs) < p,
        "timestamp": 1_700_000_000 + session,
    }
    names = default_feature_names(data.n_features)
    values = {name: data.features[:, i] for i, name in enumerate(names)}
    return pa.table(log), pa.table({**ids, **values})


def write(n_lists: int, folder: Path) -> None:
    """Write ``log.parquet`` and ``features.parquet``, never whole in memory."""
    ranker = train_production_ranker(lists(n_lists, 0))
    writers = list[pq.ParquetWriter]()
    work = partial(columns, n_lists, ranker)
    with multiprocessing.get_context("spawn").Pool() as pool:
        for tables in pool.imap(work, range(-(-n_lists // LISTS_AT_ONCE))):
            if not writers:
                names = (folder / "log.parquet", folder / "features.parquet")
                writers = [
                    pq.ParquetWriter(name, table.schema, use_dictionary=False)
                    for name, table in zip(names, tables, strict=True)
                ]
            for writer, table in zip(writers, tables, strict=True):
                writer.write_table(table)
    for writer in writers:
        writer.close()
    save_click_model(CLICK_MODEL, folder / "truth.json")


def measured(command: Sequence[str], most: float) -> tuple[str, str]:
    """Seconds, CPU seconds, peak GB and peak GB of its own; what it printed."""
    started = time.perf_counter()
    with tempfile.TemporaryFile("w+") as out:
        process = subprocess.Popen(command, stdout=out)  # noqa: S603
        over, own = False, 0.0
        while (found := os.wait4(process.pid, os.WNOHANG))[0] == 0:
            own = max(own, resident(process.pid, "RssAnon"))
            if resident(process.pid, "VmRSS") > most and not over:
                over = True
                os.kill(process.pid, signal.SIGKILL)
            time.sleep(0.2)
        seconds = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(found[1])
        out.seek(0)
        text = out.read()
    peak = found[2].ru_maxrss * 1024 / 1e9
    if process.returncode:
        why = f"went over {most:g} GB" if over else f"failed ({process.returncode})"
        print(f"{' '.join(command[1:4])} {why} after {seconds:.0f} s, {peak:.2f} GB")
        raise SystemExit(1)
    busy = found[2].ru_utime + found[2].ru_stime
    return f"{seconds:9.0f}{busy:9.0f}{peak:9.2f}{own:9.2f}", text


def resident(pid: int, what: str) -> float:
    """Memory of a process now, GB, by the system's name for it."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        return next(int(row.split()[1]) for row in lines if row.startswith(what)) / 1e6
    except (OSError, StopIteration):  # it has ended
        return 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rows", type=float, default=2e7)
    parser.add_argument("--folder", type=Path, help="keeps what is written there")
    parser.add_argument("--hidden", default="512,256,128")
    parser.add_argument("--most", type=float, default=10.0, help="GB")
    parser.add_argument("--steps", default="count,estimate,train")
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.folder or Path(temporary)
        folder.mkdir(exist_ok=True)
        if not (folder / "truth.json").exists():
            started = time.perf_counter()
            write(int(args.rows) // LENGTH, folder)
            print(f"written in {time.perf_counter() - started:.0f} s")
        with tempfile.TemporaryDirectory(dir=folder) as aside:
            run(folder, Path(aside), args)


def run(folder: Path, aside: Path, args: argparse.Namespace) -> None:
    """Run the commands in ``folder``, and print what each took."""
    for name in ("log", "features"):
        path = folder / f"{name}.parquet"
        rows = pq.read_metadata(path).num_rows
        print(f"{name}: {rows:,} rows, {path.stat().st_size / 1e6:,.0f} MB")
    counts, click_model, truth = (
        folder / name for name in ("counts.parquet", "click-model.json", "truth.json")
    )
    steps = args.steps.split(",")
    by_list = ["--list-id", "session_id"]
    data = ["--data", str(folder / "features.parquet"), *by_list]
    commands = {
        "count": ["count", str(folder / "log.parquet"), "-o", str(counts), *by_list],
        "estimate": [
            *("estimate", str(counts), *data, "-o", str(click_model)),
            *("--truth", str(truth)),
        ],
        "train": [
            *("train", str(counts), *data, "-o", str(aside / "model")),
            *("--click-model", str(click_model if "estimate" in steps else truth)),
            *("--ranker", "mlp"),
            *("--set", "epochs=1", "--set", f"hidden={args.hidden}"),
            *("--set", f"device={args.device}"),
        ],
    }
    print(f"{'':10}{'seconds':>9}{'CPU s':>9}{'peak GB':>9}{'own GB':>9}")
    program = [sys.executable, "-m", "affinerank"]
    for name in steps:
        took, text = measured([*program, *commands[name], "--json"], args.most)
        about = json.loads(text)
        wanted = ("rows", "sessions", "clicks", "method")
        printed = {key: about[key] for key in wanted if key in about}
        printed |= {"error": about.get("against_truth", {}).get("error")}
        print(f"{name:10}{took}  {json.dumps(printed)}", flush=True)


if __name__ == "__main__":
    main()
