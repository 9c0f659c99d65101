"""What a user waits for: the commands on a shop's log, beside plain LightGBM.

Simulates the shop's two CSV files, runs each command in a process of its own, and
prints its wall and CPU seconds (of all its threads). LightGBM's own lambdarank learns
from click rates of the same counts and products, 150 trees, in a process of its own.

    python -m benchmarks.waiting
    python -m benchmarks.waiting --src OLD_CHECKOUT/src   # the same by another version
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

SHOP = "shop-like:550"  # 38,000 sessions
LOG = [
    *("log.csv", "--column", "query_id=query", "--column", "doc_id=product_id"),
    *("--column", "rank=position", "--offset", "results_before"),
]
PRODUCTS = [
    *("--data", "products.csv", "--data-column", "query_id=query"),
    *("--data-column", "doc_id=product_id"),
]
CLICK_MODEL = ["--click-model", "click-model.json"]
COUNTS = ["counts.parquet", *PRODUCTS]
COMMANDS = {
    "count": ["count", *LOG, "--holdout", "0.2"],
    "audit": ["audit", *LOG],
    "estimate": ["estimate", *COUNTS, "-o", "click-model.json"],
    "train": ["train", *COUNTS, *CLICK_MODEL, "-o", "model"],
    "train, trees, naive": [
        *("train", *COUNTS, "--ranker", "lightgbm", "--estimator", "naive"),
        *("-o", "naive"),
    ],
    "evaluate, labels": ["evaluate", "model", "--data", SHOP],
    "evaluate, held-out clicks": [
        *("evaluate", "model", *PRODUCTS, "--counts", "counts.parquet", *CLICK_MODEL),
    ],
    "debias": ["debias", *COUNTS, *CLICK_MODEL, "-o", "labels.parquet"],
}
# By an earlier version the default ranker cannot read text: trees can.
TREES = ["--ranker", "lightgbm"]
PLAIN = """
import lightgbm as lgb, numpy as np
import affinerank as ar
from affinerank.data.sources import DataSource
from affinerank.counts.rows import rows_of
data = DataSource.parse({shop!r}).read("train")
rows = rows_of(ar.ClickCounts.load("counts.parquet"), data)
shown, clicks = rows.by_doc(rows.impressions), rows.by_doc(rows.clicks)
rate = clicks / np.maximum(shown, 1)
label = np.rint(30 * rate / rate.max())
text = [data.feature_names.index(name) for name in data.categories]
lists = lgb.Dataset(data.features, label, group=data.docs_per_query,
                    categorical_feature=text)
lgb.train({{"objective": "lambdarank", "verbosity": -1, "num_leaves": 31,
           "label_gain": list(range(31))}}, lists, 150)
"""


def main() -> None:
    """Time the commands."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--src", type=Path, help="Of another version.")
    parser.add_argument("--trees", action="store_true", help="In place of the default.")
    options = parser.parse_args()
    environment = dict(os.environ)
    if options.src:
        environment["PYTHONPATH"] = str(options.src.resolve())
    commands = dict(COMMANDS)
    if options.trees:
        commands["train"] = [*commands["train"], *TREES]
    with tempfile.TemporaryDirectory() as folder:
        files = ["--log", "log.csv", "--features", "products.csv"]
        run(["simulate", SHOP, *files], Path(folder), environment)
        for name, words in commands.items():
            wall, cpu = run(words, Path(folder), environment)
            print(f"{name:<28}{wall:7.1f} s {cpu:7.1f} CPU s", flush=True)
        wall, cpu = timed(
            [sys.executable, "-c", PLAIN.format(shop=SHOP)], Path(folder), environment
        )
        print(f"{'plain LightGBM, 150 trees':<28}{wall:7.1f} s {cpu:7.1f} CPU s")


def run(
    words: list[str], folder: Path, environment: dict[str, str]
) -> tuple[float, float]:
    """Run a command of the package; return its wall and CPU seconds."""
    return timed([sys.executable, "-m", "affinerank", *words], folder, environment)


def timed(
    command: list[str], folder: Path, environment: dict[str, str]
) -> tuple[float, float]:
    """Run a process; return its wall and CPU seconds."""
    before, started = getrusage(RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(  # noqa: S603
        command, cwd=folder, env=environment, capture_output=True, check=False
    )
    wall, after = time.perf_counter() - started, getrusage(RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(done.stderr.decode().splitlines()[-1])
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, cpu


if __name__ == "__main__":
    main()
