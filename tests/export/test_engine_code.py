"""Exported rankers in the engines' own code, from the jars that Maven Central has.

The folder ``AFFINERANK_ENGINES`` has a folder for each engine. One Java process scores
all files of an engine: rankers with and without gaps, LightGBM's, XGBoost's and linear
ones, and files with planted faults. ``benchmarks/engines.py`` does it at full size.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from benchmarks import engines as real
from benchmarks import export as benchmark
from tests.export.planted_faults import TREE_FAULTS

from affinerank.data.dataset import RankingDataset
from affinerank.export.engine_readers import LINEAR_READERS, TREE_READERS
from affinerank.export.engine_trees import TREE_ENGINES, fold_features
from affinerank.rankers import Ranker, linear
from affinerank.rankers.trees import lightgbm as trees
from affinerank.rivals import xgboost

needs_engines = pytest.mark.skipif(
    "AFFINERANK_ENGINES" not in os.environ,
    reason="AFFINERANK_ENGINES does not name a folder with the engines' jars",
)
RESULTS = Path(__file__).parents[2] / "docs" / "results" / "engines.txt"
N = 720
F = np.float32
TREES = ("elasticsearch", "vespa", "ranklib", "solr")


@cache
def rankers() -> dict[str, Ranker]:
    """Rankers of features of four sizes, one of them negative."""
    data = benchmark.data(0.1)
    value = benchmark.relevance(data)
    data = replace(data, labels=(value > np.median(value)).astype(F))
    line = linear.ROW.name
    return {
        "plain": benchmark.forest("none", 0.0),
        "scaled": benchmark.forest("data", 0.0),
        "gaps": benchmark.forest("none", 0.1),
        "xgboost": benchmark.forest("none", 0.1, xgboost.ROW.name),
        "linear": real.trained(line, data, scaling="none"),
        "linear, scaled": real.trained(line, data, scaling="data"),
    }


def held_by(to: str, name: str) -> bool:
    """Whether an engine, in the version at hand, can hold a ranker."""
    if name.startswith("linear"):
        return to in LINEAR_READERS
    if name in ("gaps", "xgboost"):
        return to not in ("ranklib", "solr")  # Solr tells missing values apart from 9.2
    return to != "solr" or name == "plain"


def documents(name: str, to: str) -> RankingDataset:
    """On thresholds, beside them, extreme and plain; some missing if the ranker can."""
    gaps = name in ("gaps", "xgboost") or name.startswith("linear")
    missing = 0.1 if gaps else 0.0
    return real.documents(
        rankers()[name], benchmark.data(0.0), N, missing=missing, to=to
    )


def comparisons(to: str, *, of_trees: bool) -> dict[str, real.Comparison]:
    """Every ranker of trees, or every other one, that the engine can hold."""
    made = {}
    for name, ranker in rankers().items():
        if held_by(to, name) and name.startswith("linear") != of_trees:
            compared = real.exported(ranker, to, documents(name, to))
            assert isinstance(compared, real.Comparison), compared
            made[name] = compared
    return made


def faulty_files(to: str, sound: real.Comparison) -> Iterator[real.Comparison]:
    """The same trees, as faulty writers would write them."""
    folded = fold_features(sound.ranker.model.nodes(), sound.ranker.mapping)  # type: ignore[attr-defined]
    for fault in TREE_FAULTS.values():
        content, _ = TREE_ENGINES[to].write(fault(folded), sound.ranker.mapping.names)
        yield replace(sound, content=content)


@needs_engines
@pytest.mark.parametrize("to", TREES)
def test_trees_score_and_order_as_the_ranker_in_the_engine_itself(to: str) -> None:
    sound = comparisons(to, of_trees=True)
    faulty = list(faulty_files(to, sound["plain"]))
    everything = [*sound.values(), *faulty]
    scores = real.scores_of_engine(to, everything)

    for (name, compared), got in zip(sound.items(), scores, strict=False):
        assert not isinstance(got, str), f"{name}: {got}"
        found = compared.agreement(got)
        assert found.relative < 1e-6, name
        assert found.reversed_pairs == 0, name
        # Solr cuts at some other values than the ranker; few documents have one.
        assert found.between <= (N // 5 if to == "solr" else 0), name
        assert found.pairs > 3_000, name
        # The package's reader decides as the engine does, on every document.
        job = compared.job()
        features, names = job.documents.features, job.documents.feature_names
        read = TREE_READERS[to](job.content, features, names)
        read -= np.median(read - got) if to == "elasticsearch" else 0.0
        assert np.abs(read - got).max() < 1e-6 * np.abs(got).max(), name

    # Each planted fault shows in the engine.
    for fault, compared, got in zip(
        TREE_FAULTS, faulty, scores[len(sound) :], strict=True
    ):
        assert not isinstance(got, str), f"{fault}: {got}"
        assert compared.agreement(got).relative > 1e-5, fault


@needs_engines
@pytest.mark.parametrize("to", [to for to in TREES if to in LINEAR_READERS])
def test_linear_models_score_as_the_ranker_in_the_engine_itself(to: str) -> None:
    sound = comparisons(to, of_trees=False)
    scores = real.scores_of_engine(to, list(sound.values()))
    for (name, compared), got in zip(sound.items(), scores, strict=True):
        assert not isinstance(got, str), f"{name}: {got}"
        found = compared.agreement(got)
        assert found.relative < 1e-6, name
        assert found.reversed_pairs == 0, name
        job = compared.job()
        features, names = job.documents.features, job.documents.feature_names
        read = LINEAR_READERS[to](job.content, features, names)
        assert np.abs(read - got).max() < 1e-6 * np.abs(got).max(), name


@needs_engines
def test_an_engine_says_why_it_refuses_a_file() -> None:
    """Solr 8 knows no key that says where a missing value goes."""
    ranker = rankers()["gaps"]
    compared = real.exported(ranker, "solr", documents("plain", "solr"))
    assert isinstance(compared, real.Comparison)
    [said] = real.scores_of_engine("solr", [compared])
    assert isinstance(said, str)
    assert "'missing'" in said
    assert trees.ROW.name == ranker.kind


@needs_engines
def test_vespa_reads_the_names_that_export_lets_pass() -> None:
    plain = rankers()["plain"]
    names = ("attribute(price)", "fieldMatch(title).completeness", "_bm25", "query(x)")
    ranker = replace(plain, mapping=replace(plain.mapping, names=names))
    scored = replace(documents("plain", "vespa"), feature_names=names)
    compared = real.exported(ranker, "vespa", scored)
    assert isinstance(compared, real.Comparison), compared
    [got] = real.scores_of_engine("vespa", [compared])
    assert not isinstance(got, str), got
    assert compared.agreement(got).relative < 1e-6


def test_the_committed_measurement_meets_the_bar() -> None:
    """Within 1e-5 of the largest score, and no pair of a list reversed."""
    lines = RESULTS.read_text().splitlines()[1:]
    measured = [line.split()[-4:] for line in lines if "refused" not in line]
    assert len(measured) == 32
    for difference, reversed_pairs, pairs, between in measured:
        assert float(difference) < 1e-5
        assert (reversed_pairs, pairs, between) == ("0", "34,200", "0")
    # What an engine cannot hold: missing values told from 0, and linear models.
    refused = [line.split() for line in lines if "refused" in line]
    assert len(refused) == 8
