"""Rankers trained on counted clicks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from affinerank import display
from affinerank.cli.options import (
    Counts,
    Device,
    Fold,
    Json,
    ListId,
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
    from affinerank.pipeline import Choice, Trained, TrainedTrees
    from affinerank.progress import Progress

ONLY_FOR = {
    "mlp": ("epochs", "hidden", "loss", "device", "precision", "checkpoint"),
    "lightgbm": ("trees", "leaves"),
}
LEARNING_RATES = {"mlp": 0.02, "lightgbm": 0.05}


def train(
    context: typer.Context,
    counts: Counts,
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
            "several are trained together, one folder each; auto: the one that does "
            "best on held-out queries."
        ),
    ] = None,
    clip: Annotated[
        str | None,
        typer.Option(help="Least alpha: a number, or 10/sqrt(n), which auto tries."),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse ranks the user model lacks.")
    ] = False,
    ranker: Annotated[
        str | None,
        typer.Option(
            help="mlp (networks) or lightgbm (trees); mlp if left out, both for auto.",
            show_default=False,
        ),
    ] = None,
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
    device: Device = "auto",
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
    missing: MissingValues = "keep",
    list_id: ListId = None,
    as_json: Json = False,
) -> None:
    """Train networks or trees on corrected clicks."""
    from affinerank.clicks.counts import ClickCounts
    from affinerank.files import writable
    from affinerank.pipeline import (
        AUTO,
        CLIP,
        ChoiceSettings,
        held_out,
        train_chosen,
        train_rankers,
        train_trees,
    )
    from affinerank.rankers.gbdt import TreeSettings
    from affinerank.rankers.mlp import NetworkSettings

    names = list(dict.fromkeys(estimator or ["affine"]))
    auto = AUTO in names
    kinds = [ranker] if ranker else [*ONLY_FOR] if auto else ["mlp"]
    _require_own_options(context, kinds)
    if output.exists():
        raise ConfigError(f"{output}: exists already; choose another name or remove it")
    if auto:
        _require_comparable(context, names, kinds)
        names = ["affine"]  # the users that judge are those of affine
    _require_known(names, users, save_users)
    for path in (output, checkpoint, save_users):
        if path is not None:
            writable(path)
    if validation is not None and patience is None:
        raise ConfigError("--validation needs --patience, to know when to stop")
    rates = {
        kind: rate if learning_rate is None else learning_rate
        for kind, rate in LEARNING_RATES.items()
    }
    networks = NetworkSettings(
        hidden=sizes(hidden),
        loss=loss,
        learning_rate=rates["mlp"],
        epochs=epochs,
        device=device,
        precision=precision,
        data_seed=seed,
        patience=patience,
    )
    grown = TreeSettings(
        trees=trees, leaves=leaves, learning_rate=rates["lightgbm"], patience=patience
    )
    clicks = ClickCounts.load(counts)
    read = read_data(data, split, fold, missing, list_id=list_id)
    held = None
    if validation is not None:
        judged = read_data(
            data, None, fold, missing, default="validation", list_id=list_id
        )
        held = (ClickCounts.load(validation), judged)
    elif patience is not None:
        held = (held_out(clicks), read)
    fit: Callable[..., Trained | TrainedTrees] = (
        partial(train_rankers, settings=networks, checkpoint=checkpoint)
        if kinds == ["mlp"]
        else partial(train_trees, settings=grown)
    )
    choice = None
    with bars() as progress:
        known = _users(users, save_users, clicks, read, names, seed, progress)
        if auto and known is not None:
            own: dict[str, NetworkSettings | TreeSettings]
            own = {"mlp": networks, "lightgbm": grown}
            trained, choice = train_chosen(
                clicks,
                read,
                known,
                settings=ChoiceSettings(
                    {kind: own[kind] for kind in kinds}, clip or CLIP, seed=seed
                ),
                strict=strict,
                progress=progress,
            )
        else:
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
    _show_saved(trained, choice, output, as_json)


def _show_saved(
    trained: Trained | TrainedTrees, choice: Choice | None, folder: Path, as_json: bool
) -> None:
    """Save what was trained, and print it, below what it was chosen from."""
    from affinerank.pipeline import TrainedTrees, save_trained, save_trees

    draw = display.trained
    if isinstance(trained, TrainedTrees):
        about, draw = save_trees(trained, folder), display.trained_trees
    else:
        about = save_trained(trained, folder)
    if choice is not None:
        about["choice"] = choice.summary()
        if not as_json:
            display.chosen(about["choice"])
    show(about, as_json, draw)


def _require_comparable(
    context: typer.Context, names: list[str], kinds: list[str]
) -> None:
    """Refuse options that leave nothing to compare, or mean two things."""
    if len(names) > 1:
        raise ConfigError("--estimator auto compares estimators: name no other")
    for name in ("patience", "validation", "checkpoint"):
        if _given(context, name):
            raise ConfigError(f"--{name} cannot be given with --estimator auto")
    if len(kinds) > 1 and _given(context, "learning_rate"):
        raise ConfigError(
            "--learning-rate means different things to networks and trees: name "
            "--ranker mlp or --ranker lightgbm, or leave it out"
        )


def _given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name != "DEFAULT"


def _require_own_options(context: typer.Context, kinds: list[str]) -> None:
    """Refuse an option that only another kind of ranker has."""
    for kind in kinds:
        require_choice("--ranker", kind, *ONLY_FOR)
    for kind, names in ONLY_FOR.items():
        for name in names:
            if kind not in kinds and _given(context, name):
                raise ConfigError(f"--{name} is for --ranker {kind}, not {kinds[0]}")


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
