"""Matrices in temporary files: the same values, without the memory."""

import errno
import mmap
import os
from pathlib import Path

import numpy as np
import pytest

from affinerank.data.dataset import RankingDataset
from affinerank.data.feature_mapping import FeatureMapping
from affinerank.data.parquet import read_parquet, write_parquet
from affinerank.support import large_arrays as mapped
from affinerank.support.errors import AffineRankWarning, DataError
from affinerank.support.large_arrays import empty_matrix, release, taken


def owner(matrix: np.ndarray) -> object:
    base: object = matrix
    while isinstance(base, np.ndarray):
        base = base.base
    return base.obj if isinstance(base, memoryview) else base


@pytest.fixture
def nothing_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapped, "IN_MEMORY", 0)


def test_a_small_matrix_is_a_plain_array() -> None:
    assert not isinstance(owner(empty_matrix(10, 3)), mmap.mmap)


@pytest.mark.usefixtures("nothing_in_memory")
def test_a_large_matrix_keeps_its_values_when_its_pages_go() -> None:
    matrix = empty_matrix(5000, 3)
    assert isinstance(owner(matrix), mmap.mmap)
    matrix[:] = np.arange(15_000).reshape(5000, 3)
    release(matrix)
    np.testing.assert_array_equal(matrix[:, 1], np.arange(1, 15_000, 3))
    rows = np.array([4999, 0, 7])
    np.testing.assert_array_equal(taken(matrix, rows), np.array(matrix)[rows])


def test_what_others_have_mapped_stays_as_they_made_it(tmp_path: Path) -> None:
    """A private map keeps its changes in pages that must not be let go."""
    np.zeros((6, 2), dtype=np.float32).tofile(tmp_path / "features")
    theirs = np.memmap(tmp_path / "features", np.float32, mode="c", shape=(6, 2))
    theirs += np.arange(12.0).reshape(6, 2)
    data = RankingDataset.from_groups(theirs, np.repeat([0, 1], 3), np.array([7, 8]))
    FeatureMapping.fit(data).apply(data)
    np.testing.assert_array_equal(theirs[:, 1], np.arange(1, 12, 2))
    np.testing.assert_array_equal(data.features[:, 1], np.arange(1, 12, 2))


@pytest.mark.usefixtures("nothing_in_memory")
def test_pages_that_were_released_do_not_count_as_memory() -> None:
    def resident() -> int:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    matrix = empty_matrix(10_000_000, 2)  # 80 MB
    matrix[:] = 1.0
    held = resident()
    release(matrix)
    assert held - resident() > 70e6


@pytest.mark.usefixtures("nothing_in_memory")
def test_a_full_disk_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(DataError, match=r"No space left on device\); name a folder"):
        empty_matrix(1000, 3)


def test_features_in_a_file_are_those_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read, grouped, mapped and filled: everything that copies a matrix."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(90, 4))
    features[rng.random(features.shape) < 0.2] = np.nan
    features[:, 2] = 1.0  # does not vary, so that columns are chosen
    with pytest.warns(AffineRankWarning):
        data = RankingDataset.from_rows(features, rng.integers(0, 9, 90))
    write_parquet(data, tmp_path / "data.parquet")

    def read() -> tuple[RankingDataset, RankingDataset]:
        with pytest.warns(AffineRankWarning):
            found = read_parquet(tmp_path / "data.parquet")
        mapping = FeatureMapping.fit(found, impute=True)
        return found, mapping.apply(found.select_queries([5, 1, 2]))

    in_memory = read()
    monkeypatch.setattr(mapped, "IN_MEMORY", 0)
    monkeypatch.setattr(mapped, "ROWS_AT_ONCE", 7)
    in_files = read()
    for there, here in zip(in_files, in_memory, strict=True):
        assert isinstance(owner(there.features), mmap.mmap)
        np.testing.assert_array_equal(there.features, here.features)
    assert not np.isnan(in_files[1].features).any()
