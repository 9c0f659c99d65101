"""The command line: parse, one library call, print, exit code."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer
from rich import box
from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars
from rich.table import Table

from affinerank.errors import AffineRankError, AffineRankWarning, ConfigError
from affinerank.progress import Progress

app = typer.Typer(
    help="Learn a better ranking from clicks you cannot trust.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
data_app = typer.Typer(help="Look at ranking data, and convert them.")
app.add_typer(data_app, name="data", no_args_is_help=True)

out = Console()
faults = Console(stderr=True)

Seed = Annotated[int, typer.Option(min=0, help="Seed of everything random.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]
Fold = Annotated[int, typer.Option(min=1, help="Fold, for sets that have several.")]
MissingValues = Annotated[
    str,
    typer.Option(help="What NULL and nan become: error, keep, or a number."),
]
RelevantAbove = Annotated[
    float, typer.Option(help="Labels above this are relevant; sets of 0 to 2 need 0.")
]


def main(argv: list[str] | None = None) -> int:
    """Run a command; return its exit status: 0 done, 2 the input was wrong."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", AffineRankWarning)
        warnings.showwarning = _print_note
        try:
            result: Any = app(argv, prog_name="affinerank", standalone_mode=False)
        except AffineRankError as error:
            _say(f"affinerank: {error}")
            return 2
        except typer.Exit as stop:
            return stop.exit_code
        except typer.TyperException as error:
            _say(f"affinerank: {error.format_message()}")
            return 2
        except (KeyboardInterrupt, typer.Abort):
            _say("affinerank: stopped")
            return 130
    return result if isinstance(result, int) else 0


@data_app.command()
def describe(
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="A file, a set's folder, or a world.")
    ],
    split: Annotated[str | None, typer.Option(help="train, validation, test.")] = None,
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

    source = DataSource.parse(data, fold=fold, seed=seed, missing=_missing(missing))
    with _bars() as progress:
        about = describe(
            source,
            split=parse_split(split) if split else None,
            relevant_above=relevant_above,
            seed=seed,
            progress=progress,
        )
    _print(about, as_json, _describe_text)


@data_app.command()
def convert(
    data: Annotated[str, typer.Argument(metavar="IN", help="LETOR text, or DATA.")],
    target: Annotated[Path, typer.Argument(metavar="OUT.parquet")],
    split: Annotated[str | None, typer.Option(help="train, validation, test.")] = None,
    fold: Fold = 1,
    seed: Seed = 0,
    missing: MissingValues = "error",
    as_json: Json = False,
) -> None:
    """Write ranking data as Parquet: query_id, doc_id, label, f1 .. fn."""
    from affinerank.data.catalog import DataSource
    from affinerank.data.dataset import parse_split
    from affinerank.data.parquet import write_parquet

    if target.suffix != ".parquet":
        raise ConfigError(f"{target}: the name of the output must end in .parquet")
    source = DataSource.parse(data, fold=fold, seed=seed, missing=_missing(missing))
    read = source.read(parse_split(split) if split else source.default_split("train"))
    write_parquet(read, target)
    about = {
        "written": str(target),
        "queries": read.n_queries,
        "documents": read.n_docs,
        "features": read.n_features,
    }
    _print(about, as_json, _convert_text)


@app.command()
def demo(seed: Seed = 0, as_json: Json = False) -> None:
    """Show the path from data to a judged ranking on a small synthetic world."""
    from affinerank.pipeline import demo

    with _bars() as progress:
        rows = demo(seed=seed, progress=progress)
    about = [
        {
            "ranking": row.ranking,
            "metric": row.values.name,
            "mean": row.values.mean,
            "standard_error": row.values.standard_error,
        }
        for row in rows
    ]
    _print(about, as_json, _demo_text)


def _missing(text: str) -> Any:
    """Read the option ``--missing``: error, keep, or a number."""
    if text in ("error", "keep"):
        return text
    try:
        return float(text)
    except ValueError:
        raise ConfigError(
            f"--missing must be error, keep or a number, got {text!r}"
        ) from None


def _print(about: Any, as_json: bool, draw: Callable[[Any], None]) -> None:
    if as_json:
        print(json.dumps(about, indent=2))
    else:
        draw(about)


def _say(text: str) -> None:
    faults.print(text, markup=False, highlight=False, soft_wrap=True)


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
        _say(f"note: {message}")


@contextmanager
def _bars() -> Iterator[Progress]:
    """Draw a progress bar per stage on a terminal; nothing in a pipe."""
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Bars(
        *columns, console=faults, transient=True, disable=not faults.is_terminal
    ) as bars:
        tasks: dict[str, Any] = {}

        def progress(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total)
            bars.update(tasks[stage], completed=done, total=total)

        yield progress


def _describe_text(about: dict[str, Any]) -> None:
    sizes = about["documents_per_query"]
    kind = " (synthetic)" if about["synthetic"] else ""
    part = f", {about['split']} split" if about["split"] else ""
    table = Table(title=f"{about['data']}{kind}{part}", show_header=False)
    table.add_row("queries", f"{about['queries']:,}")
    table.add_row("documents", f"{about['documents']:,}")
    table.add_row("features", f"{about['features']:,}")
    table.add_row(
        "documents per query",
        f"mean {sizes['mean']:.1f}, median {sizes['median']:g}, "
        f"{sizes['min']} to {sizes['max']}",
    )
    table.add_row("missing values", f"{about['missing_values']:,}")
    if about["label_shares"] is None:
        table.add_row("labels", "none")
    else:
        shares = about["label_shares"].items()
        table.add_row("label shares", "  ".join(f"{v}: {s:.3f}" for v, s in shares))
        table.add_row(
            f"share of labels above {about['relevant_above']:g}",
            f"{about['relevant_share']:.4f}",
        )
    out.print(table)
    if about["production"] is not None:
        _production_text(about["production"])


def _production_text(production: dict[str, Any]) -> None:
    if "not_trained" in production:
        out.print(f"no production ranker: {production['not_trained']}", markup=False)
        return
    out.print(
        f"\nproduction ranker: LambdaMART on {production['queries_learnt_from']} "
        f"random queries, mean of {production['draws']} draws; "
        "share of relevant documents by rank"
    )
    table = Table("rank", *(str(k) for k in range(1, 11)), box=box.SIMPLE)
    shares = production["relevant_share_by_rank"]
    cells = ("-" if s is None else f"{s:.3f}".lstrip("0") for s in shares)
    table.add_row("share", *cells)
    out.print(table)
    values = production["nDCG@10"]
    mean = sum(values) / len(values)
    out.print(
        f"nDCG@10 {mean:.3f} ({', '.join(f'{v:.3f}' for v in values)}) on "
        f"{production['judged_on']}; linear gain, {production['queries_skipped']} "
        "queries without a relevant document skipped"
    )


def _convert_text(about: dict[str, Any]) -> None:
    out.print(
        f"{about['written']}: {about['queries']:,} queries, "
        f"{about['documents']:,} documents, {about['features']:,} features",
        markup=False,
        soft_wrap=True,
    )


def _demo_text(about: list[dict[str, Any]]) -> None:
    out.print("yahoo-like:1000, a synthetic world; judged on its test split")
    table = Table("ranking", "nDCG@10", "standard error")
    for row in about:
        table.add_row(
            row["ranking"], f"{row['mean']:.3f}", f"{row['standard_error']:.3f}"
        )
    out.print(table)
    out.print(about[0]["metric"], highlight=False)


def run() -> None:
    """Entry point of the ``affinerank`` command."""
    sys.exit(main())
