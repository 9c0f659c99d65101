"""How well bias is estimated, and what that is worth to a ranker trained with it.

Simulates clicks under known bias, estimates how users click by every method, and judges
the estimates by their error E modulo gauge and by nDCG@10 of a network trained on the
affine correction with them. Run r has its own production ranker, clicks and
initialisation, all of seed r. Mixtures run in processes of their own beside the GPU.

    export OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1
    python benchmarks/estimation.py --out RESULTS --precision bfloat16
    python benchmarks/estimation.py --out RESULTS --precision bfloat16 --runs 2 \
        --world yahoo-like:20000 --clicks 1e5 --queries uniform
    python benchmarks/estimation.py --table RESULTS

Every result is appended to RESULTS/WORLD.jsonl as it comes; a second start skips what
is there. With a share of the time for estimates (--estimate-for), the rankers get the
rest; the last runs are estimated last.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import asdict, astuple, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from affinerank.bias.gauge import click_model_error
from affinerank.bias.method import EstimationSettings
from affinerank.bias.mixture.covariates import predict_relevance
from affinerank.bias.mixture.estimate import fit_mixture
from affinerank.bias.mixture.fit import first_guess
from affinerank.bias.mixture.population import population_of
from affinerank.bias.mixture.search import aligned_fit
from affinerank.bias.pooling import MIN_CLICKS, pool_cells, pool_ranks
from affinerank.bias.regression_em.estimate import fit_em
from affinerank.bias.regression_em.run import Run
from affinerank.clicks.models.trust import TrustModel
from affinerank.clicks.simulation import simulate_counts
from affinerank.clicks.traffic import Traffic, prepare
from affinerank.counts.rows import ClickRows, join_counts
from affinerank.data.dataset import RankingDataset
from affinerank.data.feature_mapping import FeatureMapping
from affinerank.data.sources import DataSource
from affinerank.evaluation.metrics import evaluate_scores
from affinerank.pipeline.simulate import relevance_of
from affinerank.pipeline.steps.production import train_production_ranker
from affinerank.pipeline.steps.training_lists import TrainingLists
from affinerank.pipeline.steps.weighing import weigh, with_clip
from affinerank.rankers.networks.settings import NetworkSettings
from affinerank.rankers.networks.training import fit_networks
from affinerank.rankers.ranker import predict_all, score
from affinerank.support.arrays import Floats, Ints, Matrix
from affinerank.support.errors import AffineRankError, AffineRankWarning
from affinerank.support.lists import ranks_by_score
from affinerank.support.seeds import stage_rng

BASELINE, DEFAULT = "soft-min-max", "levels+features"
EM = (BASELINE, "softmax", "sigmoid")
METHODS = (*EM, "two-level", "levels", DEFAULT, "covariate-iv", "true")
ABOVE = 2.0
PARTS = ("alpha_absolute", "beta_absolute", "alpha_relative", "beta_relative")
GROUP: tuple[str, ...] = ("world", "relevance", "queries", "clicks")
SETTINGS: tuple[str, ...] = (*GROUP, "setting")
WIDE: tuple[str, ...] = ("world", "relevance", "clicks")
DEFAULTS = {
    "world": "yahoo-like:2000",
    "clicks": "1e5,1e6,8e6",
    "settings": "1/.65,1/.35,2/.65,2/.35",  # eta / eps-_1
    "relevance": "graded,binary",
    "queries": "uniform,zipf:1",
    "runs": 4,
    "methods": ",".join(METHODS),
    "workers": 14,
    "stack": 128,  # rankers at once
    "em-stack": 144,  # EM runs at once
    "estimate-for": 1e9,  # seconds; processes begin no estimate after
    "stop-after": 1e9,  # seconds; no stack of rankers begins after
    "epochs": 32,
    "learning-rate": 0.004,
    "hidden": "512,256,128",
    "device": "auto",
    "precision": "float32",
    "clip": "",  # least alpha of the rankers' weights, as in 10/sqrt(n)
}
Key = tuple[Any, ...]
Row = dict[str, Any]
Found = dict[Key, TrustModel | None]
Drawn = dict["Cell", ClickRows]


@dataclass(frozen=True, slots=True)
class Cell:
    """What clicks are drawn from."""

    world: str
    eta: float
    eps: float
    clicks: float
    relevance: str
    queries: str
    run: int


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """Data and production rankings; processes share it, forked from this one."""

    path: Path
    train: RankingDataset
    test: RankingDataset
    features: Matrix
    test_features: Matrix
    ranks: dict[int, Ints]


SHARED: list[World] = []
STARTED = time.perf_counter()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, help="folder of results")
    parser.add_argument("--table", type=Path, help="print tables of this folder")
    parser.add_argument("--no-ndcg", action="store_true", help="estimate only")
    for name, default in DEFAULTS.items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    options = parser.parse_args()
    if options.table is not None:
        print_tables(read_rows(sorted(options.table.glob("*.jsonl"))))
    elif options.out is None:
        parser.error("give --out or --table")
    elif os.environ.get("OMP_NUM_THREADS") != "1":
        parser.error("set OMP_NUM_THREADS=1: every core has a process of its own")
    elif unknown := set(options.methods.split(",")) - set(METHODS):
        parser.error(f"no methods: {unknown}; known are {METHODS}")
    else:
        warnings.simplefilter("ignore", AffineRankWarning)  # rows say as much
        run(options)


def run(options: argparse.Namespace) -> None:
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / f"{options.world.replace(':', '-')}.jsonl"
    if path.exists() and not path.read_bytes().endswith(b"\n"):
        append(path, {})  # was cut off within a line
    SHARED.append(read_world(options, path))
    note(f"{options.world}: {SHARED[0].train.n_docs} documents")
    methods = options.methods.split(",")
    cells = cells_of(options)
    rows = read_rows([path])
    found: Found = {
        key_of(row): click_model_of(row) for row in rows if row["kind"] == "estimate"
    }
    ranked = {key_of(row) for row in rows if row["kind"] == "ranker"}
    network = NetworkSettings(
        hidden=tuple(int(size) for size in options.hidden.split(",")),
        epochs=options.epochs,
        learning_rate=options.learning_rate,
        device=options.device,
        precision=options.precision,
    )
    fork = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(options.workers, mp_context=fork) as pool:
        # The first task forks all processes: before CUDA is in use here.
        drawn = dict(zip(cells, pool.map(draw, cells), strict=True))
        wanted = [(c, m) for c in cells for m in methods if m not in EM]
        wanted.sort(key=lambda job: (job[1] != "true", job[0].run))
        futures = [
            pool.submit(estimate, cell, method)
            for cell, method in wanted
            if (*astuple(cell), method) not in found
        ]
        note(f"{len(cells)} cells drawn, {len(futures)} estimates in processes")
        runs = [(c, m) for c in cells for m in EM if m in methods]
        runs = [(c, m) for c, m in runs if (*astuple(c), m) not in found]
        for i in range(0, len(runs), options.em_stack):
            found |= estimate_em(runs[i : i + options.em_stack], drawn, network)
            note(f"{min(i + options.em_stack, len(runs))} of {len(runs)} EM runs")
        cell_of = {astuple(cell): cell for cell in cells}
        while True:
            if seconds() > options.estimate_for:
                pool.shutdown(wait=False, cancel_futures=True)
            found |= collected(futures)
            pending = [future for future in futures if not future.done()]
            ready = [
                (cell_of[key[:-1]], str(key[-1]), click_model)
                for key, click_model in found.items()
                if key not in ranked and key[:-1] in cell_of and key[-1] in methods
                if click_model is not None and not options.no_ndcg
            ]
            if seconds() > options.stop_after or not (pending or ready):
                break
            ready.sort(key=lambda job: job[0].run)
            if len(ready) >= options.stack or not pending:
                ranked |= train(ready[: options.stack], drawn, network, options.clip)
                note(f"{len(ranked)} rankers; {len(pending)} estimates to come")
            else:
                wait(pending, timeout=1.0, return_when=FIRST_COMPLETED)
        pool.shutdown(cancel_futures=True)
    lost = sum(f.cancelled() or f.exception() is not None for f in futures)
    note(f"done; {lost} estimates were not made")


def cells_of(options: argparse.Namespace) -> list[Cell]:
    """All cells, those that take longest first within each run."""
    chosen = product(
        [setting.split("/") for setting in options.settings.split(",")],
        [float(clicks) for clicks in options.clicks.split(",")],
        options.relevance.split(","),
        options.queries.split(","),
        range(options.runs),
    )
    cells = [
        Cell(options.world, float(eta), float(eps), clicks, relevance, queries, run)
        for (eta, eps), clicks, relevance, queries, run in chosen
    ]
    return sorted(cells, key=lambda c: (c.run, c.relevance != "graded", -c.clicks))


def read_world(options: argparse.Namespace, path: Path) -> World:
    source = DataSource.parse(options.world)
    train, test = source.read("train"), source.read("test")
    mapping = FeatureMapping.fit(train)
    ranks = {}
    for seed in range(options.runs):
        ranker = train_production_ranker(train, relevant_above=ABOVE, seed=seed)
        ranks[seed] = ranks_by_score(score(ranker, train), train.offsets)
    features, test_features = (mapping.apply(part).features for part in (train, test))
    return World(path, train, test, features, test_features, ranks)


def truth_of(cell: Cell) -> TrustModel:
    depth = int(SHARED[0].train.docs_per_query.max())
    return TrustModel.paper(eta=cell.eta, eps_minus_1=cell.eps, depth=depth)


def draw(cell: Cell) -> ClickRows:
    """Clicks as ``pipeline.prepare_simulation`` has them, scored only once a run."""
    world = SHARED[0]
    simulation = prepare(
        world.train,
        {"production": world.ranks[cell.run]},
        relevance_of(world.train, cell.relevance, ABOVE),
        truth_of(cell),
        traffic=Traffic(queries=cell.queries),
        rng=stage_rng("traffic", cell.run),
    )
    n_sessions = simulation.sessions_for(cell.clicks)
    counts = simulate_counts(simulation, n_sessions, rng=stage_rng("clicks", cell.run))
    return join_counts(counts, world.train)


def estimate(cell: Cell, method: str) -> Row:
    """One estimate, in a process of its own, which writes it down."""
    world, rows, rng = SHARED[0], draw(cell), np.random.default_rng(cell.run)
    started, more = time.perf_counter(), Row()
    try:
        if method == "true":
            click_model = truth_of(cell)
        elif method == "covariate-iv":
            click_model, n_pools = covariate_iv(rows, world.features, rng)
            more = {"pools": n_pools}
        else:
            most = 2 if method == "two-level" else 7
            features = world.features if method == DEFAULT else None
            settings = EstimationSettings()
            fitted = fit_mixture(rows, features, settings, rng, most_levels=most)
            click_model = fitted.click_model
            more = {
                "pools": fitted.pools.ranks.n_pools,
                "levels": fitted.fit.levels.levels.round(4).tolist(),
                "correlation": fitted.about["feature_correlation"],
            }
        more["seconds"] = time.perf_counter() - started
        row = estimate_row(cell, method, click_model, rows, more)
    except Exception as error:  # one estimate lost, not all
        row = named("estimate", cell, method) | {"error": repr(error)}
    append(world.path, row)
    return row


def covariate_iv(
    rows: ClickRows, features: Matrix, rng: np.random.Generator
) -> tuple[TrustModel, int]:
    """Slope and intercept of clicks on a prediction from other queries' clicks."""
    pools = pool_ranks(rows)
    docs = population_of(rows, pool_cells(rows, pools, MIN_CLICKS)).halved(rng)
    rough = aligned_fit(docs, first_guess(docs)).levels
    about = predict_relevance(docs, rough, features)
    z, seen, clicks = about.features[docs.doc_of_row], docs.impressions, docs.clicks
    n, nz, nzz, c, cz = (
        docs.by_pool(values)
        for values in (seen, seen * z, seen * z**2, clicks, clicks * z)
    )
    slope = (cz - c * nz / n) / (nzz - nz**2 / n)
    level = (c - slope * nz) / n
    click_model = TrustModel(
        alpha=slope[pools.of_rank], beta=level[pools.of_rank], identified="relative"
    )
    return click_model, pools.n_pools


