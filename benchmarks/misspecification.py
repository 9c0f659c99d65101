"""What estimators lose where users, loggers or the users given are not as assumed.

A setting has a level of each factor: who the users are, whether relevance is binary or
graded, who ranked the log, where lists were cut off, clicks per query, and which users
are given. Of all settings that make sense 60 are taken, one after another, each the one
whose pairs of levels were taken least: every pair of levels occurs. Each is run with
four seeds, which draw the logger and the clicks.

Counts are as default options make them: by the last click above if clicks are found to
depend on clicks above (or if the users given go by it), and by segment. Rankers are
linear models. Judged is nDCG@10 on labels of queries that no log has: binary, or label
/ 4 as linear gain. The logged ranking of these queries is by the same logger. Where
`auto` keeps the logged ranking or refuses, it has the value of that.

Runs are appended to a file, and those that it has are left out:

    python benchmarks/misspecification.py --out runs.jsonl --jobs 16
    python benchmarks/misspecification.py --report runs.jsonl
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import combinations, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from affinerank.clicks.models.browsing import BrowsingModel
from affinerank.clicks.simulation import simulate_counts
from affinerank.clicks.traffic import Traffic, prepare
from affinerank.counts.counts import ClickCounts
from affinerank.counts.independence import independence_test
from affinerank.counts.rows import join_counts
from affinerank.data.dataset import RankingDataset
from affinerank.data.feature_mapping import FeatureMapping
from affinerank.data.read_options import Split
from affinerank.data.sources import DataSource
from affinerank.defaults import BASELINE, CORRECTION, ESTIMATOR, QUICK
from affinerank.evaluation.metrics import MAIN_METRIC
from affinerank.pipeline.compare import KEEP, ChoiceSettings, train_chosen
from affinerank.pipeline.simulate import click_model_of, relevance_of
from affinerank.pipeline.steps.click_model import check_click_model_against_log
from affinerank.pipeline.steps.production import train_production_ranker
from affinerank.pipeline.steps.train_settings import TrainSettings
from affinerank.pipeline.train import train
from affinerank.rankers.linear import LinearSettings, fit_linear
from affinerank.rankers.ranker import score
from affinerank.rankers.targets import Targets
from affinerank.support.arrays import Floats
from affinerank.support.errors import AffineRankError
from affinerank.support.lists import ranks_by_score
from affinerank.support.seeds import stage_rng

LOG, EVALUATED, LABELLED = (  # disjoint
    ("yahoo-like:300", "train"),
    ("yahoo-like:1500", "test"),
    ("yahoo-like:6000", "validation"),  # what a near-ideal logger learns from
)
ABOVE = 2.0
NEAR, NOISE = 600, 0.2  # its queries; its noise, in standard deviations of its scores
SIZE, SEEDS = 60, 4
AUTO, LOGGED, REFUSED = "auto", "logged", "refused"
IPS = ("ips", "bayes-ips")  # where examination is known
CANDIDATES = (BASELINE, LOGGED, *IPS, CORRECTION, ESTIMATOR)
LESS, GAIN = 0.01, 0.03  # a loss and a gain that matter
LEVEL = 0.05

TRUST, NO_EPS = "trust", "position-based"
TRUE = {  # the users of each level, if nothing else is said
    "trust": TRUST,
    "no trust": "position-based(eps_minus=0.05)",
    "eps- 0": NO_EPS,
    "cascade": "cascade",
    "dependent": "dependent-click",
    "browsing": "browsing",
    "by query": "by-query",
    "by segment": "by-segment",
}
# What is given in place of the truth; two texts: the truth then, and what is given.
GIVEN: Mapping[str, Mapping[str, str | tuple[str, str] | None]] = {
    "estimated": dict.fromkeys(TRUE),
    "right": {
        name: click_model
        for name, click_model in TRUE.items()
        if name not in ("dependent", "by query")  # not expressible
    },
    "eta 2": {
        "trust": "trust(eta=2)",
        "no trust": "position-based(eta=2, eps_minus=0.05)",
        "eps- 0": "position-based(eta=2)",
        "browsing": "browsing(eta=2)",
        "by query": "trust(eta=2)",
        "by segment": "by-segment(eta=2,2)",
    },
    "eps- .65": {
        "trust": ("trust(eps_minus_1=0.05)", TRUST),
        "no trust": TRUST,
        "browsing": ("browsing(eps_minus_1=0.05)", "browsing"),
        "by query": ("by-query(eps_minus_1=0.05)", TRUST),
        "by segment": (
            "by-segment(eps_minus_1=0.05,0.05)",
            "by-segment(eps_minus_1=0.65,0.65)",
        ),
    },
    "trust": dict.fromkeys(TRUE.keys() - {"trust", "no trust"}, TRUST),
    "eps- 0": {
        "trust": NO_EPS,
        "browsing": "browsing(eps_minus_1=0)",
        "by query": NO_EPS,
        "by segment": "by-segment(eps_minus_1=0,0)",
    },
}


class Setting(NamedTuple):
    """A level of each factor."""

    click_model: str
    relevance: str
    logger: str
    cutoff: str
    clicks: str
    given: str

    def models(self) -> tuple[str, str | None]:
        """Return the users, and those given, if any."""
        found = GIVEN[self.given][self.click_model]
        if isinstance(found, tuple):
            return found
        return TRUE[self.click_model], found


FACTORS: Mapping[str, tuple[str, ...]] = {
    "users": tuple(TRUE),
    "relevance": ("binary", "graded"),
    "logger": ("weak", "near-ideal", "ideal", "two rankers"),
    "cutoff": ("all", "10", "5"),
    "clicks": ("5", "30", "300"),
    "given": tuple(GIVEN),
}
Run = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("misspecification.jsonl"))
    parser.add_argument("--jobs", type=int, default=1, help="processes of one thread")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--first", type=int, default=SIZE, help="settings to run")
    parser.add_argument("--report", type=Path, help="print tables of these runs")
    options = parser.parse_args()
    if options.report:
        report(read(options.report))
        return
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = "1"  # of the processes that are started
    done = {(run["setting"], run["seed"]) for run in read(options.out)}
    settings = chosen_settings()[: options.first]
    cells = [
        (setting, seed)
        for seed in range(options.seeds)
        for setting in settings
        if (setting, seed) not in done
    ]
    print(f"{len(done)} runs are there, {len(cells)} to do", flush=True)
    context = multiprocessing.get_context("spawn")
    with context.Pool(options.jobs) as pool, options.out.open("a") as file:
        for run in pool.imap_unordered(attempted, cells):
            if "fault" not in run:
                file.write(json.dumps(run) + "\n")
                file.flush()
            about = run.get("fault") or f"{run['seconds']:.0f} s"
            print(*run["setting"], run["seed"], about, sep=", ", flush=True)


def read(path: Path) -> list[Run]:
    """Read the runs that a file has."""
    lines = path.read_text().splitlines() if path.exists() else []
    runs = [json.loads(line) for line in lines]
    return [{**run, "setting": Setting(*run["setting"])} for run in runs]


# Settings


def possible_settings() -> list[Setting]:
    """List all settings that make sense."""
    every = (Setting(*levels) for levels in product(*FACTORS.values()))
    return [one for one in every if one.click_model in GIVEN[one.given]]


def chosen_settings(size: int = SIZE, seed: int = 0) -> list[Setting]:
    """Take settings one after another, each with the pairs of levels least taken."""
    every, rng = possible_settings(), np.random.default_rng(seed)
    numbers: dict[tuple[Any, ...], int] = {}
    pairs = np.array(
        [
            [
                numbers.setdefault((i, j, one[i], one[j]), len(numbers))
                for i, j in combinations(range(len(FACTORS)), 2)
            ]
            for one in every
        ]
    )
    taken, found = np.zeros(len(numbers)), []
    for _ in range(size):
        gain = (4.0**-taken)[pairs].sum(axis=1) + 1e-6 * rng.random(len(every))
        best = int(np.argmax(gain))
        found.append(every[best])
        taken[pairs[best]] += 1
    return found


# One run


@cache
def part(world: str, split: Split) -> RankingDataset:
    """Read a part of a world once."""
    return DataSource.parse(world).read(split)


def attempted(cell: tuple[Setting, int]) -> Run:
    """Return a run, or what went wrong: others go on."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return measured(*cell)
    except Exception:
        return {"setting": cell[0], "seed": cell[1], "fault": traceback.format_exc()}


