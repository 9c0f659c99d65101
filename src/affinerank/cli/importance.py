"""What the features of a ranker are worth."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

from affinerank.cli import display
from affinerank.cli.options import (
    DataOptions,
    Days,
    Model,
    Result,
    Seed,
    load,
)
from affinerank.defaults import CORRECTION
from affinerank.support.errors import ConfigError
from affinerank.support.progress import Progress


def importance(
    model: Model,
    *,
    counts: Path | None = None,
    data: str | None = None,
    click_model: Path | None = None,
    estimator: str = CORRECTION,
    repeats: Annotated[int, Option(min=1)] = 5,
    of: DataOptions,
    days: Days,
    seed: Seed = 0,
    progress: Progress,
) -> Result:
    """Say what each feature is worth: gain of splits, DCG lost when it is permuted.

    Example: affinerank importance model

    Options:
        counts: Held-out counts: permute each feature within its list, too.
        data: Features: a file, a folder or a world.
        estimator: Corrects the clicks.
        repeats: Permutations of each feature.
    """
    from affinerank.pipeline.importance import feature_importance
    from affinerank.rankers.importance import by_gain
    from affinerank.rankers.loading import load_ranker

    ranker = load_ranker(model)
    if (counts is None) != (data is None):
        raise ConfigError("--counts and --data go together: clicks and features")
    if counts is not None:
        clicks = days.load(counts)
        found = feature_importance(
            ranker,
            clicks,
            of.read(data, "test"),
            load(click_model),
            estimator=estimator,
            repeats=repeats,
            seed=seed,
            progress=progress,
        )
    elif kept := ranker.provenance.get("importance"):
        about = {"queries": kept.get("queries", 0), "features": kept.get("features")}
        return about, display.importance
    else:
        found = by_gain(ranker)
        if found.gain is None:
            raise ConfigError(
                f"{model}: a ranker of kind {ranker.kind} has no splits; give --counts "
                "and --data, to permute features on held-out queries"
            )
    return {"queries": found.queries, "features": found.rows()}, display.importance
