r"""Which users? Click models compared by the likelihood of held-out sessions.

Sessions are halved: a row of n impressions keeps half of them, and its clicks among
those are hypergeometric. Each model is fitted to the first half, and predicts the
second: a document is clicked with probability :math:`\alpha_c E[g_d] + \beta_c`, with
:math:`E[g_d]` its expected relevance given its clicks in the first half, and c its
rank, or its rank and the last click above. The standard error of the difference of two
log-likelihoods is that over queries, whose documents may depend on each other; or that
of independent clicks, if that is more.

Position and trust bias has a ratio of click rates for each rank, k more than position
bias alone. Half of the sessions know them badly where ranks are many. The log odds that
they add are therefore shrunk as James and Stein do, by :math:`1 - k / D`, D being their
size in squared standard errors: what is compared is trust bias as far as it is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, logit

from affinerank.bias.mixture.fit import first_guess, fit_levels, one_step
from affinerank.bias.mixture.levels import Levels, document_levels
from affinerank.bias.mixture.population import MixtureDocuments, population_of
from affinerank.bias.mixture.trust_test import (
    TrustTest,
    binomial_variance,
    lead_of,
    trust_test,
)
from affinerank.bias.pooling import Cells, View, pool_cells, pool_ranks
from affinerank.clicks.models import ClickModel
from affinerank.counts.rows import ClickRows
from affinerank.support.arrays import Floats, Ints, Rng

CLEAR = 2.0  # standard errors by which a less simple model must lead
WRONG = 3.0  # standard errors by which the log must prefer others to given users
DOCUMENTS = 20_000  # that given users are held against, about
LEVELS = 5
LOWEST_RATE = 1e-9  # of clicks: a model must not call any click impossible
SAME = 0.01  # squared standard errors between two models that are one
NOT_DATA = ("view", "has_trust", "test")


class Candidate(NamedTuple):
    """A click model and what it predicts.

    Attributes:
        model: Which, in words.
        view: What it goes by.
        rate: ``[n_rows]`` click rates of held-out rows.
        position_rate: The same by position bias alone, of a model with trust bias.
    """

    model: str
    view: View
    rate: Floats
    position_rate: Floats | None = None


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
        clear: Whether it predicts clearly better than the best simpler model; of a
            model with trust bias, what the test says.
        view: What it goes by.
        has_trust: Whether it has trust bias.
        test: For trust bias, of a model that has it.
    """

    model: str
    log_likelihood: float
    perplexity: float
    by_rank: tuple[float, ...]
    lead: float
    lead_error: float
    clear: bool
    view: View
    has_trust: bool = False
    test: TrustTest | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        names = [each.name for each in fields(self) if each.name not in NOT_DATA]
        about = {name: getattr(self, name) for name in names}
        return {**about, "by_rank": list(self.by_rank)}


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
    population: MixtureDocuments, cells: Cells, levels: Levels, rng: Rng
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
    models = [Candidate("click rate by rank", views[0], _by_rank(learnt))]
    for view in views:
        _, first = np.unique(view.of_cell, return_index=True)
        rank_of = cells.rank_of[first]
        pool = view.of_cell[population.pool]
        whole = replace(population, pool=pool, rank_of=rank_of)
        seen = replace(learnt, pool=pool, rank_of=rank_of)
        start = _averaged(levels, population, view.of_cell)

        # Position bias alone.
        position = one_step(seen, fit_levels(whole, start, tied=True))
        position_rate = predicted(seen, position.levels)
        models.append(Candidate(f"position bias {view.name}", view, position_rate))

        # Position and trust bias, as far as these sessions know it.
        trust = one_step(seen, fit_levels(whole, start))
        trust_rate = predicted(seen, trust.levels)
        trust_rate = as_far_as_known(seen, position_rate, trust_rate)
        title = f"position and trust bias {view.name}"
        models.append(Candidate(title, view, trust_rate, position_rate))
    return _table(models, held)


def as_far_as_known(
    learnt: MixtureDocuments, position_rate: Floats, trust_rate: Floats
) -> Floats:
    """Shrink what trust bias adds to the log odds, as James and Stein do.

    At least one standard error of it stays, so that there is a direction to test; but
    where that is less than a tenth of one, the two models are one.

    Args:
        learnt: What both models were fitted to.
        position_rate: ``[n_rows]`` click rates by position bias alone.
        trust_rate: ``[n_rows]`` click rates by position and trust bias.
    """
    added = logit(trust_rate) - logit(position_rate)
    size = binomial_variance(learnt, position_rate, added)
    if size < SAME:
        return position_rate
    n_ratios = learnt.n_pools - 1
    share = min(1.0, max(1.0 - n_ratios / size, 1.0 / np.sqrt(size)))
    rate = expit(logit(position_rate) + share * added)
    return np.asarray(np.clip(rate, LOWEST_RATE, 1 - LOWEST_RATE), dtype=np.float64)


