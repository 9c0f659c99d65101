"""What a search engine can serve: checked before a ranker is trained for it.

A search engine scores one document at a time, by trees or by a linear model. So
features are not scaled within the list, and a category becomes features of 0 and 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from affinerank.errors import ConfigError, DataError
from affinerank.rankers import linear, trees, xgboost
from affinerank.rankers.engines import require_vespa_names
from affinerank.settings import require_choice

if TYPE_CHECKING:
    from affinerank.data.dataset import RankingDataset

TREES = (trees.ROW.name, xgboost.ROW.name)
LINEAR = linear.ROW.name
NATIVE = "native"  # text as it is
RANKERS_SERVED = {
    "opensearch": (*TREES, LINEAR),
    "elasticsearch": TREES,
    "solr": (*TREES, LINEAR),
    "vespa": (*TREES, LINEAR),
    "ranklib": (*TREES, LINEAR),
}
ENGINES = tuple(RANKERS_SERVED)


class Servable(NamedTuple):
    """How a ranker is trained that an engine can hold.

    Attributes:
        ranker: A row of ``RANKERS``.
        scaling: Of its features.
        categories: ``one-hot`` where the data have some.
    """

    ranker: str
    scaling: str
    categories: str | None


def servable(
    engine: str,
    ranker: str | None,
    scaling: str | None,
    categories: str | None,
    data: RankingDataset,
) -> Servable:
    """Say how to train for an engine; reject what it cannot hold.

    Args:
        engine: One of ``ENGINES``.
        ranker: A row of ``RANKERS``; trees where left out.
        scaling: Of features; what the engine can hold where left out.
        categories: How text is read; as one-hot where left out.
        data: What is learnt from.
    """
    require_choice("--for", engine, ENGINES)
    served = RANKERS_SERVED[engine]
    ranker = ranker or TREES[0]
    if ranker not in served:
        raise ConfigError(
            f"{engine} cannot hold a ranker of kind {ranker}; with --for {engine} give "
            f"--ranker {' or '.join(served)}, or leave --ranker out"
        )
    if scaling == "list":
        raise ConfigError(
            f"{engine} scores one document at a time, so features cannot be scaled "
            f"within the list; with --for {engine} give --scaling none or data"
        )
    if categories == NATIVE and data.categories:
        raise ConfigError(
            f"{engine} cannot read {', '.join(data.categories)} as text; with --for "
            f"{engine} give --categories one-hot, or leave --categories out"
        )
    _require_features(engine, data)
    plain = "data" if ranker == LINEAR else "none"
    return Servable(ranker, scaling or plain, "one-hot" if data.categories else None)


def _require_features(engine: str, data: RankingDataset) -> None:
    """Reject features that an engine cannot name, or whose gaps it cannot tell."""
    if engine == "vespa":
        for name in data.categories:
            raise DataError(
                f"{name!r} is a category, and Vespa cannot read a feature called "
                f"{name}=VALUE; leave it out (--ignore {name}), or give its values as "
                "columns of 0 and 1"
            )
        require_vespa_names(iter(data.feature_names))
    if engine == "ranklib":
        for name, number in data.missing_values().items():
            if name not in data.categories:
                raise DataError(
                    f"{name!r} is missing in {number:,} documents, which RankLib would "
                    "take for 0; say so (--missing 0), for the ranker to learn it"
                )
