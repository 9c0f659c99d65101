"""Groups of recorded values: from streams and worlds to weights of documents."""

import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
from tests.halves import halves
from tests.recorded.inputs import (
    CLIP,
    LOGS,
    MSLR,
    YAHOO,
    click_model_named,
    counts_of,
    data_of,
    production,
    simulation,
    split_of,
    true_click_model,
)

import affinerank as ar
from affinerank.bias.gauge import display_gauge, inference_gauge
from affinerank.counts.counting import count_log, open_table
from affinerank.estimators.correction import standard_error
from affinerank.evaluation.click_value import estimate
from affinerank.support.lists import discount, ranks_by_score
from affinerank.support.seeds import stage_rng

Pairs = Iterator[tuple[str, Any]]


def numbers(name: str, table: dict[str, Any]) -> Pairs:
    """Yield each number of a mapping, and nothing else of it."""
    for key, value in table.items():
        if isinstance(value, bool | int | float):
            yield f"{name}/{key}", value


def seeds() -> Pairs:
    for stage in (
        "production",
        "traffic",
        "clicks",
        "batches",
        "baseline",
        "estimation",
        "choice",
    ):
        both = (stage_rng(stage, 0), stage_rng(stage, 7, 3, 1))
        yield f"seeds/{stage}", [rng.random(2) for rng in both]


def worlds() -> Pairs:
    for name in (YAHOO, MSLR):
        mapping = ar.FeatureMapping.fit(split_of("train", name))
        for split in ("train", "validation", "test"):
            data, at = split_of(split, name), f"world/{name}/{split}"
            for column in ("features", "labels", "offsets"):
                yield f"{at}/{column}", getattr(data, column)
            yield f"{at}/mapped", mapping.apply(data).features


def production_scores() -> Pairs:
    for seed in (0, 1):
        scores = ar.score(production(seed), split_of("test"))
        yield f"production/yahoo/{seed}", scores
    scores = ar.score(production(2, MSLR), split_of("test", MSLR))
    yield "production/mslr/2", scores


def logs() -> Pairs:
    for log in LOGS:
        sim, counts, at = simulation(log), counts_of(log), f"logs/{log}"
        yield f"{at}/expected_clicks", sim.expected_clicks
        yield f"{at}/sessions_for_1e4", sim.sessions_for(1e4)
        yield f"{at}/query_share", sim.query_share
        yield f"{at}/rows", len(counts.rank)
        columns = ("query_id", "doc_id", "rank", "impressions", "clicks", "sessions")
        for column in columns:
            yield f"{at}/{column}", counts.table[column]
    two = counts_of("two")
    yield "logs/two/ranker_b", pc.equal(two.table["ranker"], "b")
    held = two.holdout(0.2).select("split", "holdout")
    yield "logs/two/holdout/queries", np.unique(held.table["query_id"])
    merged = two.merged("ranker")
    yield "logs/two/merged/impressions", merged.impressions
    yield "logs/two/merged/sessions", merged.sessions
    parts = halves(counts_of("both"), rng=np.random.default_rng(5))
    for name, half in zip("ab", parts, strict=True):
        yield f"logs/both/halves/{name}/impressions", half.impressions
        yield f"logs/both/halves/{name}/clicks", half.clicks


def session_logs() -> Pairs:
    with tempfile.TemporaryDirectory() as folder:
        for log in ("fixed", "swap", "rotate", "two"):
            path, at = Path(folder) / f"{log}.parquet", f"sessions/{log}"
            rng = np.random.default_rng(31)
            totals = ar.write_session_log(simulation(log), 300, path, rng=rng)
            yield from numbers(f"{at}/totals", totals)
            table = pq.read_table(path)
            for column in ("session_id", "query_id", "doc_id", "rank", "clicked"):
                yield f"{at}/first/{column}", table[column][:12]
            for column in ("doc_id", "clicked"):
                yield f"{at}/every/{column}", table[column]
            target = Path(folder) / f"{log}-counts.parquet"
            with open_table(str(path)) as source:
                count_log(source, target)
            counted = ar.ClickCounts.load(target)
            yield f"{at}/counted/impressions", counted.impressions
            yield f"{at}/counted/clicks", counted.clicks
            yield f"{at}/counted/rows", len(counted.rank)


