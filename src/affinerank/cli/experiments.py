"""Whole paths: the demo, the paper's experiments, and their reports."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from affinerank.cli import display
from affinerank.cli.options import Json, Seed, bars, require_writable, show
from affinerank.errors import ConfigError

PLANS = "figure1 to figure5, all, noise, clipping, real, trees"


def demo(
    out: Annotated[Path, Option(metavar="RUN", help="Folder of the report.")] = Path(
        "affinerank-demo"
    ),
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Show the whole path on a small synthetic world.

    Example: affinerank demo --out affinerank-demo
    """
    from affinerank.demo import report_demo, run_demo

    with bars() as progress:
        shown = run_demo(seed=seed, progress=progress)
        written = report_demo(out, seed=seed, progress=progress)
    about = {**shown.to_dict(), "report": str(written)}
    show(about, as_json, lambda _: display.demonstration(shown, written))


def reproduce(
    name: Annotated[
        str, Argument(metavar="NAME", help=f"{PLANS}, or a plan's .toml file.")
    ],
    profile: Annotated[
        str | None, Option(help="smoke, laptop (the default) or paper: how large.")
    ] = None,
    data: Annotated[
        Path | None,
        Option(
            help="Folder with real sets, in the place of worlds; real takes that of "
            "AFFINERANK_DATA by default."
        ),
    ] = None,
    relevant_above: Annotated[
        float | None,
        Option(help="Labels of --data above this are relevant; else the plan's."),
    ] = None,
    out: Annotated[
        Path | None,
        Option(
            metavar="RUN",
            help="Folder of the run (default: NAME-PROFILE); an interrupted run is "
            "resumed.",
        ),
    ] = None,
    device: Annotated[str, Option(help="auto, cpu or cuda.")] = "auto",
    processes: Annotated[
        int | None,
        Option(
            min=1,
            max=64,
            help="At work at once: one prepares while another trains; left out, 2, or "
            "1 for small plans.",
        ),
    ] = None,
    seed: Annotated[
        int | None,
        Option(min=0, max=2**31 - 1, help="Of the first run; else the plan's."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Run an experiment of the paper; say which statements held.

    Example: affinerank reproduce figure1 --profile smoke
    """
    from affinerank.experiments.reproduce import reproduce

    own = Path(name).suffix == ".toml"
    if own and profile is not None:
        raise ConfigError(f"--profile is for shipped plans; {name} has its own sizes")
    if relevant_above is not None and data is None and name != "real":
        raise ConfigError("--relevant-above needs --data, whose labels it is about")
    size = profile or "laptop"
    folder = out or Path(Path(name).stem if own else f"{name}-{size}")
    with bars() as progress:
        about = reproduce(
            name,
            folder,
            profile=size,
            data=data,
            relevant_above=relevant_above,
            seed=seed,
            device=device,
            processes=processes,
            progress=progress,
        )
    show(about, as_json, display.reproduced)


def report(
    run: Annotated[
        Path, Argument(metavar="RUN", help="Folder of a run, finished or not.")
    ],
    output: Annotated[
        Path | None, Option("-o", "--output", help="File (default: RUN/report.html).")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write the report of a run: one HTML file that opens offline.

    Example: affinerank report figure1-smoke
    """
    from affinerank.experiments.report import write_report
    from affinerank.experiments.reproduce import outcome

    if output is not None:
        require_writable(output, reads=[run / "plan.toml", run / "results.parquet"])
    written = write_report(run, output)
    show({**outcome(run), "written": [str(written)]}, as_json, display.reproduced)
