"""How users click: estimated from counted clicks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from typer import Option

from affinerank.cli import display
from affinerank.cli.options import (
    Counts,
    DataOptions,
    Days,
    Features,
    Json,
    Seed,
    Set,
    bars,
    command,
    load,
    require_writable,
    show,
)
from affinerank.errors import ConfigError

AUTO = "auto"


@command
def estimate(
    counts: Counts,
    *,
    output: Annotated[
        Path, Option("-o", "--output", help="User model to write, JSON.")
    ] = Path("users.json"),
    data: Features = None,
    method: Annotated[str, Option(help=f"{AUTO}, {{METHODS}}.")] = AUTO,
    settings: Set = None,
    truth: Annotated[
        Path | None, Option(help="The true user model, to compare with.")
    ] = None,
    plot: Annotated[
        Path | None, Option(help="Draw alpha and beta: .png, .svg, .pdf, .html.")
    ] = None,
    least_clicks: Annotated[
        float, Option(min=0, help="Ranks with fewer are pooled with the next.")
    ] = 200,
    replicates: Annotated[
        int, Option(min=0, help="Resamples behind the bands of the EM.")
    ] = 20,
    of: DataOptions,
    days: Days,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Estimate how users click, and say how good the estimate is.

    With --set, the settings of the network that the EM methods train.

    Example: affinerank estimate counts.parquet --data yahoo-like:500
    """
    from affinerank.bias.method import EstimationSettings
    from affinerank.charts import bias_figure, figure_format, save_figure
    from affinerank.clicks.users import save_users
    from affinerank.pipeline import estimate_users

    how = EstimationSettings(
        method=method,
        least_clicks=least_clicks,
        network=_network(method, settings or [], seed),
        replicates=replicates,
        seed=seed,
    )
    require_writable(output, plot, reads=[counts, data, truth])
    if plot is not None:
        figure_format(plot)
    true_users = load(truth)
    clicks = days.load(counts)
    read = None if data is None else of.read(data)
    with bars() as progress:
        found = estimate_users(
            clicks, read, settings=how, truth=true_users, progress=progress
        )
    save_users(found.users, output)
    about: dict[str, Any] = {**found.to_dict(), "written": str(output)}
    if plot is not None:
        true = found.truth_by_rank(true_users) if true_users else None
        save_figure(bias_figure(found.by_rank(), true), plot)
        about["plot"] = str(plot)
    show(about, as_json, display.estimated)


def _network(method: str, settings: list[str], seed: int) -> Any:
    """Settings of the network, where the method trains one."""
    from affinerank.bias import METHODS

    if method == AUTO or not METHODS[method].ranks_too:
        if settings:
            raise ConfigError("--set is for methods that train a network as they go")
        return None
    from affinerank.rankers.mlp import NetworkSettings
    from affinerank.settings import from_pairs

    return from_pairs(
        NetworkSettings, ["learning_rate=0.004", f"data_seed={seed}", *settings]
    )
