"""Compare the scores of an exported file with those of its ranker.

An exported file can go wrong where values meet thresholds. So documents are constructed
that reach a split with a value on its threshold, just below it or just above it, and
others with extreme and missing values. The file and the ranker score all of these, and
lists of ordinary documents.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from affinerank.data.dataset import RankingDataset
from affinerank.data.feature_mapping import FeatureMapping
from affinerank.rankers.blend import AnyRanker
from affinerank.rankers.ranker import score
from affinerank.rankers.trees.nodes import FLOAT, LARGEST, Tree
from affinerank.support.arrays import Bools, Floats, Matrix
from affinerank.support.errors import DataError

TOLERANCE = 1e-5  # largest allowed difference, as a share of the largest score
LISTS_COMPARED = 100  # ordinary lists
LIST_SIZE = 20  # documents in each constructed list
SPLITS_TRIED = 600
MOST_VALUES = 20_000_000  # limit on constructed documents times features
# 3e38 is near the largest float32; LightGBM reads 1e-35 as 0, and Solr adds 1e-6.
EXTREMES = (0.0, 1.0, 1e-6, 1e-35, 2e-35, 1e-44, 3e38)
MAGNITUDES = (1.0, 1e10, 1e30)  # of the features that test a linear model
ON_THRESHOLD = 0
BELOW_THRESHOLD = -1
ABOVE_THRESHOLD = 1


@dataclass(frozen=True, slots=True)
class Parity:
    """How much the scores of an exported file differ from those of its ranker.

    Attributes:
        lists: Number of ordinary lists that both scored.
        documents: Number of documents in these lists.
        made_up: Number of constructed documents, on and beside thresholds or with
            extreme or missing values.
        max_difference: Largest absolute difference of two scores.
        relative: Largest difference as a share of the largest score.
        between: Share of the ordinary documents that are left out, because they have a
            value between the ranker's threshold and the nearest one that the engine
            supports.
    """

    lists: int
    documents: int
    made_up: int
    max_difference: float
    relative: float
    between: float = 0.0


class Cut(NamedTuple):
    """Where a split cuts a raw feature, in the ranker and in the engine.

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
    """Compare a file's scores with the ranker's; reject a file whose scores differ.

    Args:
        ranker: The ranker that was exported.
        file_scores: Scores lists by the file.
        ordinary: Ordinary lists.
        made_up: Constructed lists, without values between cuts. Each set of lists has
            its own largest score.
        cuts: Cuts of the file's splits.
    """
    differences = []
    shares = []
    for lists in made_up:
        every_document = np.ones(lists.n_docs, dtype=bool)
        difference, share = _compare(ranker, file_scores, lists, every_document)
        differences.append(difference)
        shares.append(share)

    # Ordinary documents count unless ranker and engine must decide differently.
    is_between = lies_between(ordinary.features, cuts)
    if not is_between.all():
        difference, share = _compare(ranker, file_scores, ordinary, ~is_between)
        differences.append(difference)
        shares.append(share)
    return Parity(
        lists=ordinary.n_queries,
        documents=ordinary.n_docs,
        made_up=sum(lists.n_docs for lists in made_up),
        max_difference=max(differences, default=0.0),
        relative=max(shares, default=0.0),
        between=float(np.mean(is_between)),
    )


def _compare(
    ranker: AnyRanker,
    file_scores: Callable[[RankingDataset], Floats],
    lists: RankingDataset,
    is_compared: Bools,
) -> tuple[float, float]:
    """Compare two scorings of the same lists; reject a large difference.

    Args:
        ranker: The ranker that was exported.
        file_scores: Scores lists by the file.
        lists: Lists that both score.
        is_compared: ``[n_docs]`` documents whose scores are compared.

    Returns:
        The largest difference, and its share of the largest score.
    """
    # Beyond float32, scaled features are infinite, which trees can read.
    with np.errstate(over="ignore"):
        ranker_scores = score(ranker, lists)[is_compared]
    differences = np.abs(file_scores(lists)[is_compared] - ranker_scores)
    largest_difference = float(np.max(differences))
    largest_score = float(np.max(np.abs(ranker_scores)))

    share = largest_difference
    if largest_score:
        share = largest_difference / largest_score
    if not share <= TOLERANCE:
        raise DataError(
            f"the scores of the exported file differ from the ranker's by up to "
            f"{largest_difference:.3g} ({share:.2g} of the largest score, not "
            f"{TOLERANCE:g})"
        )
    return largest_difference, share


