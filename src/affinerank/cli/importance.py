"""What the features of a ranker are worth."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from affinerank.cli import display
from affinerank.cli.options import (
    DataOptions,
    Days,
    Json,
    Seed,
    Users,
    bars,
    command,
    load_held_against,
    show,
)
from affinerank.defaults import CORRECTION
from affinerank.errors import ConfigError


@command
def importance(
    model: Annotated[Path, Argument(metavar="MODEL", help="Folder of a ranker.")],
    *,
    counts: Annotated[
        Path | None,
        Option(help="Held-out counts: permute each feature within its list, too."),
    ] = None,
    data: Annotated[
        str | None, Option(help="Features: a file, a folder or a world.")
    ] = None,
    users: Users = None,
    estimator: Annotated[str, Option(help="Corrects the clicks.")] = CORRECTION,
    repeats: Annotated[int, Option(min=1, help="Permutations of each feature.")] = 5,
    of: DataOptions,
    days: Days,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Say what each feature is worth: gain of splits, DCG lost when it is permuted.

    Example: affinerank importance model
    """
    from affinerank.rankers.importance import by_gain
    from affinerank.rankers.loading import load_ranker

    ranker = load_ranker(model)
    if (counts is None) != (data is None):
        raise ConfigError("--counts and --data go together: clicks and features")
    if counts is None or data is None:
        kept = ranker.provenance.get("importance") or {}
        gain = by_gain(ranker.model, ranker.mapping.names)
        if not kept and gain.gain is None:
            raise ConfigError(
                f"{model}: a ranker of kind {ranker.kind} has no splits; give --counts "
                "and --data, to permute features on held-out queries"
            )
        found = {"queries": kept.get("queries", 0), "features": kept.get("features")}
        show(found if kept else _about(gain), as_json, display.importance)
        return
    from affinerank.pipeline.importance import feature_importance

    with bars() as progress:
        clicks = days.load(counts)
        known = load_held_against(users, clicks, seed)
        how: dict[str, Any] = {"estimator": estimator, "repeats": repeats, "seed": seed}
        read = of.read(data, "test")
        measured = feature_importance(
            ranker, clicks, read, known, progress=progress, **how
        )
    show(_about(measured), as_json, display.importance)


def _about(found: Any) -> dict[str, Any]:
    return {"queries": found.queries, "features": found.rows()}
