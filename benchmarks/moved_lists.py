"""How far lists move for harmless reasons and for harmful ones, and what that does.

A log has 200 queries of 12 documents, of which ten are shown, and 100 sessions of each
unless said otherwise. Users are those of the paper, and known. A ranker that is ready
made, the mean relevance of each document with a little noise, is judged against
production. Nothing in the log says why documents moved.

- *Index updated*: a document enters or leaves; those below shift by a rank.
- *Scores refreshed*: production scores a document anew, and it moves.
- *Personal*: each query has two tastes, and production knows its user's, in a share of
  the sessions; or it only exchanges the two neighbours where that gains most.
- *Replaced*: relevance becomes another, and production better, at some moment. The
  ready-made ranker is compared with production as it is now.

Printed are means over logs: the two shares that are measured, how many logs are refused
for them, what the ready-made ranker truly leads by (DCG@10), how far the estimate is
above that, and how many logs would have had the verdict "better" otherwise.

    python benchmarks/moved_lists.py > docs/results/moved-lists.txt
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from affinerank.clicks.models.trust import TrustModel
from affinerank.counts.counts import ClickCounts
from affinerank.data.dataset import RankingDataset
from affinerank.data.feature_mapping import FeatureMapping
from affinerank.evaluation.click_value import decide
from affinerank.pipeline.evaluate_clicks import evaluate_from_clicks
from affinerank.rankers.linear import LinearModel
from affinerank.rankers.ranker import Ranker
from affinerank.support.arrays import Floats, Ints, Rng
from affinerank.support.errors import AffineRankWarning
from affinerank.support.lists import discount

N_QUERIES, N_DOCS, SHOWN = 200, 12, 10
SESSIONS_PER_QUERY = 100
CLICK_MODEL = TrustModel.paper(depth=SHOWN)
READY_MADE = Ranker(
    "linear-model",
    LinearModel(np.array([1.0]), 0.0),
    FeatureMapping(("score",), scaling="none"),
    {},
)


@dataclass(frozen=True, slots=True, eq=False)
class Log:
    """Sessions in the order of time, and a ranker that is judged by them.

    Attributes:
        query: ``[n_sessions]``.
        order: ``[n_sessions, SHOWN]`` documents shown, best first.
        relevance: ``[n_sessions, N_DOCS]`` to the user of the session.
        ready_made: ``[N_QUERIES, N_DOCS]`` scores of the ranker that is judged.
        lead: What it is truly worth, less what production is.
    """

    query: Ints
    order: Ints
    relevance: Floats
    ready_made: Floats
    lead: float


def main() -> None:
    """Print a table of all cases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=10)
    options = parser.parse_args()
    warnings.simplefilter("ignore", AffineRankWarning)
    names = "other rank", "more than one away", "refused", "true lead", "bias"
    print(f"| lists | {' | '.join(names)} | else better |")
    print("|---|---|---|---|---|---|---|")
    for name, draw in CASES.items():
        results = []
        for seed in range(options.logs):
            rng = np.random.default_rng(seed)
            results.append(measure(draw(rng), rng))
        share, far, refused, lead, bias, better = np.array(results).T
        cells = (
            f"{np.mean(share):.3f}",
            f"{np.mean(far):.3f}",
            f"{refused.sum():.0f} of {len(results)}",
            f"{np.mean(lead):+.3f}",
            f"{np.mean(bias):+.3f}",
            f"{better.sum():.0f}",
        )
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def measure(log: Log, rng: Rng) -> tuple[float, ...]:
    """Return the two shares, whether it is refused, lead, bias, and the verdict."""
    data = RankingDataset(
        features=log.ready_made.reshape(-1, 1).astype(np.float32),
        offsets=np.arange(N_QUERIES + 1) * N_DOCS,
        query_ids=np.arange(N_QUERIES),
        doc_ids=np.arange(N_QUERIES * N_DOCS),
        feature_names=("score",),
    )
    evaluated = evaluate_from_clicks(
        {"new": READY_MADE}, clicked(log, rng), data, CLICK_MODEL
    )
    [row] = evaluated.rankers
    difference = row.found["against_logged"]
    otherwise = decide(difference, evaluated.clicks, row.second["against_logged"])
    movement = evaluated.movement
    estimate = (difference.least + difference.most) / 2
    return (
        movement.moved.share,
        movement.far.share,
        float(movement.unexplained),
        log.lead,
        estimate - log.lead,
        float(otherwise.verdict == "better"),
    )


