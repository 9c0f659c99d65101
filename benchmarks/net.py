"""Do the commands still say what they said? A net under moves and renames.

Runs commands on two small worlds, a shop's files and MQ2008, and compares the JSON that
they print and the files that they write with those committed in `benchmarks/outputs/`.
Numbers agree within 1e-10; those that come after trees or networks within 1e-6.

    AFFINERANK_DATA=DIR python benchmarks/net.py            # compare
    AFFINERANK_DATA=DIR python benchmarks/net.py --record   # write the outputs anew

Names that changed stand in the tables below: outputs that were committed before are
read through them.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import json
import math
import os
import shlex
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from affinerank.cli import main as affinerank

OUTPUTS = Path(__file__).parent / "outputs"
EXACT, LEARNED = 1e-10, 1e-6
ROWS_KEPT = 20  # of a file that a command writes

# Old key: new one; in the outputs of one command, and in all others.
RENAMED_IN: dict[str, dict[str, str]] = {"reproduce": {"users": "click_model_from"}}
RENAMED: dict[str, str] = {
    "users": "click_model",
    "users_estimated": "click_model_estimated",
    "early_epoch": "held_out_epoch",
    "early_ndcg": "held_out_ndcg",
    "judge": "evaluator",
    "judged": "evaluated",
    "learnt_from": "training_queries",
    "least_clicks": "min_clicks",
    "least_documents": "min_documents",
    "recipe": "tuning",
    "second_judge": "second_evaluator",
}
# Old words in texts, or whole texts: new ones.
REWORDED: dict[str, str] = {
    "affinerank-users": "affinerank-click-model",
    "--users": "--click-model",
    "users.json": "click-model.json",
    "chosen": "held-out",
    "eps": "examination",
    "gauge": "relative",
    "zeta": "click-rates",
}
# What another run says differently, without a change of the code.
VOLATILE = {"seconds", "cpu_seconds", "timings", "peak_memory_mb", "commit", "versions"}

SHOP_LOG = (
    "log.csv --column query_id=query --column doc_id=product_id "
    "--column rank=position --offset results_before"
)
PRODUCTS = (
    "--data products.csv --data-column query_id=query --data-column doc_id=product_id"
)
PLAN = """
name = "net"
figures = ["figure4"]
runs = 1
clicks = [1e4]
click_models = ["trust(eta=1, eps_minus_1=0.65)"]

[[data]]
name = "yahoo-like"
source = "yahoo-like:60"

[[rankers]]
name = "lightgbm"
trees = 5
leaves = 4

[[rankers]]
name = "mlp"
hidden = [8]
epochs = 3

[[grids]]
estimators = ["production", "naive", "affine", "affine(clip=0.1)", "posterior"]

[[grids]]
estimators = ["posterior"]
click_model_from = ["mixture"]
"""

# Name of the output: the command, the files that it writes, and the tolerance. Commands
# run in this order, in one folder; `{data}` is the folder with real sets.
COMMANDS: dict[str, tuple[str, list[str], float]] = {
    "simulate": (
        "simulate yahoo-like:60 --clicks 2e4 --counts counts.parquet "
        "--save-click-model true.json",
        ["counts.parquet", "true.json"],
        EXACT,
    ),
    "simulate-swaps": (
        "simulate mslr-like:40 --clicks 2e4 --top-k 10 --policy 'swap(share=0.3)' "
        "--counts swaps.parquet",
        ["swaps.parquet"],
        EXACT,
    ),
    "simulate-shop": (
        "simulate shop-like:120 --clicks 6000 --log log.csv --features products.csv",
        ["log.csv", "products.csv"],
        EXACT,
    ),
    "count": (
        f"count {SHOP_LOG} --holdout 0.3 -o shop.parquet",
        ["shop.parquet"],
        EXACT,
    ),
    "audit": (f"audit {SHOP_LOG}", [], EXACT),
    "estimate": (
        "estimate counts.parquet --data yahoo-like:60 -o mixture.json",
        ["mixture.json"],
        EXACT,
    ),
    "estimate-shop": (
        f"estimate shop.parquet {PRODUCTS} -o shop-model.json",
        ["shop-model.json"],
        EXACT,
    ),
    "estimate-interventions": (
        "estimate swaps.parquet --data mslr-like:40 --method interventions "
        "-o moved.json",
        ["moved.json"],
        EXACT,
    ),
    "debias": (
        "debias counts.parquet --click-model true.json --estimator affine -o "
        "labels.parquet",
        ["labels.parquet"],
        EXACT,
    ),
    "plan-swaps": (
        "plan-swaps counts.parquet --click-model true.json --deepest 5",
        [],
        EXACT,
    ),
    "train": (
        f"train shop.parquet {PRODUCTS} --set trees=20 -o blend",
        ["blend/ranker.json"],
        LEARNED,
    ),
    "train-network": (
        "train counts.parquet --data yahoo-like:60 --click-model true.json --ranker "
        "mlp "
        "--estimator posterior --set epochs=5 --set hidden=8 -o network",
        ["network/ranker.json"],
        LEARNED,
    ),
    "evaluate": (
        "evaluate network --data yahoo-like:60 --seed 1",
        [],
        LEARNED,
    ),
    "evaluate-counts": (
        f"evaluate blend --counts shop.parquet {PRODUCTS} --click-model "
        "shop-model.json",
        [],
        LEARNED,
    ),
    "rank": (
        "rank network --data yahoo-like:60 -o ranked.parquet",
        ["ranked.parquet"],
        LEARNED,
    ),
    "importance": ("importance blend", [], LEARNED),
    "train-mq2008": (
        "train mq.parquet --data {data}/mq2008 --relevant-above 0 "
        "--ranker lightgbm --estimator affine --click-model mq.json -o trees",
        [],
        LEARNED,
    ),
    "export": ("export trees --to opensearch -o trees.json", [], LEARNED),
    "reproduce": (
        "reproduce plan.toml --out run --processes 1",
        ["run/results.parquet"],
        LEARNED,
    ),
}


def main() -> None:
    """Run the commands; record or compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--only", nargs="*", default=list(COMMANDS), choices=COMMANDS)
    options = parser.parse_args()
    differences = 0
    for name, output, tolerance in outputs():
        if name not in options.only:
            continue
        path = OUTPUTS / f"{name}.json"
        if options.record:
            path.write_text(json.dumps(output, indent=1, sort_keys=True) + "\n")
            continue
        names = RENAMED | RENAMED_IN.get(name, {})
        before = renamed(json.loads(path.read_text()), names)
        for difference in compare(before, output, tolerance):
            differences += 1
            print(f"{name}{difference}")
    if differences:
        sys.exit(f"{differences} differences")
    print(f"{len(COMMANDS)} commands agree")


