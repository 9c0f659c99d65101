"""Rankers judged by labels, or by held-out clicks."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from affinerank.cli import display
from affinerank.cli.options import (
    DataOptions,
    Days,
    Json,
    RelevantAbove,
    Seed,
    Users,
    bars,
    command,
    load_held_against,
    show,
)
from affinerank.defaults import CORRECTION, RELEVANT_ABOVE
from affinerank.errors import ConfigError, DataError


@command
def evaluate(
    models: Annotated[
        list[Path], Argument(metavar="MODEL...", help="Folders of rankers.")
    ],
    *,
    data: Annotated[
        str,
        Option(
            help="Labelled data, of splits test; with --counts features, of splits the "
            "one that the counts are of."
        ),
    ],
    metric: Annotated[
        str | None,
        Option(
            help="By labels as in nDCG@10 (the default), P@5, RR; by clicks DCG@10 "
            "(the default) or P@5."
        ),
    ] = None,
    counts: Annotated[
        Path | None, Option(help="Judge by these held-out clicks, not by labels.")
    ] = None,
    users: Users = None,
    estimator: Annotated[str, Option(help="With --counts: {ESTIMATORS}.")] = CORRECTION,
    against: Annotated[
        str | None,
        Option(
            help="What to compare with. By labels: a ranker's folder, or production as "
            "simulate trains it (the default of worlds). With --counts: the logged "
            "order, always, and a ranker that logged (column ranker; by default that "
            "of most sessions)."
        ),
    ] = None,
    among: Annotated[
        str,
        Option(help="With --counts, which documents are ranked: all, or shown."),
    ] = "all",
    rank_weights: Annotated[
        str | None,
        Option(help="With --counts: weights of ranks 1, 2, ..., as in 1,0.5."),
    ] = None,
    estimated_from: Annotated[
        Path | None,
        Option(
            help="With estimated --users: the counts they came from; of splits, train."
        ),
    ] = None,
    replicates: Annotated[
        int, Option(min=2, help="With estimated --users: refits for each interval.")
    ] = 20,
    relevant_above: RelevantAbove = RELEVANT_ABOVE,
    of: DataOptions,
    days: Days,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Judge rankers by labels, or by the clicks that another ranking brought.

    Leaves out queries learnt from. Ends with: better than production or not.

    Example: affinerank evaluate model --data yahoo-like:500
    """
    from affinerank.metrics import Metric
    from affinerank.pipeline import evaluate_rankers, simulation_rankers
    from affinerank.rankers.loading import load_ranker

    rankers = {str(folder): load_ranker(folder) for folder in models}
    about_clicks = (users, rank_weights, estimated_from)
    if counts is None:
        if any(value is not None for value in about_clicks) or among != "all":
            raise ConfigError(
                "--users, --among, --rank-weights and --estimated-from are about "
                "clicks: give --counts with them"
            )
        if against is not None or of.source(data).synthetic:
            learnt = of.read(data, named=False)
            how: dict[str, Any] = {"relevant_above": relevant_above, "seed": seed}
            named = [against or "production"]
            # A world may be too small to train a production ranker.
            with nullcontext() if against else suppress(DataError):
                rankers = simulation_rankers(named, learnt, **how)[0] | rankers
        judged = evaluate_rankers(
            rankers,
            of.read(data, "test"),
            metric=Metric.parse(metric or "nDCG@10"),
            relevant_above=relevant_above,
        )
        show(judged.to_dict(), as_json, display.evaluated)
        return
    settings = _settings(metric, rank_weights)
    settings |= {"estimator": estimator, "among": among}
    settings |= {"production": against if against != "logged" else None}
    settings |= {"replicates": replicates, "seed": seed}
    held = days.load(counts)
    about = _from_clicks(rankers, held, (users, estimated_from), settings, data, of)
    show(about, as_json, display.evaluated_from_clicks)


def _settings(metric: str | None, rank_weights: str | None) -> dict[str, Any]:
    """Read what is estimated from clicks."""
    from affinerank.evaluation.rank_weights import RankWeights, parse_rank_weights
    from affinerank.metrics import Metric

    if metric is not None and rank_weights is not None:
        raise ConfigError("give --metric or --rank-weights, not both")
    if rank_weights is not None:
        return {"rank_weights": parse_rank_weights(rank_weights)}
    return {"rank_weights": RankWeights.of_metric(Metric.parse(metric or "DCG@10"))}


def _from_clicks(
    rankers: Any,
    held: Any,
    users: tuple[Path | None, Path | None],
    settings: dict[str, Any],
    data: str,
    of: DataOptions,
) -> dict[str, Any]:
    """Load what the options name, and judge by clicks."""
    from affinerank.pipeline import OffPolicySettings, evaluate_from_clicks

    known, learnt = users
    source = None
    if learnt is not None:
        source = (Days().load(learnt), of.read(data, named=False))
    with bars() as progress:
        found = evaluate_from_clicks(
            rankers,
            held,
            _data_of(held, data, of),
            load_held_against(known, held),
            settings=OffPolicySettings(**settings),
            estimated_from=source,
            progress=progress,
        )
    return found.to_dict()


def _data_of(counts: Any, data: str, of: DataOptions) -> Any:
    """Read the test split or, where the counts are of another, the training split."""
    found = of.read(data, "test")
    if of.split is None and of.source(data).splits:
        queries = set(map(str, counts.column("query_id").unique().to_pylist()))
        if queries.isdisjoint(map(str, found.query_ids.tolist())):
            return of.read(data, "train")
    return found