def measured(setting: Setting, seed: int) -> Run:
    """Simulate a log, learn from it by every estimator, and judge by labels."""
    started = time.perf_counter()
    data, evaluated = part(*LOG), part(*EVALUATED)
    labels = relevance_of(evaluated, setting.relevance, ABOVE)

    def value(scores: Floats) -> float:
        return MAIN_METRIC(scores, labels, evaluated.offsets).mean

    logged = logged_scores(setting.logger, (data, evaluated), seed)
    counts, given, test = simulated(setting, [own for own, _ in logged], seed)
    run: Run = {"setting": setting, "seed": seed, "independence": test and test.p}
    values = {LOGGED: float(np.mean([value(scores) for _, scores in logged]))}
    how = ChoiceSettings((QUICK,), training=TrainSettings(seeds=(seed,)))
    click_model = given
    try:
        trained, choice = train_chosen(counts, data, given, settings=how)
        run["took"] = KEEP if choice.best == KEEP else choice.trained.estimator
        click_model = given or trained.click_model
        (ranker,) = trained.rankers.values()
        own = value(score(ranker, evaluated))
        values[AUTO] = values[LOGGED] if choice.best == KEEP else own
    except AffineRankError as error:
        run |= {"took": REFUSED, "why": str(error)}
        values[AUTO] = values[LOGGED]
    for name in (BASELINE, CORRECTION, ESTIMATOR, *(IPS if given else ())):
        try:
            ranker = train(
                counts, data, click_model, ranker=QUICK, estimators=[name], seeds=[seed]
            ).rankers[name, seed]
            values[name] = value(score(ranker, evaluated))
        except AffineRankError as error:
            run[f"{name} refused"] = str(error)
    doubt = check_click_model_against_log(counts, given) if given else None
    return run | {
        "values": values,
        "clicks": int(np.sum(counts.table["clicks"])),
        "context": "context" in counts.keys,
        "users": click_model.name if click_model else "none",
        "doubted": doubt is not None and doubt.clear,
        "seconds": time.perf_counter() - started,
    }


