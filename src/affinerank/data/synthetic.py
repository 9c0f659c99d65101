"""The built-in synthetic worlds: two shaped like data that cannot be redistributed.

The third, a shop, has a module of its own (:mod:`affinerank.data.shop`).

``yahoo-like`` and ``mslr-like`` have the sizes, the label shares and the difficulty of
the data sets they are named after; no document in them is real. A world is a fixed
law; the seed only draws from it, so what was calibrated once holds for every seed.

**The law.** For query ``q``, with ``g_q``, ``e_q`` and all noise standard normal::

    documents   n_q  = exp(log median_docs + docs_spread g_q), rounded, 1 .. max_docs
    intercept   a_q  = intercept_sd e_q + size_effect g_q
    factors     z_0 ~ Exponential(1), z_1 .. z_8 ~ Normal(0, 1), for each document
    utility     u    = a_q + match z_0^1.6 + noise_sd noise
                       + gradual (sum_k w_k z_k + z_1 z_2 / 4 + (z_3^2 - 1) / 6)
    label            = how many of the four thresholds u exceeds
    feature j   v_j  = s_j z_k(j) + b_j z_l(j) + c_j effect_qj + noise - t_j

A feature is *clear* (it sees ``z_0``, with strength about ``clear``), *faint* (it sees
one or two of ``z_1 .. z_8``, with strength about ``faint``) or only noise. In
``yahoo-like`` its value is ``h / (1 + h)`` with ``h = max(v, 0) / 2``: in [0, 1), half
of them zero. In ``mslr-like`` half are ``exp(1 + r_j v)``, a third that rounded down to
a count, the rest ``v`` itself. ``w, s, b, c, t, r`` are drawn once per world.

**What each number was set by.** ``thresholds`` are quantiles of ``u``, and so set the
label shares. ``z_0`` is rare, large and easy to see: a ranker trained on 20 queries
learns it and little else, so ``match`` sets the relevant share at rank 1, and the power
1.6 how steeply it falls from there. ``intercept_sd`` sets how many queries have no
relevant document, and with that nDCG for a given share by rank. ``size_effect`` moves
relevant documents to the larger queries, and so to ranks beyond the tenth. The many
faint features are learnt from thousands of queries only: ``gradual`` and ``faint`` set
how far full information is ahead, ``noise_sd`` what nobody can learn. With 2,000
training queries a production ranker reaches a test nDCG@10 of about 0.58 in
``yahoo-like`` and 0.27 in ``mslr-like`` (seeds 0 to 9, five draws each), LambdaMART on
all labels about 0.73 and 0.42 (seeds 0 to 3).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from affinerank.data.dataset import RankingDataset
from affinerank.data.read_options import SPLITS, Split, parse_split
from affinerank.data.shop import SHOP, ShopWorld
from affinerank.support.arrays import Floats, Ints, Matrix, Rng
from affinerank.support.errors import DataError
from affinerank.support.registry import Registry
from affinerank.support.threads import in_parallel

# A chunk is the unit of work and of randomness: its size is part of the law.
CHUNK = 64
N_FACTORS = 9
MATCH_POWER = 1.6


@dataclass(frozen=True, slots=True)
class World:
    """The numbers of one world; the module's text explains each.

    Attributes:
        name: What ``generate_world`` knows it by.
        key: The constant that its structure is drawn from.
        queries: Queries at full size, in the order of ``SPLITS``.
        n_features: Number of features.
        values: ``sparse`` gives features in [0, 1), ``heavy`` mostly long-tailed ones.
        median_docs: Median of documents per query.
        docs_spread: Standard deviation of the logarithm of documents per query.
        max_docs: Most documents a query may have.
        intercept_sd: Spread of the utility between queries of one size.
        size_effect: What a larger query adds to the utility of its documents.
        match: Weight of the rare factor that clear features show.
        gradual: Weight of the factors that faint features show.
        noise_sd: Spread of what no feature shows.
        clear: Number and strength of the clear features.
        faint: Number and strength of the faint features.
        thresholds: Utilities at which the label goes up by one.
    """

    name: str
    key: int
    queries: tuple[int, int, int]
    n_features: int
    values: Literal["sparse", "heavy"]
    median_docs: float
    docs_spread: float
    max_docs: int
    intercept_sd: float
    size_effect: float
    match: float
    gradual: float
    noise_sd: float
    clear: tuple[int, float]
    faint: tuple[int, float]
    thresholds: tuple[float, float, float, float]

    def draw(self, count: int, part: int, seed: int) -> RankingDataset:
        """Draw the first ``count`` queries of a split, by its place in ``SPLITS``."""
        sizes, features, labels = _draw_split(self, count, part, seed)
        return RankingDataset(
            features=features,
            offsets=np.concatenate([[0], np.cumsum(sizes)]),
            labels=labels,
            # Interleaved, so that ids depend on neither the size nor the other splits.
            query_ids=np.arange(count) * len(SPLITS) + part + 1,
            doc_ids=np.arange(len(features)),
        )


# Each world's values, side by side.
_VALUES: Mapping[str, tuple[Any, Any]] = {
    "name": ("yahoo-like", "mslr-like"),
    "key": (1, 2),
    "queries": ((19_944, 2_994, 6_983), (18_919, 6_306, 6_306)),
    "n_features": (501, 131),
    "values": ("sparse", "heavy"),
    "median_docs": (20.0, 95.0),
    "docs_spread": (0.6, 0.7),
    "max_docs": (139, 1_250),
    "intercept_sd": (1.1, 0.95),
    "size_effect": (0.85, 0.4),
    "match": (0.365, 0.188),
    "gradual": (1.3, 0.97),
    "noise_sd": (1.35, 1.45),
    "clear": ((80, 0.5), (20, 0.9)),
    "faint": ((330, 0.4), (90, 0.4)),
    "thresholds": ((-0.6, 1.73, 4.24, 6.45), (0.63, 2.67, 4.75, 5.81)),
}
_COLUMNS = zip(*_VALUES.values(), strict=True)
WORLDS: Registry[World | ShopWorld] = Registry(
    "built-in world",
    *(World(**dict(zip(_VALUES, own, strict=True))) for own in _COLUMNS),
    SHOP,
)


@dataclass(frozen=True, slots=True)
class _Law:
    """A world and all that its constant decides; ``[2, n]`` for two factors each."""

    world: World
    weights: Floats
    factors: Ints
    strengths: Matrix
    query_strength: Matrix
    shift: Matrix
    rate: Matrix


def generate_world(
    name: str, *, n_queries: int | None = None, split: Split = "train", seed: int = 0
) -> RankingDataset:
    """Draw one split of a world.

    The same arguments give the same bytes on one machine, whatever its number of
    cores. A smaller split is the beginning of a larger one of the same seed.

    Args:
        name: A key of ``WORLDS``.
        n_queries: Number of training queries; the other splits shrink in proportion,
            to one query at the least. Left out, the full size.
        split: Which of the three splits to draw.
        seed: Chooses the draw, 0 or more.

    Returns:
        The split, features raw, labels 0 to 4, documents in random order. Query ids
        differ between the splits.
    """
    return DrawnWorld(WORLDS[name], n_queries, seed).read(split)


@dataclass(frozen=True, slots=True)
class DrawnWorld:
    """A world of one size, drawn with one seed.

    Attributes:
        world: Its law.
        n_queries: Number of training queries; ``None`` for the full size.
        seed: Chooses the draw.
    """

    world: World | ShopWorld
    n_queries: int | None
    seed: int

    def __post_init__(self) -> None:
        """Reject what cannot be drawn."""
        if self.n_queries is not None and self.n_queries < 1:
            raise DataError(f"n_queries must be 1 or more, got {self.n_queries}")
        if self.seed < 0:
            raise DataError(f"seed must be 0 or more, got {self.seed}")

    def read(self, split: Split | None) -> RankingDataset:
        """Draw one of the three splits; ``None`` is the training split."""
        part = SPLITS.index(parse_split(split or "train"))
        full = self.world.queries[0]
        wanted = self.n_queries or full
        count = max(1, round(wanted * self.world.queries[part] / full))
        return self.world.draw(count, part, self.seed)


def _draw_split(
    world: World, count: int, part: int, seed: int
) -> tuple[Ints, Matrix, Matrix]:
    """Return documents per query, features and labels of the first ``count`` queries.

    Each chunk has its own generator and its own rows, so the order in which threads
    take the chunks cannot show in the result.
    """
    law = _law(world)

    def generator(chunk: int) -> Rng:
        return np.random.default_rng([seed, world.key, part, chunk])

    chunks = range(-(-count // CHUNK))
    sizes = np.concatenate([_draw_queries(world, generator(c))[1] for c in chunks])
    ends = np.cumsum(sizes[:count])
    features = np.empty((ends[-1], world.n_features), np.float32)
    labels = np.empty(ends[-1], np.float32)

    def fill(chunk: int) -> None:
        rng = generator(chunk)
        scores, drawn = _draw_queries(world, rng)
        factors, utility = _draw_documents(law, scores, drawn, rng)
        start = ends[chunk * CHUNK] - drawn[0]
        rows = slice(start, start + len(utility))  # the last chunk may be cut short
        labels[rows] = np.searchsorted(world.thresholds, utility)[: len(labels) - start]
        _draw_features(law, drawn, factors, rng, features[rows])

    in_parallel(fill, chunks)
    return sizes[:count], features, labels


def _law(world: World) -> _Law:
    """Draw what is fixed in a world: which features show which factors, how well."""
    rng = np.random.default_rng(world.key)
    n = world.n_features
    order = rng.permutation(n)
    clear, faint = order < world.clear[0], order >= n - world.faint[0]
    strength = np.where(clear, world.clear[1], np.where(faint, world.faint[1], 0.0))
    strength *= rng.uniform(0.5, 1.5, n)
    strength[faint & (rng.random(n) < 0.3)] *= -1.0  # some fall as relevance rises
    second = strength * rng.uniform(-0.5, 0.5, n) * (faint & (rng.random(n) < 0.5))
    weights = rng.uniform(0.6, 1.4, N_FACTORS)
    weights[0] = 0.0
    shown = np.where(clear, 0, rng.integers(1, N_FACTORS, n))
    return _Law(
        world=world,
        weights=weights / np.sqrt(np.sum(weights**2)),
        factors=np.stack([shown, rng.integers(1, N_FACTORS, n)]),
        strengths=np.stack([strength, second]).astype(np.float32),
        query_strength=rng.uniform(0.0, 0.6, n).astype(np.float32),
        shift=rng.uniform(-1.0, 1.0, n).astype(np.float32),
        rate=rng.uniform(0.3, 0.8, n).astype(np.float32),
    )


def _draw_queries(world: World, rng: Rng) -> tuple[Floats, Ints]:
    """Return the size scores ``g`` of a chunk of queries, and documents per query."""
    scores = rng.standard_normal(CHUNK)
    sizes = np.rint(world.median_docs * np.exp(world.docs_spread * scores))
    return scores, np.clip(sizes, 1, world.max_docs).astype(np.int64)


def _draw_documents(
    law: _Law, scores: Floats, sizes: Ints, rng: Rng
) -> tuple[Matrix, Floats]:
    """Return factors ``[n_docs, N_FACTORS]`` and utilities ``[n_docs]`` of a chunk."""
    world, n_docs = law.world, int(sizes.sum())
    intercept = world.intercept_sd * rng.standard_normal(CHUNK)
    intercept += world.size_effect * scores
    z = rng.standard_normal((N_FACTORS, n_docs))
    z[0] = rng.standard_exponential(n_docs)
    gradual = z[1] * z[2] / 4 + (z[3] ** 2 - 1) / 6
    for k in range(1, N_FACTORS):  # no matrix product: BLAS may round by thread count
        gradual += law.weights[k] * z[k]
    utility = np.repeat(intercept, sizes)
    utility += world.match * z[0] ** MATCH_POWER + world.gradual * gradual
    utility += world.noise_sd * rng.standard_normal(n_docs)
    return z.T.astype(np.float32, order="C"), utility


def _draw_features(
    law: _Law, sizes: Ints, factors: Matrix, rng: Rng, out: Matrix
) -> None:
    """Write the features of a chunk's first ``len(out)`` documents into ``out``."""
    effects = rng.standard_normal((CHUNK, out.shape[1]), dtype=np.float32)
    effects *= law.query_strength
    effects -= law.shift
    rng.standard_normal(dtype=np.float32, out=out)
    out += np.repeat(effects, sizes, axis=0)[: len(out)]
    for shown, strength in zip(law.factors, law.strengths, strict=True):
        signal = np.take(factors[: len(out)], shown, axis=1)
        signal *= strength
        out += signal
    if law.world.values == "sparse":
        np.maximum(out, 0, out=out)
        out /= out + 2  # h / (1 + h) with h = v / 2
        return
    half, signed = out.shape[1] // 2, out.shape[1] // 6
    positive = out[:, :-signed]
    positive *= law.rate[:-signed]
    positive += 1
    np.exp(positive, out=positive)
    np.floor(positive[:, half:], out=positive[:, half:])
