r"""Which users? Click models compared by the likelihood of held-out sessions.

Sessions are halved: a row of n impressions keeps half of them, and its clicks among
those are hypergeometric. Each model is fitted to the first half, and predicts the
second: a document is clicked with probability :math:`\alpha_c E[g_d] + \beta_c`, with
:math:`E[g_d]` its expected relevance given its clicks in the first half, and c its
rank, or its rank and the last click above. The log-likelihoods of two models differ on
a held impression by its click times a difference of log odds, so the standard error of
their mean difference is known:

.. math::

    \mathrm{Var} = \sum n\, p (1 - p)\, (\operatorname{logit} p_1 -
        \operatorname{logit} p_2)^2
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logit

from affinerank.arrays import Floats, Ints, Rng
from affinerank.bias.mixture.fit import first_guess, fit_levels
from affinerank.bias.mixture.levels import Levels, document_levels
from affinerank.bias.mixture.population import Population, population_of
from affinerank.bias.pooling import Cells, View, pool_cells, pool_ranks
from affinerank.clicks.models import ClickModel
from affinerank.clicks.rows import ClickRows

CLEAR = 2.0  # standard errors by which a less simple model must lead
WRONG = 3.0  # standard errors by which the log must prefer others to given users
DOCUMENTS = 20_000  # that given users are held against, about
LEVELS = 5


@dataclass(frozen=True, slots=True)
class Compared:
    """A click model on held-out sessions.

    Attributes:
        model: Which, in words.
        log_likelihood: Per impression.
        perplexity: Mean over ranks.
        by_rank: Perplexity at each rank, or pool of ranks.
        lead: Log-likelihood per impression less that of the best simpler model: one
            that led clearly.
        lead_error: Standard error of the lead.
        view: What it goes by.
    """

    model: str
    log_likelihood: float
    perplexity: float
    by_rank: tuple[float, ...]
    lead: float
    lead_error: float
    view: View

    @property
    def clear(self) -> bool:
        """Whether it predicts clearly better than the best simpler model."""
        return self.lead > CLEAR * self.lead_error

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        names = [each.name for each in fields(self) if each.name != "view"]
        about = {name: getattr(self, name) for name in names}
        return {**about, "by_rank": list(self.by_rank), "clear": self.clear}


class Doubt(NamedTuple):
    """How much more a log likes estimated users than those given.

    Attributes:
        lead: Of the estimated users, in log-likelihood per held-out impression.
        lead_error: Its standard error.
    """

    lead: float
    lead_error: float

    @property
    def clear(self) -> bool:
        """Whether the given users are clearly not those of the log."""
        return self.lead > WRONG * self.lead_error


def compare_models(
    population: Population, cells: Cells, levels: Levels, rng: Rng
) -> tuple[Compared, ...]:
    """Compare click models that a log can tell apart, the simplest first.

    Args:
        population: Documents, by cell.
        cells: Ranks, contexts and segments that share parameters.
        levels: What was fitted to them, where fits start.
        rng: Halves the sessions.
    """
    learnt, held = halved_sessions(population, rng)
    views = cells.views()
    models = [("click rate by rank", views[0], _by_rank(learnt))]
    for view in views:
        _, first = np.unique(view.of_cell, return_index=True)
        rank_of = cells.rank_of[first]
        seen = replace(learnt, pool=view.of_cell[learnt.pool], rank_of=rank_of)
        start = _averaged(levels, population, view.of_cell)
        for tied in (True, False):
            fit = fit_levels(seen, start, tied=tied)
            title = "position bias" if tied else "position and trust bias"
            models.append((f"{title} {view.name}", view, predicted(seen, fit.levels)))
    return _table(models, held)


def best_model(table: Sequence[Compared]) -> Compared:
    """Return the model that leads, or the simplest of those that tie."""
    return [row for row in table if row.clear or row is table[0]][-1]


def hold_against_log(
    rows: ClickRows, users: ClickModel, least_clicks: float, rng: Rng
) -> Doubt | None:
    """Compare given users with users estimated from the log, on held-out sessions.

    ``None`` where the log cannot say: too few clicks, or users known up to a gauge that
    nobody states.
    """
    ranks = pool_ranks(rows, least_clicks)
    if users.span is None or ranks.n_pools < 2 or not rows.clicks.sum() > 0:
        return None
    alpha, beta = users.at(rows)
    cells = pool_cells(rows, ranks, least_clicks)
    pool, n_cells = cells.of(rows), len(cells.rank_of)
    low, high = (
        np.bincount(pool, rows.impressions * (alpha * g + beta), n_cells)
        / np.maximum(cells.impressions, 1e-300)
        for g in users.span
    )
    population = population_of(rows, cells)
    if population.n_docs > DOCUMENTS:
        n_queries = int(population.query.max()) + 1
        kept = rng.random(n_queries) < DOCUMENTS / population.n_docs
        if kept[population.query].any():
            population = population.take(kept[population.query])
    learnt, held = halved_sessions(population, rng)
    if not learnt.clicks.sum() or not held.clicks.sum():
        return None
    free = fit_levels(learnt, first_guess(learnt, n_levels=LEVELS))
    plus = np.clip(high, 1e-6, 1 - 1e-4)
    ratio = np.log(plus / np.clip(low, 1e-6, 0.99 * plus))
    given = replace(free.levels, zeta_plus=plus, log_ratio=ratio)
    fixed = fit_levels(learnt, given, fixed=True)
    fits, view = (("given", fixed), ("estimated", free)), cells.views()[0]
    models = [(name, view, predicted(learnt, fit.levels)) for name, fit in fits]
    _, better = _table(models, held)
    return Doubt(better.lead, better.lead_error)


def halved_sessions(population: Population, rng: Rng) -> tuple[Population, Population]:
    """Split the impressions of every row at random into two halves."""
    whole = np.rint(population.impressions).astype(np.int64)
    half = whole // 2 + (whole % 2) * rng.integers(0, 2, len(whole))
    return population.drawn(half, rng)


def predicted(population: Population, levels: Levels) -> Floats:
    """``[n_rows]`` click probability by what a document's clicks say of its level."""
    found, _ = document_levels(population, levels)
    relevance = (found @ levels.levels)[population.doc_of_row]
    pool = population.pool
    rate = levels.alpha[pool] * relevance + levels.zeta_minus[pool]
    return np.clip(rate, 1e-9, 1 - 1e-9)