def estimate_em(
    jobs: list[tuple[Cell, str]],
    drawn: Drawn,
    network: NetworkSettings,
) -> Found:
    world, started = SHARED[0], time.perf_counter()
    runs = [Run(drawn[cell], method, cell.run) for cell, method in jobs]

    def fit(chosen: Sequence[int]) -> list[Any]:
        mine = [runs[i] for i in chosen]
        return list(fit_em(world.features, mine, network=network))

    fits, errors = surviving(fit, len(runs))
    took = (time.perf_counter() - started) / len(jobs)
    found: Found = {}
    for i, (cell, method) in enumerate(jobs):
        row = named("estimate", cell, method) | {"error": errors.get(i)}
        if i in fits:
            more = {"seconds": took, "converged": fits[i].converged}
            more["updates"] = len(fits[i].trace)
            more["fallen"] = len(fits[i].fallen_ranks)
            row = estimate_row(cell, method, fits[i].click_model, drawn[cell], more)
        append(world.path, row)
        found[key_of(row)] = click_model_of(row)
    return found


def train(
    jobs: list[tuple[Cell, str, TrustModel]],
    drawn: Drawn,
    network: NetworkSettings,
    clip: str,
) -> set[Key]:
    """Train rankers with these users, judge them, and write that down."""
    world, started = SHARED[0], time.perf_counter()
    estimator = with_clip("affine", clip or None)
    weights = [weigh(drawn[c], estimator, click_model) for c, _, click_model in jobs]

    def fit(chosen: Sequence[int]) -> list[Any]:
        offsets = world.train.offsets
        lists = TrainingLists.of(world.features, offsets, [weights[i] for i in chosen])
        fitted = fit_networks(
            world.features,
            lists.targets,
            offsets,
            seeds=[jobs[i][0].run for i in chosen],
            settings=network,
        )
        models = [one.model for one in fitted]
        return list(predict_all(models, world.test_features))

    scores, errors = surviving(fit, len(jobs))
    took = (time.perf_counter() - started) / len(jobs)
    for i, (cell, method, _) in enumerate(jobs):
        row = named("ranker", cell, method) | {"seconds": took}
        if i in scores and np.all(np.isfinite(scores[i])):
            row["ndcg"] = evaluate_scores(scores[i], world.test, ABOVE).mean
        else:
            row["error"] = errors.get(i, "the scores are not finite")
        append(world.path, row)
    return {(*astuple(cell), method) for cell, method, _ in jobs}