def clicked(log: Log, rng: Rng) -> ClickCounts:
    """Draw clicks on a log, and count them."""
    gains = np.take_along_axis(log.relevance, log.order, axis=1)
    clicks = rng.random(gains.shape) < CLICK_MODEL.alpha * gains + CLICK_MODEL.beta
    _, place = np.indices(log.order.shape)
    cell = ((log.query[:, None] * N_DOCS + log.order) * SHOWN + place).ravel()
    shown = np.bincount(cell)
    some = np.flatnonzero(shown)
    document, rank = np.divmod(some, SHOWN)
    query = document // N_DOCS
    return ClickCounts.from_columns(
        query_id=query,
        doc_id=document,
        rank=rank + 1,
        impressions=shown[some],
        clicks=np.bincount(cell, clicks.ravel())[some].astype(np.int64),
        sessions=np.bincount(log.query)[query],
    )


def updated_index(rng: Rng, updates: float) -> Log:
    """Documents enter and leave at random moments, so many per query on average."""
    relevance = relevances(rng)
    production = relevance + rng.normal(0, 0.5, relevance.shape)
    query = np.tile(np.arange(N_QUERIES), SESSIONS_PER_QUERY)
    there = np.ones((SESSIONS_PER_QUERY, N_QUERIES, N_DOCS), dtype=bool)
    for number in range(N_QUERIES):
        # One or two documents are away at any time: ten at least can be shown.
        away = list(rng.permutation(N_DOCS)[:1])
        there[:, number, away] = False
        for moment in np.sort(
            rng.integers(0, SESSIONS_PER_QUERY, rng.poisson(updates))
        ):
            if len(away) == N_DOCS - SHOWN:
                there[moment:, number, away.pop(0)] = True
            else:
                present = np.setdiff1d(np.arange(N_DOCS), away)
                away.append(rng.choice(present))
                there[moment:, number, away[-1]] = False
    scores = np.where(there.reshape(-1, N_DOCS), production[query], -np.inf)
    return log_of(query, scores, relevance[query], relevance, rng)


def refreshed_scores(rng: Rng, refreshed: float) -> Log:
    """Production scores documents anew at random moments, so many per query."""
    relevance = relevances(rng)
    production = relevance + rng.normal(0, 0.5, relevance.shape)
    query = np.tile(np.arange(N_QUERIES), SESSIONS_PER_QUERY)
    scores = np.tile(production, (SESSIONS_PER_QUERY, 1, 1))
    for number in range(N_QUERIES):
        for _ in range(rng.poisson(refreshed)):
            moment, document = rng.integers(SESSIONS_PER_QUERY), rng.integers(N_DOCS)
            score = relevance[number, document] + rng.normal(0, 0.5)
            scores[moment:, number, document] = score
    return log_of(query, scores.reshape(-1, N_DOCS), relevance[query], relevance, rng)


def personal(
    rng: Rng,
    share: float = 1.0,
    sessions: int = SESSIONS_PER_QUERY,
    *,
    neighbours: bool = False,
) -> Log:
    """Production knows the taste of its user in a share of the sessions."""
    tastes = np.stack([relevances(rng), relevances(rng)])
    query = np.tile(np.arange(N_QUERIES), sessions)
    taste = rng.integers(0, 2, len(query))
    relevance = tastes[taste, query]
    for_all = tastes.mean(0) + rng.normal(0, 0.1, relevances(rng).shape)
    for_user = (tastes + rng.normal(0, 0.1, tastes.shape))[taste, query]
    if neighbours:
        for_user = with_best_exchange(for_all[query], for_user)
    known = rng.random(len(query)) < share
    scores = np.where(known[:, None], for_user, for_all[query])
    return log_of(query, scores, relevance, tastes.mean(0), rng)