def outputs() -> Iterator[tuple[str, Any, float]]:
    """Run every command; yield its name, what came out, and the tolerance."""
    data = os.environ["AFFINERANK_DATA"]
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        Path("plan.toml").write_text(PLAN)
        simulate_mq2008(data)
        for name, (command, files, tolerance) in COMMANDS.items():
            words = shlex.split(command.replace("{data}", data))
            stdout = run([*words, "--json"])
            said = json.loads(stdout) if stdout.strip() else None
            written = {file: content_of(Path(file)) for file in files}
            output = without_volatile(
                {"said": said, "written": written}, [folder, data]
            )
            yield name, json.loads(json.dumps(output)), tolerance


def simulate_mq2008(data: str) -> None:
    """Simulate a log on MQ2008, the real set that the commands train on."""
    command = (
        f"simulate {data}/mq2008 --relevant-above 0 --clicks 2e4 "
        "--counts mq.parquet --save-click-model mq.json"
    )
    run(shlex.split(command))


def run(words: list[str]) -> str:
    """Run a command in this process; return what it prints."""
    stdout, stderr = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
        status = affinerank(words)
    if status != 0:
        sys.exit(f"{shlex.join(words)} failed:\n{stderr.getvalue()}")
    return stdout.getvalue()


def content_of(path: Path) -> Any:
    """Read a file that a command wrote; of a table, the first rows."""
    if path.suffix == ".json":
        return json.loads(path.read_text())
    if path.suffix == ".csv":
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
        return {"rows": len(rows), "first": rows[:ROWS_KEPT]}
    table = pq.read_table(path)
    keys = ["query_id", "doc_id", "rank"]
    if {*keys, "impressions"} <= {*table.schema.names}:
        # An engine writes counts in any order.
        table = table.sort_by([(key, "ascending") for key in keys])
    return {"rows": len(table), "first": table.slice(0, ROWS_KEPT).to_pylist()}


def without_volatile(value: Any, folders: list[str]) -> Any:
    """Leave out what differs between two runs of the same code."""
    if isinstance(value, dict):
        return {
            key: without_volatile(item, folders)
            for key, item in value.items()
            if key not in VOLATILE
        }
    if isinstance(value, list | tuple):
        return [without_volatile(item, folders) for item in value]
    if isinstance(value, str):
        for folder in folders:
            value = value.replace(os.path.realpath(folder), "FOLDER")
            value = value.replace(folder, "FOLDER")
    if isinstance(value, bytes):
        return value.hex()
    return value


def renamed(value: Any, names: dict[str, str]) -> Any:
    """Give keys and texts of a committed output the names of today."""
    if isinstance(value, dict):
        return {
            names.get(key, key): renamed(item, names) for key, item in value.items()
        }
    if isinstance(value, list):
        return [renamed(item, names) for item in value]
    if isinstance(value, str):
        if value in REWORDED:
            return REWORDED[value]
        for old in (old for old in REWORDED if not old.isalpha()):
            value = value.replace(old, REWORDED[old])
    return value


def compare(
    before: Any, after: Any, tolerance: float, where: str = ""
) -> Iterator[str]:
    """Yield a line for each difference of two outputs."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in before | after:
            if key not in before or key not in after:
                yield f"{where}.{key}: {'new' if key in after else 'gone'}"
            else:
                yield from compare(before[key], after[key], tolerance, f"{where}.{key}")
    elif isinstance(before, list) and isinstance(after, list):
        if len(before) != len(after):
            yield f"{where}: {len(before)} items, now {len(after)}"
        for number, pair in enumerate(zip(before, after, strict=False)):
            yield from compare(*pair, tolerance, f"{where}[{number}]")
    elif not same(before, after, tolerance):
        yield f"{where}: {before!r}, now {after!r}"


def same(before: Any, after: Any, tolerance: float) -> bool:
    """Whether two values agree; texts that are numbers are compared as numbers."""
    if before == after:
        return True
    try:
        numbers = float(before), float(after)
    except (TypeError, ValueError):
        return False
    return math.isclose(*numbers, rel_tol=tolerance, abs_tol=tolerance)


if __name__ == "__main__":
    main()
