"""What the recorded values were computed from: worlds, logs, lists, all seeded."""

from functools import cache

import numpy as np

import affinerank as ar
from affinerank.clicks.traffic import Simulation
from affinerank.pipeline.steps.training_lists import TrainingLists
from affinerank.rankers.targets import Targets
from affinerank.support.arrays import Bools, Floats, Ints, Matrix

YAHOO, MSLR, WIDE = "yahoo-like:60", "mslr-like:40", "yahoo-like:200"
CLIP = "10/sqrt(n)"
LOGS = {  # each log of 4,000 sessions, and the seed of its sessions
    "fixed": 11,
    "top5": 12,
    "swap": 13,
    "rotate": 14,
    "both": 15,
    "two": 16,
    "zipf": 17,
    "graded": 18,
    "mslr": 19,
}
TINY = ar.NetworkSettings(hidden=(8, 4), epochs=3, batch_queries=4, device="cpu")


@cache
def world(name: str) -> ar.Splits:
    return ar.load(name)


def split_of(split: str, name: str = YAHOO) -> ar.RankingDataset:
    data = getattr(world(name), split)
    assert isinstance(data, ar.RankingDataset)
    return data


@cache
def production(seed: int, name: str = YAHOO) -> ar.Ranker:
    return ar.train_production_ranker(split_of("train", name), seed=seed)


def data_of(log: str) -> ar.RankingDataset:
    return split_of("train", {"mslr": MSLR, "wide": WIDE}.get(log, YAHOO))


@cache
def simulation(log: str) -> Simulation:
    """What a log is drawn from: production ranker 0 and the paper's users, but ..."""
    swap, rotate = "swap(share=0.2)", "rotate(share=0.3)"
    rankers = {"a": production(0), "b": production(1)}
    differs: dict[str, dict[str, object]] = {
        "fixed": {},
        "top5": {
            "traffic": ar.Traffic(top_k=5),
            "click_model": "trust(eps_minus_1=0.35)",
        },
        "swap": {"traffic": ar.Traffic(policies=(swap,))},
        "rotate": {
            "traffic": ar.Traffic(policies=(rotate,)),
            "click_model": "trust(eta=0.5)",
        },
        "both": {
            "traffic": ar.Traffic(
                top_k=8, policies=(swap, "rotate(share=0.3, first=5)")
            )
        },
        "two": {
            "rankers": rankers,
            "traffic": ar.Traffic(top_k=10, shares={"a": 0.7, "b": 0.3}),
        },
        "zipf": {"traffic": ar.Traffic(queries="zipf:1", top_k=10), "seed": 3},
        "graded": {
            "relevance": "graded",
            "click_model": "trust(eta=2.0, eps_minus_1=0.35)",
        },
        "mslr": {"seed": 2},
        "wide": {},
        "rotate10": {"traffic": ar.Traffic(top_k=10, policies=(rotate,))},
    }
    return ar.prepare_simulation(data_of(log), **differs[log])  # type: ignore[arg-type]


@cache
def counts_of(log: str) -> ar.ClickCounts:
    rng = np.random.default_rng(LOGS[log])
    return ar.simulate_counts(simulation(log), 4000, rng=rng)


@cache
def many_counts(log: str) -> ar.ClickCounts:
    """As many sessions as bring 1e5 clicks; for estimating how users click."""
    sim = simulation(log)
    rng = np.random.default_rng(21)
    return ar.simulate_counts(sim, sim.sessions_for(1e5), rng=rng)


@cache
def held_out_log(top_k: int | None = None) -> tuple[ar.ClickCounts, ar.TrustModel]:
    """Clicks on the test split, as production ranker 0 of the train split orders it."""
    sim = ar.prepare_simulation(
        split_of("test"),
        rankers={"production": production(0)},
        traffic=ar.Traffic(top_k=top_k),
    )
    click_model = sim.click_model
    assert isinstance(click_model, ar.TrustModel)
    return ar.simulate_counts(sim, 4000, rng=np.random.default_rng(61)), click_model


def true_click_model(log: str) -> ar.TrustModel:
    click_model = simulation(log).click_model
    assert isinstance(click_model, ar.TrustModel)
    return click_model


def click_model_named(name: str, depth: int = 124) -> ar.TrustModel:
    if name == "shallow":
        return ar.TrustModel.paper(eta=0.5, eps_minus_1=0.35, depth=depth)
    if name == "steep":
        return ar.TrustModel.paper(eta=2.0, eps_minus_1=0.65, depth=depth)
    if name == "zeta":  # ends at rank 30
        rank = np.arange(1.0, 31.0)
        return ar.TrustModel.from_zeta(0.9 / rank**0.8, 0.4 / rank)
    paper = ar.TrustModel.paper(depth=depth)
    if name == "paper":
        return paper
    alpha, beta = 2.0 * paper.alpha, paper.beta - 0.3 * paper.alpha
    return ar.TrustModel(alpha=alpha, beta=beta, identified="relative")


def ragged() -> tuple[Ints, Floats, Floats, Bools, Floats]:
    """Sizes of six lists; scores, weights, known and share of two rankers on them."""
    rng = np.random.default_rng(41)
    sizes = np.array([5, 1, 12, 30, 8, 17])
    n = int(sizes.sum())
    scores = np.round(rng.normal(size=(2, n)) * 2, 1)  # some tie
    weights = rng.normal(size=(2, n))
    known = rng.random((2, n)) < 0.8
    share = rng.random((2, len(sizes))) + 0.1
    return sizes, scores, weights, known, share


def problem() -> tuple[Matrix, Targets, Ints]:
    """Features, targets of two networks and offsets of 30 queries."""
    rng = np.random.default_rng(0)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(2, 12, 30))])
    n = int(offsets[-1])
    features = rng.random((n, 5)).astype(np.float32)
    relevance = features[:, 1] - 0.5 * features[:, 3]
    noise = rng.normal(size=(2, n)) * 0.1
    known = rng.random((2, n)) < 0.9
    share = rng.random((2, 30)) + 0.1
    return features, Targets(relevance + noise, known, share), offsets


@cache
def lesson() -> tuple[TrainingLists, TrainingLists, Matrix]:
    """Two rankers, naive and affine: training, validation, and 50 unseen documents."""
    train, held, click_model = (
        split_of("train"),
        split_of("validation"),
        true_click_model("fixed"),
    )
    mapping = ar.FeatureMapping.fit(train)

    def lists(counts: ar.ClickCounts, data: ar.RankingDataset) -> TrainingLists:
        rows = ar.join_counts(counts, data)
        weights = [ar.weigh(rows, name, click_model) for name in ("naive", "affine")]
        return TrainingLists.of(mapping.apply(data).features, data.offsets, weights)

    sim = ar.prepare_simulation(
        held, click_model, rankers={"production": production(0)}
    )
    clicks = ar.simulate_counts(sim, 1000, rng=np.random.default_rng(51))
    validation = lists(clicks, held)
    unseen = mapping.apply(split_of("test")).features[:50]
    return lists(counts_of("fixed"), train), validation, unseen
