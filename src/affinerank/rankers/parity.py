"""How far an exported file is from its ranker, on documents made to tell.

A file that decides wrongly is wrong where values meet thresholds. So documents are made
that reach a split with a value on its threshold, just below, or just above, and others
of extreme and missing values. A file and its ranker score all of them, and lists of
ordinary documents besides.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from affinerank.arrays import Bools, Floats, Matrix
from affinerank.data.dataset import RankingDataset
from affinerank.data.features import FeatureMapping
from affinerank.errors import DataError
from affinerank.rankers.blend import AnyRanker
from affinerank.rankers.ranker import score
from affinerank.rankers.tree_nodes import FLOAT, LARGEST, Tree

TOLERANCE = 1e-5  # of the largest score
LISTS_COMPARED = 100
LIST_SIZE = 20  # of documents that are made up for splits
SPLITS_TRIED = 600
MOST_VALUES = 20_000_000  # of made-up documents times features
# 3e38 is near the largest float32; LightGBM reads 1e-35 as 0, and Solr adds 1e-6.
EXTREMES = (0.0, 1.0, 1e-6, 1e-35, 2e-35, 1e-44, 3e38)
MAGNITUDES = (1.0, 1e10, 1e30)


@dataclass(frozen=True, slots=True)
class Parity:
    """How far an exported file is from its ranker.

    Attributes:
        lists: Lists of ordinary documents that were scored by both.
        documents: Documents of these lists.
        made_up: Documents besides, on thresholds and beside them, of extreme or
            missing values.
        max_difference: Largest absolute difference of two scores.
        relative: The same, as a share of the largest score.
        between: Share of the documents of lists that were left out: they have a value
            between the ranker's threshold and the nearest that the engine can have.
    """

    lists: int
    documents: int
    made_up: int
    max_difference: float
    relative: float
    between: float = 0.0


class Cut(NamedTuple):
    """Where a split cuts a raw feature.

    Attributes:
        feature: Number of the feature.
        limit: Largest float32 that the ranker sends left.
        reached: Largest float32 that the engine sends left.
    """

    feature: int
    limit: float
    reached: float


def measure_parity(
    ranker: AnyRanker,
    file_scores: Callable[[RankingDataset], Floats],
    ordinary: RankingDataset,
    made_up: Sequence[RankingDataset] = (),
    cuts: Sequence[Cut] = (),
) -> Parity:
    """Compare a file's scores with the ranker's; reject a file that scores otherwise.

    Args:
        ranker: What was exported.
        file_scores: Scores lists by the file.
        ordinary: Lists to compare on.
        made_up: More lists, without values between cuts; each set has a largest score
            of its own.
        cuts: Of the file's splits.
    """
    differences: list[float] = []
    shares: list[float] = []
    between = lies_between(ordinary.features, cuts)
    compared = [(lists, np.ones(lists.n_docs, dtype=bool)) for lists in made_up]
    if not between.all():
        compared.append((ordinary, ~between))
    for lists, counts in compared:
        difference, largest = _largest_difference(ranker, file_scores, lists, counts)
        share = difference / largest if largest else difference
        if not share <= TOLERANCE:
            raise DataError(
                f"the exported file scores otherwise than the ranker, by up to "
                f"{difference:.3g} ({share:.2g} of the largest score, not "
                f"{TOLERANCE:g})"
            )
        differences.append(difference)
        shares.append(share)
    return Parity(
        lists=ordinary.n_queries,
        documents=ordinary.n_docs,
        made_up=sum(lists.n_docs for lists in made_up),
        max_difference=max(differences, default=0.0),
        relative=max(shares, default=0.0),
        between=float(np.mean(between)),
    )


def _largest_difference(
    ranker: AnyRanker,
    file_scores: Callable[[RankingDataset], Floats],
    lists: RankingDataset,
    counts: Bools,
) -> tuple[float, float]:
    """Return the largest difference over the documents that count, and their score."""
    # Beyond float32, scaled features are infinite, which trees can read.
    with np.errstate(over="ignore"):
        ranker_scores = score(ranker, lists)[counts]
    difference = np.abs(file_scores(lists)[counts] - ranker_scores)
    return float(np.max(difference)), float(np.max(np.abs(ranker_scores)))


def cuts_of(trees: Sequence[Tree], reached: Callable[[float], float]) -> list[Cut]:
    """Return each cut of each feature once."""
    limits = {
        (node.feature, node.limit) for tree in trees for node in tree if node.left
    }
    return [Cut(feature, limit, reached(limit)) for feature, limit in sorted(limits)]


def lies_between(features: Matrix, cuts: Sequence[Cut]) -> Bools:
    """Return which documents have a value that file and ranker send to two sides."""
    between = np.zeros(len(features), dtype=bool)
    for cut in cuts:
        if cut.limit != cut.reached:
            low, high = sorted((cut.limit, cut.reached))
            values = features[:, cut.feature]
            between |= (values > low) & (values <= high)
    return between


def moved_from_between(features: Matrix, cuts: Sequence[Cut]) -> Matrix:
    """Return features of which none lies between two cuts of a split.

    Such values move down to the lower cut, which both sides send left; or up, where
    that is beyond float32.
    """
    gaps_by_feature: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for cut in cuts:
        if cut.limit != cut.reached:
            low, high = sorted((cut.limit, cut.reached))
            gaps_by_feature[cut.feature].append((low, high))

    moved = features.copy()
    for feature, gaps in gaps_by_feature.items():
        column = moved[:, feature]
        # From the highest gap down: a value may fall into the next one.
        for low, high in sorted(gaps, reverse=True):
            between = (column > low) & (column <= high)
            above = np.nextafter(FLOAT(high), FLOAT(LARGEST))
            column[between] = low if np.isfinite(low) else above
    return moved


def ordinary_lists(
    ranker: AnyRanker,
    names: tuple[str, ...],
    data: RankingDataset | None,
    *,
    missing: bool,
) -> RankingDataset:
    """Return the first lists of the data, with these features, or made-up ones.

    Those have 1 to 40 documents, the same each time. Features are heavy-tailed, or
    about the range that the ranker scales by. In each list some are constant; if asked,
    some values are missing.

    Args:
        ranker: What is compared.
        names: Of the features that the file is given.
        data: Where lists are taken from; made up if left out.
        missing: Whether values may be missing.
    """
    categories = {
        name: values
        for member in ranker.members
        for name, values in member.ranker.mapping.categories.items()
    }
    codes = {name: categories[name] for name in names if name in categories}
    if data is not None:
        if not data.n_queries:
            raise DataError("the data have no lists to compare file and ranker on")
        first = np.arange(min(data.n_queries, LISTS_COMPARED))
        raw = FeatureMapping(names, "none", categories=categories)
        return raw.apply(data.select_queries(first))

    rng = np.random.default_rng(0)
    query = np.repeat(np.arange(LISTS_COMPARED), 1 + np.arange(LISTS_COMPARED) % 40)
    shape = (len(query), len(names))
    features = rng.lognormal(sigma=2.0, size=shape) * rng.choice([-1, 1], shape[1])
    usual = np.full(shape[1], 3.0)
    # Only a ranker that is no blend can scale by stored ranges.
    mapping = ranker.members[0].ranker.mapping
    if mapping.low is not None:
        low, span = mapping.shift_and_span()
        for i, name in enumerate(mapping.names):
            if name in names:  # ONNX makes the others of a category
                column = names.index(name)
                around = rng.uniform(-0.25, 1.25, size=shape[0])
                features[:, column] = low[i] + span[i] * around
                usual[column] = low[i] + span[i] / 2
    constant = rng.random((LISTS_COMPARED, shape[1])) < 0.2
    features = np.where(constant[query], usual, features)
    if missing:
        features[rng.random(shape) < 0.05] = np.nan
    for name, values in codes.items():
        drawn = rng.integers(len(values), size=len(query)).astype(np.float64)
        if missing:
            drawn[rng.random(len(query)) < 0.05] = np.nan
        features[:, names.index(name)] = drawn
    return RankingDataset.from_groups(
        features,
        query,
        np.arange(LISTS_COMPARED),
        feature_names=names,
        categories=codes,
    )


def with_features(lists: RankingDataset, names: tuple[str, ...]) -> RankingDataset:
    """Return lists with these features in this order; those they lack are 0."""
    if names == lists.feature_names:
        return lists
    features = np.zeros((lists.n_docs, len(names)), FLOAT)
    places = [names.index(name) for name in lists.feature_names]
    features[:, places] = lists.features
    return replace(lists, features=features, feature_names=names)


def lists_at_splits(
    trees: Sequence[Tree],
    cuts: Sequence[Cut],
    names: tuple[str, ...],
    *,
    missing: bool,
    within_lists: bool = False,
    extremes: bool = True,
) -> RankingDataset | None:
    """Make documents up that show how a file decides at the splits of trees.

    A third of them reach a split with a value on its threshold, a third just below, a
    third just above; half of their other features are on a threshold, too. As many as
    one of these thirds have extreme values, and, if asked, missing ones.

    Args:
        trees: Trees of raw features.
        cuts: All cuts of these trees.
        names: Of the features.
        missing: Whether values may be missing.
        within_lists: Whether the ranker scales features within the list. Then values
            are from 0 to 1, and each list has both, so that scaling changes nothing.
        extremes: Whether values may be extreme, where they are not within lists.

    Returns:
        Lists of these documents; ``None`` if the trees have no splits.
    """
    rng = np.random.default_rng(0)
    parents_by_tree = [_parents(tree) for tree in trees]
    splits = [
        (i, number)
        for i, tree in enumerate(trees)
        for number, node in enumerate(tree)
        if node.left
    ]
    if not splits:
        return None
    n_tried = min(SPLITS_TRIED, max(LIST_SIZE, MOST_VALUES // (5 * len(names))))
    tried = np.resize(rng.permutation(len(splits)), n_tried)  # each once, then again
    finite = [cut for cut in cuts if max(abs(cut.limit), abs(cut.reached)) < LARGEST]
    cut_at = {(cut.feature, cut.limit): cut for cut in finite}

    sets = []
    for side in (0, -1, 1):
        documents = _near_thresholds(finite, (n_tried, len(names)), side, rng)
        for document, chosen in zip(documents, tried, strict=True):
            i, number = splits[chosen]
            _lead_to(document, trees[i], parents_by_tree[i], number)
            node = trees[i][number]
            cut = cut_at.get((node.feature, node.limit))
            if cut is not None:
                document[node.feature] = _beside(cut, side)
        sets.append(documents)
    if extremes and not within_lists:
        sets.append(_with_extremes(sets[0], rng))
    if missing:
        sets.append(_with_missing(sets[0], rng))

    features = np.clip(np.concatenate(sets), -LARGEST, LARGEST)
    features = moved_from_between(features, cuts)
    if within_lists:
        features = np.clip(features, 0.0, 1.0)
        features[::LIST_SIZE] = 0.0
        features[1::LIST_SIZE] = 1.0
    query = np.arange(len(features)) // LIST_SIZE
    if within_lists and len(features) % LIST_SIZE == 1:
        query[-1] -= 1
    return RankingDataset.from_groups(
        features, query, np.arange(query[-1] + 1), feature_names=names
    )


def _near_thresholds(
    cuts: Sequence[Cut], shape: tuple[int, int], side: int, rng: np.random.Generator
) -> Matrix:
    """Return documents of which half the used values are at, or beside, a threshold.

    The others are midway between two thresholds.
    """
    documents = np.zeros(shape, FLOAT)
    cuts_by_feature: dict[int, list[Cut]] = defaultdict(list)
    for cut in cuts:
        cuts_by_feature[cut.feature].append(cut)
    for feature, feature_cuts in cuts_by_feature.items():
        beside = np.array([_beside(cut, side) for cut in feature_cuts], FLOAT)
        limits = np.array([cut.limit for cut in feature_cuts], FLOAT)
        one, other = rng.integers(len(limits), size=(2, len(documents)))
        midway = limits[one] / 2 + limits[other] / 2
        near = rng.random(len(documents)) < 0.5
        documents[:, feature] = np.where(near, beside[one], midway)
    return documents


def _beside(cut: Cut, side: int) -> float:
    """Return a value on a threshold (0), just below (-1) or just above (1).

    Where ranker and engine cut at different values, it is one both send the same way.
    """
    if side > 0:
        highest = FLOAT(max(cut.limit, cut.reached))
        return float(np.nextafter(highest, FLOAT(LARGEST)))
    lowest = FLOAT(min(cut.limit, cut.reached))
    if side < 0:
        return float(np.nextafter(lowest, FLOAT(-LARGEST)))
    return float(lowest)


def _parents(tree: Tree) -> dict[int, int]:
    """Return the parent of each node but the root."""
    return {
        child: number
        for number, node in enumerate(tree)
        if node.left
        for child in (node.left, node.right)
    }


def _lead_to(
    document: Matrix, tree: Tree, parents: dict[int, int], number: int
) -> None:
    """Change a document so that it reaches a node."""
    # From the node up to the root: what each split above asks of its feature.
    above: dict[int, float] = {}  # values must be larger
    at_most: dict[int, float] = {}
    child = number
    while child in parents:
        parent = parents[child]
        node = tree[parent]
        if child == node.left:
            limit = at_most.get(node.feature, LARGEST)
            at_most[node.feature] = min(limit, node.limit)
        else:
            limit = above.get(node.feature, -LARGEST)
            above[node.feature] = max(limit, node.limit)
        child = parent

    # A value between the two limits, where the document's own is not.
    for feature in above.keys() | at_most.keys():
        low = FLOAT(above.get(feature, -LARGEST))
        high = FLOAT(at_most.get(feature, LARGEST))
        if not low < document[feature] <= high:
            document[feature] = high if feature in at_most else np.nextafter(low, high)


def _with_extremes(documents: Matrix, rng: np.random.Generator) -> Matrix:
    """Return the documents with a third of the values extreme, of either sign."""
    values = np.array([*EXTREMES, *(-value for value in EXTREMES)], FLOAT)
    extreme = rng.choice(values, size=documents.shape)
    chosen = rng.random(documents.shape) < 1 / 3
    return np.where(chosen, extreme, documents)


def _with_missing(documents: Matrix, rng: np.random.Generator) -> Matrix:
    """Return the documents with a tenth to all of their values missing."""
    share = rng.choice([0.1, 0.5, 1.0], size=(len(documents), 1), p=[0.6, 0.35, 0.05])
    missing = rng.random(documents.shape) < share
    return np.where(missing, FLOAT(np.nan), documents)


def lists_far_out(
    names: tuple[str, ...], weights: Floats, *, missing: bool
) -> Iterator[RankingDataset]:
    """Make documents up for a linear model: small, large and huge, some with gaps.

    Huge values stay so small that float32 holds the sum of all terms.

    Args:
        names: Of the features.
        weights: ``[n_features]`` of raw features.
        missing: Whether values may be missing.
    """
    rng = np.random.default_rng(1)
    shape = (5 * LIST_SIZE, len(names))
    query = np.arange(shape[0]) // LIST_SIZE
    for magnitude in MAGNITUDES:
        total_weight = max(1.0, float(np.abs(weights).sum()))
        features = rng.normal(size=shape) * min(magnitude, 1e37 / total_weight)
        if missing:
            features[rng.random(shape) < 0.1] = np.nan
        yield RankingDataset.from_groups(
            features, query, np.arange(query[-1] + 1), feature_names=names
        )
