"""Which kind of ranker learns most from clicks: on real features, a shop, the worlds?

Users of the paper click on production's lists. The posterior weighs their clicks, with
the true click model; so rankers alone differ. Prints nDCG@10 on test labels by set and
kind, with the standard error over logs, and the CPU seconds of one training.

    AFFINERANK_DATA=DIR python benchmarks/kinds_of_rankers.py

Real sets are MQ2008 (its folds) and a sample of MSLR-WEB of 177 queries (two thirds of
them, drawn anew, to learn from). The blend adds up what trees, trees on features scaled
within the list, and the linear model say, each in units of its spread on the training
lists, 2 : 2 : 1.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

import affinerank as ar
from affinerank.arrays import Floats
from affinerank.clicks.traffic import Traffic
from affinerank.data.catalog import DataSource
from affinerank.data.dataset import RankingDataset
from affinerank.data.letor import read_letor
from affinerank.seeds import stage_rng

CLICKS = (1e4, 3e5)
# Ranker and scaling of its features, by what the table calls them.
KINDS = {
    "network": ("mlp", None),
    "trees": ("lightgbm", None),
    "trees, in list": ("lightgbm", "list"),
    "linear": ("linear-model", None),
}
BLEND = {"trees": 2.0, "trees, in list": 2.0, "linear": 1.0}


class Parts(NamedTuple):
    """What is learnt from, and what it is judged on."""

    train: RankingDataset
    test: RankingDataset


@dataclass(frozen=True)
class DataSet:
    """A set of ranking data.

    Attributes:
        name: In the table.
        read: Reads one of its folds, from 1.
        relevant_above: Labels above this are relevant.
        top_k: Length of the lists shown; ``None`` for whole ones.
    """

    name: str
    read: Callable[[int], Parts]
    relevant_above: float = 2.0
    top_k: int | None = None


def main() -> None:
    """Measure every kind on every set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folds", type=int, default=2)
    parser.add_argument("--only", default="", help="sets whose name begins like this")
    options = parser.parse_args()
    columns = [*KINDS, "blend"]
    print(f"folds 1 to {options.folds}, clicks {', '.join(f'{c:g}' for c in CLICKS)}")
    print(f"{'':<26}" + "".join(f"{name:>18}" for name in columns))
    for data_set in data_sets():
        if not data_set.name.startswith(options.only):
            continue
        measured = [
            one_log(data_set, fold, clicks)
            for fold in range(1, options.folds + 1)
            for clicks in CLICKS
        ]
        ndcg = np.array([[log[name][0] for name in columns] for log in measured])
        seconds = np.array([[log[name][1] for name in columns] for log in measured])
        error = ndcg.std(axis=0, ddof=1) / np.sqrt(len(ndcg))
        behind = ndcg - ndcg[:, [-1]]  # paired with the blend
        paired = behind.std(axis=0, ddof=1) / np.sqrt(len(ndcg))
        cells = [
            f"{m:.3f} +- {e:.3f}" for m, e in zip(ndcg.mean(axis=0), error, strict=True)
        ]
        print(f"{data_set.name:<26}" + "".join(f"{cell:>18}" for cell in cells))
        cells = [
            f"{m:+.3f} +- {e:.3f}"
            for m, e in zip(behind.mean(axis=0), paired, strict=True)
        ]
        print(f"{'  less the blend':<26}" + "".join(f"{cell:>18}" for cell in cells))
        cells = [f"{s:.1f}" for s in seconds.mean(axis=0)]
        print(
            f"{'  CPU seconds':<26}" + "".join(f"{cell:>18}" for cell in cells),
            flush=True,
        )


def data_sets() -> list[DataSet]:
    """The sets that are there."""
    sets = []
    root = os.environ.get("AFFINERANK_DATA")
    if root is not None:
        mq2008, sample = Path(root, "mq2008"), Path(root, "mslr-sample")
        sets += [
            DataSet("MQ2008", lambda fold: splits_of(str(mq2008), fold), 0.0),
            DataSet("MSLR sample", lambda fold: thirds_of(sample, fold)),
        ]
    return [
        *sets,
        DataSet("shop-like:1200", lambda fold: world("shop-like:1200", fold), top_k=20),
        DataSet("yahoo-like:600", lambda fold: world("yahoo-like:600", fold)),
        DataSet("mslr-like:250", lambda fold: world("mslr-like:250", fold)),
    ]


def splits_of(name: str, fold: int) -> Parts:
    """Read the fold of a public set."""
    source = DataSource.parse(name, fold=fold)
    return Parts(source.read("train"), source.read("test"))


def world(name: str, fold: int) -> Parts:
    """Draw a world anew for each fold."""
    return splits_of(f"{name}@{fold}", 1)


def thirds_of(folder: Path, fold: int) -> Parts:
    """Deal the queries of a sample: two thirds to learn from."""
    [path] = folder.glob("*.txt.gz")
    data = read_letor(path)
    order = np.random.default_rng(fold).permutation(data.n_queries)
    n_train = 2 * data.n_queries // 3
    return Parts(
        data.select_queries(np.sort(order[:n_train])),
        data.select_queries(np.sort(order[n_train:])),
    )


def one_log(
    data_set: DataSet, fold: int, clicks: float
) -> Mapping[str, tuple[float, float]]:
    """Return nDCG@10 and CPU seconds of each kind, trained on one log."""
    train, test = data_set.read(fold)
    simulation = ar.prepare_simulation(
        train,
        relevant_above=data_set.relevant_above,
        traffic=Traffic(top_k=data_set.top_k),
        seed=fold,
    )
    counts = ar.simulate_counts(
        simulation,
        simulation.sessions_for(clicks),
        rng=stage_rng("clicks", fold),
    )
    results: dict[str, tuple[float, float]] = {}
    blend = np.zeros(test.n_docs)
    blend_seconds = 0.0
    for name, (ranker, scaling) in KINDS.items():
        started = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trained = ar.train(
                counts, train, simulation.users, ranker=ranker, scaling=scaling
            )
        seconds = time.process_time() - started
        [model] = trained.rankers.values()
        scores = ar.score(model, test)
        results[name] = ndcg(scores, test, data_set), seconds
        if name in BLEND:
            blend += BLEND[name] * scores / spread(ar.score(model, train), train)
            blend_seconds += seconds
    results["blend"] = ndcg(blend, test, data_set), blend_seconds
    return results


def ndcg(scores: Floats, test: RankingDataset, data_set: DataSet) -> float:
    """nDCG@10 by labels."""
    return float(ar.judge(scores, test, data_set.relevant_above).mean)


def spread(scores: Floats, data: RankingDataset) -> float:
    """Standard deviation of scores within their lists."""
    sizes = data.docs_per_query
    mean = np.add.reduceat(scores, data.offsets[:-1]) / sizes
    return float(np.std(scores - np.repeat(mean, sizes)))


if __name__ == "__main__":
    main()
