r"""The built-in shop: products, what searches want, and which products satisfy them.

``shop-like`` has features of real shop data that the other two worlds lack: text ids, a
brand as text, values that are missing, and relevance that comes from a few features
that depend on each other. No product or brand in it is real.

**The catalogue** is drawn once for a seed. Each of 40 categories has 300 products and
ten brands. With all noise standard normal, a product has::

    kind         t      three normal numbers: what it is, within its category
    dearness     z      = tier_b + 0.6 noise
    price               = exp(level + 0.5 z), level of the category: 3.5 + 0.8 noise
    quality      g      = 0.5 appeal_b + 0.8 noise
    reviews      n      = exp(2 + 1.4 noise), rounded down; 0 for one product in six
    rating       r      = 4 + 0.45 g + 0.9 noise / sqrt(n), within 1 to 5, in tenths
    stock               geometric, 20 on average; 0 for one product in 12

The world decides for each brand b how dear its products are, ``tier_b`` (uniform from
-1.2 to 1.2), and how good they are, ``appeal_b`` (normal). Neither depends on the seed.

**A search** wants some products of one category: it has a kind w of its own. The number
of products that it finds is exp(log 30 + 0.5 noise), at most 100: those with the
highest match, each with noise of 0.2. A product's match, and what a user thinks of it,
are::

    match        m  = exp(-|t - w|^2 / 6)
    text score   s  = scale_q max(0, m + 0.2 noise),    scale_q = exp(2 + 0.5 noise)
    value        v  = tier_b - z                        cheap for its brand
    utility      u  = a_q + m (3 + 1.6 g + 1.3 v + 0.7 appeal_b + taste z)
                      - 2.5 m [sold out] + 0.5 noise,    a_q = 1.2 noise

The label is the number of thresholds, of four, that u exceeds. About 10 % of products
have a label above 2.

**What depends on what.** Where the match is low, no other feature matters. The text
score has another scale for each search, so compare it only within a list. A rating says
little where reviews are few, and is missing where there are none. A price is judged by
the brand and by the category, which only the rest of the list shows. A good product
that is sold out helps nobody. One price in 30 and one text score in 50 is missing.
Discounts and days since listing say nothing.

**Tastes.** Users are alike, with a taste of 0. Production may know users who like what
is dear in its category (a taste above 0), and users who like what is cheap.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from affinerank.data.dataset import RankingDataset
from affinerank.support.arrays import Floats, Ids, Ints, Matrix, Rng
from affinerank.support.threads import in_parallel

FEATURES = (
    "text_score",
    "price",
    "rating",
    "reviews",
    "brand",
    "stock",
    "discount",
    "days_listed",
)
PRODUCTS = 300  # of each category
BRANDS_OF_CATEGORY = 10
KIND = 3  # numbers that say what a product is
PRICE_SPREAD = 0.5
CATALOGUE = 3  # its random numbers are not those of a split: 0, 1 or 2
CHUNK = 64  # queries that share a generator: it is part of the law


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


# Invented brand names: each beginning with each end.
BEGINNINGS = ("Alv", "Bre", "Cor", "Dun", "Fel", "Gri", "Hov", "Jor", "Kel", "Lum")
ENDS = ("ano", "edo", "ika", "onn", "ura", "yx")
BRANDS = len(BEGINNINGS) * len(ENDS)

# The text of a search is three words; the last one is its category.
NOUNS = _words(
    "backpack bench blanket boots bottle bowl camera chair clock coat curtain desk "
    "drill fan gloves grill guitar headphones jacket kettle keyboard lamp mattress "
    "mirror monitor mug oven pan pillow printer rug saw scarf shelf shoes sofa speaker "
    "table tent watch"
)
CATEGORIES = len(NOUNS)
USES = _words(
    "camping children office kitchen garden travel winter summer sports running hiking "
    "school party wedding outdoor indoor bathroom bedroom balcony car boat studio "
    "workshop beginner professional evening holiday rain desert city"
)
LOOKS = _words(
    "black white red blue green yellow grey brown orange purple small large tiny huge "
    "light heavy soft hard round square flat tall short wide narrow modern vintage "
    "plain striped dotted wooden metal glass leather cotton woollen folding portable "
    "wireless silent"
)


@dataclass(frozen=True, slots=True)
class ShopWorld:
    """The shop as a built-in world; the module's text explains the numbers.

    Attributes:
        name: What it is known by.
        key: The constant that brands are drawn from.
        queries: Queries at full size: train, validation, test.
        median_docs: Median of products per search.
        docs_spread: Standard deviation of the logarithm of products per search.
        max_docs: Most products that a search finds.
        taste: How much users like dear products; below 0 they like cheap ones.
        thresholds: Utilities at which the label goes up by one.
    """

    name: str = "shop-like"
    key: int = 3
    queries: tuple[int, int, int] = (12_000, 2_000, 4_000)
    median_docs: float = 30.0
    docs_spread: float = 0.5
    max_docs: int = 100
    taste: float = 0.0
    thresholds: tuple[float, float, float, float] = (1.68, 3.4, 4.75, 6.12)

    def draw(self, count: int, part: int, seed: int) -> RankingDataset:
        """Draw the first ``count`` searches of a split (0 train, 1 validation, 2 test).

        A smaller split is the beginning of a larger one of the same seed.
        """
        brands = _Brands.of(self)
        catalogue = _Catalogue.drawn(
            brands, np.random.default_rng([seed, self.key, CATALOGUE])
        )

        def chunk(number: int) -> _Searches:
            rng = np.random.default_rng([seed, self.key, part, number])
            first = number * CHUNK
            index = np.arange(first, min(first + CHUNK, count)) * 3 + part
            return _searches(self, catalogue, index, rng)

        drawn = in_parallel(chunk, range(-(-count // CHUNK)))
        sizes = np.concatenate([one.sizes for one in drawn])
        product = np.concatenate([one.product for one in drawn])
        return RankingDataset(
            features=np.concatenate([one.features for one in drawn]),
            offsets=np.concatenate([[0], np.cumsum(sizes)]),
            labels=np.concatenate([one.labels for one in drawn]),
            query_ids=np.array([search_text(i * 3 + part) for i in range(count)]),
            doc_ids=_product_ids(product),
            feature_names=FEATURES,
            categories={"brand": brands.names},
        )


SHOP = ShopWorld()


def search_text(number: int) -> str:
    """Return what the user types in search ``number``; each number has its own text.

    >>> search_text(0), search_text(1)
    ('black camping backpack', 'white camping bench')
    """
    n_pairs = len(LOOKS) * len(USES)
    again = number // (n_pairs * len(NOUNS))
    pair = number % n_pairs
    look = LOOKS[pair % len(LOOKS)]
    use = USES[pair // len(LOOKS)]
    noun = NOUNS[_category_of(number)]
    return f"{look} {use} {noun}" + (f" {again + 1}" if again else "")


def _category_of(number: int) -> int:
    """Return the category that a search is in.

    The same two words come back every 1,200 searches. Moving on by one category each
    time keeps the texts different.
    """
    n_pairs = len(LOOKS) * len(USES)
    return (number + number // n_pairs) % CATEGORIES


@dataclass(frozen=True, slots=True)
class _Brands:
    """What the world decides of its brands.

    Attributes:
        names: Sorted; the code of a brand is its place here.
        tier: ``[n]`` how dear their products are.
        appeal: ``[n]`` how good they are.
        of_category: ``[CATEGORIES, BRANDS_OF_CATEGORY]`` which brands a category has.
    """

    names: tuple[str, ...]
    tier: Floats
    appeal: Floats
    of_category: Ints

    @classmethod
    def of(cls, world: ShopWorld) -> _Brands:
        """Draw them from the world's constant."""
        rng = np.random.default_rng(world.key)
        names = sorted(begin + end for begin in BEGINNINGS for end in ENDS)
        chosen = [
            rng.choice(BRANDS, BRANDS_OF_CATEGORY, replace=False)
            for _ in range(CATEGORIES)
        ]
        return cls(
            names=tuple(names),
            tier=rng.uniform(-1.2, 1.2, BRANDS),
            appeal=rng.standard_normal(BRANDS),
            of_category=np.stack(chosen),
        )