def surviving(
    fit: Callable[[Sequence[int]], list[Any]], n: int
) -> tuple[dict[int, Any], dict[int, str]]:
    """Fit all at once, and again without one that an error names, until it goes."""
    left, errors = list(range(n)), dict[int, str]()
    while left:
        try:
            return dict(zip(left, fit(left), strict=True)), errors
        except AffineRankError as error:
            match = re.search(r"(?:network|run) (\d+)", str(error))
            errors[left.pop(int(match[1]) if match else -1)] = str(error)
    return {}, errors


def estimate_row(
    cell: Cell, method: str, click_model: TrustModel, rows: ClickRows, more: Row
) -> Row:
    seen = rows.by_rank(rows.impressions)
    error = click_model_error(click_model, truth_of(cell), seen)
    top = click_model_error(click_model, truth_of(cell), seen[:10])
    return named("estimate", cell, method) | {
        "E": error.error,
        "E10": top.error,
        **{name: getattr(error, name) for name in PARTS},
        **more,
        "alpha": click_model.alpha.tolist(),
        "beta": click_model.beta.tolist(),
    }


def named(kind: str, cell: Cell, method: str) -> Row:
    return {"kind": kind, **asdict(cell), "method": method}


def key_of(row: Row) -> Key:
    return (*(row[name] for name in Cell.__slots__), row["method"])