def click_model() -> Pairs:
    for name in ("paper", "shallow", "steep", "zeta"):
        model = click_model_named(name)
        for part in ("alpha", "beta", "theta", "eps_plus", "eps_minus"):
            yield f"users/{name}/{part}", getattr(model, part)[:30]


def gauges() -> Pairs:
    seen = np.arange(6.0, 0.0, -1.0) ** 2
    for name in ("shallow", "steep"):
        model, at = click_model_named(name, 6), f"gauge/{name}"
        shown = {"display": display_gauge(model)}
        shown["inference"] = inference_gauge(model, seen)
        for gauge, found in shown.items():
            yield f"{at}/{gauge}/alpha", found.alpha
            yield f"{at}/{gauge}/beta", found.beta
        error = ar.click_model_error(model, click_model_named("paper", 6), seen)
        yield from numbers(f"{at}/error", asdict(error))


def weights() -> Pairs:
    for log in ("fixed", "top5", "both", "two", "graded", "mslr"):
        data, model = data_of(log), true_click_model(log)
        rows, at = ar.join_counts(counts_of(log), data), f"weights/{log}"
        for name in ("naive", "ips", "bayes-ips", "affine"):
            yield from weighed(f"{at}/{name}", rows, data, name, model)
        clipped = f"affine(clip={CLIP})"
        yield from weighed(f"{at}/affine-clipped", rows, data, clipped, model)
        found = ar.weigh(rows, "affine", model)
        yield f"{at}/shown", found.known
        yield f"{at}/share", found.share
        labels = data.relevance(2.0).astype(np.float64)
        full = ar.weigh(rows, "full-information", labels=labels)
        yield f"{at}/full-information/weight", full.weight
        yield f"{at}/full-information/share", full.share
    data = data_of("fixed")
    rows = ar.join_counts(counts_of("fixed"), data)
    for name in ("shallow", "steep", "zeta", "gauge"):
        known = () if name == "gauge" else ("ips", "bayes-ips")
        model, at = click_model_named(name), f"weights/fixed/users-{name}"
        for estimator in (*known, "affine"):
            yield from weighed(f"{at}/{estimator}", rows, data, estimator, model)
        clipped = "affine(clip=0.1)"
        yield from weighed(f"{at}/affine-clipped-0.1", rows, data, clipped, model)


def weighed(
    at: str,
    rows: ar.ClickRows,
    data: ar.RankingDataset,
    estimator: str,
    model: ar.TrustModel,
) -> Pairs:
    """Weights, how well they are known, and the DCG of a ranking by them."""
    found = ar.weigh(rows, estimator, model)
    yield f"{at}/weight", found.weight
    yield f"{at}/variance", found.variance
    yield f"{at}/standard_error", standard_error(found, rows)
    ranks = ranks_by_score(data.features[:, 0], data.offsets)
    yield f"{at}/metric", estimate(found, discount(ranks), data.query_of_doc).least


def debiased() -> Pairs:
    model, two = true_click_model("two"), counts_of("two")
    for kind, counts in (("whole", two), ("split", two.holdout(0.2))):
        for estimator in ("naive", "ips", "bayes-ips", "affine", "affine-clipped"):
            name, *clip = estimator.split("-clipped")
            at = f"debias/{kind}/{estimator}"
            table = ar.debias(
                counts,
                None if name == "naive" else model,
                estimator=name,
                clip=CLIP if clip else None,
            )
            yield f"{at}/relevance", table["relevance"]
            yield f"{at}/standard_error", table["standard_error"]
            if name == "naive":
                for column in ("query_id", "doc_id", "impressions", "clicks"):
                    yield f"{at}/{column}", table[column]
                if kind == "split":
                    yield f"{at}/held_out", pc.equal(table["split"], "holdout")
