"""Labelled ranking data that benchmarks compare rankers on: real sets, and worlds.

Real sets are those in the folder ``AFFINERANK_DATA``: MQ2008 with its five folds, and a
sample of MSLR-WEB of 177 queries, of which two thirds, drawn anew for each fold, are
learnt from. A world is drawn anew for each fold.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

import affinerank as ar
from affinerank.data.dataset import RankingDataset
from affinerank.data.letor import read_letor
from affinerank.data.sources import DataSource
from affinerank.support.arrays import Floats

MQ2008 = "MQ2008"
RESULTS_PAGE = 20  # documents of a shop's two pages


class Parts(NamedTuple):
    """What is learnt from, and what rankers are evaluated on."""

    train: RankingDataset
    test: RankingDataset


@dataclass(frozen=True)
class DataSet:
    """A set of ranking data.

    Attributes:
        name: In tables.
        read: Reads one of its folds, from 1.
        relevant_above: Labels above this are relevant.
        top_k: Length of the lists shown; ``None`` for whole ones.
    """

    name: str
    read: Callable[[int], Parts]
    relevant_above: float = 2.0
    top_k: int | None = None


def data_sets(worlds: Sequence[str]) -> list[DataSet]:
    """Return the real sets that are there, and the worlds of these names."""
    sets = []
    root = os.environ.get("AFFINERANK_DATA")
    if root is not None:
        mq2008, sample = Path(root, "mq2008"), Path(root, "mslr-sample")
        sets += [
            DataSet(MQ2008, lambda fold: splits_of(str(mq2008), fold), 0.0),
            DataSet("MSLR sample", lambda fold: thirds_of(sample, fold)),
        ]
    for name in worlds:
        top_k = RESULTS_PAGE if name.startswith("shop-like") else None
        sets.append(DataSet(name, partial(world, name), top_k=top_k))
    return sets


def splits_of(name: str, fold: int) -> Parts:
    """Read the fold of a public set; there are five, and the sixth is the first."""
    source = DataSource.parse(name, fold=1 + (fold - 1) % 5)
    return Parts(source.read("train"), source.read("test"))


def world(name: str, fold: int) -> Parts:
    """Draw a world anew for each fold."""
    return splits_of(f"{name}@{fold}", 1)


def thirds_of(folder: Path, fold: int) -> Parts:
    """Split the queries of a sample: two thirds to learn from."""
    [path] = folder.glob("*.txt.gz")
    data = read_letor(path)
    order = np.random.default_rng(fold).permutation(data.n_queries)
    n_train = 2 * data.n_queries // 3
    return Parts(
        data.select_queries(np.sort(order[:n_train])),
        data.select_queries(np.sort(order[n_train:])),
    )


def ndcg(scores: Floats, test: RankingDataset, data_set: DataSet) -> float:
    """nDCG@10 by labels."""
    return float(ar.evaluate_scores(scores, test, data_set.relevant_above).mean)