def _by_rank(population: Population) -> Floats:
    """``[n_rows]`` click rate of the row's rank."""
    rank, ranks = population.rank_of[population.pool], np.arange(population.n_ranks)
    return replace(population, pool=rank, rank_of=ranks).click_rate[rank]


def _averaged(levels: Levels, population: Population, to: Ints) -> Levels:
    """The same levels with click rates averaged over the pools that become one."""
    weight = population.by_pool(population.impressions) + 1e-9
    rates, total = (levels.zeta_plus, levels.zeta_minus), np.bincount(to, weight)
    plus, minus = (np.bincount(to, weight * rate) / total for rate in rates)
    plus = np.clip(plus, 1e-7, 1 - 1e-7)
    ratio = np.log(plus / np.clip(minus, 1e-9, 0.99 * plus))
    return replace(levels, zeta_plus=plus, log_ratio=ratio)


def _table(
    models: Sequence[tuple[str, View, Floats]], held: Population
) -> tuple[Compared, ...]:
    n, rank = held.impressions, held.rank_of[held.pool]
    seen, total = np.bincount(rank, n, held.n_ranks), n.sum()
    rows: list[Compared] = []
    before = models[0][2]
    for name, view, rate in models:
        each = held.log_likelihood(rate)
        bits = np.bincount(rank, each, held.n_ranks) / np.maximum(seen, 1.0)
        perplexity = np.exp(-bits[seen > 0])
        lead = float((each - held.log_likelihood(before)).sum() / total)
        spread = n * rate * (1 - rate) * (logit(rate) - logit(before)) ** 2
        error = float(np.sqrt(spread.sum()) / total)
        by_rank, mean = tuple(perplexity.tolist()), float(perplexity.mean())
        value = float(each.sum() / total)
        rows.append(Compared(name, value, mean, by_rank, lead, error, view))
        before = rate if rows[-1].clear else before
    return tuple(rows)
