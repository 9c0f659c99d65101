"""From raw features to those that a ranker reads: which of them, scaled, filled."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from affinerank.data.mapped import empty_matrix, release
from affinerank.errors import DataError

if TYPE_CHECKING:
    from affinerank.data.dataset import RankingDataset

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

# Scaled features are sorted into so many steps from 0 to 1 to find their median.
STEPS = 2**14


@dataclass(frozen=True, slots=True)
class FeatureMapping:
    """What is done to raw features before a ranker sees them; the same on every split.

    Attributes:
        names: The features the ranker reads, in its order.
        per_query_min_max: Whether each is scaled to [0, 1] within its query.
        fill: ``[n_features]`` what is put in the place of a missing value, after
            scaling; ``None`` leaves it missing.
    """

    names: tuple[str, ...]
    per_query_min_max: bool = True
    fill: tuple[float, ...] | None = None

    @classmethod
    def fit(cls, train: RankingDataset, *, impute: bool = False) -> FeatureMapping:
        """Keep the features that vary within some query of ``train``.

        ``impute`` also learns what to put in the place of missing values: the median of
        the known ones, scaled, to within 1 / 16,384.
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
        """Return ``data`` with these features alone, scaled and filled as it says.

        One pass, one new matrix, which lies in a temporary file where it is large.
        """
        plain = not self.per_query_min_max and self.fill is None
        if plain and self.names == data.feature_names:
            return data
        mapped = empty_matrix(data.n_docs, len(self.names))
        for rows, block in self.blocks(data):
            mapped[rows] = block
            release(mapped)
        return replace(data, features=mapped, feature_names=self.names)

    def blocks(self, data: RankingDataset) -> Iterator[tuple[slice, Floats]]:
        """Yield rows of ``data``, and their features as this mapping makes them."""
        wide, columns = data.with_columns(self.names)
        whole = columns == list(range(wide.n_features))
        fill = None if self.fill is None else np.array(self.fill, dtype=np.float32)
        for rows, starts in wide.blocks():
            block = wide.features[rows] if whole else wide.features[rows, columns]
            if self.per_query_min_max:
                block = _min_max(block, starts)
            if fill is not None:
                block = np.where(np.isnan(block), fill, block)
            yield rows, block
            release(wide.features)


def _min_max(block: Floats, starts: Ints) -> Floats:
    """Scale to [0, 1] within the lists that begin at ``starts``."""
    low = np.fmin.reduceat(block, starts, axis=0)
    span = np.fmax.reduceat(block, starts, axis=0) - low
    span[span == 0] = 1.0
    sizes = np.diff(np.append(starts, len(block)))
    scaled: Floats = block - np.repeat(low, sizes, axis=0)
    scaled /= np.repeat(span, sizes, axis=0)
    return scaled


def _medians(mapping: FeatureMapping, train: RankingDataset) -> tuple[float, ...]:
    """The lower median of each feature's known values, from a count of their steps."""
    counts = np.zeros((len(mapping.names), STEPS + 1), dtype=np.int64)
    for _, block in mapping.blocks(train):
        # A missing value goes to a step beyond the last.
        steps = np.nan_to_num(np.rint(block * STEPS), nan=STEPS + 1).astype(np.int32)
        for i, column in enumerate(steps.T):
            counts[i] += np.bincount(column, minlength=STEPS + 2)[:-1]
    upto = np.cumsum(counts, axis=1)
    middle = (upto[:, -1:] + 1) // 2
    return tuple((np.argmax(upto >= middle, axis=1) / STEPS).tolist())
