"""The command line: parse, one library call, print, exit code."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

import typer

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
    learning,
)
from affinerank.errors import AffineRankError, AffineRankWarning

app = typer.Typer(
    help="Learn a better ranking from clicks you cannot trust.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
data_app = typer.Typer(help="Look at ranking data, and convert them.")
import_app = typer.Typer(help="Bring the logs of other systems onto our columns.")

COMMANDS: dict[typer.Typer, tuple[Callable[..., None], ...]] = {
    app: (
        *(experiments.demo, clicks.simulate, clicks.count, audit.audit),
        *(estimation.estimate, debias.debias, learning.train, evaluation.evaluate),
        *(export.export, experiments.reproduce, experiments.report),
    ),
    data_app: (data.describe, data.convert),
    import_app: (clicks.ubi, clicks.tiangong),
}
for group, functions in COMMANDS.items():
    for function in functions:
        group.command()(function)
app.add_typer(data_app, name="data", no_args_is_help=True)
app.add_typer(import_app, name="import", no_args_is_help=True)


def main(argv: list[str] | None = None) -> int:
    """Run a command; return its exit status: 0 done, 2 the input was wrong."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", AffineRankWarning)
        warnings.showwarning = _print_note  # type: ignore[assignment]
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


def run() -> None:
    """Entry point of the ``affinerank`` command."""
    sys.exit(main())


def _print_note(message: Any, category: type[Warning], *_: Any) -> None:
    """Print a warning of the package as one line; the signature is Python's."""
    if issubclass(category, AffineRankWarning):
        display.say(f"note: {message}")
