"""Updates of regression EM: against loops over impressions, and their laws."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from affinerank.bias.regression_em.run import EMSettings, Parameters
from affinerank.bias.regression_em.updates import (
    CellRows,
    as_zeta,
    mean_movement,
    start_of,
    updated,
)
from affinerank.support.arrays import Floats
from affinerank.support.errors import ConfigError


def tensor(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def random_rows(seed: int = 0, n: int = 60, ranks: int = 4) -> tuple[CellRows, Tensor]:
    """Counts at some ranks, none at the last, with documents of random relevance."""
    rng = np.random.default_rng(seed)
    impressions = rng.integers(1, 6, n)
    rows = CellRows.of(
        torch.from_numpy(rng.integers(0, ranks - 1, n)),
        torch.arange(n),
        torch.from_numpy(impressions),
        torch.from_numpy(rng.binomial(impressions, 0.4)),
        ranks,
    )
    return rows, torch.from_numpy(rng.random(n))[rows.doc]


def impressions_of(rows: CellRows, relevance: Tensor) -> list[tuple[int, int, float]]:
    """Rank (from 0), click and relevance of every single impression."""
    return [
        (int(rows.cell[i]), int(j < rows.clicks[i]), float(relevance[i]))
        for i in range(len(rows.cell))
        for j in range(int(rows.impressions[i]))
    ]


def loop_zeta(zeta: Tensor, relevance: Tensor, rows: CellRows) -> Floats:
    """The paper's update, an impression at a time."""
    ranks = zeta.shape[1]
    above, below = np.zeros((2, ranks)), np.zeros((2, ranks))
    for k, c, g in impressions_of(rows, relevance):
        p, m = float(zeta[0, k]), float(zeta[1, k])
        if c:
            relevant = p * g / (p * g + m * (1 - g))
        else:
            relevant = (1 - p) * g / (1 - p * g - m * (1 - g))
        for r, posterior in ((0, relevant), (1, 1 - relevant)):
            above[r, k] += c * posterior
            below[r, k] += posterior
    return np.where(below > 0, above / np.where(below > 0, below, 1), zeta.numpy())


def loop_eps(eps: Tensor, relevance: Tensor, rows: CellRows) -> Floats:
    """Agarwal et al.'s update, an impression at a time, over all latent states."""
    ranks = eps.shape[1]
    above, below = np.zeros((3, ranks)), np.zeros((3, ranks))
    for k, c, g in impressions_of(rows, relevance):
        theta, plus, minus = (float(v) for v in eps[:, k])
        joint = {}
        for examined in (0, 1):
            for relevant in (0, 1):
                rate = examined * (plus if relevant else minus)
                prior = (theta if examined else 1 - theta) * (g if relevant else 1 - g)
                joint[examined, relevant] = prior * (rate if c else 1 - rate)
        total = sum(joint.values())
        seen = {r: joint[1, r] / total for r in (0, 1)}
        above[:, k] += [seen[0] + seen[1], c * seen[1], c * seen[0]]
        below[:, k] += [1, seen[1], seen[0]]
    return np.where(below > 0, above / np.where(below > 0, below, 1), eps.numpy())


def log_likelihood(zeta: Tensor, relevance: Tensor, rows: CellRows) -> float:
    """Of the clicks, with p = zeta+ gamma + zeta- (1 - gamma)."""
    plus, minus = zeta[:, rows.cell]
    click = plus * relevance + minus * (1.0 - relevance)
    none = (1.0 - plus) * relevance + (1.0 - minus) * (1.0 - relevance)
    skips = rows.impressions - rows.clicks
    return float((torch.xlogy(rows.clicks, click) + torch.xlogy(skips, none)).sum())


ZETA = torch.tensor([[0.9, 0.7, 0.5, 0.8], [0.5, 0.1, 0.05, 0.2]], dtype=torch.float64)


def as_eps(zeta: Tensor) -> Tensor:
    """Three parameters with these click rates; examination and eps+ share zeta+."""
    theta = zeta[0].sqrt()
    return torch.stack([theta, theta, zeta[1] / theta.clamp(min=1e-300)])


def test_an_update_is_the_loop_over_impressions() -> None:
    rows, relevance = random_rows()
    found = updated(ZETA, relevance, rows)
    np.testing.assert_allclose(found, loop_zeta(ZETA, relevance, rows), rtol=1e-12)
    assert found[:, 3].tolist() == ZETA[:, 3].tolist()  # nothing was shown there


