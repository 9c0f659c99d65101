"""Rankers out of fold: who learns what, and what is shared."""

from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from affinerank.clicks.models.trust import TrustModel
from affinerank.counts.rows import ClickRows
from affinerank.estimators import affine, naive
from affinerank.estimators.estimator import CLICKS
from affinerank.pipeline.steps.out_of_fold import FOLDS, RankerJob, train_out_of_fold
from affinerank.pipeline.steps.training_lists import TrainingLists
from affinerank.pipeline.steps.weighing import weigh
from affinerank.rankers import RANKERS
from affinerank.rankers.ranker import Fitted, RankerKind
from affinerank.rankers.targets import ClickTargets, Targets

QUERIES, SIZE = 20, 3
N = QUERIES * SIZE
OFFSETS = np.arange(0, N + 1, SIZE)
CLICK_MODEL = TrustModel.from_zeta([0.9, 0.7, 0.5], [0.4, 0.2, 0.1])
RNG = np.random.default_rng(0)
FEATURES = RNG.normal(size=(N, 2)).astype(np.float32)


def log(learns: tuple[str, ...], rows: ClickRows | None = None) -> RankerJob:
    return RankerJob(shown() if rows is None else rows, CLICK_MODEL, learns, 0)


def shown() -> ClickRows:
    doc = np.arange(N)
    return ClickRows(
        doc=doc,
        rank=doc % SIZE + 1,
        context=np.zeros_like(doc),
        impressions=np.full(N, 10.0),
        clicks=RNG.integers(0, 10, N).astype(np.float64),
        query_of_doc=doc // SIZE,
        sessions=np.full(QUERIES, 10.0),
    )


@dataclass(frozen=True)
class Settings:
    patience: int | None = None


@dataclass
class Kind:
    """A kind of ranker that remembers what it was taught, and knows nothing."""

    taught: list[tuple[bool, int]] = field(default_factory=list)
    features: Any = None

    def fit(self, features: Any, targets: Any, offsets: Any, **given: Any) -> Any:
        n = len(given["seeds"])
        self.taught.append((isinstance(targets, ClickTargets), n))
        self.features = features
        model: Any = SimpleNamespace(predict=lambda features: np.zeros(len(features)))
        return [Fitted(model, model, 1, {}) for _ in range(n)]

    def row(self, name: str, **more: Any) -> RankerKind:
        given: Any = {"explains_clicks": True, "patience": 4, **more}
        return RankerKind(name, name, Settings, self.fit, lambda *_: None, **given)  # type: ignore[arg-type]


def learnt(logs: list[RankerJob], row: RankerKind, features: Any = FEATURES) -> Any:
    with RANKERS.added(row):
        given: Any = {"rankers": row.prior, "settings": {row.name: Settings()}}
        return train_out_of_fold(logs, features, OFFSETS, **given)


def test_what_logs_ask_of_the_same_clicks_is_learnt_once() -> None:
    kind, rows = Kind(), shown()
    logs = [log((CLICKS,), rows), log((CLICKS, naive.ROW.name), rows), log((CLICKS,))]
    found = learnt(logs, kind.row("own"))
    assert kind.taught == [(True, 2), (False, 1)] * FOLDS
    assert [set(folds[0].scores) for folds in found] == [
        set(one.learns) for one in logs
    ]


@pytest.mark.parametrize("gaps", [False, True])
def test_all_kinds_explain_clicks_and_the_last_learns_weights(gaps: bool) -> None:
    kind, other = Kind(), Kind()
    features = FEATURES.copy()
    if gaps:
        features[::2, 0], features[:, 1] = np.nan, np.nan
    with RANKERS.added(other.row("other")):
        row = kind.row("own", prior_rankers=("own", "other"), reads_missing=True)
        (folds,) = learnt([log((CLICKS, naive.ROW.name))], row, features)
    assert kind.taught == [(True, 1)] * FOLDS
    assert other.taught == [(True, 1), (False, 1)] * FOLDS
    assert set(folds[0].scores) == {CLICKS, f"{CLICKS} other", naive.ROW.name}
    assert np.isnan(kind.features).any() == gaps
    assert not np.isnan(other.features).any()


@pytest.mark.parametrize("name", [naive.ROW.name, affine.ROW.name])
def test_lists_tell_corrected_clicks_from_relevance(name: str) -> None:
    clicked = weigh(shown(), name, CLICK_MODEL)
    relevance = replace(clicked, slope=None)
    lists = TrainingLists.of(FEATURES, OFFSETS, [clicked, relevance])
    for part in (lists, lists.part(np.arange(QUERIES) > 9)):
        assert isinstance(part.targets, Targets)
        assert list(part.targets.noisy) == [True, False]