def with_best_exchange(scores: Floats, wanted: Floats) -> Floats:
    """Exchange the two neighbours by ``scores`` whose ``wanted`` order differs most."""
    session, order = np.arange(len(scores)), ranked(scores)
    value = np.take_along_axis(wanted, order, axis=1)
    gain = (value[:, 1:] - value[:, :-1]) * -np.diff(discount(np.arange(1, SHOWN + 1)))
    upper = gain.argmax(axis=1)
    first, second = order[session, upper], order[session, upper + 1]
    exchanged = scores.copy()
    exchanged[session, first] = scores[session, second]
    exchanged[session, second] = scores[session, first]
    return exchanged


def replaced(rng: Rng, after: float) -> Log:
    """A better production takes over after a share of the log; relevance drifts."""
    before, now = relevances(rng), relevances(rng)
    query = np.tile(np.arange(N_QUERIES), SESSIONS_PER_QUERY)
    late = (np.arange(len(query)) >= after * len(query))[:, None]
    old = before + rng.normal(0, 0.6, before.shape)
    new = now + rng.normal(0, 0.1, now.shape)
    scores = np.where(late, new[query], old[query])
    relevance = np.where(late, now[query], before[query])
    log = log_of(query, scores, relevance, now + rng.normal(0, 0.1, now.shape), rng)
    lead = dcg(ranked(log.ready_made), now) - dcg(ranked(new), now)
    return Log(log.query, log.order, log.relevance, log.ready_made, lead)


def log_of(
    query: Ints, scores: Floats, relevance: Floats, best: Floats, rng: Rng
) -> Log:
    """Show documents by ``scores [n_sessions, N_DOCS]``; judge a noisy ``best``."""
    order = ranked(scores)
    ready_made = best + rng.normal(0, 0.1, best.shape)
    lead = dcg(ranked(ready_made)[query], relevance) - dcg(order, relevance)
    return Log(query, order, relevance, ready_made, lead)


def relevances(rng: Rng) -> Floats:
    """``[N_QUERIES, N_DOCS]`` probabilities of relevance."""
    return rng.beta(0.5, 1.5, (N_QUERIES, N_DOCS))


def ranked(scores: Floats) -> Ints:
    """Documents that are shown, best first."""
    return np.argsort(-scores, axis=1, kind="stable")[:, :SHOWN]


def dcg(order: Ints, relevance: Floats) -> float:
    """Mean DCG@10 of lists."""
    gains = np.take_along_axis(relevance, order, axis=1)
    return float((gains @ discount(np.arange(1, SHOWN + 1))).mean())


CASES: dict[str, Callable[[Rng], Log]] = {
    "fixed": partial(updated_index, updates=0),
    **{
        f"index updated, {n:g} per query": partial(updated_index, updates=n)
        for n in (0.5, 1, 2, 3, 5, 10)
    },
    **{
        f"scores refreshed, {n:g} per query": partial(refreshed_scores, refreshed=n)
        for n in (0.5, 1, 2, 4)
    },
    **{
        f"personal in {share:.0%} of sessions": partial(personal, share=share)
        for share in (0.02, 0.05, 0.1, 0.2, 0.5, 1)
    },
    "personal, neighbours only, in 25%": partial(personal, share=0.25, neighbours=True),
    "personal, neighbours only": partial(personal, neighbours=True),
    **{
        f"personal, {n} sessions per query": partial(personal, sessions=n)
        for n in (2, 4, 20)
    },
    **{
        f"replaced after {share:.0%} of the log": partial(replaced, after=share)
        for share in (0.05, 0.1, 0.25, 0.5, 0.75, 0.9)
    },
}

if __name__ == "__main__":
    main()
