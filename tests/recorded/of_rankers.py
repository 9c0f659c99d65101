"""Groups of recorded values: losses, networks, trees, and how they are chosen."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from tests.recorded.inputs import (
    CLIP,
    MSLR,
    TINY,
    counts_of,
    lesson,
    problem,
    ragged,
    split_of,
    true_click_model,
)
from tests.recorded.of_clicks import Pairs, numbers

import affinerank as ar
from affinerank.rankers.networks.batches import Batch, RaggedLists
from affinerank.rankers.networks.held_out import HeldOut
from affinerank.rankers.networks.model import initial_parameters
from affinerank.rankers.networks.scaling import scaled
from affinerank.rankers.networks.training import NetworkTrainer, fit_networks
from affinerank.rankers.ranker import Fitted
from affinerank.rankers.targets import Targets
from affinerank.rankers.trees.lightgbm import (
    TreeSettings,
    fit_lambdamart,
    fit_trees,
)
from affinerank.rankers.trees.objectives import LambdaObjective

NUMBERS = 113  # of a tiny network; what follows only fills a row up
ESTIMATORS = ("naive", "ips", "bayes-ips", "affine", "full-information")


@contextmanager
def returned(kind: type, method: str) -> Iterator[list[Any]]:
    """Collect arguments and result of every call of a method."""
    inner, calls = getattr(kind, method), []

    def call(self: Any, *arguments: Any) -> Any:
        result = inner(self, *arguments)
        calls.append((arguments, result))
        return result

    with patch.object(kind, method, call):
        yield calls


def losses() -> Pairs:
    sizes, scores, weights, known, share = ragged()
    lists, by_document = RaggedLists.of(sizes), np.repeat(share, sizes, axis=1)
    for dtype in (torch.float64, torch.float32):
        for name, loss in ar.LOSSES.items():
            given = weights if loss.signed else np.abs(weights)
            batch = Batch(
                torch.tensor(given, dtype=dtype),
                torch.from_numpy(known),
                torch.tensor(by_document, dtype=dtype),
                lists,
            )
            values = torch.tensor(scores, dtype=dtype, requires_grad=True)
            found = loss.value(values, batch)
            (gradient,) = torch.autograd.grad(found.sum(), values)
            at = f"losses/{str(dtype).removeprefix('torch.')}/{name}"
            yield f"{at}/loss", found.detach()
            yield f"{at}/gradient", gradient


def targets() -> Pairs:
    sizes, _, weights, known, share = ragged()
    given, lists = Targets(weights, known, share), RaggedLists.of(sizes)
    for name in ("plain", "centred"):
        batch = scaled(given, lists, centred=name == "centred")
        yield f"targets/{name}/weights", batch.weights
        yield f"targets/{name}/share", batch.share
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    yield "targets/of_queries", given.of_queries(offsets)
    alike = scaled(Targets(weights, known), lists)
    yield "targets/without_share/weights", alike.weights


def step() -> Pairs:
    features, given, offsets = problem()
    start = initial_parameters(5, [4, 5], TINY)
    yield "step/initial", torch.cat([p.flatten(1) for p in start], dim=1)
    for name, loss in ar.LOSSES.items():
        trainer = NetworkTrainer(features, offsets, [4, 5], replace(TINY, loss=name))
        signed = given.weights if loss.signed else np.abs(given.weights)
        trainer.set_targets(replace(given, weights=signed))
        yield f"step/{name}/loss", trainer.step(next(trainer.samples(0)))
        yield f"step/{name}/parameters", trainer.flat[:, :NUMBERS]
        yield f"step/{name}/squares", trainer.squares[:, :NUMBERS]
        yield f"step/{name}/scores", trainer.scores(0, len(features))
    trainer = NetworkTrainer(features, offsets, [4, 5], TINY)
    for epoch in (0, 1):
        samples = list(trainer.samples(epoch))
        rows = [each.rows[: int(each.lists.sizes.sum())] for each in samples]
        yield f"step/batches/epoch{epoch}", torch.cat(rows)


def networks() -> Pairs:
    lists, validation, unseen = lesson()
    settings = replace(TINY, batch_queries=32)
    given = (lists.features, lists.targets, lists.offsets)
    for loss in ("lambda", "squared"):
        own = replace(settings, loss=loss)
        with returned(NetworkTrainer, "epoch") as epochs:
            fitted = fit_networks(*given, seeds=[0, 1], settings=own)
        yield f"networks/{loss}/losses", losses_of(epochs)
        yield f"networks/{loss}/predictions", predicted(fitted, unseen)
    own = replace(settings, epochs=12, patience=2, learning_rate=0.05)
    with returned(NetworkTrainer, "epoch") as epochs:
        fitted = fit_networks(*given, seeds=[0, 1], settings=own, validation=validation)
    yield "networks/patience/losses", losses_of(epochs)
    yield "networks/patience/predictions", predicted(fitted, unseen)
    scores = torch.from_numpy(predicted(fitted, validation.features))
    yield "networks/patience/validation", HeldOut(validation, "cpu").evaluator(scores)


def trained_networks() -> Pairs:
    at, test = "networks/train_rankers", split_of("test")
    with returned(NetworkTrainer, "epoch") as epochs:
        trained = ar.train(
            counts_of("two").holdout(0.2),
            split_of("train"),
            true_click_model("two"),
            ranker="mlp",
            settings=replace(TINY, batch_queries=32),
            estimators=ESTIMATORS,
            seeds=[3],
            clip=CLIP,
            tuning="none",
        )
    yield f"{at}/losses", losses_of(epochs)
    for (name, _), ranker in trained.rankers.items():
        scores = ar.score(ranker, test)
        yield f"{at}/{name}", scores[:50]
        yield f"{at}/{name}/ndcg", ar.evaluate_scores(scores, test, 2.0).mean
    provenance = dict(trained.rankers["naive", 3].provenance)
    yield from numbers(f"{at}/provenance", provenance)


def losses_of(epochs: Sequence[Any]) -> torch.Tensor:
    return torch.stack([loss for _, loss in epochs])


def predicted(fitted: Sequence[Fitted], features: Any) -> Any:
    return np.stack([each.kept.predict(features) for each in fitted])


def trees() -> Pairs:
    sizes, scores, weights, _, share = ragged()
    gains, offsets = weights * share.repeat(sizes, axis=1), np.cumsum([0, *sizes])
    for i in (0, 1):
        first, second = LambdaObjective(gains[i], offsets, 5)(scores[i])
        yield f"trees/objective/{i}/gradient", first
        yield f"trees/objective/{i}/hessian", second
    lists, validation, unseen = lesson()
    given, names = (lists.features, lists.targets, lists.offsets), ("naive", "affine")
    settings = TreeSettings(
        trees=20, leaves=8, learning_rate=0.05, bins=255, objective="any-sign"
    )
    fitted = fit_trees(*given, seeds=[0, 0], settings=settings)
    for name, scored in zip(names, predicted(fitted, unseen), strict=True):
        yield f"trees/fit/{name}", scored
    own = replace(settings, feature_share=0.5)
    fitted = fit_trees(*given, seeds=[0, 1], settings=own)
    yield "trees/feature_share/affine", predicted(fitted, unseen)[1]
    own = replace(settings, trees=40, patience=3)
    fitted = fit_trees(*given, seeds=[0, 0], settings=own, validation=validation)
    for i, name in enumerate(names):
        at = f"trees/patience/{name}"
        yield f"{at}/predictions", fitted[i].kept.predict(unseen)
        yield f"{at}/trees", fitted[i].best_length
        yield f"{at}/held_out", fitted[i].trace
    yield from trained_trees()


def trained_trees() -> Pairs:
    trained = ar.train(
        counts_of("two"),
        split_of("train"),
        true_click_model("two"),
        ranker="lightgbm",
        settings=TreeSettings(
            trees=20, leaves=8, learning_rate=0.05, bins=255, objective="any-sign"
        ),
        estimators=["affine"],
        seeds=[3],
        clip=CLIP,
        tuning="none",
        scaling="list",
    )
    scores = ar.score(trained.rankers["affine", 3], split_of("test"))
    yield "trees/train_trees/affine", scores[:50]
    data = split_of("validation", MSLR)
    model = fit_lambdamart(data.features, data.relevance(1.0), data.offsets, seed=1)
    yield "trees/lambdamart", model.predict(split_of("test", MSLR).features[:50])


def sklearn() -> Pairs:
    table, click_model = sklearn_table(71)
    yield "sklearn/clicks", table["clicks"]
    other, _ = sklearn_table(72)
    other["qid"] = other["qid"] + 1000
    small: dict[str, dict[str, Any]] = {
        "mlp": {"epochs": 2, "hidden": (8, 4), "device": "cpu"},
        "lightgbm": {
            "trees": 10,
            "leaves": 4,
            "learning_rate": 0.05,
            "bins": 255,
            "objective": "any-sign",
        },
    }
    for ranker, settings in small.items():
        for who in ("known", "estimated", "naive"):
            model = ar.AffineRanker(
                "naive" if who == "naive" else "affine",
                ranker,
                click_model=click_model if who == "known" else None,
                tuning="none",
                scaling="list",
                settings=settings,
                random_state=3,
            ).fit(**table)
            at = f"sklearn/{ranker}/{who}"
            scores = model.predict(table["X"], qid=table["qid"])
            yield f"{at}/predictions", scores
            if who != "naive":
                yield f"{at}/score", model.score(**other)
            if at == "sklearn/mlp/estimated":
                estimated: Any = model.click_model_
                yield f"{at}/alpha", estimated.alpha
                yield f"{at}/beta", estimated.beta


def sklearn_table(seed: int) -> tuple[dict[str, Any], ar.TrustModel]:
    """40 queries of 10 documents, each shown at two ranks; rows in random order."""
    click_model = ar.TrustModel.paper(depth=10)
    rng = np.random.default_rng(seed)
    features = rng.random((40, 10, 4)).astype(np.float32)
    query, doc = np.divmod(np.arange(400), 10)
    rank = np.argsort(rng.random((40, 10)), axis=1).ravel() + 1
    order = rng.permutation(800)
    query, doc = np.tile(query, 2)[order], np.tile(doc, 2)[order]
    rank = np.concatenate([rank, rank % 10 + 1])[order]
    given, shown = features[query, doc], np.full(800, 50)
    clicks = rng.binomial(shown, click_model.click_probability(rank, given[:, 0] > 0.7))
    table = {"X": given, "clicks": clicks, "qid": 100 + 3 * query, "position": rank}
    return table | {"impressions": shown, "doc": doc}, click_model
