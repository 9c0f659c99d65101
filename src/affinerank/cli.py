"""The command line: parse, one library call, print, exit code."""

from __future__ import annotations

import json
import math
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal, TextIO

import typer
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from affinerank import display
from affinerank.errors import AffineRankError, AffineRankWarning, ConfigError
from affinerank.progress import Progress

app = typer.Typer(
    help="Learn a better ranking from clicks you cannot trust.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
data_app = typer.Typer(help="Look at ranking data, and convert them.")
import_app = typer.Typer(help="Bring the logs of other systems onto our columns.")
app.add_typer(data_app, name="data", no_args_is_help=True)
app.add_typer(import_app, name="import", no_args_is_help=True)

Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A file, a set's folder, or a world: yahoo-like:2000, or with a seed of "
        "its own yahoo-like:2000@7.",
    ),
]
Split = Annotated[str | None, typer.Option(help="train, validation or test.")]
Seed = Annotated[
    int, typer.Option(min=0, max=2**31 - 1, help="Seed of everything random.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]
Fold = Annotated[int, typer.Option(min=1, help="Fold, for sets that have several.")]
MissingValues = Annotated[
    str,
    typer.Option(help="What NULL and nan become: error, keep, or a number."),
]
RelevantAbove = Annotated[
    float, typer.Option(help="Labels above this are relevant; sets of 0 to 2 need 0.")
]
DefaultSplit = Literal["train", "validation", "test"]
Output = Annotated[Path, typer.Option("-o", "--output", help="File to write.")]


def main(argv: list[str] | None = None) -> int:
    """Run a command; return its exit status: 0 done, 2 the input was wrong."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", AffineRankWarning)
        warnings.showwarning = _print_note
        try:
            result: Any = app(argv, prog_name="affinerank", standalone_mode=False)
        except AffineRankError as error:
            display.say(f"affinerank: {error}")
            return 2
        except typer.Exit as stop:
            return stop.exit_code
        except typer.TyperException as error:
            display.say(f"affinerank: {error.format_message()}")
            return 2
        except (KeyboardInterrupt, typer.Abort):
            display.say("affinerank: stopped")
            return 130
    return result if isinstance(result, int) else 0


@app.command()
def demo(seed: Seed = 0, as_json: Json = False) -> None:
    """Show the path from data to a judged ranking on a small synthetic world."""
    from affinerank.demo import WORLD, run_demo

    with _bars() as progress:
        shown = run_demo(seed=seed, progress=progress)
    about = {
        "world": WORLD,
        "log": shown.log,
        "by_rank": shown.by_rank,
        "rankings": [
            {
                "ranking": name,
                "metric": values.name,
                "mean": values.mean,
                "standard_error": values.standard_error,
                "interval": list(values.interval),
            }
            for name, values in shown.rankings.items()
        ],
    }
    _print(about, as_json, lambda _: display.demonstration(shown, WORLD))


@data_app.command()
def describe(
    data: Data,
    split: Split = None,
    relevant_above: RelevantAbove = 2.0,
    fold: Fold = 1,
    seed: Seed = 0,
    missing: MissingValues = "error",
    as_json: Json = False,
) -> None:
    """Say what a set holds, and how a production ranker would order it."""
    from affinerank.data.catalog import DataSource
    from affinerank.data.dataset import parse_split
    from affinerank.pipeline import describe

    source = DataSource.parse(data, fold=fold, missing=_missing(missing))
    with _bars() as progress:
        about = describe(
            source,
            split=parse_split(split) if split else None,
            relevant_above=relevant_above,
            seed=seed,
            progress=progress,
        )
    _print(about, as_json, display.description)


@data_app.command()
def convert(
    data: Annotated[str, typer.Argument(metavar="IN", help="LETOR text, or DATA.")],
    target: Annotated[Path, typer.Argument(metavar="OUT.parquet")],
    split: Split = None,
    fold: Fold = 1,
    missing: MissingValues = "error",
    as_json: Json = False,
) -> None:
    """Write ranking data as Parquet: query_id, doc_id, label, f1 .. fn."""
    from affinerank.data.parquet import write_parquet

    _require_parquet(target)
    read = _read(data, split, fold, missing)
    write_parquet(read, target)
    about = {
        "written": str(target),
        "queries": read.n_queries,
        "documents": read.n_docs,
        "features": read.n_features,
    }
    _print(
        about,
        as_json,
        lambda a: display.line(
            f"{a['written']}: {a['queries']:,} queries, {a['documents']:,} documents, "
            f"{a['features']:,} features"
        ),
    )


@app.command()
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
            _require_parquet(target)
    for target in (log, counts, save_users):
        if target is not None:
            writable(target)
    read = _read(data, split, fold, missing)
    # The production ranker has seen the training split, whatever is ranked by it.
    seen = read if split is None else _read(data, None, fold, missing)
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
    with _bars() as progress:
        about = simulate(
            simulation,
            clicks=_number("--clicks", clicks),
            sessions=_whole("--sessions", sessions),
            log=log,
            counts=counts,
            save_users=save_users,
            seed=seed,
            progress=progress,
        )
    _print(about, as_json, display.simulated)


@app.command()
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
    column: Annotated[
        list[str] | None, typer.Option(help="Name in the log, as in rank=position.")
    ] = None,
    ranks_from: Annotated[
        int, typer.Option(help="What the log calls the first rank: 1 or 0.")
    ] = 1,
    bad_rows: Annotated[
        str, typer.Option(help="error, or drop: sessions with faults, whole.")
    ] = "error",
    where: Annotated[
        str | None, typer.Option(help="Your own SQL condition, run as it is.")
    ] = None,
    segment: Annotated[
        str | None, typer.Option(help="Column that tells segments apart.")
    ] = None,
    since: Annotated[str | None, typer.Option(help="First moment counted.")] = None,
    until: Annotated[str | None, typer.Option(help="First one not counted.")] = None,
    max_sessions_per_user: Annotated[
        int | None, typer.Option(min=1, help="Needs a column user_id.")
    ] = None,
    holdout: Annotated[
        float | None, typer.Option(help="Share to set aside, as in 0.2.")
    ] = None,
    holdout_by: Annotated[str, typer.Option(help="query, or time.")] = "query",
    memory: Annotated[str, typer.Option(help="DuckDB spills beyond this.")] = "4GB",
    as_json: Json = False,
) -> None:
    """Count impressions and clicks in a log, and say what was wrong with it."""
    from affinerank.clicks.counting import count_log, open_table
    from affinerank.clicks.log import LogFaultsError, LogOptions

    _require_parquet(output)
    _require_choice("--bad-rows", bad_rows, "error", "drop")
    _require_choice("--holdout-by", holdout_by, "query", "time")
    _require_choice("--engine", engine, "duckdb", "spark")
    if (log is None) == (connection is None) or (connection is None) != (table is None):
        raise ConfigError("give a LOG, or --from CONNECTION with --table NAME")
    options = LogOptions(
        columns=_mapping(column or []),
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
        with opened as rows, _bars() as progress:
            found = count_log(
                rows,
                output,
                options=options,
                bad_rows=bad_rows,
                holdout=holdout,
                holdout_by=holdout_by,
                progress=progress,
            )
    except LogFaultsError as error:
        display.findings(error.report, to_stderr=True)
        raise
    about = {**found.summary, "findings": found.findings(), "written": str(output)}
    if not as_json and found.report is not None:
        display.findings(found.report, to_stderr=False)
    _print(about, as_json, display.counted)


@app.command()
def train(
    counts: Annotated[Path, typer.Argument(metavar="COUNTS", help="Counts, Parquet.")],
    data: Annotated[str, typer.Option(help="Features: a file, a folder or a world.")],
    output: Annotated[
        Path, typer.Option("-o", "--output", help="New folder for the ranker.")
    ],
    users: Annotated[Path | None, typer.Option(help="User model, JSON.")] = None,
    estimator: Annotated[
        list[str] | None,
        typer.Option(
            help="naive, ips, bayes-ips, affine (the default) or full-information; "
            "several are trained together, one folder each."
        ),
    ] = None,
    clip: Annotated[
        str | None, typer.Option(help="Least alpha: a number, or 10/sqrt(n).")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse ranks the user model lacks.")
    ] = False,
    epochs: Annotated[int, typer.Option(min=1)] = 32,
    learning_rate: Annotated[
        float, typer.Option(help="The paper: 0.02 for MSLR, 0.004 for Yahoo.")
    ] = 0.02,
    hidden: Annotated[str, typer.Option(help="Hidden layers.")] = "512,256,128",
    loss: Annotated[str, typer.Option(help="lambda, squared or softmax.")] = "lambda",
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    precision: Annotated[
        str, typer.Option(help="On CUDA: float32, tf32 or bfloat16.")
    ] = "float32",
    patience: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Stop early: after so many epochs without gain on held-out clicks, "
            "those of --validation, or the holdout of COUNTS.",
        ),
    ] = None,
    validation: Annotated[
        Path | None,
        typer.Option(help="Counts to stop early by; of splits, of validation."),
    ] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Go on from this file if killed.")
    ] = None,
    split: Split = None,
    relevant_above: RelevantAbove = 2.0,
    fold: Fold = 1,
    seed: Seed = 0,
    missing: MissingValues = "error",
    as_json: Json = False,
) -> None:
    """Train networks on corrected clicks."""
    from affinerank.clicks.counts import ClickCounts
    from affinerank.clicks.usermodel import UserModel
    from affinerank.files import writable
    from affinerank.pipeline import held_out, save_trained, train_rankers
    from affinerank.rankers.mlp import NetworkSettings

    names = list(dict.fromkeys(estimator or ["affine"]))
    if output.exists():
        raise ConfigError(f"{output}: exists already; choose another name or remove it")
    writable(output)
    if checkpoint is not None:
        writable(checkpoint)
    if validation is not None and patience is None:
        raise ConfigError("--validation needs --patience, to know when to stop")
    settings = NetworkSettings(
        hidden=_sizes(hidden),
        loss=loss,
        learning_rate=learning_rate,
        epochs=epochs,
        device=device,
        precision=precision,
        data_seed=seed,
        patience=patience,
    )
    clicks = ClickCounts.load(counts)
    read = _read(data, split, fold, missing)
    held = None
    if validation is not None:
        judged = _read(data, None, fold, missing, default="validation")
        held = (ClickCounts.load(validation), judged)
    elif patience is not None:
        held = (held_out(clicks), read)
    with _bars() as progress:
        trained = train_rankers(
            clicks,
            read,
            UserModel.load(users) if users else None,
            estimators=names,
            seeds=[seed],
            settings=settings,
            clip=clip,
            strict=strict,
            relevant_above=relevant_above,
            validation=held,
            checkpoint=checkpoint,
            progress=progress,
        )
    about = save_trained(trained, output)
    _print(about, as_json, display.trained)


@app.command()
def evaluate(
    models: Annotated[
        list[Path], typer.Argument(metavar="MODEL...", help="Folders of rankers.")
    ],
    data: Annotated[str, typer.Option(help="Labelled data; of splits, test.")],
    metric: Annotated[str, typer.Option(help="As in nDCG@10, P@5, RR.")] = "nDCG@10",
    split: Split = None,
    relevant_above: RelevantAbove = 2.0,
    fold: Fold = 1,
    missing: MissingValues = "error",
    as_json: Json = False,
) -> None:
    """Judge rankers by labels, and compare each with the first."""
    from affinerank.metrics import Metric
    from affinerank.pipeline import evaluate_rankers
    from affinerank.rankers.load import load_ranker

    rankers = {str(folder): load_ranker(folder) for folder in models}
    about = evaluate_rankers(
        rankers,
        _read(data, split, fold, missing, default="test"),
        metric=Metric.parse(metric),
        relevant_above=relevant_above,
    )
    _print(about, as_json, display.evaluated)


@import_app.command()
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


@import_app.command()
def tiangong(
    files: Annotated[list[Path], typer.Argument(help="Files of result pages.")],
    output: Output = Path("log.parquet"),
    as_json: Json = False,
) -> None:
    """Result pages in the layout of TianGong-ST to a click log."""
    from affinerank.clicks.importers import read_tiangong

    _save_imported(read_tiangong(*files), output, as_json)


def _save_imported(imported: Any, output: Path, as_json: bool) -> None:
    _require_parquet(output)
    imported.save(output)
    rows = imported.table.num_rows
    about = {"written": str(output), "impressions": rows, **imported.notes}
    _print(about, as_json, display.notes)


def _read(
    data: str,
    split: str | None,
    fold: int,
    missing: str,
    default: DefaultSplit = "train",
) -> Any:
    from affinerank.data.catalog import DataSource
    from affinerank.data.dataset import parse_split

    source = DataSource.parse(data, fold=fold, missing=_missing(missing))
    return source.read(parse_split(split) if split else source.default_split(default))


def _sizes(text: str) -> tuple[int, ...]:
    """Read ``--hidden 512,256,128``."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ConfigError(
            f"--hidden takes sizes as in 512,256,128, got {text!r}"
        ) from None


def _missing(text: str) -> Any:
    """Read the option ``--missing``: error, keep, or a number."""
    return text if text in ("error", "keep") else _number("--missing", text)


def _number(option: str, text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        kinds = "error, keep or a number" if option == "--missing" else "a number"
        raise ConfigError(f"{option} must be {kinds}, got {text!r}") from None


def _whole(option: str, text: str | None) -> int | None:
    number = _number(option, text)
    if number is not None and not number.is_integer():
        raise ConfigError(f"{option} must be a whole number, got {text!r}")
    return None if number is None else int(number)


def _mapping(pairs: list[str]) -> dict[str, str]:
    """Read ``--column rank=position``."""
    mapping = {}
    for pair in pairs:
        name, equals, theirs = pair.partition("=")
        if not (name and equals and theirs):
            raise ConfigError(f"--column takes NAME=COLUMN, got {pair!r}")
        mapping[name] = theirs
    return mapping


def _require_parquet(path: Path) -> None:
    if path.suffix != ".parquet":
        raise ConfigError(f"{path}: the name of the output must end in .parquet")


def _require_choice(option: str, value: str, *choices: str) -> None:
    if value not in choices:
        raise ConfigError(f"{option} must be {' or '.join(choices)}, got {value!r}")


def _print(about: Any, as_json: bool, draw: Callable[[Any], object]) -> None:
    if as_json:
        print(json.dumps(_plain(about), indent=2, default=str, allow_nan=False))
    else:
        draw(about)


def _plain(about: Any) -> Any:
    """Put null in the place of NaN, which JSON does not know."""
    if isinstance(about, dict):
        return {name: _plain(value) for name, value in about.items()}
    if isinstance(about, list | tuple):
        return [_plain(value) for value in about]
    return None if isinstance(about, float) and not math.isfinite(about) else about


def _print_note(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning of the package as one line; the signature is Python's."""
    del filename, lineno, file, line
    if issubclass(category, AffineRankWarning):
        display.say(f"note: {message}")


@contextmanager
def _bars() -> Iterator[Progress]:
    """Draw a progress bar per stage on a terminal; nothing in a pipe."""
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    console = display.faults
    with Bars(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bars:
        tasks: dict[str, Any] = {}

        def progress(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total)
            bars.update(tasks[stage], completed=done, total=total)

        yield progress


def run() -> None:
    """Entry point of the ``affinerank`` command."""
    sys.exit(main())
