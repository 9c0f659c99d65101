"""Clicks: draw them, count them, bring them from other systems."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from affinerank.cli import display
from affinerank.cli.options import (
    Data,
    DataOptions,
    Into,
    Json,
    ListId,
    LogReading,
    Output,
    RelevantAbove,
    Seed,
    Users,
    bars,
    command,
    load,
    require_writable,
    show,
)
from affinerank.defaults import CLICK_MODEL, RELEVANT_ABOVE
from affinerank.errors import ConfigError

UsersModel = Annotated[
    str,
    Option(
        help="How users click: {CLICK_MODELS}, with parameters as in "
        "'trust(eta=2, eps_minus_1=0.35)'."
    ),
]
Rankers = Annotated[
    list[str] | None,
    Option(
        help="production, production:SEED, or a ranker's folder; several share the "
        "sessions, as in production=0.7."
    ),
]
TopK = Annotated[int | None, Option(min=1, help="Show only the first K documents.")]

Value = Annotated[
    str | None,
    Option(help="Column of what a click is worth (purchase, dwell), 0 or more."),
]
UserBuckets = Annotated[
    int | None,
    Option(
        min=10,
        max=1024,
        help="Count by so many buckets of user_id, as in 100: intervals of evaluate "
        "are then clustered by user.",
    ),
]


@command
def simulate(
    data: Data,
    *,
    clicks: Annotated[float | None, Option(help="Clicks to aim at, as in 1e6.")] = None,
    sessions: Annotated[
        float | None, Option(help="Sessions to draw, instead of clicks.")
    ] = None,
    users_model: UsersModel = CLICK_MODEL,
    users: Users = None,
    ranker: Rankers = None,
    relevance: Annotated[str, Option(help="binary, or graded: label / 4.")] = (
        "binary"
    ),
    policy: Annotated[
        list[str] | None,
        Option(help="Change some lists: {POLICIES}, as in 'swap(share=0.1)'."),
    ] = None,
    top_k: TopK = None,
    queries: Annotated[str, Option(help="uniform, or zipf:S.")] = "uniform",
    log: Annotated[Path | None, Option(help="Write a session log, Parquet.")] = None,
    counts: Annotated[Path | None, Option(help="Write counts, Parquet.")] = None,
    context: Annotated[
        str, Option(help="Count by the last click above, too: none, last-click.")
    ] = "none",
    save_users: Annotated[
        Path | None, Option(help="Write the true user model, JSON.")
    ] = None,
    relevant_above: RelevantAbove = RELEVANT_ABOVE,
    of: DataOptions,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Draw users' clicks on labelled data: a session log, or counts.

    Example: affinerank simulate yahoo-like:500 --clicks 1e5 --log log.parquet
    """
    from affinerank.clicks.traffic import Traffic
    from affinerank.pipeline import prepare_simulation, simulate, simulation_rankers

    if log is None and counts is None:
        raise ConfigError("nothing to write: give --log FILE, --counts FILE, or both")
    require_writable(log, counts, suffix=".parquet")
    require_writable(log, counts, save_users, reads=[data, users])
    read = of.read(data)
    # The production ranker has seen the training split, whatever is ranked by it.
    seen = read if of.split is None else of.read(data, named=False)
    rankers, shares = simulation_rankers(
        ranker or ["production"], seen, relevant_above=relevant_above, seed=seed
    )
    simulation = prepare_simulation(
        read,
        load(users),
        click_model=users_model,
        rankers=rankers,
        relevance=relevance,
        relevant_above=relevant_above,
        traffic=Traffic(queries, top_k, tuple(policy or ()), shares),
        seed=seed,
    )
    with bars() as progress:
        about = simulate(
            simulation,
            clicks=clicks,
            sessions=sessions,
            log=log,
            counts=counts,
            save_users=save_users,
            context=context,
            seed=seed,
            progress=progress,
        )
    show(about, as_json, display.simulated)


