"""A row of each table that the package does not know: what the design is for."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from affinerank.bias.method import Estimate, Method
from affinerank.clicks.models import ClickModelKind, Shown
from affinerank.clicks.models.trust import TrustModel
from affinerank.clicks.policies import Placements, PolicyKind
from affinerank.clicks.policies.policy import list_places
from affinerank.counts.rows import ClickRows
from affinerank.estimators import Estimator, Evidence, Weights
from affinerank.estimators.correction import click_variance
from affinerank.rankers.networks.losses import Loss
from affinerank.rankers.ranker import Fitted, RankerKind
from affinerank.support.arrays import Bools, Floats, Ints, Matrix
from affinerank.support.errors import ConfigError
from affinerank.support.progress import Progress

# Estimator: the mean alpha and beta of all impressions of a document.


def mean_affine(evidence: Evidence) -> Weights:
    rows = evidence.rows
    alpha, beta = evidence.required_click_model.at(rows)
    total, shown = rows.by_doc(alpha * rows.impressions), rows.by_doc(rows.impressions)
    known = shown > 0
    over = np.where(known, total, 1.0)
    weight = rows.by_doc(rows.clicks - beta * rows.impressions) / over
    slope = 1.0 / over[rows.doc]
    variance = rows.by_doc(slope**2 * click_variance(rows))
    return Weights(weight, known, rows.share, variance, slope)


ESTIMATOR = Estimator("mean-affine", "Mean affine", "relative", mean_affine)


# Method: click rates by rank, as if every document were equally relevant on average.


def by_rates(
    rows: ClickRows, features: Matrix | None, settings: Any, progress: Progress
) -> Estimate:
    rate = (rows.by_rank(rows.clicks) + 0.5) / (rows.by_rank(rows.impressions) + 1.0)
    click_model = TrustModel(alpha=rate, beta=0.1 * rate, identified="relative")
    return Estimate.of(click_model, rows)


METHOD = Method("rates", "Click rates", by_rates)


# Click model: users who click the first document that attracts them, and stop.


@dataclass(frozen=True)
class FirstClickSettings:
    patience: float = 0.9


@dataclass(frozen=True, eq=False)
class FirstClick:
    """Affine in relevance by rank only on average; clicks depend on each other."""

    patience: float
    depth: int = 20
    name: ClassVar[str] = "first-click"
    identified: ClassVar[Any] = "relative"
    estimated: ClassVar[Any] = None
    span: ClassVar[tuple[float, float]] = (0.0, 1.0)
    provenance: ClassVar[Mapping[str, Any]] = {}

    def at(self, rows: ClickRows) -> tuple[Floats, Floats]:
        fall: Floats = np.power(self.patience, rows.rank - 1.0)
        return 0.8 * fall, 0.1 * fall

    def examination(self, rows: ClickRows) -> tuple[Floats, Floats, Floats]:
        raise ConfigError("examination is not known of these users")

    def click(self, shown: Shown, rng: np.random.Generator) -> Bools:
        wants = rng.random(len(shown.rank)) < 0.8 * shown.relevance + 0.1
        first = np.zeros(len(wants), dtype=bool)
        at = np.flatnonzero(wants)
        _, place = np.unique(shown.session[at], return_index=True)
        first[at[place]] = True
        return first

    def click_probability(self, rank: Ints, relevance: Floats) -> None:
        return None

    def require_probabilities(self) -> None:
        return None

    def to_depth(self, depth: int) -> FirstClick:
        return FirstClick(self.patience, max(depth, self.depth))

    def to_dict(self) -> dict[str, Any]:
        return {"model": self.name, "patience": self.patience, "depth": self.depth}


CLICK_MODEL = ClickModelKind(
    FirstClick.name,
    "First click",
    FirstClickSettings,
    lambda settings, depth: FirstClick(settings.patience, depth),
    lambda about: FirstClick(about["patience"], about["depth"]),
)


# Policy: some lists upside down.


@dataclass(frozen=True)
class Reverse:
    share: float = 0.5

    def moved(
        self, lengths: Ints, sessions: NDArray[Any], rng: Any
    ) -> Iterator[Placements]:
        query, place = list_places(lengths)
        number = np.asarray(sessions)[query]
        yield Placements.where_any(query, place, lengths[query] - place, number)

    def places(self, lengths: Ints, rng: np.random.Generator) -> Ints:
        number, place = list_places(lengths)
        return lengths[number] - 1 - place


POLICY = PolicyKind("reverse", "Upside down", Reverse)


# Ranker: a ridge regression.


@dataclass(frozen=True)
class RidgeSettings:
    penalty: float = 1.0
    patience: int | None = None


@dataclass(frozen=True, eq=False)
class Ridge:
    slopes: Floats

    def predict(self, features: Matrix) -> Floats:
        return np.asarray(features @ self.slopes, dtype=np.float64)

    def files(self) -> Mapping[str, bytes]:
        return {"slopes.json": json.dumps(self.slopes.tolist()).encode()}

    def about(self) -> dict[str, Any]:
        return {}


def fit_ridge(
    features: Matrix,
    targets: Any,
    offsets: Ints,
    *,
    seeds: Any,
    settings: RidgeSettings,
    validation: Any = None,
    checkpoint: Any = None,
    progress: Any = None,
) -> list[Fitted]:
    found = []
    for weights, known in zip(targets.weights, targets.known, strict=True):
        x, y = features[known].astype(np.float64), weights[known]
        gram = x.T @ x + settings.penalty * np.eye(x.shape[1])
        model = Ridge(np.linalg.solve(gram, x.T @ (y - y.mean())))
        chosen = model if validation is not None else None
        report = {"penalty": settings.penalty}
        found.append(Fitted(model, chosen, 1 if chosen else None, report))
    return found


def load_ridge(folder: Path, about: dict[str, Any], n_features: int) -> Ridge:
    slopes = np.array(json.loads((folder / "slopes.json").read_text()))
    if slopes.shape != (n_features,):
        raise ValueError(f"expected {n_features} slopes, got {slopes.shape}")
    return Ridge(slopes)


RANKER = RankerKind("ridge", "Ridge regression", RidgeSettings, fit_ridge, load_ridge)


# Loss: scores far from the sign of the weight.


def hinge(scores: Any, batch: Any) -> Any:
    gap = (1.0 - scores * batch.weights.sign()).clamp(min=0.0)
    return (gap * batch.known * batch.share).sum(dim=1)


LOSS = Loss("hinge", "Hinge", hinge)
