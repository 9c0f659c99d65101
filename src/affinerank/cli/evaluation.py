"""Rankers judged by labels, or by held-out clicks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from affinerank import display
from affinerank.cli.options import (
    Fold,
    Json,
    ListId,
    MissingValues,
    RelevantAbove,
    Seed,
    Split,
    bars,
    read_data,
    require_choice,
    show,
)
from affinerank.errors import ConfigError


def evaluate(
    models: Annotated[
        list[Path], typer.Argument(metavar="MODEL...", help="Folders of rankers.")
    ],
    data: Annotated[
        str, typer.Option(help="Labelled data, or features; of splits, test.")
    ],
    metric: Annotated[
        str | None,
        typer.Option(
            help="By labels as in nDCG@10 (the default), P@5, RR; by clicks DCG@10 "
            "(the default) or P@5."
        ),
    ] = None,
    counts: Annotated[
        Path | None,
        typer.Option(help="Judge by these held-out clicks, not by labels."),
    ] = None,
    users: Annotated[
        Path | None, typer.Option(help="With --counts: user model, JSON.")
    ] = None,
    estimator: Annotated[
        str, typer.Option(help="With --counts: naive, ips, bayes-ips or affine.")
    ] = "affine",
    against: Annotated[
        str | None,
        typer.Option(help="With --counts: logged, the ranking that was shown."),
    ] = None,
    rank_weights: Annotated[
        str | None,
        typer.Option(help="With --counts: weights of ranks 1, 2, ..., as in 1,0.5."),
    ] = None,
    estimated_from: Annotated[
        Path | None,
        typer.Option(
            help="With estimated --users: the counts they came from; of splits, train."
        ),
    ] = None,
    replicates: Annotated[
        int,
        typer.Option(min=2, help="With estimated --users: refits for each interval."),
    ] = 20,
    split: Split = None,
    relevant_above: RelevantAbove = 2.0,
    fold: Fold = 1,
    seed: Seed = 0,
    missing: MissingValues = "keep",
    list_id: ListId = None,
    as_json: Json = False,
) -> None:
    """Judge rankers by labels, or by the clicks that another ranking brought."""
    from affinerank.display_offpolicy import evaluated_from_clicks
    from affinerank.metrics import Metric
    from affinerank.pipeline import evaluate_rankers
    from affinerank.rankers.load import load_ranker

    if counts is not None:
        about = _from_clicks(
            models,
            counts,
            (users, estimated_from),
            _asked(metric, rank_weights, estimator, against, replicates, seed),
            lambda default, name: read_data(
                data, name, fold, missing, default=default, list_id=list_id
            ),
            split,
        )
        show(about, as_json, evaluated_from_clicks)
        return
    for option, value in (
        ("--users", users),
        ("--against", against),
        ("--rank-weights", rank_weights),
        ("--estimated-from", estimated_from),
    ):
        if value is not None:
            raise ConfigError(f"{option} is about clicks: give --counts with it")
    judged = evaluate_rankers(
        {str(folder): load_ranker(folder) for folder in models},
        read_data(data, split, fold, missing, default="test", list_id=list_id),
        metric=Metric.parse(metric or "nDCG@10"),
        relevant_above=relevant_above,
    )
    show(judged, as_json, display.evaluated)


def _asked(
    metric: str | None,
    rank_weights: str | None,
    estimator: str,
    against: str | None,
    replicates: int,
    seed: int,
) -> Any:
    """Read the options that say what is asked of clicks."""
    from affinerank.evaluation.rank_weights import RankWeights, parse_rank_weights
    from affinerank.metrics import Metric
    from affinerank.pipeline import OffPolicySettings

    if metric is not None and rank_weights is not None:
        raise ConfigError("give --metric or --rank-weights, not both")
    if against is not None:
        require_choice("--against", against, "logged")
    weights = (
        parse_rank_weights(rank_weights)
        if rank_weights is not None
        else RankWeights.of_metric(Metric.parse(metric or "DCG@10"))
    )
    return OffPolicySettings(
        rank_weights=weights,
        estimator=estimator,
        against_logged=against is not None,
        replicates=replicates,
        seed=seed,
    )


def _from_clicks(
    models: list[Path],
    counts: Path,
    users: tuple[Path | None, Path | None],
    settings: Any,
    read: Any,
    split: str | None,
) -> dict[str, Any]:
    """Load what the options name, and judge by clicks."""
    from affinerank.clicks.counts import ClickCounts
    from affinerank.clicks.usermodel import UserModel
    from affinerank.pipeline import evaluate_from_clicks
    from affinerank.rankers.load import load_ranker

    known, learnt = users
    rankers = {str(folder): load_ranker(folder) for folder in models}
    held = ClickCounts.load(counts)
    model = UserModel.load(known) if known else None
    source = None
    if learnt is not None:
        source = (ClickCounts.load(learnt), read("train", None))
    with bars() as progress:
        return evaluate_from_clicks(
            rankers,
            held,
            read("test", split),
            model,
            settings=settings,
            estimated_from=source,
            progress=progress,
        )
