"""The command line: parse, one library call, print, exit code."""

from __future__ import annotations

import re
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

import affinerank
from affinerank import defaults
from affinerank.cli import (
    audit,
    clicks,
    data,
    debias,
    display,
    estimation,
    evaluation,
    experiments,
    export,
    importance,
    learning,
    planning,
    ranking,
)
from affinerank.cli.options import Result, command
from affinerank.support.errors import AffineRankError, AffineRankWarning
from affinerank.support.extras import missing_library_named
from affinerank.support.files import one_line, remove_own_scratch
from affinerank.support.plugins import load_named_plugins

DEBUG = "--debug"

app = typer.Typer(
    help="Learn a better ranking from clicks you cannot trust.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    epilog=f"{DEBUG} prints the traceback of a fault.",
)
data_app = typer.Typer(help="Look at ranking data, and convert them.")
import_app = typer.Typer(help="Bring the logs of other systems onto our columns.")


def _print_version(asked: bool) -> None:
    if asked:
        from importlib import metadata

        typer.echo(f"affinerank {metadata.version('affinerank')}")
        raise typer.Exit


Version = Annotated[
    bool,
    typer.Option("--version", is_eager=True, callback=_print_version, help="Print it."),
]

Plugins = Annotated[
    list[str] | None,
    typer.Option(
        "--plugin",
        metavar="MODULE",
        help="Import a module that adds rows of your own; before the command's name.",
    ),
]


@app.callback()
def top_level(version: Version = False, plugin: Plugins = None) -> None:
    """Learn a better ranking from clicks you cannot trust."""
    del version
    load_named_plugins(plugin or ())


class Command(TyperCommand):
    """A command whose help lists the rows of tables, loaded when help is printed."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Put names in the place of ``{TABLE}``, or of ``{DEFAULT}``."""
        for option in self.params:
            told = getattr(option, "help", None) or ""
            option.help = re.sub(r"\{([A-Z_]+)\}", _named, told)  # type: ignore[attr-defined]
        super().format_help(ctx, formatter)


def _named(name: re.Match[str]) -> str:
    return getattr(defaults, name[1], "") or getattr(affinerank, name[1]).choices


COMMANDS: dict[typer.Typer, tuple[Callable[..., Result | None], ...]] = {
    app: (
        *(experiments.demo, clicks.simulate, clicks.count, audit.audit),
        *(planning.plan_swaps, estimation.estimate, debias.debias, learning.train),
        *(evaluation.evaluate, ranking.rank, importance.importance, export.export),
        *(experiments.reproduce, experiments.report),
    ),
    data_app: (data.describe, data.convert),
    import_app: (clicks.ubi, clicks.tiangong),
}
for group, functions in COMMANDS.items():
    for function in functions:
        group.command(cls=Command)(command(function))
app.add_typer(data_app, name="data", no_args_is_help=True)
app.add_typer(import_app, name="import", no_args_is_help=True)


_signals: list[int] = []


def main(argv: list[str] | None = None) -> int:
    """Run a command; return its exit status.

    0 done, 2 the input was wrong, 70 a fault of the package, 130 and 143 stopped.
    """
    words = sys.argv[1:] if argv is None else list(argv)
    debug = DEBUG in words
    with warnings.catch_warnings():
        warnings.simplefilter("always", AffineRankWarning)
        warnings.showwarning = _print_note  # type: ignore[assignment]
        try:
            given = [word for word in words if word != DEBUG]
            with missing_library_named():
                result: Any = app(given, prog_name="affinerank", standalone_mode=False)
        except KeyboardInterrupt:
            result = 130
        except Exception as error:
            if debug:
                traceback.print_exc()
            result = 130 if _signals else _explained(error)
    if result == 130:
        display.say("affinerank: stopped")
        return 128 + (_signals or [signal.SIGINT])[0]
    return result if isinstance(result, int) else 0


def run() -> None:
    """Entry point of the ``affinerank`` command."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, signal.SIGINT)
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has it
            signal.signal(number, _stop)
    try:
        status = main()
    finally:
        remove_own_scratch()
    sys.exit(status)


def _stop(number: int, _: Any) -> None:
    """End as if by Ctrl-C, leaving nothing behind; engines may raise another error."""
    _signals.append(number)
    raise KeyboardInterrupt


def _explained(error: Exception) -> int:
    """Say what went wrong, in a sentence; return the exit status."""
    if isinstance(error, AffineRankError):
        text = str(error)
    elif isinstance(error, typer.TyperException):
        text = error.format_message()
    elif isinstance(error, MemoryError):
        text = "memory ran out; give fewer queries, or a machine with more"
    elif isinstance(error, OSError) and error.strerror:
        text = f"{error.filename or 'a file'}: {error.strerror}"
    else:
        display.say(
            f"affinerank: a fault of AffineRank, not of your input: "
            f"{type(error).__name__}: {one_line(error)[:200]}"
        )
        display.say(f"to report it, run it again with {DEBUG} and send what it prints")
        return 70
    display.say(f"affinerank: {text}")
    return 2


def _print_note(message: Any, category: type[Warning], *_: Any) -> None:
    """Print a warning of the package as one line; the signature is Python's."""
    if issubclass(category, AffineRankWarning):
        display.say(f"note: {message}")
