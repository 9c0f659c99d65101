"""Two rankers of the built-in shop, one after the other, and the log of their month."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from affinerank.clicks.models import ClickModel
from affinerank.clicks.shop_log import (
    CHANGE,
    DAYS,
    RANKERS,
    write_product_table,
    write_shop_log,
)
from affinerank.clicks.traffic import Simulation, Traffic
from affinerank.clicks.users import save_users as write_users
from affinerank.data.dataset import RankingDataset
from affinerank.defaults import CLICK_MODEL, RELEVANT_ABOVE
from affinerank.errors import ConfigError
from affinerank.pipeline.production import train_production_ranker
from affinerank.pipeline.simulation import prepare_simulation
from affinerank.progress import Progress, quiet
from affinerank.seeds import stage_rng

PRODUCTS_SHOWN = 20  # two pages
SWAPS = "swap(share=0.1)"
CLICKS_PER_QUERY = 100


def prepare_shop(
    data: RankingDataset,
    users: ClickModel | None = None,
    *,
    click_model: str = CLICK_MODEL,
    relevance: str = "binary",
    relevant_above: float = RELEVANT_ABOVE,
    traffic: Traffic | None = None,
    seed: int = 0,
) -> list[Simulation]:
    """Put the shop's two rankers in front of its users.

    Each is trained on 20 searches of its own, as production rankers are. Two pages are
    shown, and some neighbours swapped, unless ``traffic`` says otherwise.
    """
    shown = traffic or Traffic()
    shown = replace(
        shown,
        top_k=shown.top_k or PRODUCTS_SHOWN,
        policies=shown.policies or (SWAPS,),
    )
    simulations = []
    for i, name in enumerate(RANKERS):
        ranker = train_production_ranker(
            data, relevant_above=relevant_above, seed=seed + i
        )
        simulation = prepare_simulation(
            data,
            users,
            click_model=click_model,
            rankers={name: ranker},
            relevance=relevance,
            relevant_above=relevant_above,
            traffic=shown,
            seed=seed,
        )
        simulations.append(simulation)
    return simulations


def simulate_shop(
    simulations: list[Simulation],
    *,
    log: Path | None = None,
    features: Path | None = None,
    clicks: float | None = None,
    sessions: float | None = None,
    save_users: Path | None = None,
    seed: int = 0,
    progress: Progress = quiet,
) -> dict[str, Any]:
    """Write the shop's log, its product table, or both.

    Returns:
        Sizes, the clicks expected, and the files written, as plain data.
    """
    if clicks is not None and sessions is not None:
        raise ConfigError("give either a number of clicks or a number of sessions")
    data = simulations[0].data

    # Each ranker serves its share of the days.
    shares = (CHANGE / DAYS, 1 - CHANGE / DAYS)
    pairs = zip(shares, simulations, strict=True)
    per_session = sum(share * one.expected_clicks for share, one in pairs)
    if sessions is None:
        wanted = clicks or float(CLICKS_PER_QUERY * data.n_queries)
        sessions = max(1, round(wanted / per_session))
    about: dict[str, Any] = {"expected_clicks": sessions * per_session}

    if log is not None:
        rng = stage_rng("clicks", seed)
        about |= write_shop_log(
            simulations, int(sessions), log, rng=rng, progress=progress
        )
    if features is not None:
        write_product_table(data, features)
        about |= {"queries": data.n_queries, "products": data.n_docs}
    if save_users is not None:
        write_users(simulations[0].users, save_users)
    named = {"log": log, "features": features, "users": save_users}
    written = {name: str(path) for name, path in named.items() if path is not None}
    return {**about, "written": written}
