"""Rows of ``METHODS`` that fit levels of relevance."""

from __future__ import annotations

from affinerank.bias.method import Method
from affinerank.support.registry import later


def _row(name: str, title: str, function: str, most_levels: int) -> Method:
    fit = later(f"affinerank.bias.mixture.{function}", most_levels=most_levels)
    estimate = later("affinerank.bias.mixture.estimate:estimate", by=fit)
    return Method(name, title, fit=estimate, refit=fit, by_context=True)


ROWS = (
    _row("mixture", "Mixture", "estimate:fit_mixture", 7),
    _row("two-level", "Two levels", "estimate:fit_mixture", 2),
    _row("interventions", "Interventions", "interventions:fit_interventions", 7),
)
