"""The stages, composed: the only place where one stage's result enters the next."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from affinerank.clicks.simulate import (
    Simulation,
    Traffic,
    prepare,
    simulate_counts,
    write_session_log,
)
from affinerank.clicks.usermodel import UserModel
from affinerank.data.catalog import DataSource
from affinerank.data.dataset import FeatureMapping, RankingDataset, Split
from affinerank.errors import ConfigError, DataError
from affinerank.metrics import Metric, MetricValues, mean_by_rank, ranks_by_score
from affinerank.progress import Progress, quiet
from affinerank.rankers.gbdt import TreeRanker, fit_lambdamart

JUDGED_BY = Metric("nDCG", cutoff=10)
PRODUCTION_QUERIES = 20
RANKS_SHOWN = 10


def train_production_ranker(
    data: RankingDataset,
    *,
    n_queries: int = PRODUCTION_QUERIES,
    relevant_above: float = 2.0,
    seed: int = 0,
) -> TreeRanker:
    """Train a decent but improvable ranker on a few labelled queries.

    As in the paper: LambdaMART with LightGBM's defaults, on ``n_queries`` queries drawn
    without replacement, labels binarised.
    """
    if data.n_queries < n_queries:
        raise DataError(
            f"the production ranker learns from {n_queries} queries, "
            f"and the data have {data.n_queries}"
        )
    rng = np.random.default_rng(seed)
    chosen = data.select_queries(rng.choice(data.n_queries, n_queries, replace=False))
    mapping = FeatureMapping.fit(chosen)
    mapped = mapping.apply(chosen)
    relevance = mapped.relevance(relevant_above)
    model = fit_lambdamart(mapped.features, relevance, mapped.offsets, seed=seed)
    provenance = {
        "trained_by": "LambdaMART on labels",
        "queries": [str(name) for name in mapped.query_ids],
        "relevant_above": relevant_above,
        "seed": seed,
    }
    return TreeRanker(model, mapping, provenance)


def score(ranker: TreeRanker, data: RankingDataset) -> NDArray[np.float64]:
    """Score every document of raw ``data``: ``[n_docs]``, higher is ranked earlier."""
    return ranker.predict(ranker.mapping.apply(data).features)


@dataclass(frozen=True, slots=True)
class ProductionProfile:
    """How the production ranker orders the data, over several draws of its queries.

    Attributes:
        draws: Number of production rankers, each trained on its own queries.
        relevant_share: ``[10]`` share of relevant documents at ranks 1 to 10.
        ndcg: One nDCG@10 per draw.
        skipped: Queries without a relevant document, left out of nDCG.
    """

    draws: int
    relevant_share: NDArray[np.float64]
    ndcg: NDArray[np.float64]
    skipped: int


def profile_production(
    train: RankingDataset,
    judged: RankingDataset,
    *,
    draws: int = 5,
    relevant_above: float = 2.0,
    seed: int = 0,
    progress: Progress = quiet,
) -> ProductionProfile:
    """Train ``draws`` production rankers; average what each puts where.

    The relevant share by rank is taken on ``train``, nDCG@10 on ``judged``.
    """
    shares = []
    values: list[MetricValues] = []
    relevance = train.relevance(relevant_above)
    for draw in range(draws):
        progress("production rankers", draw, draws)
        ranker = train_production_ranker(
            train, relevant_above=relevant_above, seed=seed * draws + draw
        )
        ranks = ranks_by_score(score(ranker, train), train.offsets)
        shares.append(mean_by_rank(relevance, ranks, depth=RANKS_SHOWN))
        values.append(judge(score(ranker, judged), judged, relevant_above))
    progress("production rankers", draws, draws)
    return ProductionProfile(
        draws=draws,
        relevant_share=np.mean(shares, axis=0),
        ndcg=np.array([value.mean for value in values]),
        skipped=values[0].n_skipped,
    )


def judge(
    scores: NDArray[np.float64], data: RankingDataset, relevant_above: float
) -> MetricValues:
    """Compute the number everything is judged by: nDCG@10 on binarised labels."""
    return JUDGED_BY(scores, data.relevance(relevant_above), data.offsets)


def describe(
    source: DataSource,
    *,
    split: Split | None = None,
    relevant_above: float = 2.0,
    seed: int = 0,
    progress: Progress = quiet,
) -> dict[str, Any]:
    """Say what a set holds and how a production ranker orders it, as plain data."""
    progress("reading", 0, 1)
    data = source.read(split or source.default_split("train"))
    progress("reading", 1, 1)
    about: dict[str, Any] = {
        "data": source.name,
        "split": split or source.default_split("train"),
        "synthetic": source.synthetic,
        **data.summary(),
        "production": None,
    }
    if data.labels is None:
        return about
    about["relevant_above"] = relevant_above
    about["relevant_share"] = float(data.relevance(relevant_above).mean())
    judged = data
    if about["split"] == "train" and "test" in source.splits:
        judged = source.read("test")
    try:
        profile = profile_production(
            data, judged, relevant_above=relevant_above, seed=seed, progress=progress
        )
    except DataError as error:
        about["production"] = {"not_trained": str(error)}
        return about
    about["production"] = {
        "draws": profile.draws,
        "queries_learnt_from": PRODUCTION_QUERIES,
        "relevant_share_by_rank": [
            None if np.isnan(s) else float(s) for s in profile.relevant_share
        ],
        str(JUDGED_BY): [float(value) for value in profile.ndcg],
        "judged_on": "test" if judged is not data else "the same data",
        "queries_skipped": profile.skipped,
    }
    return about


def prepare_simulation(
    data: RankingDataset,
    users: UserModel | None = None,
    *,
    eta: float = 1.0,
    eps_minus_1: float = 0.65,
    rankers: Mapping[str, TreeRanker] | None = None,
    relevance: str = "binary",
    relevant_above: float = 2.0,
    traffic: Traffic | None = None,
    seed: int = 0,
) -> Simulation:
    """Rank labelled data and put users in front of it.

    Args:
        data: Labelled data.
        users: How users click; the paper's users of ``eta`` and ``eps_minus_1`` where
            left out.
        eta: Steepness of position bias.
        eps_minus_1: Click rate of an irrelevant document that is examined at rank 1.
        rankers: What ranks; a production ranker trained on ``data`` where left out.
        relevance: ``"binary"``: 1 above ``relevant_above``, as in the paper;
            ``"graded"``: label / 4.
        relevant_above: Labels above this are relevant.
        traffic: Which queries come, and what is shown.
        seed: Of the production ranker and of which queries are frequent.
    """
    used = rankers or {
        "production": train_production_ranker(
            data, relevant_above=relevant_above, seed=seed
        )
    }
    depth = int(data.docs_per_query.max())
    asked = traffic or Traffic()
    if asked.top_k is not None:
        depth = min(depth, asked.top_k)
    return prepare(
        data,
        {n: ranks_by_score(score(r, data), data.offsets) for n, r in used.items()},
        relevance_of(data, relevance, relevant_above),
        users or UserModel.paper(eta=eta, eps_minus_1=eps_minus_1, depth=depth),
        traffic=asked,
        rng=np.random.default_rng([seed, 1]),
    )


def relevance_of(
    data: RankingDataset, relevance: str, relevant_above: float
) -> NDArray[np.float32]:
    """Probability of relevance of each document: 0 or 1, or its label divided by 4."""
    if relevance == "binary":
        return data.relevance(relevant_above)
    if relevance != "graded":
        raise ConfigError(f"relevance must be binary or graded, got {relevance!r}")
    graded = data.known_labels() / np.float32(4.0)
    if graded.max(initial=0.0) > 1:
        raise DataError(
            f"graded relevance is label / 4, and labels go up to {4 * graded.max():g}"
        )
    return graded


def simulation_rankers(
    names: Sequence[str],
    data: RankingDataset,
    *,
    relevant_above: float = 2.0,
    seed: int = 0,
) -> tuple[dict[str, TreeRanker], dict[str, float]]:
    """Understand ``production``, ``production:SEED`` or a ranker's folder, each once.

    A share may follow, as in ``production=0.7``; give one for all or for none.

    Returns:
        The rankers and their shares, by name.
    """
    rankers: dict[str, TreeRanker] = {}
    shares: dict[str, float] = {}
    for text in names:
        name, equals, share = text.partition("=")
        match = re.fullmatch(r"production(?::(\d+))?", name)
        if name in rankers:
            raise ConfigError(f"the ranker {name!r} is named twice")
        if match is None:
            rankers[name] = TreeRanker.load(name)
        else:
            rankers[name] = train_production_ranker(
                data,
                relevant_above=relevant_above,
                seed=int(match[1]) if match[1] else seed,
            )
        if equals:
            try:
                shares[name] = float(share)
            except ValueError:
                raise ConfigError(f"a share is a number, got {text!r}") from None
    return rankers, shares


def simulate(
    simulation: Simulation,
    *,
    clicks: float | None = None,
    sessions: int | None = None,
    log: Path | None = None,
    counts: Path | None = None,
    save_users: Path | None = None,
    seed: int = 0,
    progress: Progress = quiet,
) -> dict[str, Any]:
    """Draw sessions, and write their log, their counts, or both.

    The target is a number of ``sessions``, or of ``clicks``, which expected clicks per
    session turn into sessions. Where both files are asked for, the counts are those of
    the log.

    Returns:
        Sizes, the clicks expected, and the files written, as plain data.
    """
    if (clicks is None) == (sessions is None):
        raise ConfigError("give either a number of clicks or a number of sessions")
    wanted = simulation.sessions_for(clicks) if clicks is not None else sessions or 0
    rng = np.random.default_rng([seed, 2])
    about: dict[str, Any] = {"expected_clicks": wanted * simulation.expected_clicks}
    written = {}
    if log is not None:
        about |= write_session_log(simulation, wanted, log, rng=rng, progress=progress)
        written["log"] = str(log)
    if counts is not None and log is not None:
        from affinerank.clicks.counting import count_log, open_table

        with open_table(str(log)) as table:
            count_log(table, counts, check=False, progress=progress)
    elif counts is not None:
        drawn = simulate_counts(simulation, wanted, rng=rng)
        drawn.save(counts)
        about |= drawn.summary()
    if counts is not None:
        written["counts"] = str(counts)
    if save_users is not None:
        simulation.users.save(save_users)
        written["users"] = str(save_users)
    return {**about, "written": written}