@dataclass(frozen=True, slots=True)
class _Catalogue:
    """All products, category by category.

    Attributes:
        kind: ``[n, KIND]`` what a product is.
        liked: ``[n]`` what a user thinks of it where the match is 1: the bracket of the
            utility, less 3 and without taste.
        dearness: ``[n]`` how dear it is, in its category.
        columns: ``[n]`` values of each feature that does not depend on the search.
    """

    kind: Floats
    liked: Floats
    dearness: Floats
    columns: Mapping[str, Floats]

    @classmethod
    def drawn(cls, brands: _Brands, rng: Rng) -> _Catalogue:
        """Draw the catalogue of one seed."""
        n = CATEGORIES * PRODUCTS
        category = np.repeat(np.arange(CATEGORIES), PRODUCTS)
        brand = brands.of_category[category, rng.integers(BRANDS_OF_CATEGORY, size=n)]
        tier, appeal = brands.tier[brand], brands.appeal[brand]
        kind = rng.standard_normal((n, KIND))

        # How dear, within the category; and what that is in money.
        dearness = tier + 0.6 * rng.standard_normal(n)
        level = rng.normal(3.5, 0.8, CATEGORIES)[category]
        price = np.round(np.exp(level + PRICE_SPREAD * dearness), 2)
        price[rng.random(n) < 1 / 30] = np.nan

        # How good, and what reviews say of that.
        quality = 0.5 * appeal + 0.8 * rng.standard_normal(n)
        reviews = np.floor(np.exp(2.0 + 1.4 * rng.standard_normal(n)))
        reviews[rng.random(n) < 1 / 6] = 0
        error = 0.9 * rng.standard_normal(n) / np.sqrt(np.maximum(reviews, 1))
        rating = np.round(np.clip(4.0 + 0.45 * quality + error, 1.0, 5.0), 1)
        rating[reviews == 0] = np.nan

        stock = rng.geometric(0.05, n).astype(np.float64)
        stock[rng.random(n) < 1 / 12] = 0
        discount = np.where(rng.random(n) < 0.3, rng.integers(5, 50, n), 0)
        days = np.floor(rng.exponential(300.0, n))
        columns = {
            "price": price,
            "rating": rating,
            "reviews": reviews,
            "brand": brand.astype(np.float64),
            "stock": stock,
            "discount": discount.astype(np.float64),
            "days_listed": days,
        }
        value = tier - dearness
        liked = 1.6 * quality + 1.3 * value + 0.7 * appeal
        return cls(kind, liked, dearness, columns)


