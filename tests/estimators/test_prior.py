"""The prior's coefficients are those of the optimum, whatever rounding does."""

from __future__ import annotations

import numpy as np
import pytest

from affinerank.estimators.prior import _polished
from affinerank.support.arrays import Floats

HESSIAN = np.array([[2.0, 1.0], [1.0, 3.0]])
TOP = np.array([1.0, -1.0])


def bowl(w: Floats) -> tuple[float, Floats]:
    away = w - TOP
    return float(away @ HESSIAN @ away) / 2, HESSIAN @ away


def test_a_polish_ends_at_the_optimum_within_bounds() -> None:
    free = np.array([-np.inf, -np.inf]), np.array([np.inf, np.inf])
    near = np.array([0.9, -0.8])
    polished = _polished(near, bowl, lambda _: HESSIAN, *free)
    np.testing.assert_allclose(polished, TOP, atol=1e-15)

    # With the second held at 0: 2 (w - 1) + 1 (0 + 1) = 0, so w = 1 / 2.
    low = np.array([-np.inf, 0.0])
    held = _polished(np.array([0.4, 0.0]), bowl, lambda _: HESSIAN, low, free[1])
    np.testing.assert_allclose(held, [0.5, 0.0], atol=1e-15)


def test_a_polish_does_not_climb_to_a_saddle() -> None:
    """w^4 / 4 - w^2 / 2 has its least at 1, and at 0 a gradient of 0 as well."""

    def valley(w: Floats) -> tuple[float, Floats]:
        return float(w[0] ** 4 / 4 - w[0] ** 2 / 2), w**3 - w

    def curvature(w: Floats) -> Floats:
        return np.array([[3 * w[0] ** 2 - 1]])

    bounds = np.array([-np.inf]), np.array([np.inf])
    stuck = _polished(np.array([0.3]), valley, curvature, *bounds)
    assert stuck[0] == pytest.approx(0.3)  # Newton's step would lead to 0
    polished = _polished(np.array([0.9]), valley, curvature, *bounds)
    assert polished[0] == pytest.approx(1.0, abs=1e-14)
