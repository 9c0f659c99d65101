"""Rankers trained on counted clicks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
    require_choice,
    show,
    sizes,
)
from affinerank.errors import ConfigError

if TYPE_CHECKING:
    from affinerank.clicks.counts import ClickCounts
    from affinerank.clicks.usermodel import UserModel
    from affinerank.data.dataset import RankingDataset
    from affinerank.progress import Progress

ONLY_FOR = {
    "mlp": ("epochs", "hidden", "loss", "device", "precision", "checkpoint"),
    "lightgbm": ("trees", "leaves"),
}
LEARNING_RATES = {"mlp": 0.02, "lightgbm": 0.05}


def train(
    context: typer.Context,
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
    ranker: Annotated[
        str, typer.Option(help="mlp (networks) or lightgbm (trees).")
    ] = "mlp",
    epochs: Annotated[int, typer.Option(min=1)] = 32,
    learning_rate: Annotated[
        float | None,
        typer.Option(
            help="0.02 for networks (the paper: 0.02 for MSLR, 0.004 for Yahoo), 0.05 "
            "for trees.",
            show_default=False,
        ),
    ] = None,
    trees: Annotated[int, typer.Option(min=1, help="Most trees of a ranker.")] = 300,
    leaves: Annotated[int, typer.Option(min=2, help="Most leaves of a tree.")] = 31,
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
            help="Stop early: after so many epochs (or trees) without gain on held-out "
            "clicks, those of --validation, or the holdout of COUNTS.",
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
    """Train networks or trees on corrected clicks."""
    from affinerank.clicks.counts import ClickCounts
    from affinerank.files import writable
    from affinerank.pipeline import (
        Trained,
        TrainedTrees,
        held_out,
        save_trained,
        save_trees,
        train_rankers,
        train_trees,
    )
    from affinerank.rankers.gbdt import TreeSettings
    from affinerank.rankers.mlp import NetworkSettings

    names = list(dict.fromkeys(estimator or ["affine"]))
    _require_own_options(context, ranker)
    if output.exists():
        raise ConfigError(f"{output}: exists already; choose another name or remove it")
    _require_known(names, users, save_users)
    for path in (output, checkpoint, save_users):
        if path is not None:
            writable(path)
    if validation is not None and patience is None:
        raise ConfigError("--validation needs --patience, to know when to stop")
    rate = LEARNING_RATES[ranker] if learning_rate is None else learning_rate
    fit: Callable[..., Trained | TrainedTrees]
    if ranker == "mlp":
        networks = NetworkSettings(
            hidden=sizes(hidden),
            loss=loss,
            learning_rate=rate,
            epochs=epochs,
            device=device,
            precision=precision,
            data_seed=seed,
            patience=patience,
        )
        fit = partial(train_rankers, settings=networks, checkpoint=checkpoint)
    else:
        grown = TreeSettings(
            trees=trees, leaves=leaves, learning_rate=rate, patience=patience
        )
        fit = partial(train_trees, settings=grown)
    clicks = ClickCounts.load(counts)
    read = read_data(data, split, fold, missing)
    held = None
    if validation is not None:
        judged = read_data(data, None, fold, missing, default="validation")
        held = (ClickCounts.load(validation), judged)
    elif patience is not None:
        held = (held_out(clicks), read)
    with bars() as progress:
        known = _users(users, save_users, clicks, read, names, seed, progress)
        trained = fit(
            clicks,
            read,
            known,
            estimators=names,
            seeds=[seed],
            clip=clip,
            strict=strict,
            relevant_above=relevant_above,
            validation=held,
            progress=progress,
        )
    if isinstance(trained, TrainedTrees):
        show(save_trees(trained, output), as_json, display.trained_trees)
    else:
        show(save_trained(trained, output), as_json, display.trained)


def _require_own_options(context: typer.Context, ranker: str) -> None:
    """Refuse an option that the other kind of ranker has."""
    require_choice("--ranker", ranker, *ONLY_FOR)
    for kind, names in ONLY_FOR.items():
        for name in names:
            source = context.get_parameter_source(name)
            given = source is not None and source.name != "DEFAULT"
            if given and kind != ranker:
                raise ConfigError(f"--{name} is for --ranker {kind}, not {ranker}")


def _require_known(
    names: list[str], users: Path | None, save_users: Path | None
) -> None:
    """Refuse estimators that there are not, or whose users clicks cannot tell."""
    from affinerank.corrections import parse_estimator
    from affinerank.pipeline import FULL_INFORMATION, needs_users

    for name in names:
        if name != FULL_INFORMATION:
            parse_estimator(name)
        if users is None and name in ("ips", "bayes-ips"):
            raise ConfigError(
                f"{name} has to know examination: give --users; estimated from clicks, "
                "users are known up to gauge, which is enough for affine only"
            )
    if save_users is not None and (users is not None or not needs_users(names)):
        raise ConfigError("--save-users is for users that are estimated here")


def _users(
    users: Path | None,
    save_users: Path | None,
    clicks: ClickCounts,
    data: RankingDataset,
    names: list[str],
    seed: int,
    progress: Progress,
) -> UserModel | None:
    """The user model given, or one estimated where an estimator needs it."""
    from affinerank.clicks.usermodel import UserModel
    from affinerank.pipeline import EstimationSettings, estimate_users, needs_users

    if users is not None:
        return UserModel.load(users)
    if not needs_users(names):
        return None
    asked = EstimationSettings(seed=seed)
    found = estimate_users(clicks, data, settings=asked, progress=progress)
    display.say(f"no --users: estimated by {found.method} ({found.why})")
    for note in found.notes:
        display.say(f"note: {note}")
    if save_users is not None:
        found.users.save(save_users)
    return found.users