@dataclass(frozen=True, slots=True)
class _Searches:
    """Some searches: products per search, and for each product what a dataset has."""

    sizes: Ints
    product: Ints
    features: Matrix
    labels: Matrix


def _searches(
    world: ShopWorld, catalogue: _Catalogue, numbers: Ints, rng: Rng
) -> _Searches:
    """Draw a chunk of searches, one after the other, so that it may be cut short."""
    drawn = [_one_search(world, catalogue, number, rng) for number in numbers.tolist()]
    product, features, labels = zip(*drawn, strict=True)
    return _Searches(
        sizes=np.array([len(own) for own in product]),
        product=np.concatenate(product),
        features=np.concatenate(features),
        labels=np.concatenate(labels),
    )


def _one_search(
    world: ShopWorld, catalogue: _Catalogue, number: int, rng: Rng
) -> tuple[Ints, Matrix, Matrix]:
    """Return products, features and labels of one search, in random order."""
    # The products that it finds: those whose match, with noise, is highest.
    first = _category_of(number) * PRODUCTS
    wish = rng.standard_normal(KIND)
    distance = catalogue.kind[first : first + PRODUCTS] - wish
    match_all = np.exp(-np.sum(distance**2, axis=1) / 6)
    search_score = match_all + 0.2 * rng.standard_normal(PRODUCTS)
    length = np.rint(world.median_docs * np.exp(world.docs_spread * rng.normal()))
    size = int(np.clip(length, 1, world.max_docs))
    place = rng.permutation(np.argsort(-search_score)[:size])
    product = first + place
    match = match_all[place]

    # What a user thinks of them.
    is_sold_out = catalogue.columns["stock"][product] == 0
    liked = catalogue.liked[product] + world.taste * catalogue.dearness[product]
    utility = 1.2 * rng.normal() + match * (3.0 + liked)
    utility -= 2.5 * match * is_sold_out
    utility += 0.5 * rng.standard_normal(size)
    labels = np.searchsorted(world.thresholds, utility).astype(np.float32)

    # What the table says of them.
    scale = np.exp(rng.normal(2.0, 0.5))
    text_score = scale * np.maximum(0.0, match + 0.2 * rng.standard_normal(size))
    text_score[rng.random(size) < 1 / 50] = np.nan
    columns = [np.round(text_score, 3)]
    columns += [catalogue.columns[name][product] for name in FEATURES[1:]]
    return product, np.stack(columns, axis=1).astype(np.float32), labels


def _product_ids(product: Ints) -> Ids:
    """Return what the shop calls its products, as in ``P00042``."""
    names = np.array([f"P{i:05}" for i in range(CATEGORIES * PRODUCTS)])
    return names[product]
