"""Map raw features to those a ranker reads: chosen, scaled, filled."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from affinerank.arrays import Ints, Matrix
from affinerank.data.mapped import empty_matrix, release
from affinerank.errors import DataError

if TYPE_CHECKING:
    from affinerank.data.dataset import RankingDataset

# Medians of scaled features are found from counts over so many steps from 0 to 1.
STEPS = 2**14


@dataclass(frozen=True, slots=True)
class FeatureMapping:
    """How raw features are changed before a ranker reads them, alike on every split.

    Attributes:
        names: The features the ranker reads, in its order.
        per_query_min_max: Whether each is scaled to [0, 1] within its query.
        fill: ``[n_features]`` value that replaces a missing one, after scaling;
            ``None`` leaves missing values missing.
    """

    names: tuple[str, ...]
    per_query_min_max: bool = True
    fill: tuple[float, ...] | None = None

    @classmethod
    def fit(cls, train: RankingDataset, *, impute: bool = False) -> FeatureMapping:
        """Keep the features that vary within some query of ``train``.

        ``impute`` also learns what replaces missing values: the median of the known
        ones, scaled, to within 1 / 16,384.
        """
        names = train.varying_features()
        if not names:
            raise DataError(
                "every feature is constant within every query, so nothing can tell "
                "documents apart; give data whose features differ within a query"
            )
        found = cls(names=names)
        return replace(found, fill=_medians(found, train)) if impute else found

    def apply(self, data: RankingDataset) -> RankingDataset:
        """Return ``data`` with these features alone, scaled and filled.

        One pass, one new matrix, in a temporary file if it is large.
        """
        plain = not self.per_query_min_max and self.fill is None
        if plain and self.names == data.feature_names:
            return data
        mapped = empty_matrix(data.n_docs, len(self.names))
        for rows, block in self.blocks(data):
            mapped[rows] = block
            release(mapped)
        return replace(data, features=mapped, feature_names=self.names)

    def blocks(self, data: RankingDataset) -> Iterator[tuple[slice, Matrix]]:
        """Yield rows of ``data``, and their mapped features."""
        place = {name: i for i, name in enumerate(data.feature_names)}
        there = np.array([name in place for name in self.names], dtype=bool)
        if not there.all() and not data.absent_is_zero:
            absent = [name for name in self.names if name not in place]
            raise DataError(
                f"the data lack {len(absent)} of {len(self.names)} features, "
                f"{absent[0]!r} first; they have "
                f"{', '.join(data.feature_names[:8]) or 'none'}"
            )
        columns = [place[name] for name in self.names if name in place]
        whole = columns == list(range(data.n_features))
        fill = None if self.fill is None else np.array(self.fill, dtype=np.float32)
        for rows, starts in data.blocks():
            block = data.features[rows] if whole else data.features[rows, columns]
            if not there.all():
                block, known = np.zeros((len(block), len(there)), np.float32), block
                block[:, there] = known
            if self.per_query_min_max:
                block = _min_max(block, starts)
            if fill is not None:
                block = np.where(np.isnan(block), fill, block)
            yield rows, block
            release(data.features)


def _min_max(block: Matrix, starts: Ints) -> Matrix:
    """Scale to [0, 1] within the lists that begin at ``starts``."""
    low = np.fmin.reduceat(block, starts, axis=0)
    with np.errstate(over="ignore"):
        span = np.fmax.reduceat(block, starts, axis=0) - low
    if np.isinf(span).any():  # beyond float32: scale what is half as large
        return _min_max(block * np.float32(0.5), starts)
    span[span == 0] = 1.0
    sizes = np.diff(np.append(starts, len(block)))
    scaled: Matrix = block - np.repeat(low, sizes, axis=0)
    scaled /= np.repeat(span, sizes, axis=0)
    return scaled


def _medians(mapping: FeatureMapping, train: RankingDataset) -> tuple[float, ...]:
    """Return the lower median of each feature's known values, to the nearest step."""
    counts = np.zeros((len(mapping.names), STEPS + 1), dtype=np.int64)
    for _, block in mapping.blocks(train):
        # A missing value goes to a step beyond the last.
        steps = np.nan_to_num(np.rint(block * STEPS), nan=STEPS + 1).astype(np.int32)
        for i, column in enumerate(steps.T):
            counts[i] += np.bincount(column, minlength=STEPS + 2)[:-1]
    upto = np.cumsum(counts, axis=1)
    middle = (upto[:, -1:] + 1) // 2
    return tuple((np.argmax(upto >= middle, axis=1) / STEPS).tolist())