def logged_scores(
    logger: str, parts: tuple[RankingDataset, RankingDataset], seed: int
) -> list[tuple[Floats, Floats]]:
    """Score the documents of both parts by each ranker of a logger."""
    rng = stage_rng("production", seed, 1)
    if logger == "ideal":  # ties in random order
        pairs = [[one.known_labels() + 0.5 * rng.random(one.n_docs) for one in parts]]
    elif logger == "near-ideal":
        by = ranker_of_labels(rng)
        pairs = [[by(one) for one in parts]]
        sd = NOISE * pairs[0][0].std()
        pairs = [[own + sd * rng.standard_normal(len(own)) for own in pairs[0]]]
    else:
        seeds = [seed] if logger == "weak" else [seed, 100 + seed]
        rankers = [train_production_ranker(parts[0], seed=one) for one in seeds]
        pairs = [[score(ranker, one) for one in parts] for ranker in rankers]
    return [(own, other) for own, other in pairs]


def ranker_of_labels(rng: np.random.Generator) -> Callable[[RankingDataset], Floats]:
    """Fit a linear model to the labels of many queries."""
    every = part(*LABELLED)
    some = every.select_queries(np.sort(rng.permutation(every.n_queries)[:NEAR]))
    mapping = FeatureMapping.fit(some)
    labels = some.known_labels()[None].astype(np.float64)
    targets = Targets(labels, np.ones(labels.shape, dtype=bool))
    (fitted,) = fit_linear(
        mapping.apply(some).features,
        targets,
        some.offsets,
        seeds=[0],
        settings=LinearSettings(ridge=(100.0,)),
    )
    return lambda data: fitted.model.predict(mapping.apply(data).features)


def simulated(
    setting: Setting, scores: Sequence[Floats], seed: int
) -> tuple[ClickCounts, Any, Any]:
    """Draw counts; return them, the users given, and the test of independence."""
    data = part(*LOG)
    cutoff = None if setting.cutoff == "all" else int(setting.cutoff)
    longest = int(data.docs_per_query.max())
    depth = min(longest, cutoff or longest)
    true, wanted = setting.models()
    given = None if wanted is None else click_model_of(wanted, depth)
    world = prepare(
        data,
        {f"r{i}": ranks_by_score(own, data.offsets) for i, own in enumerate(scores)},
        relevance_of(data, setting.relevance, ABOVE),
        click_model_of(true, depth),
        traffic=Traffic(top_k=cutoff),
        rng=stage_rng("traffic", seed),
    )
    sessions = world.sessions_for(int(setting.clicks) * data.n_queries)
    rng = stage_rng("clicks", seed)
    counts = simulate_counts(world, sessions, rng=rng, context=True)
    test = independence_test(join_counts(counts, data))
    if not (test and test.found) and not isinstance(given, BrowsingModel):
        counts = counts.merged("context")
    return counts, given, test