def cuts_of(trees: Sequence[Tree], reached: Callable[[float], float]) -> list[Cut]:
    """Return the cuts of all splits, each once.

    Args:
        trees: Trees of raw features.
        reached: From the largest float32 that the ranker sends left to the largest that
            the engine sends left.
    """
    limits = {
        (node.feature, node.limit) for tree in trees for node in tree if node.left
    }
    return [Cut(feature, limit, reached(limit)) for feature, limit in sorted(limits)]


def lies_between(features: Matrix, cuts: Sequence[Cut]) -> Bools:
    """Return which documents have a value that ranker and engine send to two sides."""
    is_between = np.zeros(len(features), dtype=bool)
    for cut in cuts:
        if cut.limit != cut.reached:
            low = min(cut.limit, cut.reached)
            high = max(cut.limit, cut.reached)
            values = features[:, cut.feature]
            is_between |= (values > low) & (values <= high)
    return is_between


def moved_from_between(features: Matrix, cuts: Sequence[Cut]) -> Matrix:
    """Move values that ranker and engine send to two sides to where they agree.

    Such values move down to the lower cut, which both sides send left; or up, if the
    lower cut is beyond float32.
    """
    gaps_by_feature: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for cut in cuts:
        if cut.limit != cut.reached:
            gap = (min(cut.limit, cut.reached), max(cut.limit, cut.reached))
            gaps_by_feature[cut.feature].append(gap)

    moved = features.copy()
    for feature, gaps in gaps_by_feature.items():
        column = moved[:, feature]
        # From the highest gap down: a value may fall into the next one.
        for low, high in sorted(gaps, reverse=True):
            is_between = (column > low) & (column <= high)
            just_above = np.nextafter(FLOAT(high), FLOAT(LARGEST))
            column[is_between] = low if np.isfinite(low) else just_above
    return moved


def ordinary_lists(
    ranker: AnyRanker,
    names: tuple[str, ...],
    data: RankingDataset | None,
    *,
    missing: bool,
) -> RankingDataset:
    """Return ordinary lists: the first ones of the data, or constructed ones.

    Args:
        ranker: The ranker that is exported.
        names: Names of the features that the file reads.
        data: Lists are taken from here; if ``None``, they are constructed.
        missing: Whether constructed values may be missing.
    """
    values_by_category = {
        name: values
        for member in ranker.members
        for name, values in member.ranker.mapping.categories.items()
    }
    if data is None:
        return _construct_ordinary(ranker, names, values_by_category, missing=missing)
    if not data.n_queries:
        raise DataError("the data have no lists to compare file and ranker on")
    first_queries = np.arange(min(data.n_queries, LISTS_COMPARED))
    raw_mapping = FeatureMapping(names, "none", categories=values_by_category)
    return raw_mapping.apply(data.select_queries(first_queries))


def _construct_ordinary(
    ranker: AnyRanker,
    names: tuple[str, ...],
    values_by_category: Mapping[str, tuple[str, ...]],
    *,
    missing: bool,
) -> RankingDataset:
    """Construct lists of 1 to 40 documents, the same each time.

    Features are heavy-tailed, or about the range that the ranker scales by. In each
    list some features are constant; if asked, some values are missing.
    """
    rng = np.random.default_rng(0)
    list_sizes = 1 + np.arange(LISTS_COMPARED) % 40
    query = np.repeat(np.arange(LISTS_COMPARED), list_sizes)
    n_docs = len(query)
    n_features = len(names)

    # Heavy-tailed values, with a sign for each feature.
    size = rng.lognormal(sigma=2.0, size=(n_docs, n_features))
    features = size * rng.choice([-1, 1], n_features)
    constant_value = np.full(n_features, 3.0)

    # If the ranker scales by stored ranges: values within and just outside them. A
    # blend does not.
    mapping = ranker.members[0].ranker.mapping
    if mapping.low is not None:
        low, span = mapping.shift_and_span()
        for i, name in enumerate(mapping.names):
            if name in names:  # ONNX makes one-hot features itself
                column = names.index(name)
                position = rng.uniform(-0.25, 1.25, size=n_docs)
                features[:, column] = low[i] + span[i] * position
                constant_value[column] = low[i] + span[i] / 2

    # Some features are constant within a list, and some values are missing.
    is_constant = rng.random((LISTS_COMPARED, n_features)) < 0.2
    features = np.where(is_constant[query], constant_value, features)
    if missing:
        features[rng.random((n_docs, n_features)) < 0.05] = np.nan

    # Codes of categories, some of them missing.
    categories = {
        name: values_by_category[name] for name in names if name in values_by_category
    }
    for name, values in categories.items():
        codes = rng.integers(len(values), size=n_docs).astype(np.float64)
        if missing:
            codes[rng.random(n_docs) < 0.05] = np.nan
        features[:, names.index(name)] = codes
    return RankingDataset.from_groups(
        features,
        query,
        np.arange(LISTS_COMPARED),
        feature_names=names,
        categories=categories,
    )


