"""Is safe learning (`train --safe`) hardly worse than production, whatever the clicks?

Simulates logs of a production ranker whose score is a feature, under users as they are
given (right), cascade users, and users that trust less than those given (overstated),
and prints nDCG@10 on labels of queries that no log has, less that of production: of
each log, their mean with its standard error, and the worst; beside them rankers by the
posterior and by affine that are not blended with production, where asked.

    python benchmarks/safe.py --clicks 1e2 1e3 1e4 --out safe.jsonl
    python benchmarks/safe.py --clicks 1e5 1e6 --users right --free --out safe.jsonl
    python benchmarks/safe.py --report safe.jsonl
"""

from __future__ import annotations

import argparse
import json
import warnings
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from affinerank.clicks.simulation import simulate_counts
from affinerank.data.dataset import RankingDataset
from affinerank.data.sources import DataSource
from affinerank.defaults import CLICK_MODEL, CORRECTION, ESTIMATOR, EVALUATOR
from affinerank.evaluation.metrics import evaluate_scores
from affinerank.pipeline.compare import ChoiceSettings
from affinerank.pipeline.safe import train_safe
from affinerank.pipeline.simulate import click_model_of, prepare_simulation
from affinerank.pipeline.steps.production import train_production_ranker
from affinerank.pipeline.steps.train_settings import TrainSettings, ranker_settings
from affinerank.pipeline.train import train
from affinerank.rankers import score
from affinerank.support.seeds import stage_rng

LOG, EVALUATED = "yahoo-like:300", "yahoo-like:1500"  # its test queries: disjoint
TRUE = {
    "right": CLICK_MODEL,
    "cascade": "cascade",
    "overstated": f"{CLICK_MODEL}(eps_minus_1=0.3)",
}
SMALL = {  # rankers that train in seconds
    "blend": ["trees=60", "leaves=7", "learning_rate=0.1"],
    "mlp": ["hidden=16", "epochs=15", "learning_rate=0.01"],
    "lightgbm": ["trees=60", "leaves=7", "learning_rate=0.1"],
}
FEATURE = "production"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clicks", type=float, nargs="+", default=[1e2, 1e3, 1e4])
    parser.add_argument(
        "--click-model", nargs="+", default=list(TRUE), choices=list(TRUE)
    )
    parser.add_argument("--ranker", default="mlp", choices=list(SMALL))
    parser.add_argument("--runs", type=int, nargs=2, default=[0, 20])
    parser.add_argument("--estimator", default=EVALUATOR, help="Of the safe ranker.")
    parser.add_argument("--free", action="store_true", help="Others, too.")
    parser.add_argument("--out", type=Path, default=Path("safe.jsonl"))
    parser.add_argument("--report", type=Path)
    options = parser.parse_args()
    if options.report is not None:
        report(options.report)
        return
    warnings.simplefilter("ignore")
    data, test = (
        DataSource.parse(LOG).read("train"),
        DataSource.parse(EVALUATED).read("test"),
    )
    cells = product(range(*options.runs), options.clicks, options.click_model)
    for run, clicks, click_model in cells:
        row = one(data, test, clicks, click_model, run, options)
        with options.out.open("a") as file:
            file.write(json.dumps(row) + "\n")


def one(
    data: RankingDataset,
    test: RankingDataset,
    clicks: float,
    click_model: str,
    run: int,
    options: argparse.Namespace,
) -> dict[str, Any]:
    """One log: what each ranker is worth over production."""
    production = train_production_ranker(data, seed=run)
    depth = int(data.docs_per_query.max())
    simulation = prepare_simulation(
        data,
        click_model_of(TRUE[click_model], depth),
        rankers={FEATURE: production},
        seed=run,
    )
    sessions = simulation.sessions_for(clicks)
    counts = simulate_counts(simulation, sessions, rng=stage_rng("clicks", run))
    scored, unseen = (_with_score(part, production) for part in (data, test))
    how = ranker_settings(options.ranker, SMALL[options.ranker], run)
    training = TrainSettings(options.ranker, how, seeds=(run,), tuning="none")
    settings = ChoiceSettings((options.ranker,), (options.estimator,), training)
    given = click_model_of(TRUE["right"], depth)

    def worth(ranker: Any) -> float:
        return float(evaluate_scores(score(ranker, unseen), unseen, 2.0).mean)

    safe = train_safe(counts, scored, given, production=FEATURE, settings=settings)
    (ranker,) = safe.rankers.values()
    before = float(evaluate_scores(score(production, test), test, 2.0).mean)
    lead = {"safe": worth(ranker) - before}
    if options.free:
        names = (ESTIMATOR, CORRECTION)
        free = settings.training_of(options.ranker, scored)
        trained = train(counts, scored, given, free, estimators=names)
        for (name, _), other in trained.rankers.items():
            lead[name] = worth(other) - before
    return {
        "ranker": options.ranker,
        "clicks": clicks,
        "users": click_model,
        "run": run,
        "share": ranker.provenance["safe"]["share"],
        "production": before,
        **lead,
    }


def _with_score(data: RankingDataset, production: Any) -> RankingDataset:
    """Add production's score as a feature."""
    own = score(production, data).astype(data.features.dtype)
    features = np.column_stack([data.features, own])
    names = (*data.feature_names, FEATURE)
    return replace(data, features=features, feature_names=names)


def report(path: Path) -> None:
    """Print each setting's logs."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    keys = ("ranker", "clicks", "users")
    groups = dict.fromkeys(tuple(row[key] for key in keys) for row in rows)
    for group in groups:
        own = [row for row in rows if tuple(row[key] for key in keys) == group]
        print(f"\n{group[0]}, {group[1]:g} clicks, users {group[2]}, {len(own)} logs")
        for name in ("production", "safe", ESTIMATOR, CORRECTION):
            values = np.array([row[name] for row in own if name in row])
            if len(values):
                error = values.std(ddof=1) / np.sqrt(len(values)) if len(own) > 1 else 0
                each = " ".join(f"{value:+.3f}" for value in values)
                print(
                    f"{name:10} mean {values.mean():+.4f} (s.e. {error:.4f}), ", end=""
                )
                print(f"least {values.min():+.4f}: {each}")
        print("share     ", " ".join(f"{row['share']:g}" for row in own))


if __name__ == "__main__":
    main()
