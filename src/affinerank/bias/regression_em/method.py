"""Rows of ``METHODS`` that are regression EMs: by activation, and by parameters."""

from __future__ import annotations

from typing import Any

from affinerank.bias.method import Estimate, EstimationSettings, Method
from affinerank.bias.pooling import pool_ranks
from affinerank.bias.requirements import require_estimable
from affinerank.counts.rows import ClickRows
from affinerank.support.progress import Progress
from affinerank.support.registry import later

_SOFT_MIN_MAX = "soft-min-max"


def _row(name: str, title: str, activation: str, parameters: str = "two") -> Method:
    how = {"activation": activation, "parameters": parameters}
    fit_many = later("affinerank.bias.regression_em.estimate:estimate_many", **how)

    def fit(
        rows: ClickRows, features: Any, settings: EstimationSettings, progress: Progress
    ) -> Estimate:
        require_estimable(rows, pool_ranks(rows, settings.min_clicks))
        found: list[Estimate] = fit_many([rows], features, [settings], progress)
        return found[0]

    return Method(name, title, fit, needs_features=True, fit_many=fit_many)


ROWS = (
    _row(_SOFT_MIN_MAX, "Soft-min-max", _SOFT_MIN_MAX),
    _row("softmax", "Softmax", "softmax"),
    _row("sigmoid", "Sigmoid", "sigmoid"),
    _row("em-three", "Three parameters per rank", _SOFT_MIN_MAX, "three"),
    _row("em-position", "Position bias alone", _SOFT_MIN_MAX, "position"),
)
