"""Map raw features to those a ranker reads: chosen, scaled, filled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from affinerank.data.categories import Values
from affinerank.support.arrays import Ints, Matrix
from affinerank.support.errors import DataError, warn
from affinerank.support.large_arrays import empty_matrix, release
from affinerank.support.settings import require_choice

if TYPE_CHECKING:
    from affinerank.data.dataset import RankingDataset

SCALINGS = ("list", "data", "none")
# Medians of scaled features are found from counts over so many steps from 0 to 1.
STEPS = 2**14
# Values of a category that are told apart where it is but one witness of relevance.
FREQUENT = 100


@dataclass(frozen=True, slots=True)
class FeatureMapping:
    """How raw features are changed before a ranker reads them, alike on every split.

    Attributes:
        names: The features the ranker reads, in its order.
        scaling: ``list``: each to [0, 1] within its query, so that a score depends on
            the whole list; ``data``: by ``low`` and ``high``; ``none``.
        fill: ``[n_features]`` value that replaces a missing one, after scaling;
            ``None`` leaves missing values missing.
        low: ``[n_features]`` what becomes 0, where the data scale.
        high: ``[n_features]`` what becomes 1.
        categories: Values of features that are categories, by name. One that is among
            ``names`` stays a code, never scaled; of another, features called
            ``brand=nike`` are 1 where it has the value, and 0 where not.
    """

    names: tuple[str, ...]
    scaling: str = SCALINGS[0]
    fill: tuple[float, ...] | None = None
    low: tuple[float, ...] | None = None
    high: tuple[float, ...] | None = None
    categories: Values = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Reject what is no scaling."""
        require_choice("scaling", self.scaling, SCALINGS)

    @property
    def by_list(self) -> bool:
        """Whether a document's features depend on the others of its list."""
        return self.scaling == SCALINGS[0]

    @classmethod
    def fit(
        cls,
        train: RankingDataset,
        *,
        scaling: str = SCALINGS[0],
        impute: bool = False,
        one_hot: int | None = None,
    ) -> FeatureMapping:
        """Keep the features that vary within some query of ``train``.

        ``one_hot`` makes features of the most frequent values of each category, up to
        so many; left out, categories are codes.
        ``impute`` also learns what replaces missing values: the median of the known
        ones, scaled, to within 1 / 16,384 of their range.
        """
        names = train.varying_features()
        if not names:
            raise DataError(
                "every feature is constant within every query, so nothing can tell "
                "documents apart; give data whose features differ within a query"
            )
        own = {name: v for name, v in train.categories.items() if name in names}
        if one_hot is not None:
            names = tuple(_expanded(train, names, one_hot))
        found = cls(names, scaling, categories=own)
        if found.by_list:
            return replace(found, fill=_medians(found, train)) if impute else found
        low, high = _ranges(replace(found, scaling="none"), train)
        scaled = cls(names, "data", None, low, high, own)
        fill = _medians(scaled, train) if impute else None
        if scaling == "data":
            return replace(scaled, fill=fill)
        if fill is None:
            return found
        back = zip(low, high, fill, strict=True)
        return replace(found, fill=tuple(a + share * (b - a) for a, b, share in back))

    def apply(self, data: RankingDataset) -> RankingDataset:
        """Return ``data`` with these features alone, scaled and filled.

        One pass, one new matrix, in a temporary file if it is large.
        """
        plain = self.scaling == "none" and self.fill is None
        same = self.names == data.feature_names and self.categories == data.categories
        if plain and same:
            return data
        mapped = empty_matrix(data.n_docs, len(self.names))
        for rows, block in self.blocks(data):
            mapped[rows] = block
            release(mapped)
        own = {name: self.categories[name] for name in self.codes}
        return replace(data, features=mapped, feature_names=self.names, categories=own)

    @property
    def codes(self) -> tuple[str, ...]:
        """Names of the features that are codes of a category."""
        return tuple(name for name in self.names if name in self.categories)

    @property
    def raw_names(self) -> tuple[str, ...]:
        """Names of the raw features; those made of one category are of its column."""
        sources = (self.source_of(name) for name in self.names)
        return tuple(dict.fromkeys(sources))

    def source_of(self, name: str) -> str:
        """Return the raw feature that one of the names is made of."""
        for category, values in self.categories.items():
            made = name.removeprefix(f"{category}=")
            if category not in self.names and made != name and made in values:
                return category
        return name

    def places(self, names: Collection[str]) -> list[int]:
        """Return which of the features these are."""
        return [i for i, name in enumerate(self.names) if name in names]

    def shift_and_span(self) -> tuple[Matrix, Matrix]:
        """What is subtracted from features, and what they are then divided by."""
        low = np.array(self.low or (), dtype=np.float32)
        span = np.array(self.high or (), dtype=np.float32) - low
        return low, np.where(span > 0, span, np.float32(1.0))

    def blocks(self, data: RankingDataset) -> Iterator[tuple[slice, Matrix]]:
        """Yield rows of ``data``, and their mapped features."""
        recodings, unseen = list(_recodings(self, data)), Counter[str]()
        place = {self.names[i]: made.column for made in recodings for i in made.places}
        place |= {name: i for i, name in enumerate(data.feature_names)}
        columns = [place[name] for name in self.names if name in place]
        there = np.array([name in place for name in self.names], dtype=bool)
        if not there.all() and not data.absent_is_zero:
            absent = [name for name in self.names if name not in place]
            raise DataError(
                f"the data lack {len(absent)} of {len(self.names)} features, "
                f"{absent[0]!r} first; they have "
                f"{', '.join(data.feature_names[:8]) or 'none'}"
            )
        whole = not recodings and columns == list(range(data.n_features))
        fill = None if self.fill is None else np.array(self.fill, dtype=np.float32)
        low, span = self.shift_and_span()
        for rows, starts in data.blocks():
            raw = data.features[rows]
            block = raw if whole else raw[:, columns]
            if not there.all():
                block, known = np.zeros((len(raw), len(there)), np.float32), block
                block[:, there] = known
            for made in recodings:
                unseen[made.name] += made.into(block, raw[:, made.column])
            if self.by_list:
                codes = self.places(self.codes)
                plain, block = block[:, codes], _min_max(block, starts)
                block[:, codes] = plain
            elif self.low is not None and self.high is not None:
                block = (block - low) / span
            if fill is not None:
                block = np.where(np.isnan(block), fill, block)
            yield rows, block
            release(data.features)
        for name, number in unseen.items():
            if number:
                warn(
                    f"{number:,} documents have a value of {name!r} that training "
                    "never saw; it is taken for missing"
                )


