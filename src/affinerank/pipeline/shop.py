"""Two rankers of the built-in shop, one after the other, and the log of their month."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from affinerank.clicks.models import ClickModel
from affinerank.clicks.shop_log import (
    CHANGE,
    DAYS,
    RANKERS,
    Audience,
    write_product_table,
    write_shop_log,
)
from affinerank.clicks.traffic import Traffic
from affinerank.clicks.users import save_users as write_users
from affinerank.data.reading import Split
from affinerank.data.shop import SHOP
from affinerank.data.synthetic import DrawnWorld
from affinerank.defaults import CLICK_MODEL, RELEVANT_ABOVE
from affinerank.errors import ConfigError
from affinerank.pipeline.production import train_production_ranker
from affinerank.pipeline.simulation import prepare_simulation
from affinerank.progress import Progress, quiet
from affinerank.seeds import stage_rng

PRODUCTS_SHOWN = 20  # two pages
SWAPS = "swap(share=0.1)"
CLICKS_PER_QUERY = 100
TASTE = 2.0


def prepare_shop(
    world: DrawnWorld,
    split: Split | None = None,
    *,
    personal: float = 0.0,
    users: ClickModel | None = None,
    click_model: str = CLICK_MODEL,
    relevance: str = "binary",
    relevant_above: float = RELEVANT_ABOVE,
    traffic: Traffic | None = None,
    seed: int = 0,
) -> list[Audience]:
    """Put the shop's two rankers in front of its users.

    Each is trained on 20 searches, as production rankers are. Two pages are shown, and
    some neighbours swapped, unless ``traffic`` says otherwise. Personal lists are not
    swapped: they would be declared to move at random, and they move for a reason.

    Args:
        world: The shop.
        split: Searches of which split; ``None`` for the training split.
        personal: Share of the users who have a taste, which production knows: half of
            them like cheap products, and half dear ones. Their lists are their own.
        users: How users click; those of ``click_model`` where left out.
        click_model: A row of ``CLICK_MODELS`` with parameters, as in ``trust(eta=2)``.
        relevance: ``"binary"``: 1 above ``relevant_above``; ``"graded"``: label / 4.
        relevant_above: Labels above this are relevant.
        traffic: Which queries come, and what is shown.
        seed: Of the rankers and of which queries are frequent.
    """
    if not 0 <= personal <= 1:
        raise ConfigError(f"personal is a share, from 0 to 1, got {personal:g}")
    shown = traffic or Traffic()
    shown = replace(
        shown,
        top_k=shown.top_k or PRODUCTS_SHOWN,
        policies=shown.policies or (() if personal else (SWAPS,)),
    )
    audiences = []
    for taste, share in (
        (0.0, 1 - personal),
        (-TASTE, personal / 2),
        (TASTE, personal / 2),
    ):
        if share == 0:
            continue
        of_taste = replace(world, world=replace(SHOP, taste=taste))
        data = of_taste.read(split)
        # Production rankers have seen the training split, whatever they rank.
        training = of_taste.read("train")
        by_ranker = []
        for i, name in enumerate(RANKERS):
            ranker = train_production_ranker(
                training, relevant_above=relevant_above, seed=seed + i
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
            by_ranker.append(simulation)
        audiences.append(Audience(share, tuple(by_ranker)))
    return audiences


def simulate_shop(
    audiences: Sequence[Audience],
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
    [simulation, *_] = audiences[0].by_ranker
    data = simulation.data

    # Each ranker serves its share of the days.
    days = (CHANGE / DAYS, 1 - CHANGE / DAYS)
    per_session = sum(
        audience.share * share * simulation.expected_clicks
        for audience in audiences
        for share, simulation in zip(days, audience.by_ranker, strict=True)
    )
    if sessions is None:
        wanted = clicks or float(CLICKS_PER_QUERY * data.n_queries)
        sessions = max(1, round(wanted / per_session))
    about: dict[str, Any] = {"expected_clicks": sessions * per_session}

    if log is not None:
        rng = stage_rng("clicks", seed)
        about |= write_shop_log(
            audiences, int(sessions), log, rng=rng, progress=progress
        )
    if features is not None:
        write_product_table(data, features)
        about |= {"queries": data.n_queries, "products": data.n_docs}
    if save_users is not None:
        write_users(simulation.users, save_users)
    named = {"log": log, "features": features, "users": save_users}
    written = {name: str(path) for name, path in named.items() if path is not None}
    return {**about, "written": written}
