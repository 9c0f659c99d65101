"""Regression EM: what it costs, how soon it rests, and what relevance it sees.

Simulates clicks under known bias, then prints

- the time of the EM over that of training the same networks on the true parameters;
- updates until two and three parameters per rank rest, in training and with the
  relevance held fixed;
- the spread of the probabilities of relevance under each activation, and the error of
  alpha and beta at the first ten ranks.

    python benchmarks/regression_em.py                                # yahoo-like:500
    python benchmarks/regression_em.py --data mslr-like --runs 20 --precision bfloat16
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from affinerank.bias.regression_em.activations import ACTIVATIONS
from affinerank.bias.regression_em.estimate import EMFit, fit_em
from affinerank.bias.regression_em.run import EMSettings, Parameters, Run
from affinerank.bias.regression_em.updates import (
    CellRows,
    as_zeta,
    mean_movement,
    start_of,
    updated,
)
from affinerank.clicks.models.trust import TrustModel
from affinerank.clicks.simulation import simulate_counts
from affinerank.counts.rows import join_counts
from affinerank.data.feature_mapping import FeatureMapping
from affinerank.data.sources import DataSource
from affinerank.pipeline.simulate import prepare_simulation
from affinerank.pipeline.steps.training_lists import side_by_side
from affinerank.pipeline.steps.weighing import weigh
from affinerank.rankers.networks.batches import RaggedLists
from affinerank.rankers.networks.settings import NetworkSettings
from affinerank.rankers.networks.training import fit_networks
from affinerank.support.arrays import Floats, Matrix
from affinerank.support.errors import AffineRankWarning
from affinerank.support.progress import Progress, no_progress
from affinerank.support.seeds import stage_rng

MOST = 2000  # iterations with the relevance held fixed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="yahoo-like:500")
    parser.add_argument("--clicks", type=float, default=5e5)
    parser.add_argument("--eta", type=float, default=1.0)
    parser.add_argument("--eps-minus", type=float, default=0.65)
    parser.add_argument("--runs", type=int, default=1, help="seeds of each activation")
    parser.add_argument("--epochs", type=int, default=32)
    parser.add_argument("--timed-epochs", type=int, default=4)
    parser.add_argument("--learning-rate", type=float, default=0.004)
    parser.add_argument("--hidden", default="512,256,128")
    parser.add_argument("--rescored", type=float, default=EMSettings().rescored)
    parser.add_argument("--updates", type=int, default=EMSettings().updates_per_epoch)
    parser.add_argument("--iterations", type=int, default=EMSettings().iterations)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--precision", default="float32")
    run(parser.parse_args())


def run(options: argparse.Namespace) -> None:
    data = DataSource.parse(options.data).read("train")
    click_model = TrustModel.paper(
        eta=options.eta,
        eps_minus_1=options.eps_minus,
        depth=int(data.docs_per_query.max()),
    )
    simulation = prepare_simulation(data, click_model, seed=0)
    counts = simulate_counts(
        simulation, simulation.sessions_for(options.clicks), rng=stage_rng("clicks", 0)
    )
    rows = join_counts(counts, data)
    features = FeatureMapping.fit(data).apply(data).features
    runs = [
        Run(rows, name, seed) for name in ACTIVATIONS for seed in range(options.runs)
    ]
    network = NetworkSettings(
        hidden=tuple(int(size) for size in options.hidden.split(",")),
        epochs=options.epochs,
        learning_rate=options.learning_rate,
        device=options.device,
        precision=options.precision,
    )
    em = EMSettings(
        rescored=options.rescored,
        updates_per_epoch=options.updates,
        iterations=options.iterations,
    )
    print(
        f"{options.data}: {data.n_docs} documents, {options.clicks:g} clicks, "
        f"{len(runs)} networks of {options.hidden}; {em}"
    )
    weights = weigh(rows, "affine", click_model)
    targets = side_by_side([weights] * len(runs))

    timed = replace(network, epochs=options.timed_epochs + 1)

    def plain(progress: Progress) -> object:
        return fit_networks(
            features,
            targets,
            data.offsets,
            seeds=[run.seed for run in runs],
            settings=timed,
            progress=progress,
        )

    def estimated(progress: Progress) -> object:
        return fit(features, runs, replace(em, tolerance=0.0), timed, progress)

    overhead(plain, estimated, network.epochs)
    chosen: tuple[Parameters, ...] = ("two", "three")
    for parameters in chosen:
        fits = fit(features, runs, replace(em, parameters=parameters), network)
        report(parameters, fits, runs, features, click_model)


def fit(
    features: Matrix,
    runs: list[Run],
    settings: EMSettings,
    network: NetworkSettings,
    progress: Progress = no_progress,
) -> list[EMFit]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AffineRankWarning)  # the table says as much
        return fit_em(
            features, runs, settings=settings, network=network, progress=progress
        )


def overhead(
    plain: Callable[[Progress], object],
    estimated: Callable[[Progress], object],
    epochs: int,
) -> None:
    """Print seconds per epoch of both, medians of turns taken side by side.

    The first epoch has the early updates, so it is reported by itself.
    """
    plain(no_progress)  # warms up
    turns = [(epoch_seconds(plain), epoch_seconds(estimated)) for _ in range(3)]
    first, em_first = (statistics.median(t[i][0] for t in turns) for i in (0, 1))
    later, em_later = (
        statistics.median(s for t in turns for s in t[i][1:]) for i in (0, 1)
    )
    whole = (em_first + em_later * (epochs - 1)) / (first + later * (epochs - 1))
    print(
        f"an epoch: training {later:.3f} s, with EM {em_later:.3f} s "
        f"({em_later / later - 1:+.1%}); the first: {first:.3f} and {em_first:.3f} s; "
        f"{epochs} epochs: {whole - 1:+.1%} (bar +30%)"
    )


def epoch_seconds(work: Callable[[Progress], object]) -> list[float]:
    times: list[float] = []

    def progress(stage: str, done: int, total: int) -> None:
        del stage, done, total
        times.append(time.perf_counter())  # an epoch ends with a wait for the device

    work(progress)
    return [after - before for before, after in pairwise(times)]


def report(
    parameters: Parameters,
    fits: list[EMFit],
    runs: list[Run],
    features: Matrix,
    click_model: TrustModel,
) -> None:
    print(f"{parameters} parameters per rank")
    print(
        "activation    converged  updates  fixed relevance  relevance: mean   std  "
        "5%    50%   95%   rmse alpha  beta  fallen"
    )
    for name in ACTIVATIONS:
        mine = [i for i, run in enumerate(runs) if run.activation == name]
        rows = [
            row_of(parameters, fits[i], runs[i], features, click_model) for i in mine
        ]
        mean = {key: np.mean([row[key] for row in rows]) for key in rows[0]}
        print(
            f"{name:<13} {mean['converged']:8.2f} {mean['updates']:9.1f} "
            f"{mean['fixed']:14.1f} {mean['mean']:16.3f} {mean['std']:7.3f} "
            f"{mean['low']:5.3f} {mean['half']:5.3f} {mean['high']:5.3f} "
            f"{mean['alpha']:9.4f} {mean['beta']:8.4f} {mean['fallen']:5.1f}"
        )


def row_of(
    parameters: Parameters,
    fitted: EMFit,
    run: Run,
    features: Matrix,
    click_model: TrustModel,
) -> dict[str, Any]:
    relevance = relevance_of(fitted, run, features)
    known = relevance[~np.isnan(relevance)]
    low, half, high = np.quantile(known, [0.05, 0.5, 0.95])
    top = slice(0, 10)
    return {
        "converged": fitted.converged,
        "updates": fitted.updates,
        "fixed": iterations_to_rest(parameters, run, relevance),
        "mean": known.mean(),
        "std": known.std(),
        "low": low,
        "half": half,
        "high": high,
        "alpha": rmse(fitted.click_model.alpha[top], click_model.alpha[top]),
        "beta": rmse(fitted.click_model.beta[top], click_model.beta[top]),
        "fallen": len(fitted.fallen_ranks),
    }


def relevance_of(fitted: EMFit, run: Run, features: Matrix) -> Floats:
    scores = torch.from_numpy(fitted.ranker.scores(features))
    shown = torch.from_numpy(run.rows.by_doc(run.rows.impressions) > 0)[None]
    lists = RaggedLists.of(np.bincount(run.rows.query_of_doc))
    relevance: Floats = ACTIVATIONS[run.activation](scores, shown, lists)[0].numpy()
    return relevance


def iterations_to_rest(parameters: Parameters, run: Run, relevance: Floats) -> int:
    """E-steps with this relevance until the mean movement is below 0.00001."""
    kept, depth = run.rows.select(~np.isnan(relevance[run.rows.doc])), run.rows.depth
    cell, doc, impressions, clicks = (
        torch.from_numpy(column)
        for column in (kept.rank - 1, kept.doc, kept.impressions, kept.clicks)
    )
    rows = CellRows.of(cell, doc, impressions, clicks, depth)
    by_row = torch.from_numpy(relevance)[rows.doc].clamp(1e-6, 1 - 1e-6)
    clicked = rows.summed(rows.clicks)[None]
    values = start_of(EMSettings(parameters=parameters), depth)
    for iteration in range(1, MOST + 1):
        better = updated(values, by_row, rows)
        before, after = as_zeta(values)[:, None], as_zeta(better)[:, None]
        if float(mean_movement(before, after, clicked)) < 1e-5:
            return iteration
        values = better
    return MOST


def rmse(estimate: Floats, truth: Floats) -> float:
    return float(np.sqrt(np.mean((estimate - truth) ** 2)))


if __name__ == "__main__":
    main()