def test_an_update_of_three_parameters_is_the_loop_over_impressions() -> None:
    rows, relevance = random_rows()
    eps = as_eps(ZETA) * tensor(1.0, 0.9, 1.0)[:, None]
    found = updated(eps, relevance, rows)
    np.testing.assert_allclose(found, loop_eps(eps, relevance, rows), rtol=1e-12)


def test_position_bias_alone_stays_without_clicks_on_irrelevant_documents() -> None:
    rows, relevance = random_rows()
    relevance[:5] = 0.0  # a click on these is impossible under the model
    zeta = torch.stack([ZETA[0], torch.zeros(4, dtype=torch.float64)])
    found = updated(zeta, relevance, rows)
    assert found[1].tolist() == [0.0] * 4
    assert bool(found.isfinite().all())
    inside = relevance.clamp(min=1e-9)
    np.testing.assert_allclose(
        updated(zeta, inside, rows), loop_zeta(zeta, inside, rows), rtol=1e-9
    )


def test_an_update_never_divides_by_nothing() -> None:
    rows, relevance = random_rows()
    for p, m in ((0.0, 0.0), (1.0, 1.0), (1.0, 0.0)):
        for g in (torch.zeros_like(relevance), torch.ones_like(relevance)):
            zeta = torch.stack(
                [torch.full_like(ZETA[0], p), torch.full_like(ZETA[0], m)]
            )
            assert bool(updated(zeta, g, rows).isfinite().all())
            assert bool(updated(as_eps(zeta), g, rows).isfinite().all())


@given(
    seed=st.integers(0, 10_000),
    name=st.sampled_from(["two", "three", "position"]),
    plus=st.floats(0.05, 0.99),
    ratio=st.floats(0.01, 0.99),
)
def test_updates_never_lower_the_likelihood_of_fixed_relevance(
    seed: int, name: Parameters, plus: float, ratio: float
) -> None:
    rows, relevance = random_rows(seed, n=30)
    settings = EMSettings(name, zeta_plus=plus, zeta_minus=plus * ratio)
    values = start_of(settings, 4)
    trace = [log_likelihood(as_zeta(values), relevance, rows)]
    for _ in range(10):
        values = updated(values, relevance, rows)
        trace.append(log_likelihood(as_zeta(values), relevance, rows))
    assert np.all(np.diff(trace) >= -1e-9)


def test_weighted_counts_are_repeated_counts() -> None:
    rows, relevance = random_rows()
    thrice = replace(rows, impressions=rows.impressions * 3, clicks=rows.clicks * 3)
    np.testing.assert_allclose(
        updated(ZETA, relevance, thrice), updated(ZETA, relevance, rows)
    )


def test_rows_that_are_not_taken_count_for_nothing() -> None:
    rows, relevance = random_rows()
    taken = rows.doc % 3 > 0
    kept = CellRows.of(
        rows.cell[taken],
        rows.doc[taken],
        rows.impressions[taken],
        rows.clicks[taken],
        4,
    )
    np.testing.assert_allclose(
        updated(ZETA, relevance, rows.only(taken)),
        updated(ZETA, relevance[taken], kept),
    )


def test_movement_is_a_mean_over_clicks() -> None:
    before = torch.zeros(2, 1, 2, dtype=torch.float64)
    after = torch.tensor([[[0.4, 0.1]], [[0.2, 0.3]]], dtype=torch.float64)
    moved = mean_movement(before, after, torch.tensor([[3.0, 1.0]]).double())
    assert float(moved) == pytest.approx((3 * 0.4 + 1 * 0.3) / 4)


@pytest.mark.parametrize(
    ("name", "minus"), [("two", 0.1), ("three", 0.1), ("position", 0)]
)
def test_the_start_is_the_same_click_rates_at_every_rank(
    name: Parameters, minus: float
) -> None:
    """Of three parameters none is at 1: an update would never leave it."""
    values = start_of(EMSettings(name, zeta_plus=0.64, zeta_minus=0.1), 3)
    np.testing.assert_allclose(as_zeta(values), [[0.64] * 3, [minus] * 3])
    assert len(values) == (3 if name == "three" else 2)
    assert float(values.max()) < 1


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        (
            {"parameters": "four"},
            "parameters must be two, three or position, got 'four'",
        ),
        ({"zeta_plus": 0.1, "zeta_minus": 0.2}, "got 0.2 and 0.1"),
        ({"iterations": -1}, "iterations must be 0 or more, got -1"),
        ({"rescored": 0.0}, "rescored must be above 0, got 0"),
    ],
)
def test_settings_that_cannot_be_are_rejected(
    setting: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        EMSettings(**setting)
