"""Regression EM: what it costs, how soon it rests, and what relevance it sees.

Simulates clicks under known bias, then prints

- the time of the EM over that of training the same networks on the true parameters;
- updates until two and three parameters a rank rest, in training and with the relevance
  held fixed;
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
from numpy.typing import NDArray

from affinerank.bias.em_runs import EMRun, EMSettings, Parameters
from affinerank.bias.expectation import UPDATES, Rows, as_zeta, mean_movement
from affinerank.bias.regression_em import RegressionEM, fit_regression_em
from affinerank.bias.relevance import ACTIVATIONS
from affinerank.clicks.join import join_counts
from affinerank.clicks.simulate import simulate_counts
from affinerank.clicks.usermodel import UserModel
from affinerank.data.catalog import DataSource
from affinerank.data.dataset import RankingDataset
from affinerank.data.features import FeatureMapping
from affinerank.errors import AffineRankWarning
from affinerank.pipeline import prepare_simulation, stacked, weigh
from affinerank.progress import Progress, quiet
from affinerank.rankers.losses import Lists
from affinerank.rankers.mlp import NetworkSettings
from affinerank.rankers.training import fit_networks
from affinerank.seeds import stage_rng

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
    simulation = prepare_simulation(
        data, eta=options.eta, eps_minus_1=options.eps_minus, seed=0
    )
    counts = simulate_counts(
        simulation, simulation.sessions_for(options.clicks), rng=stage_rng("clicks", 0)
    )
    joined = join_counts(counts, data)
    features = FeatureMapping.fit(data).apply(data).features
    runs = [
        EMRun.of(joined, data, activation=name, seed=seed)
        for name in ACTIVATIONS
        for seed in range(options.runs)
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
    weights = weigh(joined, data, simulation.users, "affine")
    targets = stacked([weights], copies=len(runs))

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
        return fit(features, data, runs, replace(em, tolerance=0.0), timed, progress)

    overhead(plain, estimated, network.epochs)
    for parameters in ("two", "three"):
        fits = fit(features, data, runs, replace(em, parameters=parameters), network)
        report(parameters, fits, runs, features, data, simulation.users)


def fit(
    features: NDArray[np.float32],
    data: RankingDataset,
    runs: list[EMRun],
    settings: EMSettings,
    network: NetworkSettings,
    progress: Progress = quiet,
) -> list[RegressionEM]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AffineRankWarning)  # the table says as much
        return fit_regression_em(
            features,
            data.offsets,
            runs,
            settings=settings,
            network=network,
            progress=progress,
        )


def overhead(
    plain: Callable[[Progress], object],
    estimated: Callable[[Progress], object],
    epochs: int,
) -> None:
    """Print seconds an epoch of both, medians of turns taken side by side.

    The first epoch has the early updates, so it is reported by itself.
    """
    plain(quiet)  # warms up
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
    fits: list[RegressionEM],
    runs: list[EMRun],
    features: NDArray[np.float32],
    data: RankingDataset,
    users: UserModel,
) -> None:
    print(f"{parameters} parameters a rank")
    print(
        "activation    converged  updates  fixed relevance  relevance: mean   std  "
        "5%    50%   95%   rmse alpha  beta  fallen"
    )
    for name in ACTIVATIONS:
        mine = [i for i, run in enumerate(runs) if run.activation == name]
        rows = [
            row_of(parameters, fits[i], runs[i], features, data, users) for i in mine
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
    fitted: RegressionEM,
    run: EMRun,
    features: NDArray[np.float32],
    data: RankingDataset,
    users: UserModel,
) -> dict[str, Any]:
    relevance = relevance_of(fitted, run, features, data)
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
        "alpha": rmse(fitted.users.alpha[top], users.alpha[top]),
        "beta": rmse(fitted.users.beta[top], users.beta[top]),
        "fallen": len(fitted.fallen_ranks),
    }


def relevance_of(
    fitted: RegressionEM,
    run: EMRun,
    features: NDArray[np.float32],
    data: RankingDataset,
) -> NDArray[np.float64]:
    scores = torch.from_numpy(fitted.networks.predict(features))
    shown = np.bincount(run.doc, run.impressions, minlength=data.n_docs) > 0
    relevance: NDArray[np.float64] = ACTIVATIONS[run.activation](
        scores, torch.from_numpy(shown)[None], Lists.of(np.diff(data.offsets))
    )[0].numpy()
    return relevance


def iterations_to_rest(
    parameters: Parameters, run: EMRun, relevance: NDArray[np.float64]
) -> int:
    """E-steps with this relevance until the mean movement is below 0.00001."""
    taken = ~np.isnan(relevance[run.doc])
    depth = int(run.rank.max())
    cell, doc, impressions, clicks = (
        torch.from_numpy(column[taken])
        for column in (run.rank - 1, run.doc, run.impressions, run.clicks)
    )
    rows = Rows.sorted_by_cell(cell, doc, impressions, clicks, depth)
    by_row = torch.from_numpy(relevance)[rows.doc].clamp(1e-6, 1 - 1e-6)
    clicked = rows.summed(rows.clicks)[None]
    values = EMSettings(parameters=parameters).start(depth)
    for iteration in range(1, MOST + 1):
        updated = UPDATES[parameters](values, by_row, rows)
        before, after = as_zeta(values)[:, None], as_zeta(updated)[:, None]
        if float(mean_movement(before, after, clicked)) < 1e-5:
            return iteration
        values = updated
    return MOST


def rmse(estimate: NDArray[np.float64], truth: NDArray[np.float64]) -> float:
    return float(np.sqrt(np.mean((estimate - truth) ** 2)))


if __name__ == "__main__":
    main()
