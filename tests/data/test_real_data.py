"""Real sets, where ``AFFINERANK_DATA`` says they lie."""

import os
from pathlib import Path

import numpy as np
import pytest

from affinerank.data.letor import read_letor
from affinerank.data.sources import load

ROOT = os.environ.get("AFFINERANK_DATA")
pytestmark = pytest.mark.skipif(
    ROOT is None, reason="AFFINERANK_DATA does not name a folder with the real sets"
)


def root() -> Path:
    return Path(ROOT or "")


def test_mq2008_has_the_sizes_it_is_published_with() -> None:
    for fold in (1, 4):
        splits = load("mq2008", root=root(), fold=fold)
        assert splits.validation is not None
        assert splits.test is not None
        parts = [splits.train, splits.validation, splits.test]
        assert sum(part.n_queries for part in parts) == 784
        assert sum(part.n_docs for part in parts) == 15_211
        assert {part.n_features for part in parts} == {46}
        labels = np.concatenate([part.known_labels() for part in parts])
        assert sorted(set(labels.tolist())) == [0, 1, 2]
        assert all("GX" in str(part.doc_ids[0]) for part in parts)


def test_the_mslr_sample_has_the_sizes_it_is_published_with() -> None:
    data = read_letor(root() / "mslr-sample" / "mslr-sample.txt.gz")
    assert (data.n_queries, data.n_docs, data.n_features) == (177, 19_544, 136)
    assert sorted(set(data.known_labels().tolist())) == [0, 1, 2, 3, 4]
    assert data.relevance().mean() == pytest.approx(0.021, abs=0.0005)
