"""Clicks: draw them, count them, bring them from other systems."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from affinerank.cli import display
from affinerank.cli.options import (
    Data,
    Into,
    LabelledData,
    LogReading,
    Output,
    Positive,
    Result,
    Seed,
    load,
    require_writable,
)
from affinerank.defaults import CLICK_MODEL, RELEVANT_ABOVE
from affinerank.support.errors import ConfigError
from affinerank.support.progress import Progress


def click_model_option(text: str) -> Any:
    """Read a file of a click model; return the text of a row of a table as it is."""
    if text.endswith(".json"):
        return load(Path(text))
    return text


def simulate(
    data: Data,
    *,
    clicks: float | None = None,
    sessions: float | None = None,
    click_model: str = CLICK_MODEL,
    ranker: list[str] | None = None,
    relevance: str = "binary",
    policy: list[str] | None = None,
    top_k: Positive = None,
    queries: str = "uniform",
    log: Path | None = None,
    counts: Path | None = None,
    context: str = "none",
    features: Path | None = None,
    personal: float = 0.0,
    save_click_model: Path | None = None,
    relevant_above: float = RELEVANT_ABOVE,
    of: LabelledData,
    seed: Seed = 0,
    progress: Progress,
) -> Result:
    """Draw users' clicks on labelled data: a session log, or counts.

    For the shop (shop-like:1000 --log log.csv --features products.csv), the log looks
    like a real shop's: a month of searches, pages of ten, purchases, two rankers, and
    neighbours that were swapped.

    Example: affinerank simulate yahoo-like:500 --clicks 1e5 --log log.parquet

    Options:
        clicks: Clicks to aim at, as in 1e6; by default 100 per query of the shop.
        sessions: Sessions to draw, instead of clicks.
        click_model: How users click: a file of a click model, JSON; or {CLICK_MODELS},
            with parameters as in 'trust(eta=2, eps_minus_1=0.35)'.
        ranker: production, production:SEED, or a ranker's folder; several share the
            sessions, as in production=0.7.
        relevance: binary, or graded: label / 4.
        policy: Change some lists: {POLICIES}, as in 'swap(share=0.1)'.
        queries: uniform, or zipf:S.
        log: Write a session log, Parquet; of the shop also CSV.
        counts: Write counts, Parquet.
        context: Count by the last click above, too: none, last-click.
        features: For the shop, write the table of its products, CSV or Parquet.
        personal: For the shop, share of the users whose taste production knows.
        save_click_model: Write the true click model, JSON.
    """
    from affinerank.clicks.shop_log import write_product_table
    from affinerank.clicks.traffic import Traffic
    from affinerank.data.read_options import parse_split
    from affinerank.data.shop import SHOP
    from affinerank.pipeline.simulate import (
        prepare_simulation,
        simulate,
        simulation_rankers,
    )
    from affinerank.pipeline.simulate_shop import prepare_shop, simulate_shop

    source = of.source(data)
    is_shop = source.world is not None and source.world.world == SHOP
    is_shop_log = is_shop and log is not None and counts is None
    if log is None and counts is None and features is None:
        raise ConfigError(
            "nothing to write: give --log FILE, --counts FILE, or of the shop "
            "--features FILE"
        )
    require_writable(log, counts, features, save_click_model, reads=[data, click_model])
    require_writable(counts, suffix=".parquet")
    require_writable(log, suffix=(".parquet", ".csv") if is_shop_log else ".parquet")
    require_writable(features, suffix=(".parquet", ".csv"))
    if is_shop:
        # What a shop's log has is its own, and a table of products needs no users.
        unused: dict[str, object] = {
            "--ranker": is_shop_log and ranker,
            "--context": is_shop_log and context != "none",
            "--ignore": of.ignore,
            "--category": of.category,
            "--data-column": of.data_column,
            "--list-id": of.list_id,
            "--personal": personal and not is_shop_log,
            "--save-click-model": save_click_model and log is None and counts is None,
        }
        for option, is_given in unused.items():
            if is_given:
                raise ConfigError(f"{option} does not fit the shop and what is written")
    elif features is not None or personal:
        raise ConfigError(
            "--features and --personal are of the shop; `affinerank data convert` "
            "writes the features of other data"
        )

    traffic = Traffic(queries, top_k, tuple(policy or ()))
    about: dict[str, Any] = {"written": {}}
    if is_shop_log and log is not None:
        audiences = prepare_shop(
            source.world,
            parse_split(of.split) if of.split else None,
            personal=personal,
            click_model=click_model_option(click_model),
            relevance=relevance,
            relevant_above=relevant_above,
            traffic=traffic,
            seed=seed,
        )
        about = simulate_shop(
            audiences,
            log,
            clicks=clicks,
            sessions=sessions,
            save_click_model=save_click_model,
            seed=seed,
            progress=progress,
        )
    elif log is not None or counts is not None:
        read = of.read(data)
        # The production ranker has seen the training split, whatever is ranked by it.
        seen = read if of.split is None else of.read(data, named=False)
        rankers, shares = simulation_rankers(
            ranker or ["production"], seen, relevant_above=relevant_above, seed=seed
        )
        simulation = prepare_simulation(
            read,
            click_model_option(click_model),
            rankers=rankers,
            relevance=relevance,
            relevant_above=relevant_above,
            traffic=replace(traffic, shares=shares),
            seed=seed,
        )
        about = simulate(
            simulation,
            clicks=clicks,
            sessions=sessions,
            log=log,
            counts=counts,
            save_click_model=save_click_model,
            context=context,
            seed=seed,
            progress=progress,
        )
    if features is not None:
        products = of.read(data)
        write_product_table(products, features)
        about |= {"queries": products.n_queries, "products": products.n_docs}
        about["written"]["features"] = str(features)
    return about, display.simulated


def count(
    log: Annotated[str | None, Argument(metavar="LOG")] = None,
    *,
    output: Output = Path("counts.parquet"),
    days: Into,
    engine: str = "duckdb",
    master: str | None = None,
    connection: Annotated[str | None, Option("--from")] = None,
    table: str | None = None,
    reading: LogReading,
    list_id: str | None = None,
    value: str | None = None,
    user_buckets: Annotated[int | None, Option(min=10, max=1024)] = None,
    bad_rows: str = "error",
    context: str = "auto",
    policy: list[str] | None = None,
    scores: Path | None = None,
    top_k: Positive = None,
    holdout: float | None = None,
    holdout_by: str = "query",
    holdout_from: str | None = None,
    progress: Progress,
) -> Result:
    """Count impressions and clicks in a log, and say what is wrong.

    Example: affinerank count log.parquet --holdout 0.2 -o counts.parquet

    Options:
        log: Parquet, CSV or JSON Lines; a pattern; the folder of a Delta table.
        engine: duckdb or spark.
        master: Spark's master URL.
        connection: Connection, as in duckdb:///clicks.duckdb or
            postgres://me@host/shop.
        table: Table of the connection to count.
        value: Column of what a click is worth (purchase, dwell), 0 or more.
        user_buckets: Count by so many buckets of user_id, as in 100: intervals of
            evaluate are then clustered by user.
        bad_rows: error, or drop: sessions with faults, whole.
        context: Count by the last click above: last-click, none, or auto: where clicks
            depend on it.
        policy: The policy that showed the lists, for expected exposure.
        scores: With --policy: what it ranked, as rank writes it.
        holdout: Share to set aside, as in 0.2.
        holdout_by: query, or time: the last sessions.
        holdout_from: Set aside what began then or later, instead.
    """
    from affinerank.clicks.exposure import expected_exposure
    from affinerank.counts.counting import count_log, open_table
    from affinerank.counts.days import require_log_outside
    from affinerank.logs.report import LogFaultsError

    if days.removed():
        return {"removed": days.remove, "written": str(days.into)}, display.notes
    if (policy is None) != (scores is None) or (top_k and policy is None):
        raise ConfigError("--policy and --scores go together, --top-k with them")
    if (log is None) == (connection is None) or (connection is None) != (table is None):
        raise ConfigError("give a LOG, or --from CONNECTION with --table NAME")
    if days.into is None:
        inputs = [log, connection, scores]
        require_writable(output, suffix=".parquet", reads=inputs)
    elif log is not None:
        require_log_outside(days.into, log)
    target, written = days.target(log or table or "", output)
    place: dict[str, Any] = {"engine": engine, "master": master, "table": table}
    opened = open_table(log or connection or "", **place, **reading.opening())
    more = {"list_id": list_id, "value": value, "user_buckets": user_buckets}
    options = reading.options(**more)
    try:
        with ExitStack() as stack:
            aside, rows = stack.enter_context(target), stack.enter_context(opened)
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
        display.findings(map(asdict, error.report.findings), display.faults)
        raise
    about = {**found.summary, "findings": found.findings(), "written": str(written)}
    if days.into is not None:
        about["removed"] = days.too_old()
    return about, display.counted


def ubi(
    *,
    queries: Path,
    events: Path,
    output: Output = Path("log.parquet"),
    click_action: list[str] | None = None,
    memory: str = "4GB",
) -> Result:
    """Read OpenSearch User Behavior Insights into a click log.

    Example: affinerank import ubi --queries ubi_queries.jsonl
    --events ubi_events.jsonl -o log.parquet

    Options:
        queries: Index ubi_queries, JSON Lines, or a bulk file: searches and
            their results.
        events: Index ubi_events, JSON Lines: impressions and clicks.
        click_action: Name of the events that are clicks.
    """
    from affinerank.logs.importers.tiangong import UBI_CLICKS, import_ubi

    require_writable(output, suffix=".parquet", reads=[queries, events])
    actions = click_action or UBI_CLICKS
    found = import_ubi(queries, events, output, click_actions=actions, memory=memory)
    return {"written": str(output), **found}, display.notes


def tiangong(files: list[Path], *, output: Output = Path("log.parquet")) -> Result:
    """Read result pages as in TianGong-ST into a click log.

    Example: affinerank import tiangong pages.txt -o log.parquet

    Options:
        files: Files of result pages.
    """
    from affinerank.logs.importers.tiangong import read_tiangong

    require_writable(output, suffix=".parquet", reads=files)
    imported = read_tiangong(*files)
    imported.save(output)
    rows = imported.table.num_rows
    about = {"written": str(output), "impressions": rows, **imported.notes}
    return about, display.notes
