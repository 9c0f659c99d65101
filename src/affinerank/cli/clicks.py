"""Clicks: draw them, count them, bring them from other systems."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from affinerank import display
from affinerank.cli.options import (
    Column,
    Data,
    Fold,
    Json,
    ListId,
    MissingValues,
    Output,
    RanksFrom,
    RelevantAbove,
    Seed,
    Segment,
    Split,
    bars,
    mapping,
    number,
    read_data,
    require_choice,
    require_parquet,
    show,
    whole,
)
from affinerank.errors import ConfigError


def simulate(
    data: Data,
    clicks: Annotated[
        str | None, typer.Option(help="Clicks to aim at, as in 1e6.")
    ] = None,
    sessions: Annotated[
        str | None, typer.Option(help="Sessions to draw, instead of clicks.")
    ] = None,
    eta: Annotated[float, typer.Option(help="Position bias of the paper's users.")] = 1,
    eps_minus: Annotated[
        float, typer.Option(help="Trust bias of the paper's users at rank 1.")
    ] = 0.65,
    users: Annotated[
        Path | None, typer.Option(help="A user model to use instead.")
    ] = None,
    ranker: Annotated[
        list[str] | None,
        typer.Option(
            help="production, production:SEED, or a ranker's folder; several share "
            "the sessions, as in production=0.7."
        ),
    ] = None,
    relevance: Annotated[str, typer.Option(help="binary, or graded: label / 4.")] = (
        "binary"
    ),
    top_k: Annotated[
        int | None, typer.Option(min=1, help="Show only the first K documents.")
    ] = None,
    queries: Annotated[str, typer.Option(help="uniform, or zipf:S.")] = "uniform",
    swap: Annotated[
        float, typer.Option(help="Share of sessions with an adjacent pair swapped.")
    ] = 0.0,
    rotate: Annotated[
        float, typer.Option(help="Share of sessions with the first ranks rotated.")
    ] = 0.0,
    rotate_first: Annotated[
        int, typer.Option(min=2, help="How many ranks a rotation moves.")
    ] = 10,
    log: Annotated[
        Path | None, typer.Option(help="Write a session log, Parquet.")
    ] = None,
    counts: Annotated[Path | None, typer.Option(help="Write counts, Parquet.")] = None,
    save_users: Annotated[
        Path | None, typer.Option(help="Write the true user model, JSON.")
    ] = None,
    split: Split = None,
    relevant_above: RelevantAbove = 2.0,
    fold: Fold = 1,
    seed: Seed = 0,
    missing: MissingValues = "error",
    as_json: Json = False,
) -> None:
    """Draw users' clicks on labelled data: a session log, or counts."""
    from affinerank.clicks.simulate import Traffic
    from affinerank.clicks.usermodel import UserModel
    from affinerank.files import writable
    from affinerank.pipeline import prepare_simulation, simulate, simulation_rankers

    if log is None and counts is None:
        raise ConfigError("nothing to write: give --log FILE, --counts FILE, or both")
    for target in (log, counts):
        if target is not None:
            require_parquet(target)
    for target in (log, counts, save_users):
        if target is not None:
            writable(target)
    read = read_data(data, split, fold, missing)
    # The production ranker has seen the training split, whatever is ranked by it.
    seen = read if split is None else read_data(data, None, fold, missing)
    rankers, shares = simulation_rankers(
        ranker or ["production"], seen, relevant_above=relevant_above, seed=seed
    )
    simulation = prepare_simulation(
        read,
        UserModel.load(users) if users else None,
        eta=eta,
        eps_minus_1=eps_minus,
        rankers=rankers,
        relevance=relevance,
        relevant_above=relevant_above,
        traffic=Traffic(
            queries=queries,
            top_k=top_k,
            swap=swap,
            rotate=rotate,
            rotate_first=rotate_first,
            shares=shares,
        ),
        seed=seed,
    )
    with bars() as progress:
        about = simulate(
            simulation,
            clicks=number("--clicks", clicks),
            sessions=whole("--sessions", sessions),
            log=log,
            counts=counts,
            save_users=save_users,
            seed=seed,
            progress=progress,
        )
    show(about, as_json, display.simulated)


