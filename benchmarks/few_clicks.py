"""Quality against clicks: every estimator with the default training, same logs.

Simulates logs of few and many clicks, trains a ranker by each estimator, learning rate
and length chosen by held-out clicks, and judges it on test labels. Users are known, or
estimated from the same log. Rows are appended to a file, so that an interrupted run
goes on where it was.

    python benchmarks/few_clicks.py --data yahoo-like:2000 --keep few-clicks.jsonl
    python benchmarks/few_clicks.py --report few-clicks.jsonl
    python benchmarks/few_clicks.py --claims docs/few-clicks-results.csv

For folds of a real set as runs: ``--data FOLDER/Fold{run} --runs 1 2 3 4 5
--relevant-above 0``.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from affinerank.defaults import (
    BASELINE,
    CLIP,
    CORRECTION,
    ESTIMATOR,
    METHOD,
    NETWORK,
    NO_TUNING,
    TUNING,
)
from affinerank.estimators import ESTIMATORS
from affinerank.pipeline.steps.train_settings import TrainSettings
from affinerank.rankers import RANKERS
from affinerank.research.cells import PRODUCTION, TRUE, Cell, DataSet
from affinerank.research.measure import measure
from affinerank.research.worlds import World
from affinerank.support.arrays import Floats
from affinerank.support.settings import from_pairs

CLIPPED = f"{CORRECTION}(clip={CLIP})"
LEVELS = (3e3, 3e4, 3e5, 3e6)
ETAS = (1, 2)
NEEDS_NO_CLICK_MODEL = [n for n, row in ESTIMATORS.items() if row.needs == "nothing"]
BY_EXAMINATION = [n for n, row in ESTIMATORS.items() if row.needs == "examination"]
LABELS = [n for n, row in ESTIMATORS.items() if row.needs == "labels"]
BY_CLICK_MODEL = [CORRECTION, CLIPPED, "direct", "doubly-robust", ESTIMATOR]
Values = dict[tuple[Any, ...], dict[int, float]]
ALL = [PRODUCTION, LABELS[0], *NEEDS_NO_CLICK_MODEL, *BY_EXAMINATION, *BY_CLICK_MODEL]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="yahoo-like:2000")
    parser.add_argument("--runs", type=int, nargs="+", default=[0, 1, 2, 3])
    parser.add_argument("--clicks", type=float, nargs="+", default=LEVELS)
    parser.add_argument("--relevant-above", type=float, default=2.0)
    parser.add_argument("--ranker", default=NETWORK)
    parser.add_argument("--click-model", nargs="+", default=[TRUE, METHOD])
    parser.add_argument("--policy", default="fixed")
    parser.add_argument("--etas", type=int, nargs="+", default=ETAS)
    parser.add_argument("--estimators", nargs="+", default=ALL)
    parser.add_argument("--tuning", default=TUNING, choices=(TUNING, NO_TUNING))
    parser.add_argument("--together", type=int, default=2, help="Runs trained at once.")
    parser.add_argument("--set", nargs="*", default=[], help="Settings of the ranker.")
    parser.add_argument("--keep", type=Path, default=Path("few-clicks.jsonl"))
    parser.add_argument("--report", type=Path, nargs="+")
    parser.add_argument("--claims", type=Path, nargs="+", help="The claims alone.")
    options = parser.parse_args()
    if files := options.report or options.claims:
        by = by_place([row for path in files for row in rows_of(path)])
        if options.report:
            report(by)
        claims(by, sets_of(by))
        return
    done = set()
    if options.keep.exists():
        lines = options.keep.read_text().splitlines()
        done = {(row["data"], row["run"]) for row in map(json.loads, lines)}
    runs = [run for run in options.runs if (named(options, run)[0], run) not in done]
    at_once = 1 if "{run}" in options.data else options.together
    for first in range(0, len(runs), at_once):
        rows = measured(options, runs[first : first + at_once])
        with options.keep.open("a") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
        print(f"{options.data}: runs {runs[first : first + at_once]} done", flush=True)


def named(options: argparse.Namespace, run: int) -> tuple[str, str]:
    """Name and source of a run's data; folds are runs of one set."""
    source = options.data.replace("{run}", str(run))
    return Path(options.data.replace("/Fold{run}", "")).name, source


