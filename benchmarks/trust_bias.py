"""Does `estimate` tell trust bias from position bias alone?

Simulates 200 logs of the paper's users and 200 of users without trust bias, over two
worlds, numbers of queries and clicks, and lengths of lists. It counts how often trust
bias is found, and how often the sentence that says so contradicts the table of click
models in the same output.

    python benchmarks/trust_bias.py --seeds 10 > docs/results/trust-bias.txt
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
from scipy import stats

from affinerank.bias import Estimate
from affinerank.bias.mixture.comparison import best_model
from affinerank.bias.mixture.trust_test import LEVEL
from affinerank.clicks.simulation import simulate_counts
from affinerank.clicks.traffic import Traffic
from affinerank.data.sources import DataSource
from affinerank.pipeline.simulate import prepare_simulation
from affinerank.pipeline.steps.click_model import estimate_click_model
from affinerank.support.seeds import stage_rng

FAR_AHEAD = 5.0  # standard errors by which a lead leaves no doubt
CLEARLY = 2.0


class Shape(NamedTuple):
    """What a log is like.

    Attributes:
        world: Synthetic data, with its number of queries.
        clicks: Clicks to draw.
        top_k: Length of the lists; ``None`` for whole ones.
    """

    world: str
    clicks: float
    top_k: int | None

    def __str__(self) -> str:
        """The shape in words."""
        lists = f"lists of {self.top_k}" if self.top_k else "whole lists"
        return f"{self.world}, {self.clicks:g} clicks, {lists}"


class Answer(NamedTuple):
    """What an estimate says of one log.

    Attributes:
        found: Whether it says that there is trust bias.
        p: Its probability without trust bias.
        alone: The same of the statistic alone, whether or not there is a lead.
        lead: Lead of trust bias over position bias alone, in standard errors.
        contradicts: Whether the sentence says otherwise than the table.
    """

    found: bool
    p: float
    alone: float
    lead: float
    contradicts: bool


SHAPES = (
    Shape("yahoo-like:80", 2e4, 5),
    Shape("yahoo-like:80", 2e4, None),
    Shape("mslr-like:100", 1e5, 10),
    Shape("yahoo-like:300", 1e5, None),
    Shape("yahoo-like:1000", 1e6, 5),
)
TRUSTING = [
    f"trust(eta={eta}, eps_minus_1={eps})" for eta, eps in product((1, 2), (0.65, 0.35))
]
POSITION_ALONE = [f"position-based(eta={eta})" for eta in (1, 2)]
CLICK_NOISE = [f"position-based(eta={eta}, eps_minus=0.2)" for eta in (1, 2)]


def answers(shape: Shape, click_model: str, seeds: Sequence[int]) -> Iterator[Answer]:
    """Yield what is said of logs that differ in documents, lists and clicks."""
    for seed in seeds:
        data = DataSource.parse(f"{shape.world}@{seed}").read("train")
        simulation = prepare_simulation(
            data,
            click_model=click_model,
            traffic=Traffic(top_k=shape.top_k),
            seed=seed,
        )
        sessions = simulation.sessions_for(shape.clicks)
        counts = simulate_counts(simulation, sessions, rng=stage_rng("clicks", seed))
        yield answer_of(estimate_click_model(counts, data))


def answer_of(estimate: Estimate) -> Answer:
    """Read the sentence on trust bias, and hold it against the table."""
    test = estimate.test
    if test is None:  # too few queries were clicked
        return Answer(found=False, p=1.0, alone=1.0, lead=0.0, contradicts=False)
    best = best_model(estimate.models)
    of_view = [row for row in estimate.models if row.view == best.view]
    (trust,) = [row for row in of_view if row.has_trust]
    lead = test.lead / test.lead_error if test.lead_error > 0 else 0.0
    contradictions = [
        test.found is not trust.clear,
        test.found and test.lead <= 0,
        test.found and test.p >= LEVEL,
        not test.found and test.p < LEVEL and test.lead > 0,
        not test.found and lead > CLEARLY,
    ]
    alone = float(stats.t.sf(test.statistic, test.n_queries - 1))
    return Answer(test.found, test.p, alone, lead, any(contradictions))


def report(title: str, models: Sequence[str], seeds: Sequence[int]) -> list[Answer]:
    """Print a line for each shape and click model; return all answers."""
    print(f"\n{title:<81} found     lead in errors", flush=True)
    everything: list[Answer] = []
    for shape, click_model in product(SHAPES, models):
        here = list(answers(shape, click_model, seeds))
        leads = np.array([answer.lead for answer in here])
        found = sum(answer.found for answer in here)
        print(
            f"  {shape!s:<42} {click_model:<36} {found:>2} of {len(here)}  "
            f"{leads.min():.1f} to {leads.max():.1f}",
            flush=True,
        )
        everything += here
    return everything


def summary(title: str, answers: Sequence[Answer]) -> str:
    """How often trust bias was found, with the standard error of that share."""
    found = np.array([answer.found for answer in answers])
    error = np.sqrt(found.mean() * (1 - found.mean()) / len(found))
    contradictions = sum(answer.contradicts for answer in answers)
    beyond = np.mean([answer.alone < LEVEL for answer in answers])
    share = f"{found.sum()} of {len(found)}, {found.mean():.1%} +- {error:.1%}"
    return f"{title:<44} {share:<26} {beyond:<22.1%} {contradictions}"


def main() -> None:
    """Simulate, estimate, count."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    seeds = range(parser.parse_args().seeds)
    print(f"seeds 0 to {seeds[-1]} of each setting")
    trusting = report("With trust bias (the paper's users)", TRUSTING, seeds)
    alone = report("Position bias alone", POSITION_ALONE, seeds)
    noise = report("Position bias and constant click noise", CLICK_NOISE, seeds)
    far_ahead = [answer for answer in trusting if answer.lead > FAR_AHEAD]
    columns = ("", "found", "statistic beyond 5 %", "against the table")
    print("\n{:<44} {:<26} {:<22} {}".format(*columns))
    print(summary("With trust bias", trusting))
    print(summary("  lead above five standard errors", far_ahead))
    print(summary("Without trust bias", alone + noise))
    print(summary("  position bias alone", alone))
    print(summary("  constant click noise", noise))


if __name__ == "__main__":
    main()
