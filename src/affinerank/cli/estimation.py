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
    Output,
    Result,
    Seed,
    Set,
    load,
    require_writable,
)
from affinerank.support.errors import ConfigError
from affinerank.support.progress import Progress

AUTO = "auto"


def estimate(
    counts: Counts,
    *,
    output: Output = Path("click-model.json"),
    data: str | None = None,
    method: str = AUTO,
    settings: Set = None,
    truth: Path | None = None,
    plot: Path | None = None,
    min_clicks: Annotated[float, Option(min=0)] = 200,
    replicates: Annotated[int, Option(min=0)] = 20,
    of: DataOptions,
    days: Days,
    seed: Seed = 0,
    progress: Progress,
) -> Result:
    """Estimate how users click, and say how good the estimate is.

    With --set, the settings of the network that the EM methods train.

    Example: affinerank estimate counts.parquet --data yahoo-like:500

    Options:
        output: Click model to write, JSON.
        method: auto, {METHODS}.
        truth: The true click model, to compare with.
        plot: Draw alpha and beta: .png, .svg, .pdf, .html.
        min_clicks: Ranks with fewer are pooled with the next.
        replicates: Resamples behind the bands of the EM.
    """
    from affinerank.bias.method import EstimationSettings
    from affinerank.clicks.models.files import save_click_model
    from affinerank.output.charts import bias_figure, figure_format, save_figure
    from affinerank.pipeline.steps.click_model import estimate_click_model

    how = EstimationSettings(
        method=method,
        min_clicks=min_clicks,
        network=_network(method, settings or [], seed),
        replicates=replicates,
        seed=seed,
    )
    require_writable(output, plot, reads=[counts, data, truth])
    if plot is not None:
        figure_format(plot)
    true_click_model = load(truth)
    clicks, read = days.load(counts), of.read(data)
    found = estimate_click_model(
        clicks, read, settings=how, truth=true_click_model, progress=progress
    )
    save_click_model(found.click_model, output)
    about: dict[str, Any] = {**found.to_dict(), "written": str(output)}
    if plot is not None:
        true = found.truth_by_rank(true_click_model) if true_click_model else None
        save_figure(bias_figure(found.by_rank(), true), plot)
        about["plot"] = str(plot)
    return about, display.estimated


def _network(method: str, settings: list[str], seed: int) -> Any:
    """Settings of the network, where the method trains one."""
    from affinerank.bias import METHODS

    if method == AUTO or not METHODS[method].ranks_too:
        if settings:
            raise ConfigError("--set is for methods that train a network as they go")
        return None
    from affinerank.rankers.networks.settings import NetworkSettings
    from affinerank.support.settings import from_pairs

    return from_pairs(
        NetworkSettings, ["learning_rate=0.004", f"data_seed={seed}", *settings]
    )
