"""Learning from one click log: ours with estimated bias, LightGBM and XGBoost.

Simulates a log with position and trust bias, and trains on it: our trees and networks,
the users estimated from the same log; LightGBM's lambdarank with ``position`` and
without it; XGBoost's ``lambdarank_unbiased``. Prints nDCG@10 on test labels and the
seconds that training took. Run r has a production ranker, a log and rankers of seed r.

The others have no place for counts, so their lists are made in two ways:

- *sessions*: lists as they were shown, labels 0 and 1: sessions of the log with a click
  (one without says nothing in a pairwise loss), drawn at random, as many as fit: a row
  for each impression copies the features.
- *counts*: every click of the log, one list per query: the label of a document is the
  number of its clicks, the gain linear in it. Here every list has one order, so a
  document has one position.

Rows are in the order of the ranks shown, which is where XGBoost takes positions from.
Trees have the same number, leaves and learning rate everywhere, other options their
library's defaults.

    python benchmarks/comparison.py --runs 0 1 2 3
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pyarrow.parquet as pq
import xgboost

from affinerank.bias import EstimationSettings
from affinerank.clicks.simulation import write_session_log
from affinerank.counts.counting import count_log, open_table
from affinerank.counts.counts import ClickCounts
from affinerank.counts.rows import join_counts
from affinerank.data.dataset import RankingDataset
from affinerank.data.feature_mapping import FeatureMapping
from affinerank.data.sources import DataSource
from affinerank.defaults import ESTIMATOR, RELEVANT_ABOVE
from affinerank.defaults import NETWORK as NETWORK_RANKER
from affinerank.defaults import TREES as TREE_RANKER
from affinerank.evaluation.metrics import evaluate_scores
from affinerank.pipeline.simulate import prepare_simulation
from affinerank.pipeline.steps.click_model import estimate_click_model
from affinerank.pipeline.steps.production import train_production_ranker
from affinerank.pipeline.train import train as train_ranker
from affinerank.rankers import score
from affinerank.rankers.blend import AnyRanker
from affinerank.rankers.networks.settings import NetworkSettings
from affinerank.rankers.trees.lightgbm import TreeSettings
from affinerank.support.arrays import Floats, Ids, Ints, Matrix
from affinerank.support.seeds import stage_rng

Scorer = Callable[[RankingDataset], Floats]

TREES, LEAVES, RATE = 300, 31, 0.05
NETWORK = NetworkSettings(learning_rate=0.004)  # the paper's for Yahoo


@dataclass(frozen=True, slots=True, eq=False)
class Lists:
    """Lists in the order they were shown in.

    Attributes:
        features: ``[n_rows, n_features]``.
        labels: ``[n_rows]`` clicks.
        sizes: ``[n_lists]``.
        rank: ``[n_rows]`` from 1.
    """

    features: Matrix
    labels: Ints
    sizes: Ints
    rank: Ints


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="yahoo-like:1000")
    parser.add_argument("--clicks", type=float, default=2e5)
    parser.add_argument("--runs", type=int, nargs="+", default=[0, 1, 2, 3])
    parser.add_argument("--only", default="", help="Learners whose name matches.")
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="Finished runs, to go on from.")
    options = parser.parse_args()
    source = DataSource.parse(options.data)
    train, test = source.read("train"), source.read("test")
    rows: list[dict[str, Any]] = []
    if options.keep is not None and options.keep.exists():
        rows += [json.loads(line) for line in options.keep.read_text().splitlines()]
    for seed in set(options.runs) - {row["seed"] for row in rows}:
        for name, (found, took) in run(train, test, options, seed).items():
            rows.append({"seed": seed, "by": name, "value": found, "seconds": took})
            print(f"run {seed}: {name:<32} {found:.4f} {took:7.1f} s", flush=True)
        if options.keep is not None:
            options.keep.write_text("".join(json.dumps(row) + "\n" for row in rows))
    print(
        f"{options.data}, {options.clicks:g} clicks, eta = 1, eps-_1 = .65; sessions: "
        f"{options.sessions:,}; {TREES} trees; {options.threads} threads"
    )
    print("learner                            nDCG@10  std error  seconds  runs")
    for name in dict.fromkeys(row["by"] for row in rows):
        mine = [row for row in rows if row["by"] == name]
        values = np.array([row["value"] for row in mine])
        error = values.std(ddof=1) / np.sqrt(len(mine)) if len(mine) > 1 else np.nan
        print(
            f"{name:<34} {values.mean():.4f}   {error:.4f}   "
            f"{np.mean([row['seconds'] for row in mine]):8.1f}  "
            f"{values.round(4).tolist()}"
        )


def run(
    train: RankingDataset,
    test: RankingDataset,
    options: argparse.Namespace,
    seed: int,
) -> dict[str, tuple[float, float]]:
    """Simulate one log, and learn from it in every way."""
    production = train_production_ranker(train, seed=seed)
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.parquet"
        simulation = prepare_simulation(train, rankers={"p": production}, seed=seed)
        write_session_log(
            simulation,
            simulation.sessions_for(options.clicks),
            log,
            rng=stage_rng("clicks", seed),
        )
        with open_table(str(log)) as table:
            count_log(table, Path(folder) / "counts.parquet", check=False)
        counts = ClickCounts.load(Path(folder) / "counts.parquet")
        mapped = FeatureMapping.fit(train).apply(train)
        sessions = listed_sessions(log, mapped, options.sessions, seed)
    queries = listed_counts(counts, mapped)
    threads = options.threads
    learners: dict[str, Callable[[], Scorer]] = {
        "production ranker": lambda: scorer(production),
        "ours, networks": lambda: ours(counts, train, seed, threads, "networks"),
        "ours, trees": lambda: ours(counts, train, seed, threads, "trees"),
    }
    for name, lists in (("sessions", sessions), ("counts", queries)):
        given = (lists, train, seed, threads)
        learners |= {
            f"LightGBM position, {name}": partial(by_lightgbm, *given, position=True),
            f"LightGBM, {name}": partial(by_lightgbm, *given, position=False),
            f"XGBoost unbiased, {name}": partial(by_xgboost, *given),
        }
    found = {}
    chosen = re.compile(options.only)
    for name, learn in learners.items():
        if not chosen.search(name):
            continue
        started = time.perf_counter()
        predict = learn()
        took = time.perf_counter() - started
        found[name] = (
            float(evaluate_scores(predict(test), test, RELEVANT_ABOVE).mean),
            took,
        )
    return found


def listed_sessions(
    log: Path, data: RankingDataset, n_sessions: int, seed: int
) -> Lists:
    """Some sessions of the log that have a click, drawn at random."""
    table = pq.read_table(log)
    session, rank, clicked = (
        table[name].to_numpy() for name in ("session_id", "rank", "clicked")
    )
    with_click = np.unique(session[clicked])
    rng = stage_rng("baseline", seed)
    size = min(n_sessions, len(with_click))
    chosen = np.isin(session, rng.choice(with_click, size, replace=False))
    doc = documents(table["query_id"].to_numpy(), table["doc_id"].to_numpy(), data)
    order = np.flatnonzero(chosen)
    order = order[np.lexsort((rank[order], session[order]))]
    _, sizes = np.unique(session[order], return_counts=True)
    return Lists(
        data.features[doc[order]], clicked[order].astype(np.int64), sizes, rank[order]
    )


def documents(query_id: Ids, doc_id: Ids, data: RankingDataset) -> Ints:
    """Rows of the data that these documents are in."""
    number = {
        pair: i
        for i, pair in enumerate(
            zip(
                data.query_ids[data.query_of_doc].tolist(),
                data.doc_ids.tolist(),
                strict=True,
            )
        )
    }
    pairs = zip(query_id.tolist(), doc_id.tolist(), strict=True)
    return np.array([number[pair] for pair in pairs], dtype=np.int64)


def listed_counts(counts: ClickCounts, data: RankingDataset) -> Lists:
    """One list per query, in the order of its ranks, labelled with clicks."""
    rows = join_counts(counts, data)
    rows = rows.select(np.lexsort((rows.rank, rows.query)))
    _, sizes = np.unique(rows.query, return_counts=True)
    clicks = rows.clicks.astype(np.int64)
    return Lists(data.features[rows.doc], clicks, sizes, rows.rank)


def scorer(ranker: AnyRanker) -> Scorer:
    return lambda data: score(ranker, data)


def ours(
    counts: ClickCounts, data: RankingDataset, seed: int, threads: int, kind: str
) -> Scorer:
    """Estimate how users click from the counts alone, correct, learn."""
    click_model = estimate_click_model(
        counts, data, settings=EstimationSettings(seed=seed)
    ).click_model
    shape = TreeSettings(
        trees=TREES, leaves=LEAVES, learning_rate=RATE, threads=threads
    )
    ranker, settings = {
        "networks": (NETWORK_RANKER, NETWORK),
        "trees": (TREE_RANKER, shape),
    }[kind]
    trained = train_ranker(
        counts, data, click_model, ranker=ranker, settings=settings, seeds=[seed]
    )
    return scorer(trained.rankers[ESTIMATOR, seed])


def by_lightgbm(
    lists: Lists, train: RankingDataset, seed: int, threads: int, *, position: bool
) -> Scorer:
    data = lgb.Dataset(
        lists.features,
        label=lists.labels,
        group=lists.sizes,
        position=lists.rank - 1 if position else None,
    )
    settings = {
        "objective": "lambdarank",
        "label_gain": list(range(int(lists.labels.max()) + 1)),  # linear in clicks
        "num_leaves": LEAVES,
        "learning_rate": RATE,
        "num_threads": threads,
        "seed": seed,
        "verbosity": -1,
    }
    model = lgb.train(settings, data, num_boost_round=TREES)
    mapping = FeatureMapping.fit(train)
    return lambda of: np.asarray(model.predict(mapping.apply(of).features), np.float64)


def by_xgboost(lists: Lists, train: RankingDataset, seed: int, threads: int) -> Scorer:
    qid = np.repeat(np.arange(len(lists.sizes)), lists.sizes)
    data = xgboost.QuantileDMatrix(
        lists.features, lists.labels, qid=qid, nthread=threads
    )
    settings = {
        "objective": "rank:ndcg",
        "lambdarank_unbiased": True,
        "lambdarank_pair_method": "topk",
        "ndcg_exp_gain": False,  # linear in clicks
        "grow_policy": "lossguide",
        "max_depth": 0,
        "max_leaves": LEAVES,
        "eta": RATE,
        "nthread": threads,
        "seed": seed,
    }
    model = xgboost.train(settings, data, num_boost_round=TREES)
    mapping = FeatureMapping.fit(train)

    def predict(of: RankingDataset) -> Floats:
        rows = xgboost.DMatrix(mapping.apply(of).features)
        return np.asarray(model.predict(rows), dtype=np.float64)

    return predict


if __name__ == "__main__":
    main()
