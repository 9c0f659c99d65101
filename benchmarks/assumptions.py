"""How often each test of an assumption finds something, right or wrong.

Every log has clicks of its own seed: 300 queries with one fixed list of ten each, 20
sessions per query (6,000 in all where queries follow Zipf's law). Users go by rank (the
paper's: eta 1, eps- .65), stop at their first click (cascade), or go on after a click
with some probability (dependent clicks). For documents that moved, two rankers exchange
neighbours in half of their sessions.

    python benchmarks/assumptions.py --logs 200
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from affinerank.audit.assumption_tests import (
    Assumption,
    clicked_lists,
    dependent_clicks,
    moved_relevance,
)
from affinerank.clicks.models.trust import TrustModel
from affinerank.clicks.traffic import Simulation, Traffic
from affinerank.counts.rows import ClickRows
from affinerank.data.sources import load
from affinerank.pipeline.simulate import prepare_simulation
from affinerank.support.arrays import Floats, Ints, joint

DEPTH, PER_QUERY = 10, 20
CLICKED = np.array([0.1, 0.9])  # after examination: not relevant, relevant


@dataclass(frozen=True, slots=True)
class Case:
    """What is simulated.

    Attributes:
        name: In words.
        goes_on: Probability of going on after a click; ``None`` for users by rank.
        zipf: Exponent of the law that queries follow.
        repeated: How often each session is in the log.
        clicked_only: Whether lists without a click are left out.
        test: What is tested.
    """

    name: str
    goes_on: float | None = None
    zipf: float = 0.0
    repeated: int = 1
    clicked_only: bool = False
    test: Callable[[ClickRows], Assumption] = dependent_clicks


CASES = (
    Case("by rank"),
    Case("by rank, Zipf 1", zipf=1.0),
    Case("by rank, Zipf 1.4", zipf=1.4),
    Case("by rank, every session three times", repeated=3),
    Case("by rank, lists with a click only", clicked_only=True),
    Case("cascade", goes_on=0.0),
    Case("dependent clicks, continue .6", goes_on=0.6),
    Case("dependent clicks, continue .9", goes_on=0.9),
    Case("lists kept: by rank", test=clicked_lists),
    Case("lists kept: with a click only", clicked_only=True, test=clicked_lists),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=200)
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--only", default="", help="cases with this in their name")
    parser.add_argument("--first-seed", type=int, default=1000)
    options = parser.parse_args()
    data = load(f"yahoo-like:{options.queries}").train
    world = prepare_simulation(data, traffic=Traffic(top_k=DEPTH))
    seeds = range(options.first_seed, options.first_seed + options.logs)
    print(f"yahoo-like:{options.queries}, top {DEPTH}, seeds {seeds[0]} to {seeds[-1]}")
    print(f"{'click_model':<40} {'found':>6} {'unknown':>8} {'median':>8} {'ms':>5}")
    tests = {case.name: partial(one_log, case, world) for case in CASES}
    for name, changed in (("the same", False), ("changed", True)):
        tests[f"rankers: relevance {name}"] = partial(rankers, world, changed=changed)
    for name, test in tests.items():
        if options.only in name:
            report(name, test, seeds)


def report(name: str, one: Callable[[int], Assumption], seeds: range) -> None:
    started = time.perf_counter()
    found = [one(seed) for seed in seeds]
    verdicts = [each.verdict for each in found]
    numbers = [each.number for each in found if each.number is not None]
    number = np.median(numbers or [np.nan])
    took = 1000 * (time.perf_counter() - started) / len(seeds)
    counts = f"{verdicts.count('found'):>6} {verdicts.count('unknown'):>8}"
    print(f"{name:<40} {counts} {number:>8.2f} {took:>5.0f}", flush=True)


def one_log(case: Case, world: Simulation, seed: int) -> Assumption:
    return case.test(drawn(case, world, seed))


def lists(world: Simulation) -> Ints:
    """``[n_queries, depth]`` document at each rank, -1 below the end of a list."""
    place = np.arange(DEPTH)
    at = np.minimum(world.data.offsets[:-1, None] + place, world.data.n_docs - 1)
    return np.where(place < world.shown[:, None], world.order[0][at], -1)


def drawn(case: Case, world: Simulation, seed: int) -> ClickRows:
    """Draw a log, and count it by the last click above."""
    rng, n = np.random.default_rng(seed), world.data.n_queries
    query = np.repeat(np.arange(n), PER_QUERY)
    if case.zipf:
        share = rng.permutation(np.arange(1.0, n + 1) ** -case.zipf)
        query = rng.choice(n, len(query), p=share / share.sum())
    shown = lists(world)[query]
    relevance = np.where(shown >= 0, world.relevance[shown], 0.0)
    clicked = clicks(shown, relevance, case.goes_on, rng)
    kept = np.repeat(np.arange(len(query)), case.repeated)
    if case.clicked_only:
        kept = np.flatnonzero(clicked.any(axis=1))
    return counted(world, query[kept], shown[kept], clicked[kept])


def clicks(
    shown: Ints, relevance: Floats, goes_on: float | None, rng: np.random.Generator
) -> Ints:
    """``[n_sessions, depth]`` clicks, down the lists."""
    click_model, on = TrustModel.paper(depth=DEPTH), np.ones(len(shown), dtype=bool)
    clicked = np.zeros(shown.shape, dtype=np.int64)
    for k in range(DEPTH):
        rate = click_model.alpha[k] * relevance[:, k] + click_model.beta[k]
        if goes_on is not None:
            rate = on * CLICKED[relevance[:, k].astype(int)]
        clicked[:, k] = (rng.random(len(shown)) < rate) & (shown[:, k] >= 0)
        if goes_on is not None:
            on &= (clicked[:, k] == 0) | (rng.random(len(shown)) < goes_on)
    return clicked


def counted(world: Simulation, query: Ints, shown: Ints, clicked: Ints) -> ClickRows:
    """Add up sessions by document, rank and last click above."""
    rank = np.arange(1, DEPTH + 1)
    last = np.maximum.accumulate(rank * clicked, axis=1)
    above = np.pad(last, ((0, 0), (1, 0)))[:, :-1]
    there = shown >= 0
    keys = shown[there], np.broadcast_to(rank, shown.shape)[there], above[there]
    _, first, group = np.unique(joint(*keys), return_index=True, return_inverse=True)
    doc, at, context = (key[first] for key in keys)
    sessions = np.bincount(query, minlength=world.data.n_queries).astype(np.float64)
    return ClickRows(
        doc=doc,
        rank=at,
        context=context,
        impressions=np.bincount(group).astype(np.float64),
        clicks=np.bincount(group, clicked[there]).astype(np.float64),
        query_of_doc=world.data.query_of_doc,
        sessions=sessions,
        has_context=True,
    )


def rankers(world: Simulation, seed: int, *, changed: bool) -> Assumption:
    """Let two rankers show lists, the second after some documents changed."""
    rng, parts, own = np.random.default_rng(seed), [], lists(world)
    relevance = world.relevance.copy()
    for ranker in range(2):
        query = np.repeat(np.arange(len(own)), PER_QUERY)
        shown, swapped = own[query], rng.random(len(query)) < 0.5
        for k in range(ranker, DEPTH - 1, 2):  # others are neighbours in each
            pair = np.flatnonzero(swapped & (shown[:, k + 1] >= 0))
            shown[pair[:, None], [k, k + 1]] = shown[pair[:, None], [k + 1, k]]
        if changed and ranker:
            relevance = np.where(rng.random(len(relevance)) < 0.1, 1.0, relevance)
            better = np.where(shown >= 0, relevance[shown], -1.0)
            order = np.argsort(-better, axis=1, kind="stable")
            resorted = rng.random(len(query)) < 0.5
            sorted_lists = np.take_along_axis(shown, order, axis=1)
            shown = np.where(resorted[:, None], sorted_lists, shown)
        gamma = np.where(shown >= 0, relevance[shown], 0.0)
        parts.append(counted(world, query, shown, clicks(shown, gamma, None, rng)))
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in ("doc", "rank", "context", "impressions", "clicks")
    }
    both = replace(parts[0], **columns, sessions=parts[0].sessions + parts[1].sessions)
    return moved_relevance(both, np.repeat([0, 1], [len(part) for part in parts]))


if __name__ == "__main__":
    main()
