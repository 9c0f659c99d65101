"""Two rankers of the built-in shop, one after the other, and the log of their month."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from affinerank.clicks.models import ClickModel
from affinerank.clicks.models.files import save_click_model as write_click_model
from affinerank.clicks.shop_log import (
    DAYS,
    DAYS_OF_V1,
    RANKERS,
    Audience,
    write_shop_log,
)
from affinerank.clicks.traffic import Traffic
from affinerank.data.read_options import Split
from affinerank.data.shop import ShopWorld
from affinerank.data.synthetic import DrawnWorld
from affinerank.defaults import CLICK_MODEL, RELEVANT_ABOVE
from affinerank.pipeline.simulate import prepare_simulation, wanted_sessions
from affinerank.pipeline.steps.production import train_production_ranker
from affinerank.support.errors import ConfigError
from affinerank.support.progress import Progress, no_progress
from affinerank.support.seeds import stage_rng

PRODUCTS_SHOWN = 20  # two pages
SWAPS = "swap(share=0.1)"
CLICKS_PER_QUERY = 100
TASTE = 2.0  # of users who have one, or minus that: see the law of the shop


def prepare_shop(
    world: DrawnWorld,
    split: Split | None = None,
    *,
    personal: float = 0.0,
    click_model: ClickModel | str = CLICK_MODEL,
    relevance: str = "binary",
    relevant_above: float = RELEVANT_ABOVE,
    traffic: Traffic | None = None,
    seed: int = 0,
) -> list[Audience]:
    """Put the shop's two rankers in front of its users.

    Each is trained on 20 searches, as production rankers are. Two pages are shown, and
    some neighbours are swapped, unless ``traffic`` says otherwise. Where lists are
    personal, nothing is swapped unless ``traffic`` says so: the log would call all
    moves random, and those of personal lists depend on taste.

    Args:
        world: The shop.
        split: Searches of which split; ``None`` for the training split.
        personal: Share of the users who have a taste, which production knows: half of
            them like cheap products, and half dear ones. Their lists are their own.
        click_model: How users click: a click model, or a row of ``CLICK_MODELS`` with
            parameters, as in ``trust(eta=2)``.
        relevance: ``"binary"``: 1 above ``relevant_above``; ``"graded"``: label / 4.
        relevant_above: Labels above this are relevant.
        traffic: Which queries come, and what is shown.
        seed: Of the rankers and of which queries are frequent.
    """
    if not 0 <= personal <= 1:
        raise ConfigError(f"personal is a share, from 0 to 1, got {personal:g}")
    shop = world.world
    if not isinstance(shop, ShopWorld):
        raise ConfigError(f"{shop.name} is not the shop: it has no products")
    traffic = traffic or Traffic()
    policies = traffic.policies
    if not policies and not personal:
        policies = (SWAPS,)
    top_k = traffic.top_k or PRODUCTS_SHOWN
    traffic = replace(traffic, top_k=top_k, policies=policies)
    audiences = []
    shares = {0.0: 1 - personal, -TASTE: personal / 2, TASTE: personal / 2}
    for taste, share in shares.items():
        if share == 0:
            continue
        world_of_taste = replace(world, world=replace(shop, taste=taste))
        data = world_of_taste.read(split)
        # Production rankers have seen the training split, whatever they rank.
        is_training = split in (None, "train")
        training = data if is_training else world_of_taste.read("train")
        by_ranker = []
        for i, name in enumerate(RANKERS):
            ranker = train_production_ranker(
                training, relevant_above=relevant_above, seed=seed + i
            )
            simulation = prepare_simulation(
                data,
                click_model,
                rankers={name: ranker},
                relevance=relevance,
                relevant_above=relevant_above,
                traffic=traffic,
                seed=seed,
            )
            by_ranker.append(simulation)
        audiences.append(Audience(share, tuple(by_ranker)))
    return audiences


def simulate_shop(
    audiences: Sequence[Audience],
    log: Path,
    *,
    clicks: float | None = None,
    sessions: float | None = None,
    save_click_model: Path | None = None,
    seed: int = 0,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Write the shop's log: of 100 clicks per search, unless another size is asked for.

    Returns:
        Sizes, the clicks expected, and the files written, as plain data.
    """
    simulation = audiences[0].by_ranker[0]
    if simulation.selects:
        raise ConfigError(
            "the shop's log has no propensities, which policies that choose documents "
            "need: leave --policy out, or write --counts"
        )

    # Each ranker serves its share of the days.
    days = (DAYS_OF_V1 / DAYS, 1 - DAYS_OF_V1 / DAYS)
    clicks_per_session = sum(
        audience.share * share * shown.expected_clicks
        for audience in audiences
        for share, shown in zip(days, audience.by_ranker, strict=True)
    )
    if clicks is None and sessions is None:
        clicks = float(CLICKS_PER_QUERY * simulation.data.n_queries)
    wanted = wanted_sessions(clicks, sessions, clicks_per_session)

    rng = stage_rng("clicks", seed)
    sizes = write_shop_log(audiences, wanted, log, rng=rng, progress=progress)
    written = {"log": str(log)}
    if save_click_model is not None:
        write_click_model(simulation.click_model, save_click_model)
        written["click_model"] = str(save_click_model)
    expected = wanted * clicks_per_session
    return {"expected_clicks": expected, **sizes, "written": written}