def measured(options: argparse.Namespace, runs: Sequence[int]) -> list[dict[str, Any]]:
    """Train and judge everything on the logs of some runs."""
    name, source = named(options, runs[0])
    data = DataSet(name, source, relevant_above=options.relevant_above)
    # The world's clicks depend on its name alone; a fold is a run of its own.
    world = World(data, seed=0)
    kind = options.ranker
    asked = options.estimators
    cells = []
    for run in runs:
        if PRODUCTION in asked:
            cells.append(Cell(name, None, None, None, PRODUCTION, None, None, run))
        if LABELS[0] in asked:
            cells.append(Cell(name, None, None, None, LABELS[0], None, kind, run))
        for eta in options.etas:
            click_model_from = f"trust(eta={eta},eps_minus_1=0.65)"
            for clicks in options.clicks:
                log = (name, click_model_from, options.policy, clicks)
                for known, estimators in (
                    (None, NEEDS_NO_CLICK_MODEL),
                    (TRUE, BY_EXAMINATION if TRUE in options.click_model_from else []),
                    *((known, BY_CLICK_MODEL) for known in options.click_model_from),
                ):
                    own = [e for e in estimators if e in asked]
                    cells += [Cell(*log, e, known, kind, run) for e in own]
    settings: Any = from_pairs(RANKERS[kind].settings, options.set)
    training = TrainSettings(kind, settings, tuning=options.tuning)
    found = measure(world, cells, training)
    return [
        {
            "data": name,
            "ranker": kind,
            "eta": int(cell.click_model[10]) if cell.click_model else None,
            "clicks": cell.clicks,
            "estimator": cell.estimator,
            "click_model_from": cell.click_model_from,
            "run": cell.run,
            "ndcg": one.ndcg,
        }
        for cell, one in zip(cells, found, strict=True)
    ]


def rows_of(path: Path) -> list[dict[str, Any]]:
    """Rows of a kept run, or of the CSV file that the pages are made of."""
    text = path.read_text()
    if path.suffix != ".csv":
        return [json.loads(line) for line in text.splitlines()]
    numbers = {"eta": int, "clicks": float, "run": int, "ndcg": float}
    return [
        {k: numbers.get(k, str)(v) if v else None for k, v in row.items()}
        for row in csv.DictReader(text.splitlines())
        if row["policy"] == "fixed"
    ]


def by_place(rows: Sequence[dict[str, Any]]) -> Values:
    """Values of runs by what they depend on."""
    by: Values = defaultdict(dict)
    for row in rows:
        keys = ("data", "ranker", "eta", "clicks", "click_model_from", "estimator")
        by[tuple(row[k] for k in keys)][row["run"]] = row["ndcg"]
    return by


def sets_of(by: Values) -> list[tuple[str, str]]:
    """Every data set with every ranker."""
    return sorted({(k[0], k[1]) for k in by if k[1]})


def report(by: Values) -> None:
    """Print tables."""
    for data, ranker in sets_of(by):
        print(f"\n{data}, {ranker}: nDCG@10, mean (standard error), then all runs")
        for click_model_from in sorted(
            {k[4] for k in by if k[4] and k[:2] == (data, ranker)}
        ):
            table(by, data, ranker, click_model_from)
    print()


def cell_values(
    by: Values,
    data: str,
    ranker: str,
    log: tuple[Any, Any],
    click_model_from: str,
    estimator: str,
) -> Any:
    """Values of all runs in the order of runs, whatever the estimator depends on."""
    for key in (
        (data, ranker, *log, click_model_from, estimator),
        (data, ranker, *log, None, estimator),
        (data, ranker, None, None, None, estimator),
    ):
        if key in by:
            return np.array([by[key][run] for run in sorted(by[key])])
    return None


