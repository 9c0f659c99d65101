"""Whole paths: the demo, the paper's experiments, and their reports."""

from __future__ import annotations

from contextlib import chdir
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from affinerank.cli import display
from affinerank.cli.options import OtherOutput, Result, Seed, require_writable
from affinerank.support.errors import ConfigError
from affinerank.support.files import new_folder
from affinerank.support.progress import Progress


def demo(
    *,
    out: Annotated[Path, Option(metavar="FOLDER")] = Path("affinerank-demo"),
    seed: Seed = 0,
) -> Result:
    """Show the whole path, command by command, on the files of a small synthetic shop.

    Example: affinerank demo --out affinerank-demo

    Options:
        out: New folder for the files that the commands write.
    """
    from affinerank.cli import main
    from affinerank.cli.demo import demo_steps

    steps = demo_steps(seed)
    with new_folder(out) as folder, chdir(folder):
        for step in steps:
            display.line(f"\n# {step.title}\n$ {step.command}\n")
            if main([*step.words]) != 0:
                raise ConfigError(f"the demo stopped at: {step.command}")
    about = {"folder": str(out), "commands": [step.command for step in steps]}
    return about, lambda _: display.line(f"\nfiles of all steps: {out}")


def reproduce(
    name: Annotated[str, Argument(metavar="NAME")],
    *,
    profile: str | None = None,
    data: Path | None = None,
    relevant_above: float | None = None,
    out: Annotated[Path | None, Option(metavar="RUN")] = None,
    recompute: bool = False,
    device: str = "auto",
    processes: Annotated[int | None, Option(min=1, max=64)] = None,
    seed: Annotated[int | None, Option(min=0, max=2**31 - 1)] = None,
    progress: Progress,
) -> Result:
    """Run an experiment of the paper, or on the field; say which statements held.

    Example: affinerank reproduce figure1 --profile smoke

    Options:
        name: figure1 to figure5, all, noise, clipping, real, trees, field, or a plan's
            .toml file.
        profile: smoke, laptop (the default) or paper: how large.
        data: Folder with real sets, in the place of worlds (field: beside them); real
            and field take that of AFFINERANK_DATA by default.
        relevant_above: Labels of --data above this are relevant; else the plan's.
        out: Folder of the run (default: NAME-PROFILE); an interrupted run is resumed,
            if the code is the same.
        recompute: Discard the finished cells of the folder, and measure all again.
        device: auto, cpu or cuda.
        processes: At work at once: one prepares while another trains; left out, 2, or 1
            for small plans.
        seed: Of the first run; else the plan's.
    """
    from affinerank.research.reproduce import reproduce

    own = Path(name).suffix == ".toml"
    if own and profile is not None:
        raise ConfigError(f"--profile is for shipped plans; {name} has its own sizes")
    if relevant_above is not None and data is None and name != "real":
        raise ConfigError("--relevant-above needs --data, whose labels it is about")
    size = profile or "laptop"
    about = reproduce(
        name,
        out or Path(Path(name).stem if own else f"{name}-{size}"),
        profile=size,
        data=data,
        relevant_above=relevant_above,
        seed=seed,
        device=device,
        processes=processes,
        recompute=recompute,
        progress=progress,
    )
    return about, display.reproduced


def report(
    run: Annotated[Path, Argument(metavar="RUN")], *, output: OtherOutput = None
) -> Result:
    """Write the report of a run: one HTML file that opens offline.

    Example: affinerank report figure1-smoke

    Options:
        run: Folder of a run, finished or not.
        output: File (default: RUN/report.html).
    """
    from affinerank.research.report import write_report
    from affinerank.research.reproduce import outcome

    if output is not None:
        require_writable(output, reads=[run / "plan.toml", run / "results.parquet"])
    written = write_report(run, output)
    return {**outcome(run), "written": [str(written)]}, display.reproduced
