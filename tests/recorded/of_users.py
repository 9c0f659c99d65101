"""Groups of recorded values: users estimated from clicks, and what rests on them."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from tests.recorded.inputs import (
    WIDE,
    counts_of,
    data_of,
    held_out_log,
    many_counts,
    production,
    ragged,
    split_of,
    true_click_model,
)
from tests.recorded.of_clicks import Pairs, numbers

import affinerank as ar
from affinerank.audit.rank_effect import rank_effect
from affinerank.audit.run import audit
from affinerank.bias.method import Estimate
from affinerank.bias.regression_em.activations import ACTIVATIONS
from affinerank.bias.regression_em.estimate import EMFit, fit_em, resampled
from affinerank.bias.regression_em.run import EMSettings, Run
from affinerank.bias.regression_em.stack import EMStack, fallen_cells
from affinerank.bias.regression_em.updates import (
    CellRows,
    as_zeta,
    mean_movement,
    start_of,
    updated,
)
from affinerank.evaluation.rank_weights import RankWeights
from affinerank.pipeline.evaluate_clicks import (
    ClickEvaluationSettings,
    gain_over_logged,
)
from affinerank.pipeline.steps.click_model import filled_features
from affinerank.rankers.networks.batches import RaggedLists
from affinerank.support.arrays import Matrix

EM_NETWORK = ar.NetworkSettings(
    hidden=(8, 4), epochs=3, batch_queries=8, learning_rate=0.02, device="cpu"
)
ESTIMATES = {  # name: log, with features, method
    "features": ("wide", True, "auto"),
    "clicks": ("wide", False, "auto"),
    "two-level": ("wide", True, "two-level"),
    "weak": ("fixed", True, "mixture"),
    "interventions": ("rotate10", False, "interventions"),
    "rotate10-features": ("rotate10", True, "auto"),
}


def em_parts() -> Pairs:
    yield from em_updates()
    sizes, scores, _, known, _ = ragged()
    for name, activation in ACTIVATIONS.items():
        given = torch.from_numpy(scores), torch.from_numpy(known)
        yield f"em/activation/{name}", activation(*given, RaggedLists.of(sizes))
    # One document per query, of which the third is never shown.
    query, one = np.array([0, 1, 3, 4, 5]), np.ones(5, dtype=np.int64)
    clicks = np.array([3.0, 0.0, 1.0, 5.0, 2.0])
    shown = np.full(5, 9.0)
    rows = ar.ClickRows(query, one, 0 * one, shown, clicks, np.arange(6), np.ones(6))
    drawn = resampled(rows, np.random.default_rng(6))
    yield "em/query_weights", drawn.sessions


def em_updates() -> Pairs:
    """Three updates of click rates, on 60 rows of counts in three of four cells."""
    rng = np.random.default_rng(0)
    shown = rng.integers(1, 6, 60)
    cell = torch.from_numpy(rng.integers(0, 3, 60))
    clicks = torch.from_numpy(rng.binomial(shown, 0.4))
    rows = CellRows.of(cell, torch.arange(60), torch.from_numpy(shown), clicks, 4)
    relevance = torch.from_numpy(rng.random(60))[rows.doc]
    rates = ((0.9, 0.3), (0.8, 0.05), (0.5, 0.0), (0.7, 0.1))
    begun = [EMSettings("three", plus, minus) for plus, minus in rates]
    eps = torch.cat([start_of(settings, 1) for settings in begun], dim=1)
    yield "em/as_eps", eps
    zeta = torch.tensor(rates, dtype=torch.float64).T.contiguous()
    clicked = rows.summed(rows.clicks).view(1, 4)
    for i in range(3):
        before = zeta.view(2, 1, 4)
        zeta, eps = updated(zeta, relevance, rows), updated(eps, relevance, rows)
        yield f"em/update_zeta/{i}", zeta
        yield f"em/update_eps/{i}", eps
        moved = mean_movement(before, zeta.view(2, 1, 4), clicked)
        yield f"em/mean_movement/{i}", moved


def em_fits() -> Pairs:
    data = split_of("train")
    rows, features = ar.join_counts(counts_of("both"), data), filled_features(data)
    for activation, settings in (
        ("soft-min-max", EMSettings("two")),
        ("softmax", EMSettings("two")),
        ("sigmoid", EMSettings("two")),
        ("soft-min-max", EMSettings("three")),
        ("soft-min-max", EMSettings("position")),
    ):
        at = f"em/fit/{activation}/{settings.parameters}"
        run = Run(rows, activation, seed=1)
        begun = as_zeta(start_of(settings, rows.depth))
        with pytest.MonkeyPatch.context() as patch:
            steps, found = traced_fit(patch, features, run, settings)
        zeta = torch.stack([begun, *(each for _, each in steps)])
        yield f"{at}/zeta_plus", zeta[:, 0]
        yield f"{at}/zeta_minus", zeta[:, 1]
        yield f"{at}/steps", [step for step, _ in steps]
        fallen = [fallen_cells(each, settings.fallen) for _, each in steps]
        yield f"{at}/fallen", [int(each.sum()) for each in fallen]
        yield f"{at}/converged", found.converged
        yield f"{at}/users/alpha", found.click_model.alpha
        yield f"{at}/users/beta", found.click_model.beta
        yield f"{at}/predictions", found.ranker.predict(features)


def traced_fit(
    patch: pytest.MonkeyPatch, features: Matrix, run: Run, settings: EMSettings
) -> tuple[list[tuple[int, torch.Tensor]], EMFit]:
    """Fit, and note training steps and click rates after each update."""
    steps: list[tuple[int, torch.Tensor]] = []
    update = EMStack.update

    def noted(stack: EMStack) -> None:
        update(stack)
        steps.append((stack.trainer.steps, stack.zeta[:, 0]))

    patch.setattr(EMStack, "update", noted)
    [found] = fit_em(features, [run], settings=settings, network=EM_NETWORK)
    return steps, found


def em_estimate() -> Pairs:
    settings = ar.EstimationSettings(
        method="sigmoid", network=EM_NETWORK, replicates=2, seed=1
    )
    data, click_model = split_of("train"), true_click_model("both")
    found = ar.estimate_click_model(
        counts_of("both"), data, settings=settings, truth=click_model
    )
    yield from estimate_found("em/estimate_click_model", found)


@cache
def estimated(name: str) -> Estimate:
    log, with_features, method = ESTIMATES[name]
    return ar.estimate_click_model(
        many_counts(log),
        data_of(log) if with_features else None,
        settings=ar.EstimationSettings(method=method, seed=0),
        truth=true_click_model(log),
    )


def mixtures() -> Pairs:
    for name in ESTIMATES:
        yield from estimate_found(f"mixture/{name}", estimated(name))
    chosen = ar.estimate_click_model(many_counts("rotate10"))
    yield "mixture/chosen/alpha", chosen.click_model.alpha


def estimate_found(at: str, found: Estimate) -> Pairs:
    yield f"{at}/alpha", found.click_model.alpha
    yield f"{at}/beta", found.click_model.beta
    yield f"{at}/clicks", found.clicks
    yield f"{at}/pools", found.pools.of_rank
    for gauge in ("inference", "display"):
        bands = getattr(found, gauge)
        for part in ("alpha", "beta", "alpha_error", "beta_error", "covariance"):
            if getattr(bands, part) is not None:
                yield f"{at}/{gauge}/{part}", getattr(bands, part)
    if found.test is not None:
        yield from numbers(f"{at}/test", asdict(found.test))
        yield f"{at}/test/found", found.test.found
    assert found.error is not None
    yield from numbers(f"{at}/error", asdict(found.error))
    yield f"{at}/error/alpha", found.error.alpha
    yield f"{at}/error/beta", found.error.beta
    for name in ("levels", "feature_correlation"):
        if name in found.click_model.provenance:
            yield f"{at}/{name}", found.click_model.provenance[name]
    seen = found.overlap
    yield f"{at}/overlap", [seen.n_docs, seen.n_moved, seen.all_connected]
    yield f"{at}/method", found.method
    yield f"{at}/pool_names", list(found.pools.names)
    yield f"{at}/connected", list(seen.connected)


def off_policy() -> Pairs:
    counts, click_model = held_out_log()
    for estimator in ("affine", "ips", "bayes-ips", "naive"):
        own = ClickEvaluationSettings(estimator=estimator)
        yield from evaluated_by_clicks(f"known/{estimator}", counts, click_model, own)
    weights = RankWeights.of_metric(ar.Metric("P", 5))
    own = ClickEvaluationSettings(rank_weights=weights)
    yield from evaluated_by_clicks("known/precision", counts, click_model, own)
    for who, model in (
        ("known", click_model),
        ("estimated", estimated("features").click_model),
    ):
        for name, ranker in rivals().items():
            gain = gain_over_logged(ranker, counts, split_of("test"), model)
            yield f"offpolicy/gain/{name}/{who}", gain


def off_policy_estimated() -> Pairs:
    (counts, _), click_model = held_out_log(), estimated("features").click_model
    own = ClickEvaluationSettings(replicates=4, seed=2)
    learnt = (many_counts("wide"), split_of("train", WIDE))
    for name, found in evaluated_by_clicks(
        "estimated", counts, click_model, own, learnt
    ):
        if name.endswith("/rests_on"):
            # Version 0.1 counted impressions whose weight is 0 up to rounding, too.
            never_shown, _, effective, _ = found
            yield name, [never_shown, np.nan, effective, np.nan]
        else:
            yield name, found


def rivals() -> dict[str, ar.Ranker]:
    return {"one": production(1), "two": production(2)}


def evaluated_by_clicks(
    name: str,
    counts: ar.ClickCounts,
    click_model: ar.TrustModel,
    settings: ClickEvaluationSettings,
    learnt: tuple[ar.ClickCounts, ar.RankingDataset] | None = None,
) -> Pairs:
    at = f"offpolicy/{name}"
    found = ar.evaluate_from_clicks(
        rivals(),
        counts,
        split_of("test"),
        click_model,
        settings=settings,
        estimated_from=learnt,
    ).to_dict()
    for text in ("metric", "estimator", "units"):
        yield f"{at}/{text}", found[text]
    yield f"{at}/sizes", [found[key] for key in ("queries", "sessions", "clicks")]
    rests_on = (
        "never_shown_share",
        "impressions",
        "effective_impressions",
        "top_percent_share",
    )
    for row in found["rankers"]:
        yield f"{at}/{row['ranker']}/rests_on", [row[key] for key in rests_on]
        for whose in ("value", "logged", "against_logged"):
            if whose in row:
                yield from interval_found(f"{at}/{row['ranker']}/{whose}", row[whose])


def interval_found(at: str, found: dict[str, Any]) -> Pairs:
    yield from numbers(at, found)
    for over in ("over_sessions", "over_queries"):
        ends = [found[over][key] for key in ("low", "high", "standard_error")]
        yield f"{at}/{over}", ends
    if "verdict" in found:
        yield f"{at}/verdict", found["verdict"]
        if found["clicks_needed"] is None:
            yield f"{at}/clicks_needed", "None"


def evaluated() -> Pairs:
    rankers = {f"p{seed}": production(seed) for seed in (0, 1, 2)}
    for text in ("nDCG@10", "DCG@5", "nDCG(gain=exponential)@5", "P@5", "RR", "ARP"):
        metric, at = ar.Metric.parse(text), f"judged/{text}"
        found = ar.evaluate_rankers(rankers, split_of("test"), metric=metric).to_dict()
        yield f"{at}/metric", found["metric"]
        yield f"{at}/queries", found["queries"]
        for row in found["rankers"]:
            values = [row["mean"], row["standard_error"], *row["interval"]]
            yield f"{at}/{row['ranker']}", values
        for row in found["comparisons"]:
            yield from numbers(f"{at}/{row['first']}-less-{row['second']}", row)


def audits() -> Pairs:
    yield from audited("features", many_counts("wide"), split_of("train", WIDE))
    yield from audited("clicks", many_counts("rotate10"))
    yield from audited("little", counts_of("two"))


def audited(
    name: str, counts: ar.ClickCounts, data: ar.RankingDataset | None = None
) -> Pairs:
    found, at = audit(counts, data, days=14.0).to_dict(), f"audit/{name}"
    for section, part in found.items():
        if section not in ("source", "worth", "next", "click_rates"):
            yield f"{at}/{section}/verdict", part["verdict"]
    usable, rates, bias = found["usable"], found["click_rates"], found["position_bias"]
    yield from numbers(f"{at}/usable", usable)
    # Version 0.1 did not look at how far documents moved.
    new = "impressions away from the usual rank"
    known = [row for row in usable["checks"] if row["what"] != new]
    yield f"{at}/usable/numbers", or_nan(row["number"] for row in known)
    checks = [f"{row['what']}: {row['verdict']}" for row in known]
    yield f"{at}/usable/checks", checks
    yield from columns(f"{at}/click_rates/by_rank", rates["by_rank"])
    for group in rates.get("by_ranker", ()):
        yield f"{at}/click_rates/by_ranker/{group['name']}/sessions", group["sessions"]
    yield from numbers(f"{at}/position_bias/same_document", bias["same_document"] or {})
    ends = [bias["alpha"][end] for end in ("first", "last")]
    slopes = [end[key] for end in ends for key in ("alpha", "error")]
    yield f"{at}/position_bias/alpha", [bias["alpha"]["p"], *slopes]
    yield from numbers(f"{at}/trust_bias/test", found["trust_bias"]["test"])
    identified = found["identified"]
    statuses = [row["status"] for row in identified["parameters"]]
    yield f"{at}/identified/parameters", statuses
    yield f"{at}/identified/method", identified["method"]
    yield from columns(f"{at}/identified/by_rank", identified["by_rank"])
    yield from numbers(f"{at}/identified/precision", identified["precision"])
    yield from numbers(f"{at}/first_rank", found["first_rank"])
    yield f"{at}/next/steps", [step["step"] for step in found["next"]]
    for step in found["next"]:
        if step["step"] != "swaps":  # another planner, tested by itself
            yield from numbers(f"{at}/next/{step['step']}", step)


def swaps() -> Pairs:
    effect = rank_effect(ar.join_counts(many_counts("rotate10")))
    assert effect is not None
    yield from numbers("swaps/effect", asdict(effect))


def columns(at: str, rows: Sequence[dict[str, Any]]) -> Pairs:
    """Yield each column of a list of rows that holds numbers, by its key."""
    for key in rows[0] if rows else ():
        values = [row.get(key) for row in rows]
        if isinstance(values[0], dict):
            yield from columns(f"{at}/{key}", [row[key] for row in rows])
        elif {type(value) for value in values} <= {int, float, type(None)}:
            yield f"{at}/{key}", or_nan(values)


def or_nan(values: Iterable[float | None]) -> list[float]:
    return [np.nan if value is None else value for value in values]