def with_features(lists: RankingDataset, names: tuple[str, ...]) -> RankingDataset:
    """Return lists with these features in this order; features they lack are 0."""
    if names == lists.feature_names:
        return lists
    features = np.zeros((lists.n_docs, len(names)), FLOAT)
    columns = [names.index(name) for name in lists.feature_names]
    features[:, columns] = lists.features
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
    """Construct documents that show how a file decides at the splits of trees.

    There are up to five equally large sets of documents. In three sets, documents reach
    a split with a value on its threshold, just below it, or just above it; half of
    their other features are likewise on or beside a threshold. A fourth set has extreme
    values, and a fifth, if asked for, missing values.

    Args:
        trees: Trees of raw features.
        cuts: All cuts of these trees.
        names: Names of the features.
        missing: Whether values may be missing.
        within_lists: Whether the ranker scales features within the list. Then values
            are from 0 to 1, and each list has both, so that scaling changes nothing.
        extremes: Whether values may be extreme; never with ``within_lists``.

    Returns:
        Lists of these documents; ``None`` if the trees have no splits.
    """
    # Choose splits at random: each once, then again if there are too few.
    rng = np.random.default_rng(0)
    splits = []
    for tree in trees:
        parents = _parents(tree)
        splits += [
            Split(tree, parents, number)
            for number, node in enumerate(tree)
            if node.left
        ]
    if not splits:
        return None
    n_tried = min(SPLITS_TRIED, max(LIST_SIZE, MOST_VALUES // (5 * len(names))))
    positions = np.resize(rng.permutation(len(splits)), n_tried)
    splits_tried = [splits[position] for position in positions]

    # A document for each of them, on and on either side of its threshold.
    finite_cuts = [
        cut for cut in cuts if max(abs(cut.limit), abs(cut.reached)) < LARGEST
    ]
    sets = [
        _documents_at_splits(splits_tried, finite_cuts, len(names), side, rng)
        for side in (ON_THRESHOLD, BELOW_THRESHOLD, ABOVE_THRESHOLD)
    ]
    on_thresholds = sets[0]
    if extremes and not within_lists:
        sets.append(_with_extremes(on_thresholds, rng))
    if missing:
        sets.append(_with_missing(on_thresholds, rng))

    # Only finite values, and none that ranker and engine must send to two sides.
    features = np.clip(np.concatenate(sets), -LARGEST, LARGEST)
    features = moved_from_between(features, cuts)
    query = np.arange(len(features)) // LIST_SIZE
    if within_lists:
        # The first two documents of each list have the smallest and largest values. So
        # a last list of one document joins the list before it.
        features = np.clip(features, 0.0, 1.0)
        features[::LIST_SIZE] = 0.0
        features[1::LIST_SIZE] = 1.0
        if len(features) % LIST_SIZE == 1:
            query[-1] -= 1
    return RankingDataset.from_groups(
        features, query, np.arange(query[-1] + 1), feature_names=names
    )


class Split(NamedTuple):
    """A split of a tree.

    Attributes:
        tree: The tree.
        parents: Number of each node's parent.
        number: Number of the split's node in the tree.
    """

    tree: Tree
    parents: Mapping[int, int]
    number: int


def _parents(tree: Tree) -> dict[int, int]:
    """Return the parent of each node but the root."""
    parents = {}
    for number, node in enumerate(tree):
        if node.left:
            parents[node.left] = number
            parents[node.right] = number
    return parents


def _documents_at_splits(
    splits: Sequence[Split],
    cuts: Sequence[Cut],
    n_features: int,
    side: int,
    rng: np.random.Generator,
) -> Matrix:
    """Return a document for each split that reaches it on one side of its threshold."""
    documents = _near_thresholds(cuts, (len(splits), n_features), side, rng)
    cut_at = {(cut.feature, cut.limit): cut for cut in cuts}
    for document, split in zip(documents, splits, strict=True):
        _lead_to(document, split)
        node = split.tree[split.number]
        cut = cut_at.get((node.feature, node.limit))
        if cut is not None:
            document[node.feature] = _beside(cut, side)
    return documents


def _near_thresholds(
    cuts: Sequence[Cut], shape: tuple[int, int], side: int, rng: np.random.Generator
) -> Matrix:
    """Return documents with half of the values on, or beside, a threshold.

    The other values are midway between two thresholds. Features without a cut are 0.
    """
    documents = np.zeros(shape, FLOAT)
    cuts_by_feature: dict[int, list[Cut]] = defaultdict(list)
    for cut in cuts:
        cuts_by_feature[cut.feature].append(cut)
    for feature, feature_cuts in cuts_by_feature.items():
        beside = np.array([_beside(cut, side) for cut in feature_cuts], FLOAT)
        limits = np.array([cut.limit for cut in feature_cuts], FLOAT)
        first, second = rng.integers(len(limits), size=(2, len(documents)))
        midway = limits[first] / 2 + limits[second] / 2
        is_near = rng.random(len(documents)) < 0.5
        documents[:, feature] = np.where(is_near, beside[first], midway)
    return documents


def _beside(cut: Cut, side: int) -> float:
    """Return a value on a threshold, just below it or just above it.

    If ranker and engine cut at different values, both send it to the same side.
    """
    if side == ABOVE_THRESHOLD:
        highest = FLOAT(max(cut.limit, cut.reached))
        return float(np.nextafter(highest, FLOAT(LARGEST)))
    lowest = FLOAT(min(cut.limit, cut.reached))
    if side == BELOW_THRESHOLD:
        return float(np.nextafter(lowest, FLOAT(-LARGEST)))
    return float(lowest)


def _lead_to(document: Matrix, split: Split) -> None:
    """Change a document's values so that it reaches a split."""
    # From the split up to the root: what each split above requires of its feature.
    must_exceed: dict[int, float] = {}
    at_most: dict[int, float] = {}
    child = split.number
    while child in split.parents:
        parent = split.parents[child]
        node = split.tree[parent]
        if child == node.left:
            limit = at_most.get(node.feature, LARGEST)
            at_most[node.feature] = min(limit, node.limit)
        else:
            limit = must_exceed.get(node.feature, -LARGEST)
            must_exceed[node.feature] = max(limit, node.limit)
        child = parent

    # Change values that do not lie between the two limits.
    for feature in must_exceed.keys() | at_most.keys():
        low = FLOAT(must_exceed.get(feature, -LARGEST))
        high = FLOAT(at_most.get(feature, LARGEST))
        if not low < document[feature] <= high:
            document[feature] = high if feature in at_most else np.nextafter(low, high)


def _with_extremes(documents: Matrix, rng: np.random.Generator) -> Matrix:
    """Return the documents with a third of the values extreme, of either sign."""
    negative_extremes = [-value for value in EXTREMES]
    extremes = np.array([*EXTREMES, *negative_extremes], FLOAT)
    drawn_extremes = rng.choice(extremes, size=documents.shape)
    is_extreme = rng.random(documents.shape) < 1 / 3
    return np.where(is_extreme, drawn_extremes, documents)


def _with_missing(documents: Matrix, rng: np.random.Generator) -> Matrix:
    """Return the documents with a tenth to all of their values missing."""
    share = rng.choice([0.1, 0.5, 1.0], size=(len(documents), 1), p=[0.6, 0.35, 0.05])
    is_missing = rng.random(documents.shape) < share
    return np.where(is_missing, FLOAT(np.nan), documents)


def lists_far_out(
    names: tuple[str, ...], weights: Floats, *, missing: bool
) -> Iterator[RankingDataset]:
    """Construct lists for a linear model, with small, large and huge values.

    Args:
        names: Names of the features.
        weights: ``[n_features]`` weights of raw features.
        missing: Whether values may be missing.
    """
    rng = np.random.default_rng(1)
    shape = (5 * LIST_SIZE, len(names))
    query = np.arange(shape[0]) // LIST_SIZE

    # The sum of all terms must not exceed float32.
    total_weight = max(1.0, float(np.abs(weights).sum()))
    largest_magnitude = 1e37 / total_weight
    for magnitude in MAGNITUDES:
        features = rng.normal(size=shape) * min(magnitude, largest_magnitude)
        if missing:
            features[rng.random(shape) < 0.1] = np.nan
        yield RankingDataset.from_groups(
            features, query, np.arange(query[-1] + 1), feature_names=names
        )
