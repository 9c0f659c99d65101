"""The comparison of click models on the page: words, table and lines."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from affinerank.audit.facts import facts_of
from affinerank.audit.findings import Audit
from affinerank.audit.identified import identified
from affinerank.audit.models import models_block, models_text
from affinerank.audit.page import audit_page
from affinerank.bias.mixture.comparison import Compared
from affinerank.bias.pooling import View
from affinerank.clicks.simulation import simulate_counts
from affinerank.clicks.traffic import Traffic
from affinerank.counts.counts import ClickCounts
from affinerank.data.sources import load
from affinerank.pipeline.simulate import prepare_simulation
from affinerank.support.progress import no_progress

pytestmark = pytest.mark.slow

BY_RANK = View("by rank", np.arange(2))
BY_CLICK = View("by rank and last click", np.arange(2), context=True)


def compared(name: str, lead: float, error: float, view: View = BY_RANK) -> Compared:
    clear = lead > 2.0 * error
    return Compared(name, -0.3, 1.4, (1.5, 1.3), lead, error, clear, view)


SIMPLEST = compared("click rate by rank", 0.0, 0.0)
POSITION = compared("position bias by rank", 0.03, 0.001)
TIED = compared("position and trust bias by rank", 0.001, 0.001)
CLICK = compared("position bias by rank and last click", 0.02, 0.002, BY_CLICK)
BEHIND = compared("trust bias by rank and last click", -0.01, 0.002, BY_CLICK)


def test_the_best_is_named_with_its_lead_over_the_model_before_it() -> None:
    said = models_text([SIMPLEST, POSITION, TIED, CLICK, BEHIND])
    assert said == (
        "Of 5 click models, users of position bias by rank and last click predict "
        "held-out sessions best: by 0.02 (standard error 0.002) in log-likelihood per "
        "impression over position bias by rank; the simpler is kept where they tie. "
        "So alpha and beta were estimated by rank and last click."
    )


def test_the_simpler_is_kept_where_models_tie() -> None:
    said = models_text([SIMPLEST, POSITION, TIED])
    assert "users of position bias by rank predict" in said
    assert "over click rate by rank" in said
    said = models_text([SIMPLEST, compared(POSITION.model, 0.0021, 0.001)])
    assert "users of position bias" in said
    said = models_text([SIMPLEST, compared(POSITION.model, 0.0019, 0.001)])
    assert "none predicts held-out sessions clearly better" in said


@pytest.fixture(scope="module")
def browsing() -> ClickCounts:
    made = prepare_simulation(
        load("yahoo-like:150@50").train,
        click_model="browsing",
        traffic=Traffic(top_k=6),
        seed=0,
    )
    rng = np.random.default_rng(0)
    sessions = made.sessions_for(3e4)
    return simulate_counts(made, sessions, rng=rng, context=True)


def shown(counts: ClickCounts) -> tuple[dict[str, Any], Any, str]:
    facts = facts_of(counts, None, None, None, seed=0, progress=no_progress)
    section = identified(facts)
    return dict(section.numbers), facts.estimate, audit_page(Audit((section,), ()))


def test_users_who_go_by_their_last_click_are_seen_on_the_page(
    browsing: ClickCounts,
) -> None:
    numbers, estimate, page = shown(browsing)
    names = [row["model"] for row in numbers["models"]]
    assert names[0] == "click rate by rank"
    assert numbers["models"][-1]["clear"]
    assert f"users of {names[-1]} predict held-out sessions best" in page
    assert "by rank and last click" in names[-1]
    assert "averages over impressions" in page
    assert '<div class="scroll chart" data-figure="models">' in page
    block = models_block(estimate)
    assert [row["standing"] for row in block.rows][0::4] == [None, "kept"]
    assert block.figure is not None
    drawn = block.figure[1]["data"]["values"]
    assert {row["series"] for row in drawn} == set(names)
    last = [row["value"] for row in drawn if row["series"] == names[-1]]
    assert last == numbers["models"][-1]["by_rank"]
    assert [row["rank"] for row in drawn[:6]] == list("123456")


def test_users_by_rank_are_not_said_to_go_by_more(
    world: tuple[ClickCounts, dict[tuple[str, str], float]],
) -> None:
    numbers, estimate, page = shown(world[0])
    assert len(numbers["models"]) == 3  # counts without context
    assert "averages over impressions" not in page
    # A rank that was never held out has no place in the picture.
    short = replace(estimate.models[0], by_rank=(1.5,))
    block = models_block(replace(estimate, models=(short,)))
    assert block.figure is None
    assert block.rows[0]["standing"] == "kept"
