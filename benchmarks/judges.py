"""Does `train --auto` hold where users are not those that it is told?

Simulates users of several kinds, gives right, wrong or estimated users, compares
candidates by held-out clicks, and trains each on all queries to see what a choice was
worth: nDCG@10 on test labels. The ranker is the linear model. Run r has a production
ranker (learnt from 20 queries of the validation split, or all 75), clicks and parts of
seed r. Printed for each cell: each candidate's mean, and what is lost by `auto` and by
the judge with the users alone, against the better of naive and the logged ranking, and
against the best of all. And how often `evaluate` would have been wrong on a candidate
over the logged ranking, by users alone, and with a second judge. Finished cells are
kept in a file, and not run again.

    python benchmarks/judges.py --keep judges.jsonl
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from affinerank.clicks.simulation import simulate_counts
from affinerank.data.sources import DataSource
from affinerank.defaults import BASELINE, CORRECTION, QUICK
from affinerank.evaluation.click_value import decide, estimate
from affinerank.evaluation.metrics import evaluate_scores
from affinerank.evaluation.rank_weights import DCG_10, over_logged
from affinerank.pipeline.compare import (
    COMPARED,
    KEEP,
    Choice,
    ChoiceSettings,
    evaluate_all,
    hold_out,
)
from affinerank.pipeline.simulate import click_model_of, prepare_simulation
from affinerank.pipeline.steps.production import train_production_ranker
from affinerank.pipeline.steps.second_evaluator import second_evaluator
from affinerank.pipeline.steps.train_settings import TrainSettings
from affinerank.pipeline.steps.weighing import click_model_for, weigh
from affinerank.pipeline.train import train
from affinerank.rankers import score
from affinerank.support.seeds import stage_rng

YAHOO, MSLR = "yahoo-like:500", "mslr-like:150"
RIGHT, STEEP = "trust(eta=1,eps_minus_1=0.65)", "trust(eta=2,eps_minus_1=0.35)"
LITTLE, OVER = "trust(eta=1,eps_minus_1=0.05)", "trust(eta=2,eps_minus_1=0.65)"
TRUE_AND_GIVEN = (  # the first three are right
    (RIGHT, RIGHT),
    (STEEP, STEEP),
    (LITTLE, LITTLE),
    (LITTLE, RIGHT),
    (RIGHT, OVER),
    (RIGHT, LITTLE),
    ("cascade", RIGHT),
    ("dependent-click(stay=0.6)", RIGHT),
    ("browsing", RIGHT),
    ("cascade", "estimated"),
    ("dependent-click(stay=0.6)", "estimated"),
    ("browsing", "estimated"),
)
SIZES = ((YAHOO, 1e4, 20), (YAHOO, 1e5, 20), (YAHOO, 1e5, 75), (MSLR, 1e5, 20))
ABOVE = 2.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=Path, default=Path("judges.jsonl"))
    parser.add_argument("--runs", type=int, default=4)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    options.keep.touch()
    lines = options.keep.read_text().splitlines()
    rows = {tuple(row["cell"]): row for row in map(json.loads, lines)}
    cells = [
        (*size, *click_model, run)
        for run in range(options.runs)
        for size in SIZES
        for click_model in TRUE_AND_GIVEN
        if "estimated" not in click_model or size == SIZES[1]
    ]
    for cell in cells:
        if cell not in rows:
            rows[cell] = {"cell": cell, **measured(*cell)}
            with options.keep.open("a") as file:
                file.write(json.dumps(rows[cell]) + "\n")
    report([rows[cell] for cell in cells])


def measured(
    source: str, clicks: float, queries: int, true: str, given: str, run: int
) -> dict[str, Any]:
    """One log: what is taken, what each candidate is worth, and what judges say."""
    world_of = DataSource.parse(source)
    data, other = world_of.read("train"), world_of.read("validation")
    test = world_of.read("test")
    production = train_production_ranker(
        other, n_queries=queries, relevant_above=ABOVE, seed=run
    )
    world = prepare_simulation(
        data,
        rankers={"p": production},
        click_model=true,
        relevant_above=ABOVE,
        seed=run,
    )
    sessions = world.sessions_for(clicks)
    counts = simulate_counts(world, sessions, rng=stage_rng("clicks", run))
    if given == "estimated":
        click_model, _ = click_model_for(COMPARED, counts, data, seed=run)
    else:
        click_model = click_model_of(given, int(data.docs_per_query.max()))
    settings = ChoiceSettings((QUICK,), training=TrainSettings(seeds=(run,)))
    by_candidate, rows, _ = hold_out(counts, data, click_model, settings=settings)
    evaluated = evaluate_all(by_candidate, rows, click_model)
    scores = {c.estimator: by_candidate[c.name] for c in settings.candidates}
    by_click_model = [row for row in evaluated if row.evaluator == CORRECTION]
    rankers = train(
        counts, data, click_model, ranker=QUICK, estimators=COMPARED, seeds=[run]
    ).rankers
    named = {name: ranker for (name, _), ranker in rankers.items()}
    value = {
        name: float(evaluate_scores(score(ranker, test), test, ABOVE).mean)
        for name, ranker in {**named, KEEP: production}.items()
    }
    taken = {
        rule: choice.trained.estimator if choice.best != KEEP else KEEP
        for rule, table in (("auto", evaluated), ("users alone", by_click_model))
        for choice in [Choice(table, settings.candidates)]
    }
    verdicts = [
        verdict(own, scores, rows, click_model, data) for own in scores.values()
    ]
    return {"value": value, "taken": taken, "verdicts": verdicts}


def verdict(own: Any, scores: Any, rows: Any, click_model: Any, data: Any) -> list[str]:
    """By labels, by users alone, and with a second judge: against the logged ranking.

    The second explains clicks by the ranking itself and by naive, as `evaluate` does.
    """
    over, query = over_logged(own, rows, DCG_10), rows.query_of_doc
    _, second = second_evaluator(rows, [own, scores[BASELINE]], click_model)
    first, again = (
        estimate(weights, over, query)
        for weights in (weigh(rows, CORRECTION, click_model), second)
    )
    labels = weigh(rows, BASELINE)
    true = np.asarray(data.relevance(ABOVE), dtype=np.float64)
    truth = estimate(
        type(labels)(true, labels.known, labels.share, 0 * true), over, query
    )
    found = (decide(truth, 1), decide(first, 1), decide(first, 1, again))
    return [each.verdict for each in found]


def report(rows: list[dict[str, Any]]) -> None:
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        source, clicks, queries, true, given, _ = row["cell"]
        name, kind = source.split("-")[0], "right" if true == given else "other"
        click_model = f"{true}, {'right' if true == given else given}"
        for group in (
            f"ALL {kind}",
            f"ALL {kind}, {name}",
            f"USERS {click_model}",
            f"{name} {clicks:.0e} {queries}: {click_model}",
        ):
            groups[group].append(row)
    names = [*COMPARED, KEEP.split(" ", maxsplit=1)[0]]
    print(f"{'':<86}", *(f"{name:>9}" for name in names), " auto users")
    for group, of in sorted(groups.items()):
        value = {name: [row["value"][name] for row in of] for name in of[0]["value"]}
        means = " ".join(f"{np.mean(each):9.3f}" for each in value.values())
        lost = " ".join(
            f"{np.mean([_lost(row, rule, against) for row in of]):+.4f}"
            for rule in of[0]["taken"]
            for against in ((BASELINE, KEEP), tuple(value))
        )
        took = "".join(row["taken"]["auto"][0] for row in of) if len(of) < 9 else ""
        print(f"{group:<86} {means}  {lost} {took}")
    decided: dict[tuple[str, str, bool], int] = defaultdict(int)
    for row in rows:
        right = "right" if row["cell"][3] == row["cell"][4] else "wrong"
        for truth, first, both in row["verdicts"]:
            if truth != "undecided" and first != "undecided":
                decided[
                    right, "true" if truth == first else "false", both == first
                ] += 1
    for (click_model, held, stays), number in sorted(decided.items()):
        print(
            f"users {click_model}: {number} {held} verdicts "
            f"{'stay' if stays else 'disputed'}"
        )


def _lost(row: dict[str, Any], rule: str, against: tuple[str, ...]) -> float:
    """What a rule gains over the best of these; below 0 it loses."""
    value = row["value"]
    return float(value[row["taken"][rule]] - max(value[name] for name in against))


if __name__ == "__main__":
    main()