@command
def count(
    log: Annotated[
        str | None,
        Argument(
            metavar="LOG",
            help="Parquet, CSV or JSON Lines; a pattern; the folder of a Delta table.",
        ),
    ] = None,
    *,
    output: Output = Path("counts.parquet"),
    days: Into,
    engine: Annotated[str, Option(help="duckdb or spark.")] = "duckdb",
    master: Annotated[str | None, Option(help="Spark's master URL.")] = None,
    connection: Annotated[
        str | None,
        Option(
            "--from",
            help="Connection, as in duckdb:///clicks.duckdb or "
            "postgres://me@host/shop.",
        ),
    ] = None,
    table: Annotated[
        str | None, Option(help="Table of the connection to count.")
    ] = None,
    reading: LogReading,
    list_id: ListId = None,
    value: Value = None,
    user_buckets: UserBuckets = None,
    bad_rows: Annotated[
        str, Option(help="error, or drop: sessions with faults, whole.")
    ] = "error",
    context: Annotated[
        str,
        Option(
            help="Count by the last click above: last-click, none, or auto: where "
            "clicks depend on it."
        ),
    ] = "auto",
    policy: Annotated[
        list[str] | None,
        Option(help="The policy that showed the lists, for expected exposure."),
    ] = None,
    scores: Annotated[
        Path | None,
        Option(help="With --policy: what it ranked, as rank writes it."),
    ] = None,
    top_k: TopK = None,
    holdout: Annotated[
        float | None, Option(help="Share to set aside, as in 0.2.")
    ] = None,
    holdout_by: Annotated[
        str, Option(help="query, or time: the last sessions.")
    ] = "query",
    holdout_from: Annotated[
        str | None, Option(help="Set aside what began then or later, instead.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Count impressions and clicks in a log, and say what is wrong.

    Example: affinerank count log.parquet --holdout 0.2 -o counts.parquet
    """
    from affinerank.clicks.counting import count_log, open_table
    from affinerank.clicks.exposure import expected_exposure
    from affinerank.clicks.faults import LogFaultsError

    if days.removed():
        show(
            {"removed": days.remove, "written": str(days.into)}, as_json, display.notes
        )
        return
    if (policy is None) != (scores is None) or (top_k and policy is None):
        raise ConfigError("--policy and --scores go together, --top-k with them")
    if (log is None) == (connection is None) or (connection is None) != (table is None):
        raise ConfigError("give a LOG, or --from CONNECTION with --table NAME")
    if days.into is None:
        require_writable(output, suffix=".parquet", reads=[log, scores])
    target, written = days.target(log or table or "", output)
    opened = open_table(
        log or connection or "",
        engine=engine,
        master=master,
        table=table,
        **reading.opening(),
    )
    more = {"value": value, "user_buckets": user_buckets}
    options = replace(reading.options(list_id), **more)
    try:
        with ExitStack() as stack:
            aside = stack.enter_context(target)
            rows, progress = stack.enter_context(opened), stack.enter_context(bars())
            if policy and scores:
                exposed = expected_exposure(aside, scores, policy, top_k)
                aside = stack.enter_context(exposed)
            found = count_log(
                rows,
                aside,
                options=options,
                bad_rows=bad_rows,
                context=context,  # type: ignore[arg-type]  # checked there
                holdout=holdout,
                holdout_by=holdout_by,
                holdout_from=holdout_from,
                progress=progress,
            )
    except LogFaultsError as error:
        display.findings(error.report, to_stderr=True)
        raise
    about = {**found.summary, "findings": found.findings(), "written": str(written)}
    if days.into is not None:
        about["removed"] = days.too_old()
    if not as_json and found.report is not None:
        display.findings(found.report, to_stderr=False)
    show(about, as_json, display.counted)


def ubi(
    queries: Annotated[Path, Option(help="Index ubi_queries, JSON Lines.")],
    events: Annotated[Path, Option(help="Index ubi_events, JSON Lines.")],
    output: Output = Path("log.parquet"),
    click_action: Annotated[
        list[str] | None, Option(help="Name of the events that are clicks.")
    ] = None,
    memory: Annotated[str, Option(help="DuckDB spills beyond this.")] = "4GB",
    as_json: Json = False,
) -> None:
    """Read OpenSearch User Behavior Insights into a click log.

    Example: affinerank import ubi --queries ubi_queries.jsonl
    --events ubi_events.jsonl -o log.parquet
    """
    from affinerank.clicks.importers import UBI_CLICKS, import_ubi

    require_writable(output, suffix=".parquet", reads=[queries, events])
    actions = click_action or UBI_CLICKS
    found = import_ubi(queries, events, output, click_actions=actions, memory=memory)
    show({"written": str(output), **found}, as_json, display.notes)


def tiangong(
    files: Annotated[list[Path], Argument(help="Files of result pages.")],
    output: Output = Path("log.parquet"),
    as_json: Json = False,
) -> None:
    """Read result pages as in TianGong-ST into a click log.

    Example: affinerank import tiangong pages.txt -o log.parquet
    """
    from affinerank.clicks.importers import read_tiangong

    require_writable(output, suffix=".parquet", reads=files)
    imported = read_tiangong(*files)
    imported.save(output)
    rows = imported.table.num_rows
    about = {"written": str(output), "impressions": rows, **imported.notes}
    show(about, as_json, display.notes)