def click_model_of(row: Row) -> TrustModel | None:
    if "alpha" not in row:
        return None
    return TrustModel(alpha=row["alpha"], beta=row["beta"], identified="relative")


def collected(futures: Iterable[Future[Row]]) -> Found:
    ended = [f for f in futures if f.done() and not f.cancelled()]
    rows = [f.result() for f in ended if f.exception() is None]
    return {key_of(row): click_model_of(row) for row in rows}


def append(path: Path, row: Row) -> None:
    """Add a line at once, so that processes do not write into each other's."""
    text = json.dumps(row) + "\n" if row else "\n"
    with path.open("ab", buffering=0) as file:
        file.write(text.encode())


def read_rows(paths: Iterable[Path]) -> list[Row]:
    rows = []
    for line in (x for p in paths if p.exists() for x in p.read_text().splitlines()):
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:  # was cut off
            continue
    return rows


def seconds() -> float:
    return time.perf_counter() - STARTED


def note(text: str) -> None:
    print(f"{seconds():6.0f} s  {text}", file=sys.stderr, flush=True)


def print_tables(rows: list[Row]) -> None:
    for row in rows:
        row["setting"] = f"{row['eta']:g}/{row['eps']:g}"
        row["levels"] = len(row["levels"]) if "levels" in row else None
        if row.get("error") is not None:
            print(f"- left out: {row['kind']}, {key_of(row)}: {row['error']}")
    for by, field in product((GROUP, SETTINGS), ("E", "ndcg")):
        print_table(rows, field, by)
    for field in ("E10", *PARTS, "seconds", "converged", "pools", "levels"):
        print_table(rows, field, WIDE)
    print("\n### E of the default over E of soft-min-max\n")
    many = [row for row in rows if row["clicks"] >= 1e6]
    for group, a, b in paired(many, "E", WIDE, DEFAULT, BASELINE):
        print(f"- {group}: {a.mean() / b.mean():.3f} ({len(a)} cells)")
    print("\n### Default minus soft-min-max, where the default is worse\n")
    for (field, sign), by in product((("E", 1), ("ndcg", -1)), (GROUP, SETTINGS)):
        for group, a, b in paired(rows, field, by, DEFAULT, BASELINE):
            if sign * (a.mean() - b.mean()) > 0:
                print(f"- {field}, {group}: {mean_of(a - b)} ({len(a)} cells)")
    print(
        "\n### nDCG@10 of soft-min-max minus that of the truth, eta = 1, 8e6 clicks\n"
    )
    chosen = [row for row in rows if (row["eta"], row["clicks"]) == (1, 8e6)]
    for by in (WIDE, SETTINGS):
        for group, a, b in paired(chosen, "ndcg", by, BASELINE, "true"):
            print(f"- {group}: {mean_of(a - b)} ({len(a)} cells)")