class _Recoding(NamedTuple):
    """A category of data in the codes of a ranker.

    Attributes:
        name: What it is called.
        column: Its column in the data.
        table: ``[n_values + 1]`` the ranker's code of each code of the data, NaN where
            it has none, and for what is missing.
        places: Which features of the mapping are made of it.
        hot: The code that each is 1 at; ``None`` where a feature is the code itself.
    """

    name: str
    column: int
    table: Matrix
    places: list[int]
    hot: Matrix | None

    def into(self, block: Matrix, raw: Matrix) -> int:
        """Write features into a block; return how many values have no code."""
        last = len(self.table) - 1
        found = self.table[np.nan_to_num(raw, nan=last).astype(np.int64)]
        wide = found[:, None]
        block[:, self.places] = wide if self.hot is None else wide == self.hot
        return int(np.isnan(found).sum() - np.isnan(raw).sum())


def _recodings(mapping: FeatureMapping, data: RankingDataset) -> Iterator[_Recoding]:
    """Yield how the categories of data become features of a mapping."""
    names = data.feature_names
    for name in mapping.names:
        if name in data.categories and name not in mapping.categories:
            raise DataError(
                f"{name!r} is a category in the data, and the ranker reads numbers"
            )
    for name, values in mapping.categories.items():
        if name not in names:
            continue
        column = names.index(name)
        here = data.categories.get(name, ())
        if not here and not np.isnan(data.features[:, column]).all():
            raise DataError(
                f"{name!r} holds numbers in the data, and the ranker reads it as a "
                f"category; say so (--category {name})"
            )
        code_of = {value: code for code, value in enumerate(values)}
        codes = [*(code_of.get(value, np.nan) for value in here), np.nan]
        table = np.array(codes, np.float32)
        if name in mapping.names:
            yield _Recoding(name, column, table, mapping.places([name]), None)
            continue
        every = {f"{name}={value}": code for value, code in code_of.items()}
        places = mapping.places(every.keys() - names)
        hot = np.array([every[mapping.names[i]] for i in places], np.float32)
        yield _Recoding(name, column, table, places, hot)


def _expanded(
    train: RankingDataset, names: Collection[str], most: int
) -> Iterator[str]:
    """Yield the features, and in the place of categories their most frequent values."""
    for name in names:
        values = train.categories.get(name)
        if values is None:
            yield name
            continue
        column = train.features[:, train.feature_names.index(name)]
        known = column[~np.isnan(column)].astype(np.int64)
        number = np.bincount(known, minlength=len(values))
        for code in sorted(np.argsort(-number, kind="stable")[:most].tolist()):
            yield f"{name}={values[code]}"


def _ranges(
    mapping: FeatureMapping, train: RankingDataset
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the lowest and the highest known value of each feature."""
    low = high = np.full(len(mapping.names), np.nan, np.float32)
    for _, block in mapping.blocks(train):
        low = np.fmin(low, np.fmin.reduce(block, axis=0))
        high = np.fmax(high, np.fmax.reduce(block, axis=0))
    low[mapping.places(mapping.codes)], high[mapping.places(mapping.codes)] = 0.0, 1.0
    # Half of the range of float32 each, so that a difference is finite.
    most = np.finfo(np.float32).max / 2
    return tuple(low.clip(-most, most).tolist()), tuple(high.clip(-most, most).tolist())


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
        steps = np.nan_to_num(
            np.rint(np.clip(block, 0.0, 1.0) * STEPS), nan=STEPS + 1
        ).astype(np.int32)
        for i, column in enumerate(steps.T):
            counts[i] += np.bincount(column, minlength=STEPS + 2)[:-1]
    upto = np.cumsum(counts, axis=1)
    middle = (upto[:, -1:] + 1) // 2
    return tuple((np.argmax(upto >= middle, axis=1) / STEPS).tolist())