def count(
    log: Annotated[
        str | None,
        typer.Argument(metavar="LOG", help="Parquet, CSV or JSON Lines; or a pattern."),
    ] = None,
    output: Output = Path("counts.parquet"),
    engine: Annotated[str, typer.Option(help="duckdb or spark.")] = "duckdb",
    master: Annotated[str | None, typer.Option(help="Spark's master URL.")] = None,
    connection: Annotated[
        str | None,
        typer.Option("--from", help="Connection, as in duckdb:///clicks.duckdb."),
    ] = None,
    table: Annotated[
        str | None, typer.Option(help="Table of the connection to count.")
    ] = None,
    column: Column = None,
    list_id: ListId = None,
    ranks_from: RanksFrom = 1,
    bad_rows: Annotated[
        str, typer.Option(help="error, or drop: sessions with faults, whole.")
    ] = "error",
    where: Annotated[
        str | None, typer.Option(help="Your own SQL condition, run as it is.")
    ] = None,
    segment: Segment = None,
    since: Annotated[str | None, typer.Option(help="First moment counted.")] = None,
    until: Annotated[str | None, typer.Option(help="First one not counted.")] = None,
    max_sessions_per_user: Annotated[
        int | None, typer.Option(min=1, help="Needs a column user_id.")
    ] = None,
    holdout: Annotated[
        float | None, typer.Option(help="Share to set aside, as in 0.2.")
    ] = None,
    holdout_by: Annotated[
        str, typer.Option(help="query, or time: the last sessions.")
    ] = "query",
    holdout_from: Annotated[
        str | None, typer.Option(help="Set aside what began then or later, instead.")
    ] = None,
    memory: Annotated[str, typer.Option(help="DuckDB spills beyond this.")] = "4GB",
    as_json: Json = False,
) -> None:
    """Count impressions and clicks in a log, and say what was wrong with it."""
    from affinerank.clicks.counting import count_log, open_table
    from affinerank.clicks.log import LogFaultsError, LogOptions

    require_parquet(output)
    require_choice("--bad-rows", bad_rows, "error", "drop")
    require_choice("--holdout-by", holdout_by, "query", "time")
    require_choice("--engine", engine, "duckdb", "spark")
    if (log is None) == (connection is None) or (connection is None) != (table is None):
        raise ConfigError("give a LOG, or --from CONNECTION with --table NAME")
    options = LogOptions(
        columns=mapping(column or []),
        list_id=list_id,
        ranks_from=ranks_from,
        where=where,
        since=since,
        until=until,
        segment=segment,
        max_sessions_per_user=max_sessions_per_user,
    )
    opened = open_table(
        log or connection or "",
        engine=engine,
        memory=memory,
        master=master,
        table=table,
    )
    try:
        with opened as rows, bars() as progress:
            found = count_log(
                rows,
                output,
                options=options,
                bad_rows=bad_rows,
                holdout=holdout,
                holdout_by=holdout_by,
                holdout_from=holdout_from,
                progress=progress,
            )
    except LogFaultsError as error:
        display.findings(error.report, to_stderr=True)
        raise
    about = {**found.summary, "findings": found.findings(), "written": str(output)}
    if not as_json and found.report is not None:
        display.findings(found.report, to_stderr=False)
    show(about, as_json, display.counted)


def ubi(
    queries: Annotated[Path, typer.Option(help="Index ubi_queries, JSON Lines.")],
    events: Annotated[Path, typer.Option(help="Index ubi_events, JSON Lines.")],
    output: Output = Path("log.parquet"),
    click_action: Annotated[
        list[str] | None, typer.Option(help="Name of the events that are clicks.")
    ] = None,
    as_json: Json = False,
) -> None:
    """OpenSearch User Behavior Insights: searches and events to a click log."""
    from affinerank.clicks.importers import UBI_CLICKS, read_ubi

    imported = read_ubi(queries, events, click_actions=click_action or UBI_CLICKS)
    _save_imported(imported, output, as_json)


def tiangong(
    files: Annotated[list[Path], typer.Argument(help="Files of result pages.")],
    output: Output = Path("log.parquet"),
    as_json: Json = False,
) -> None:
    """Result pages in the layout of TianGong-ST to a click log."""
    from affinerank.clicks.importers import read_tiangong

    _save_imported(read_tiangong(*files), output, as_json)


def _save_imported(imported: Any, output: Path, as_json: bool) -> None:
    require_parquet(output)
    imported.save(output)
    rows = imported.table.num_rows
    about = {"written": str(output), "impressions": rows, **imported.notes}
    show(about, as_json, display.notes)