def print_table(rows: list[Row], field: str, by: Sequence[str]) -> None:
    print(f"\n### {field}\n\n| {' | '.join((*by, *METHODS))} |")
    print("|---" * (len(by) + len(METHODS)) + "|")
    for group, methods in grouped(rows, field, by).items():
        values = [mean_of(np.array([*methods.get(m, {}).values()])) for m in METHODS]
        print(f"| {' | '.join((*map(str, group), *values))} |")


def grouped(
    rows: list[Row], field: str, by: Sequence[str]
) -> dict[Key, dict[str, dict[Key, float]]]:
    """Values of each cell, by group and method."""
    groups: dict[Key, dict[str, dict[Key, float]]] = {}
    kept = [r for r in rows if r.get(field) is not None]
    kept = [r for r in kept if field != "seconds" or r["kind"] == "estimate"]
    for row in sorted(kept, key=lambda r: [r[name] for name in by]):
        methods = groups.setdefault(tuple(row[name] for name in by), {})
        methods.setdefault(row["method"], {})[key_of(row)[:-1]] = float(row[field])
    return groups


def paired(
    rows: list[Row], field: str, by: Sequence[str], first: str, second: str
) -> Iterator[tuple[str, Floats, Floats]]:
    """Values of two methods in the cells that both have, by group."""
    for group, methods in grouped(rows, field, by).items():
        a, b = methods.get(first, {}), methods.get(second, {})
        both = np.array([(a[key], b[key]) for key in a if key in b])
        if len(both):
            yield ", ".join(map(str, group)), both[:, 0], both[:, 1]


def mean_of(values: Floats) -> str:
    if not len(values):
        return ""
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return f"{values.mean():.4f} ± {error:.4f}"


if __name__ == "__main__":
    main()
