"""Rankers judged by labels, or by held-out clicks."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from affinerank.cli import display
from affinerank.cli.options import (
    DataOptions,
    Days,
    Models,
    Result,
    Seed,
    load,
)
from affinerank.defaults import CORRECTION, RELEVANT_ABOVE
from affinerank.support.errors import ConfigError, DataError
from affinerank.support.progress import Progress


def evaluate(
    models: Models,
    *,
    data: str,
    metric: str | None = None,
    counts: Path | None = None,
    click_model: Path | None = None,
    estimator: str = CORRECTION,
    against: str | None = None,
    among: str = "all",
    rank_weights: str | None = None,
    estimated_from: Path | None = None,
    replicates: Annotated[int, Option(min=2)] = 20,
    relevant_above: float = RELEVANT_ABOVE,
    of: DataOptions,
    days: Days,
    seed: Seed = 0,
    progress: Progress,
) -> Result:
    """Judge rankers by labels, or by the clicks that another ranking brought.

    Leaves out queries learnt from. Ends with: better than production or not.

    Example: affinerank evaluate model --data yahoo-like:500

    Options:
        models: Folders of rankers.
        data: Labelled data, of splits test; with --counts features, of splits the one
            that the counts are of.
        metric: By labels as in nDCG@10 (the default), P@5, RR; by clicks DCG@10 (the
            default) or P@5.
        counts: Judge by these held-out clicks, not by labels.
        estimator: With --counts: {ESTIMATORS}.
        against: What to compare with. By labels: a ranker's folder, or production as
            simulate trains it (the default of worlds). With --counts: the logged order,
            always, and a ranker that logged (column ranker; by default the latest).
        among: With --counts, which documents are ranked: all, or shown.
        rank_weights: With --counts: weights of ranks 1, 2, ..., as in 1,0.5.
        estimated_from: With an estimated --click-model: its counts; of splits,
            train.
        replicates: With estimated --click-model: refits for each interval.
    """
    from affinerank.evaluation.metrics import Metric
    from affinerank.pipeline.evaluate import evaluate_rankers
    from affinerank.pipeline.evaluate_clicks import (
        ClickEvaluationSettings,
        evaluate_from_clicks,
    )
    from affinerank.pipeline.simulate import simulation_rankers
    from affinerank.rankers.loading import load_ranker

    rankers = {str(folder): load_ranker(folder) for folder in models}
    if counts is None:
        if (click_model, rank_weights, estimated_from, among) != (
            None,
            None,
            None,
            "all",
        ):
            raise ConfigError(
                "--click-model, --among, --rank-weights and --estimated-from are about "
                "clicks: give --counts with them"
            )
        if against is not None or of.source(data).synthetic:
            learnt = of.read(data, named=False)
            how: dict[str, Any] = {"relevant_above": relevant_above, "seed": seed}
            named = [against or "production"]
            # A world may be too small to train a production ranker.
            with nullcontext() if against else suppress(DataError):
                rankers = simulation_rankers(named, learnt, **how)[0] | rankers
        evaluated = evaluate_rankers(
            rankers,
            of.read(data, "test"),
            metric=Metric.parse(metric or "nDCG@10"),
            relevant_above=relevant_above,
        )
        return evaluated.to_dict(), display.evaluated
    settings = ClickEvaluationSettings(
        estimator=estimator,
        rank_weights=_rank_weights(metric, rank_weights),
        among=among,
        production=against if against != "logged" else None,
        replicates=replicates,
        seed=seed,
    )
    held, source = days.load(counts), None
    if estimated_from is not None:
        source = (Days().load(estimated_from), of.read(data, named=False))
    found = evaluate_from_clicks(
        rankers,
        held,
        _data_of(held, data, of),
        load(click_model),
        settings=settings,
        estimated_from=source,
        progress=progress,
    )
    return found.to_dict(), display.evaluated_from_clicks


def _rank_weights(metric: str | None, rank_weights: str | None) -> Any:
    """Read what is estimated from clicks."""
    from affinerank.evaluation.metrics import Metric
    from affinerank.evaluation.rank_weights import RankWeights, parse_rank_weights

    if rank_weights is None:
        return RankWeights.of_metric(Metric.parse(metric or "DCG@10"))
    if metric is not None:
        raise ConfigError("give --metric or --rank-weights, not both")
    return parse_rank_weights(rank_weights)


def _data_of(counts: Any, data: str, of: DataOptions) -> Any:
    """Read the test split or, where the counts are of another, the training split."""
    found = of.read(data, "test")
    if of.split is None and of.source(data).splits:
        queries = set(map(str, counts.column("query_id").unique().to_pylist()))
        if queries.isdisjoint(map(str, found.query_ids.tolist())):
            return of.read(data, "train")
    return found
