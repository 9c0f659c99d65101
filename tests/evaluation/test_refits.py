"""Differences by estimated users: gauge does not matter, refits are honest."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from affinerank.clicks.models.trust import EstimatedBy, TrustModel
from affinerank.counts.rows import ClickRows
from affinerank.defaults import CORRECTION, EM
from affinerank.estimators.correction import mean_click_rate
from affinerank.evaluation.metrics import Metric
from affinerank.evaluation.rank_weights import RankWeights, centred, over_logged
from affinerank.evaluation.refits import (
    Differences,
    Source,
    clicked_again,
    estimate_differences,
    is_estimated,
)
from affinerank.pipeline.steps.weighing import weigh
from affinerank.support.errors import ConfigError, DataError
from affinerank.support.lists import ranks_by_score

from .conftest import CLICK_MODEL, World

pytestmark = pytest.mark.slow

DCG = RankWeights.of_metric(Metric("DCG", 4))
TWO_LEVELS = "two-level"
Draw = Callable[..., World]


def held_out(world: World, rows: ClickRows) -> Differences:
    over = over_logged(world.new, rows, DCG)
    shown = rows.by_doc(rows.impressions) > 0
    return Differences(
        rows,
        centred(over, shown, rows.query_of_doc)[None],
        lambda rows, click_model: weigh(rows, CORRECTION, click_model),
    )


def in_gauge(click_model: TrustModel, a: float, t: float) -> TrustModel:
    return TrustModel(
        alpha=a * click_model.alpha,
        beta=click_model.beta + t * click_model.alpha,
        identified="relative",
    )


def test_users_are_estimated_if_they_say_so_or_are_known_up_to_gauge() -> None:
    assert not is_estimated(CLICK_MODEL)
    assert is_estimated(replace(CLICK_MODEL, estimated=EstimatedBy(TWO_LEVELS)))
    assert is_estimated(in_gauge(CLICK_MODEL, 1.0, 0.0))


@pytest.mark.parametrize(("a", "t"), [(3.0, 0.0), (1.0, -0.4), (0.2, 5.0)])
def test_the_gauge_of_the_users_changes_nothing(
    draw_world: Draw, a: float, t: float
) -> None:
    rng = np.random.default_rng(0)
    world = draw_world(20, rng)
    held = held_out(world, world.log(rng.integers(5, 30, 20), rng))
    expected = held.by_query(CLICK_MODEL)
    found = held.by_query(in_gauge(CLICK_MODEL, a, t))
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_both_intervals_hold_the_difference_and_rest_on_the_seed(
    draw_world: Draw,
) -> None:
    rng = np.random.default_rng(1)
    world = draw_world(80, rng)
    rows = world.log(np.full(80, 300), rng)
    one, again, apart = (
        estimate_differences(
            held_out(world, rows),
            CLICK_MODEL,
            Source(rows, EstimatedBy(TWO_LEVELS), held_out=same),
            replicates=4,
            rng=np.random.default_rng(2),
        )[0]
        for same in (True, True, False)
    )
    assert one == again
    assert one.least == apart.least
    for found in (one, apart):
        assert found.sessions.low < found.least < found.sessions.high
        assert found.sessions.standard_error < found.queries.standard_error


def test_intervals_with_estimated_users_cover_as_often_as_they_say(
    draw_world: Draw,
) -> None:
    """Each log has users estimated from its own clicks; targets from relevance.

    Of 60 other logs 59 and 58 covered theirs.
    """
    mean_alpha = (
        CLICK_MODEL.alpha.mean()
    )  # differences are in clicks at an average rank

    def difference(world: World) -> float:
        new, old = (
            DCG.at(ranks_by_score(scores, world.offsets))
            for scores in (world.new, world.old)
        )
        n_queries = len(world.offsets) - 1
        return float(mean_alpha * (new - old) @ world.relevance / n_queries)

    ahead = difference(draw_world(100_000, np.random.default_rng(5)))
    n, covered, off, error = 20, np.zeros(2), [], []
    for seed in range(n):
        rng = np.random.default_rng(seed)
        world = draw_world(80, rng)
        rows = world.log(np.full(80, 60), rng)
        source = Source(rows, EstimatedBy(TWO_LEVELS), held_out=True)
        click_model = source.fit(rows, rng).click_model
        found = estimate_differences(
            held_out(world, rows),
            click_model,
            source,
            replicates=5,
            rng=rng,
        )[0]
        for i, (interval, target) in enumerate(
            [(found.sessions, difference(world)), (found.queries, ahead)]
        ):
            covered[i] += interval.low <= target <= interval.high
        off.append(found.least - ahead)
        error.append(found.queries.standard_error)
    assert np.all(covered >= 0.95 * n - 3 * np.sqrt(0.95 * 0.05 * n))
    # Nor are they too wide: a root mean square of n is known to 1 / sqrt(2 n).
    spread = np.sqrt(np.mean(np.square(off)))
    assert np.sqrt(np.mean(np.square(error))) == pytest.approx(
        spread, rel=3 / np.sqrt(2 * n)
    )


def test_what_cannot_be_refitted_is_rejected(draw_world: Draw) -> None:
    rng = np.random.default_rng(3)
    world = draw_world(30, rng)
    rows = world.log(np.full(30, 2), rng)
    held = held_out(world, rows)
    with pytest.raises(ConfigError, match=f"by {EM}, which is too slow.*{TWO_LEVELS}"):
        Source(rows, EstimatedBy(EM))
    source = Source(rows, EstimatedBy(TWO_LEVELS), held_out=True)
    with pytest.raises(ConfigError, match="2 replicates or more, got 1"):
        estimate_differences(held, CLICK_MODEL, source, replicates=1, rng=rng)
    with pytest.raises(DataError, match="cannot be refitted to resamples"):
        estimate_differences(held, CLICK_MODEL, source, rng=rng)


def test_clicks_drawn_again_stay_within_impressions(draw_world: Draw) -> None:
    rng = np.random.default_rng(4)
    rows = draw_world(200, rng).log(np.full(200, 5), rng)
    again = clicked_again(rows, mean_click_rate(rows), rng)
    assert np.all((again.clicks >= 0) & (again.clicks <= again.impressions))
    assert again.clicks.sum() == pytest.approx(rows.clicks.sum(), rel=0.1)