# The report


class Cell:
    """The runs of one setting.

    Attributes:
        setting: Which.
        runs: One for each seed.
        values: ``[n_seeds]`` of each ranking; NaN where there is none.
    """

    def __init__(self, setting: Setting, runs: Sequence[Run]) -> None:
        self.setting, self.runs = setting, runs
        self.values = {
            name: np.array([run["values"].get(name, np.nan) for run in runs])
            for name in (*CANDIDATES, AUTO)
        }

    def mean(self, name: str) -> float:
        """Mean over seeds."""
        return float(self.values[name].mean())

    def loss(self, against: Sequence[str] = (BASELINE, LOGGED)) -> Floats:
        """``[n_seeds]`` what `auto` loses to the ranking with the highest mean."""
        known = [name for name in against if not np.isnan(self.mean(name))]
        lost: Floats = self.values[max(known, key=self.mean)] - self.values[AUTO]
        return lost

    def best(self) -> Floats:
        """``[n_seeds]`` the better of naive and logged, of each run."""
        found: Floats = np.fmax(self.values[BASELINE], self.values[LOGGED])
        return found

    def misses(self) -> int:
        """Runs in which the posterior gains, and `auto` keeps the logged ranking."""
        kept = np.array([run["took"] in (KEEP, REFUSED) for run in self.runs])
        return int(np.sum(kept & (self.values[ESTIMATOR] - self.best() >= GAIN)))

    def took(self) -> str:
        """First letters of what `auto` took with each seed."""
        return "".join(run["took"][0] for run in self.runs)


def grouped(runs: Sequence[Run]) -> list[Cell]:
    """Put the runs of each setting together, in the order of levels."""
    settings = sorted(
        {run["setting"] for run in runs},
        key=lambda one: [
            FACTORS[name].index(own) for name, own in one._asdict().items()
        ],
    )
    return [
        Cell(one, [run for run in runs if run["setting"] == one]) for one in settings
    ]


def report(runs: Sequence[Run]) -> None:
    cells = grouped(sorted(runs, key=lambda run: int(run["seed"])))
    seconds = np.array([run["seconds"] for run in runs])
    print(
        f"{len(runs)} runs of {len(cells)} settings, {seconds.mean():.0f} s each "
        f"(longest {seconds.max():.0f} s).\n"
    )
    print("## Bars\n")
    for line in bars(cells):
        print(f"- {line}")
    print(f"\nSettings that lose more than {LESS:g} on average:\n")
    table((*FACTORS, "loss", "p", "took"), worst(cells))
    print("\n## By level\n")
    table(("level", "settings", *NAMES, "loss", "took"), by_level(cells))
    print("\n## Users that were estimated, and given users that were doubted\n")
    table(
        ("users", "estimated as", "doubted if right", "if wrong"), by_click_model(cells)
    )
    print("\n## All settings\n")
    table((*FACTORS, *NAMES, "took"), every_cell(cells))


NAMES = (BASELINE, LOGGED, "IPS", "B-IPS", CORRECTION, "post.", AUTO)


def bars(cells: Sequence[Cell]) -> Iterator[str]:
    """What must hold, in words."""
    loss = np.array([cell.loss().mean() for cell in cells])
    yield f"loss of auto to the better of naive and logged, by setting: {_error(loss)}"
    runs = np.concatenate([cell.best() - cell.values[AUTO] for cell in cells])
    yield f"the same, where the better one may differ between seeds: {_error(runs)}"
    clear = sum(p < LEVEL for p in chances(cells))
    yield f"settings that lose significantly more than {LESS:g} (Holm): {clear}"
    for name, right in RIGHT.items():
        own = [cell for cell in cells if right(cell.setting)]
        if own:
            lost = np.array([cell.loss(CANDIDATES).mean() for cell in own])
            yield f"{name}, {len(own)} settings: loss to the best {_error(lost)}"
    gains = sum(cell.misses() for cell in cells)
    yield f"runs in which posterior gains {GAIN:g} and auto keeps or refuses: {gains}"