def table(by: Any, data: str, ranker: str, click_model_from: str) -> None:
    logs = sorted({k[2:4] for k in by if k[:2] == (data, ranker) and k[2] is not None})
    heads = " | ".join(f"eta {e}, {c:g}" for e, c in logs)
    print(f"\nusers {click_model_from}\nestimator | {heads}")
    print("---|" + "---|" * len(logs))
    others = dict.fromkeys(k[5] for k in by if k[5] != PRODUCTION)
    for estimator in [PRODUCTION, *others]:
        found = [
            cell_values(by, data, ranker, log, click_model_from, estimator)
            for log in logs
        ]
        if any(values is None for values in found):
            continue
        texts = [f"{v.mean():.3f} ({v.std(ddof=1) / len(v) ** 0.5:.3f})" for v in found]
        print(f"{estimator} | " + " | ".join(texts))
    for estimator in (ESTIMATOR, CORRECTION):
        found = [
            cell_values(by, data, ranker, log, click_model_from, estimator)
            for log in logs
        ]
        runs = [" ".join(f"{x:.3f}" for x in v) for v in found if v is not None]
        print(f"all runs of {estimator}: " + "; ".join(runs))


def claims(by: Any, sets: Sequence[tuple[str, str]]) -> None:
    """Compare the default estimator with all others, cell by cell."""
    rivals = [PRODUCTION, *NEEDS_NO_CLICK_MODEL, *BY_EXAMINATION, *BY_CLICK_MODEL[:3]]
    regrets, tests = [], []
    for data, ranker in sets:
        own_regret: list[float] = []
        leads: dict[str, list[float]] = defaultdict(list)
        ten: list[float] = []
        most: list[float] = []
        away: list[float] = []
        keys = {(k[2], k[3], k[4]) for k in by if k[:2] == (data, ranker) and k[4]}
        for eta, clicks, click_model_from in sorted(keys):
            log = (eta, clicks)
            get = partial(cell_values, by, data, ranker)
            mine = get(log, click_model_from, ESTIMATOR)
            given = {e: get(log, click_model_from, e) for e in rivals}
            found = {e: v for e, v in given.items() if v is not None}
            best = max(found, key=lambda e: found[e].mean())
            gap = found[best] - mine
            own_regret.append(max(float(gap.mean()), 0.0))
            cell = f"{data} {ranker} eta {eta} {clicks:g} {click_model_from}"
            tests.append((worse_than(gap, 0.01), "regret above .01", cell, best, gap))
            for rival in (BASELINE, PRODUCTION):
                lead = mine - found[rival]
                leads[rival].append(float(lead.mean()))
                p = worse_than(-lead, 0.0)
                tests.append((p, f"below {rival}", cell, rival, -lead))
            larger = get((eta, 10 * clicks), click_model_from, CORRECTION)
            if larger is not None:
                ahead = mine - larger
                ten.append(float(ahead.mean()))
                print(f"  10 N: {cell}: {ten[-1]:+.4f} {ahead.round(3).tolist()}")
            if clicks == max(k[1] for k in keys):
                most.append(float((mine - found[CORRECTION]).mean()))
                if eta == 1:
                    away.append(
                        float((get(log, click_model_from, LABELS[0]) - mine).mean())
                    )
        regrets += own_regret
        naive, production = (np.mean(leads[name]) for name in (BASELINE, PRODUCTION))
        print(
            f"{data} {ranker}\n"
            f"  mean regret {np.mean(own_regret):.4f}, worst {max(own_regret):.4f}\n"
            f"  lead over naive {naive:+.4f}, over production {production:+.4f}\n"
            f"  lead over affine with 10 N {np.mean(ten) if ten else np.nan:+.4f}\n"
            f"  at the most clicks, lead over affine {np.mean(most):+.4f}, "
            f"below full information (eta 1) {np.mean(away):+.4f}"
        )
    print(f"all cells: mean regret {np.mean(regrets):.4f} over {len(regrets)}")
    for claim in dict.fromkeys(t[1] for t in tests):
        own = sorted((t for t in tests if t[1] == claim), key=lambda t: t[0])
        least = min(own[0][0] * len(own), 1.0)
        print(f"{claim}: {len(own)} cells; least p by Holm {least:.3f}")
        for p, _, cell, rival, gap in own[:4]:
            each = gap.round(3).tolist()
            print(f"  p {p:.4f} {cell} against {rival}: {gap.mean():+.4f} {each}")


def worse_than(gap: Floats, bar: float) -> float:
    """One-sided p-value of a mean gap above ``bar``, paired by run."""
    if len(gap) < 2 or gap.std(ddof=1) == 0:
        return 1.0
    return float(stats.ttest_1samp(gap, bar, alternative="greater").pvalue)


if __name__ == "__main__":
    main()