def best_model(table: Sequence[Compared]) -> Compared:
    """Return the model that leads, or the simplest of those that tie."""
    return [row for row in table if row.clear or row is table[0]][-1]


def test_for_trust(table: Sequence[Compared]) -> TrustTest | None:
    """Return the test of the model with trust bias that goes by what the best does."""
    view = best_model(table).view
    (test,) = [row.test for row in table if row.has_trust and row.view is view]
    return test


def hold_against_log(
    rows: ClickRows, click_model: ClickModel, min_clicks: float, rng: Rng
) -> Doubt | None:
    """Compare given users with users estimated from the log, on held-out sessions.

    ``None`` where the log cannot say: too few clicks, or users known up to a gauge that
    nobody states.
    """
    ranks = pool_ranks(rows, min_clicks)
    if click_model.span is None or ranks.n_pools < 2 or not rows.clicks.sum() > 0:
        return None
    alpha, beta = click_model.at(rows)
    cells = pool_cells(rows, ranks, min_clicks)
    pool, n_cells = cells.of(rows), len(cells.rank_of)
    low, high = (
        np.bincount(pool, rows.impressions * (alpha * g + beta), n_cells)
        / np.maximum(cells.impressions, 1e-300)
        for g in click_model.span
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
    given_rate = predicted(learnt, fixed.levels)
    estimated_rate = predicted(learnt, free.levels)
    return Doubt(*lead_of(held, estimated_rate, given_rate))


def halved_sessions(
    population: MixtureDocuments, rng: Rng
) -> tuple[MixtureDocuments, MixtureDocuments]:
    """Split the impressions of every row at random into two halves."""
    whole = np.rint(population.impressions).astype(np.int64)
    half = whole // 2 + (whole % 2) * rng.integers(0, 2, len(whole))
    return population.drawn(half, rng)


def predicted(population: MixtureDocuments, levels: Levels) -> Floats:
    """``[n_rows]`` click probability by what a document's clicks say of its level."""
    found, _ = document_levels(population, levels)
    relevance = (found @ levels.levels)[population.doc_of_row]
    pool = population.pool
    rate = levels.alpha[pool] * relevance + levels.zeta_minus[pool]
    return np.clip(rate, LOWEST_RATE, 1 - LOWEST_RATE)


def _by_rank(population: MixtureDocuments) -> Floats:
    """``[n_rows]`` click rate of the row's rank."""
    rank, ranks = population.rank_of[population.pool], np.arange(population.n_ranks)
    return replace(population, pool=rank, rank_of=ranks).click_rate[rank]


def _averaged(levels: Levels, population: MixtureDocuments, to: Ints) -> Levels:
    """The same levels with click rates averaged over the pools that become one."""
    weight = population.by_pool(population.impressions) + 1e-9
    rates, total = (levels.zeta_plus, levels.zeta_minus), np.bincount(to, weight)
    plus, minus = (np.bincount(to, weight * rate) / total for rate in rates)
    plus = np.clip(plus, 1e-7, 1 - 1e-7)
    ratio = np.log(plus / np.clip(minus, 1e-9, 0.99 * plus))
    return replace(levels, zeta_plus=plus, log_ratio=ratio)


def _table(models: Sequence[Candidate], held: MixtureDocuments) -> tuple[Compared, ...]:
    """Compare each model with the best of the simpler ones: the last that led."""
    impressions, rank = held.impressions, held.rank_of[held.pool]
    shown_at_rank = np.bincount(rank, impressions, held.n_ranks)
    rows: list[Compared] = []
    simpler = models[0].rate
    for candidate in models:
        # How likely the held-out clicks are, by rank and altogether.
        rate, position_rate = candidate.rate, candidate.position_rate
        likelihood = held.log_likelihood(rate)
        at_rank = np.bincount(rank, likelihood, held.n_ranks)
        perplexity = np.exp(-at_rank / np.maximum(shown_at_rank, 1.0))
        perplexity = perplexity[shown_at_rank > 0]

        # Whether that is clearly better. Trust bias must predict better than position
        # bias alone, which the test decides, and than anything simpler still.
        lead, lead_error = lead_of(held, rate, simpler)
        clear, test = lead > CLEAR * lead_error, None
        if position_rate is not None:
            is_behind = simpler is not position_rate and not clear
            test = trust_test(held, position_rate, rate, is_behind=is_behind)
            clear = clear if test is None else test.found
        rows.append(
            Compared(
                model=candidate.model,
                log_likelihood=float(likelihood.sum() / impressions.sum()),
                perplexity=float(perplexity.mean()),
                by_rank=tuple(perplexity.tolist()),
                lead=lead,
                lead_error=lead_error,
                clear=clear,
                view=candidate.view,
                has_trust=position_rate is not None,
                test=test,
            )
        )
        simpler = rate if clear else simpler
    return tuple(rows)