def worst(cells: Sequence[Cell]) -> Iterator[tuple[str, ...]]:
    """Settings that lose more than matters on average, most first."""
    found = zip(cells, chances(cells), strict=True)
    for cell, p in sorted(found, key=lambda one: -one[0].loss().mean()):
        if cell.loss().mean() > LESS:
            yield *cell.setting, f"{cell.loss().mean():.3f}", f"{p:.2g}", cell.took()


def chances(cells: Sequence[Cell]) -> list[float]:
    """P-values of a loss above what matters, corrected for their number (Holm)."""
    return holm([above(cell.loss(), LESS) for cell in cells])


def _known(setting: Setting) -> bool:
    return setting.given in ("estimated", "right")


RIGHT: Mapping[str, Callable[[Setting], bool]] = {
    "the model by rank is right": lambda one: (
        _known(one) and one.click_model in ("trust", "no trust", "eps- 0")
    ),
    "the model by last click or segment is right": lambda one: (
        _known(one) and one.click_model in ("cascade", "browsing", "by segment")
    ),
}


def above(values: Floats, bound: float) -> float:
    """P-value of a mean above a bound, one-sided t-test."""
    if len(values) < 2 or np.ptp(values) == 0:  # one seed says nothing
        return float(len(values) < 2 or values[0] <= bound)
    return float(stats.ttest_1samp(values, bound, alternative="greater").pvalue)


def holm(p: Sequence[float]) -> list[float]:
    """Correct p-values for their number by Holm's method."""
    order = np.argsort(p)
    steps = np.array(p)[order] * (len(p) - np.arange(len(p)))
    found = np.empty(len(p))
    found[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return found.tolist()


def by_level(cells: Sequence[Cell]) -> Iterator[tuple[str, ...]]:
    """Mean of naive, and means over naive of others where there are some."""
    for factor, levels in {"": ("",), **FACTORS}.items():
        for level in levels:
            own = [
                one
                for one in cells
                if not factor or level == getattr(one.setting, factor)
            ]
            if not own:
                continue
            naive = np.array([cell.mean(BASELINE) for cell in own])
            means = [f"{naive.mean():.3f}"]
            for name in (*CANDIDATES[1:], AUTO):
                over = np.array([cell.mean(name) for cell in own]) - naive
                means.append("" if np.isnan(over).all() else f"{np.nanmean(over):+.3f}")
            loss = np.mean([cell.loss().mean() for cell in own])
            took = Counter("".join(cell.took() for cell in own))
            taken = " ".join(f"{n} {letter}" for letter, n in took.most_common())
            name = f"{factor}: {level}" if factor else "all"
            yield name, str(len(own)), *means, f"{loss:+.3f}", taken


def by_click_model(cells: Sequence[Cell]) -> Iterator[tuple[str, ...]]:
    """How often which users were estimated, and given users were doubted."""
    for level in FACTORS["users"]:
        runs = [
            run for one in cells if one.setting.click_model == level for run in one.runs
        ]
        groups = {
            right: [run for run in runs if run["setting"].given in which]
            for right, which in (
                ("", ("estimated",)),
                ("right", ("right",)),
                ("wrong", set(GIVEN) - {"estimated", "right"}),
            )
        }
        found = Counter(run["users"] for run in groups[""])
        doubted = [
            f"{sum(run['doubted'] for run in groups[right])} of {len(groups[right])}"
            for right in ("right", "wrong")
        ]
        yield (
            level,
            ", ".join(f"{n} {name}" for name, n in found.most_common()),
            *doubted,
        )


def every_cell(cells: Sequence[Cell]) -> Iterator[tuple[str, ...]]:
    for cell in cells:
        means = [_short(cell.mean(name)) for name in (*CANDIDATES, AUTO)]
        yield *cell.setting, *means, cell.took()


def table(heads: Sequence[str], rows: Iterator[tuple[str, ...]]) -> None:
    print(f"|{'|'.join(heads)}|\n|{'---|' * len(heads)}")
    for row in rows:
        print(f"|{'|'.join(row)}|")


def _short(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.3f}"


def _error(values: Floats) -> str:
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return f"{values.mean():+.4f} +- {error:.4f} (most {values.max():+.4f})"


if __name__ == "__main__":
    main()
