"""Rankers trained on counted clicks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from affinerank import display
from affinerank.cli.options import (
    Fold,
    Json,
    MissingValues,
    RelevantAbove,
    Seed,
    Split,
    bars,
    read_data,
    show,
    sizes,
)
from affinerank.errors import ConfigError


def train(
    counts: Annotated[Path, typer.Argument(metavar="COUNTS", help="Counts, Parquet.")],
    data: Annotated[str, typer.Option(help="Features: a file, a folder or a world.")],
    output: Annotated[
        Path, typer.Option("-o", "--output", help="New folder for the ranker.")
    ],
    users: Annotated[
        Path | None,
        typer.Option(help="User model, JSON; estimated first where left out."),
    ] = None,
    save_users: Annotated[
        Path | None, typer.Option(help="Write the user model that was estimated.")
    ] = None,
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
    from affinerank.pipeline import (
        EstimationSettings,
        estimate_users,
        held_out,
        needs_users,
        save_trained,
        train_rankers,
    )
    from affinerank.rankers.mlp import NetworkSettings

    names = list(dict.fromkeys(estimator or ["affine"]))
    if output.exists():
        raise ConfigError(f"{output}: exists already; choose another name or remove it")
    writable(output)
    if checkpoint is not None:
        writable(checkpoint)
    if save_users is not None:
        writable(save_users)
    if validation is not None and patience is None:
        raise ConfigError("--validation needs --patience, to know when to stop")
    settings = NetworkSettings(
        hidden=sizes(hidden),
        loss=loss,
        learning_rate=learning_rate,
        epochs=epochs,
        device=device,
        precision=precision,
        data_seed=seed,
        patience=patience,
    )
    clicks = ClickCounts.load(counts)
    read = read_data(data, split, fold, missing)
    held = None
    if validation is not None:
        judged = read_data(data, None, fold, missing, default="validation")
        held = (ClickCounts.load(validation), judged)
    elif patience is not None:
        held = (held_out(clicks), read)
    known = UserModel.load(users) if users else None
    with bars() as progress:
        if known is None and needs_users(names):
            asked = EstimationSettings(seed=seed)
            found = estimate_users(clicks, read, settings=asked, progress=progress)
            known = found.users
            display.say(f"no --users: estimated by {found.method} ({found.why})")
            if save_users is not None:
                known.save(save_users)
        trained = train_rankers(
            clicks,
            read,
            known,
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
    show(about, as_json, display.trained)
