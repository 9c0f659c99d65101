"""Why may the posterior rank below plain clicks where lists are short and clicks few?

Users go on from their last click (browsing), see the first ten documents, and nobody
says how they click. On such logs networks that learn from the posterior have ranked
below networks that learn from clicks as they are. This script changes one thing at a
time: the click model is the true one; documents that were never shown are left out; the
prior knows the rank alone; a network's prior is made of trees and a linear model.

    AFFINERANK_DATA=DIR python -m benchmarks.below_naive --results FILE

Prints, by set and ranker, the mean nDCG@10 on test labels over logs, and each variant
less no correction, with the standard error of the paired difference.
"""

from __future__ import annotations

import argparse
import json
import warnings
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import affinerank as ar
from affinerank.clicks.traffic import Traffic
from affinerank.defaults import PRIOR
from affinerank.estimators import ESTIMATORS, Evidence, Weights, posterior
from affinerank.rankers import RANKERS
from affinerank.rankers.networks import settings as mlp
from affinerank.support.seeds import stage_rng
from benchmarks.ranking_sets import DataSet, data_sets, ndcg

CLICKS = (1e3, 1e4, 1e5)
TOP_K = 10
NAIVE = "no correction"
SMALL_NETWORK = ("hidden=128,64",)  # .003 nDCG@10 behind the default one, and faster


class Variant(NamedTuple):
    """What is trained.

    Attributes:
        estimator: A row of ``ESTIMATORS``.
        knows_users: Whether the true click model is given.
        ranker: A row of ``RANKERS``, in place of the one that is looked at.
    """

    estimator: str
    knows_click_model: bool = False
    ranker: str | None = None


SHOWN_ONLY = "posterior-of-shown"
TREE_PRIOR = "network-with-prior-of-trees"
VARIANTS = {
    NAIVE: Variant("naive"),
    "posterior": Variant("posterior"),
    "true click model": Variant("posterior", knows_click_model=True),
    "shown documents only": Variant(SHOWN_ONLY),
    "prior by rank alone": Variant("posterior(prior=rank)"),
    "prior of trees": Variant("posterior", ranker=TREE_PRIOR),
}


def weigh_shown(evidence: Evidence) -> Weights:
    """Weigh as the posterior does; documents that were never shown are not known."""
    weights = posterior.weigh(evidence)
    is_shown = evidence.rows.by_doc(evidence.rows.impressions) > 0
    return replace(weights, known=weights.known & is_shown)


def main() -> None:
    """Measure what is not measured yet, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--sets", default="", help="sets whose name begins like this")
    parser.add_argument("--rankers", nargs="+", default=["blend", "mlp"])
    parser.add_argument("--folds", type=int, default=4)
    options = parser.parse_args()
    ESTIMATORS.add(replace(posterior.ROW, name=SHOWN_ONLY, weigh=weigh_shown))
    RANKERS.add(replace(mlp.ROW, name=TREE_PRIOR, prior_rankers=PRIOR))
    for data_set in data_sets(["shop-like:1200"]):
        if data_set.name.startswith(options.sets):
            folds = range(1, options.folds + 1)
            for fold, clicks in product(folds, CLICKS):
                measure(data_set, fold, clicks, options.rankers, options.results)
    show(read(options.results))


def measure(
    data_set: DataSet, fold: int, clicks: float, rankers: list[str], results: Path
) -> None:
    """Train every variant on one log; add what each reaches to the results."""
    done = {
        (row["set"], row["fold"], row["clicks"], row["ranker"], row["variant"])
        for row in read(results)
    }
    train, test = data_set.read(fold)
    simulation = ar.prepare_simulation(
        train,
        click_model="browsing",
        relevant_above=data_set.relevant_above,
        traffic=Traffic(top_k=TOP_K),
        seed=fold,
    )
    counts = ar.simulate_counts(
        simulation,
        simulation.sessions_for(clicks),
        rng=stage_rng("clicks", fold),
        context=True,  # as `count` does where clicks depend on clicks
    )
    for ranker, name in product(rankers, VARIANTS):
        key = (data_set.name, fold, clicks, ranker, name)
        variant = VARIANTS[name]
        if key in done or (variant.ranker is not None and ranker != mlp.ROW.name):
            continue
        kind = variant.ranker or ranker
        pairs = SMALL_NETWORK if ranker == mlp.ROW.name else ()
        reads_text = ar.RANKERS[kind].reads_categories
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trained = ar.train(
                counts,
                train,
                simulation.click_model if variant.knows_click_model else None,
                ranker=kind,
                settings=ar.ranker_settings(kind, pairs),
                estimators=[variant.estimator],
                categories="one-hot" if train.categories and not reads_text else None,
            )
        [model] = trained.rankers.values()
        value = ndcg(ar.score(model, test), test, data_set)
        row = {
            "set": data_set.name,
            "fold": fold,
            "clicks": clicks,
            "ranker": ranker,
            "variant": name,
            "ndcg": value,
        }
        with results.open("a") as file:
            file.write(json.dumps(row) + "\n")


def read(results: Path) -> list[dict[str, Any]]:
    """Read what was measured."""
    if not results.exists():
        return []
    return [json.loads(line) for line in results.read_text().splitlines()]


def show(rows: list[dict[str, Any]]) -> None:
    """Print a table for each set and ranker."""
    for data_set, ranker in dict.fromkeys((row["set"], row["ranker"]) for row in rows):
        # nDCG by variant and log.
        reached: dict[str, dict[tuple[int, float], float]] = {}
        for row in rows:
            if (row["set"], row["ranker"]) == (data_set, ranker):
                log = (row["fold"], row["clicks"])
                reached.setdefault(row["variant"], {})[log] = row["ndcg"]

        print(f"\n{data_set}, {ranker}")
        for variant, by_log in reached.items():
            line = f"  {variant:<22} {np.mean([*by_log.values()]):.4f}"
            if variant != NAIVE:
                line += less_naive(by_log, reached[NAIVE])
            print(f"{line}  {len(by_log)} logs")


def less_naive(
    by_log: dict[tuple[int, float], float], naive: dict[tuple[int, float], float]
) -> str:
    """Say how far a variant is ahead of no correction, over all logs and by clicks."""
    lead = {log: value - naive[log] for log, value in by_log.items()}
    leads = np.array([*lead.values()])
    error = leads.std(ddof=1) / np.sqrt(len(leads)) if len(leads) > 1 else np.nan
    line = f"  {leads.mean():+.4f} +- {error:.4f}"
    for clicks in CLICKS:
        here = [value for (_, number), value in lead.items() if number == clicks]
        if here:
            line += f"  {clicks:g}: {np.mean(here):+.4f}"
    return line


if __name__ == "__main__":
    main()
