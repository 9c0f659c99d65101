"""How users click: estimated from counted clicks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from affinerank import display
from affinerank.cli.options import (
    Counts,
    Features,
    Fold,
    Json,
    ListId,
    MissingValues,
    Seed,
    Split,
    bars,
    read_data,
    show,
    sizes,
)
from affinerank.errors import ConfigError


def estimate(
    counts: Counts,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="User model to write, JSON.")
    ] = Path("users.json"),
    data: Features = None,
    method: Annotated[
        str,
        typer.Option(
            help="auto, mixture, two-level, interventions, em, em-three or em-position."
        ),
    ] = "auto",
    activation: Annotated[
        str, typer.Option(help="Of the EM: soft-min-max, softmax or sigmoid.")
    ] = "soft-min-max",
    truth: Annotated[
        Path | None, typer.Option(help="The true user model, to compare with.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw alpha and beta: .png, .svg, .pdf, .html.")
    ] = None,
    least_clicks: Annotated[
        float, typer.Option(min=0, help="Ranks with fewer are pooled with the next.")
    ] = 200,
    replicates: Annotated[
        int, typer.Option(min=0, help="Resamples behind the bands of the EM.")
    ] = 16,
    epochs: Annotated[int, typer.Option(min=1, help="Of the EM, at most.")] = 32,
    learning_rate: Annotated[float, typer.Option(help="Of the EM.")] = 0.004,
    hidden: Annotated[str, typer.Option(help="Of the EM.")] = "512,256,128",
    device: Annotated[str, typer.Option(help="Of the EM: auto, cpu or cuda.")] = "auto",
    split: Split = None,
    fold: Fold = 1,
    seed: Seed = 0,
    missing: MissingValues = "keep",
    list_id: ListId = None,
    as_json: Json = False,
) -> None:
    """Estimate how users click, and say how good the estimate is."""
    from affinerank.charts import bias_figure, figure_format, save_figure
    from affinerank.clicks.counts import ClickCounts
    from affinerank.clicks.usermodel import UserModel
    from affinerank.files import writable
    from affinerank.pipeline import EstimationSettings, estimate_users
    from affinerank.rankers.mlp import NetworkSettings

    settings = EstimationSettings(
        method=method,
        activation=activation,
        least_clicks=least_clicks,
        network=NetworkSettings(
            hidden=sizes(hidden),
            learning_rate=learning_rate,
            epochs=epochs,
            device=device,
            data_seed=seed,
        ),
        replicates=replicates,
        seed=seed,
    )
    writable(output)
    if plot is not None:
        figure_format(plot)
        if plot == output:
            raise ConfigError(f"{plot}: cannot be the user model and the plot too")
        writable(plot)
    true_users = UserModel.load(truth) if truth else None
    clicks = ClickCounts.load(counts)
    read = None
    if data is not None:
        read = read_data(data, split, fold, missing, list_id=list_id)
    with bars() as progress:
        found = estimate_users(
            clicks, read, settings=settings, truth=true_users, progress=progress
        )
    true = found.truth_by_rank(true_users) if true_users else None
    figure = bias_figure(found.by_rank(), true)
    found.users.save(output)
    about: dict[str, Any] = {**found.summary(), "written": str(output)}
    if plot is not None:
        save_figure(figure, plot)
        about["plot"] = str(plot)
    show(about, as_json, display.estimated)
