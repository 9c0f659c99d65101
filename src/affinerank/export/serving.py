"""How to train a ranker that a search engine can serve, checked before training.

A search engine scores one document at a time, by trees or by a linear model. So
features are not scaled within the list, and a category becomes features of 0 and 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from affinerank.defaults import TREES
from affinerank.export.engine_trees import require_vespa_names
from affinerank.rankers import RANKERS, linear
from affinerank.support.errors import ConfigError, DataError
from affinerank.support.settings import require_choice

if TYPE_CHECKING:
    from affinerank.data.dataset import RankingDataset

LINEAR = linear.ROW.name
NATIVE = "native"  # categories are read as codes
ONE_HOT = "one-hot"  # a category becomes a feature of 0 and 1 for each value
# Every engine serves trees; these serve linear models, too.
SERVES_LINEAR = {
    "opensearch": True,
    "elasticsearch": False,
    "solr": True,
    "vespa": True,
    "ranklib": True,
}
ENGINES = tuple(SERVES_LINEAR)


class EngineTraining(NamedTuple):
    """How to train a ranker that an engine can serve.

    Attributes:
        ranker: A row of ``RANKERS``.
        scaling: How features are scaled: ``data`` or ``none``.
        categories: ``one-hot`` if the data have categories, else ``None``.
    """

    ranker: str
    scaling: str
    categories: str | None


def plan_for_engine(
    engine: str,
    ranker: str | None,
    scaling: str | None,
    categories: str | None,
    data: RankingDataset,
) -> EngineTraining:
    """Return how to train for an engine; reject options that it cannot serve.

    Args:
        engine: One of ``ENGINES``.
        ranker: A row of ``RANKERS``; trees if ``None``.
        scaling: How features are scaled; if ``None``, as the ranker needs it.
        categories: How categories are read; one-hot if ``None``.
        data: The data to train on.
    """
    require_choice("--for", engine, ENGINES)

    # The ranker must be of a kind that the engine serves.
    ranker = ranker or TREES
    rankers_served = [name for name, row in RANKERS.items() if row.is_trees]
    if SERVES_LINEAR[engine]:
        rankers_served.append(LINEAR)
    if ranker not in rankers_served:
        raise ConfigError(
            f"{engine} cannot serve a {ranker} ranker; with --for {engine} give "
            f"--ranker {' or '.join(rankers_served)}, or leave --ranker out"
        )

    # An engine sees neither the rest of the list nor text.
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

    # Linear models need features of comparable size; trees do not.
    default_scaling = "data" if ranker == LINEAR else "none"
    return EngineTraining(
        ranker,
        scaling or default_scaling,
        ONE_HOT if data.categories else None,
    )


def _require_features(engine: str, data: RankingDataset) -> None:
    """Reject features with names or missing values that an engine cannot read."""
    if engine == "vespa":
        for name in data.categories:
            raise DataError(
                f"{name!r} is a category, and Vespa cannot read a feature called "
                f"{name}=VALUE; leave it out (--ignore {name}), or give its values as "
                "columns of 0 and 1"
            )
        require_vespa_names(iter(data.feature_names))
    if engine == "ranklib":
        for name, n_missing in data.missing_values().items():
            if name not in data.categories:
                raise DataError(
                    f"{name!r} is missing in {n_missing:,} documents. RankLib would "
                    "read 0 there; train with --missing 0, so that the ranker learns "
                    "the same"
                )
