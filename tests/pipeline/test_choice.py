"""Choosing by data: the judge, the rule, and `train --estimator auto`."""

import json
from collections import Counter
from math import log2, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import ArrayLike

from affinerank.arrays import Floats
from affinerank.cli import main
from affinerank.clicks.counts import ClickCounts
from affinerank.clicks.models.trust import TrustModel
from affinerank.clicks.rows import rows_of
from affinerank.data.dataset import RankingDataset
from affinerank.defaults import BASELINE, CLIP, ESTIMATOR, RANKER
from affinerank.defaults import TREES as TREE_RANKER
from affinerank.errors import ConfigError, DataError
from affinerank.estimators import ESTIMATORS, Estimator, affine
from affinerank.pipeline.choice import (
    Candidate,
    ChoiceSettings,
    choose,
    compare,
    train_chosen,
)
from affinerank.rankers import RANKERS, Ranker, score
from affinerank.rankers.loading import load_ranker
from affinerank.rankers.mlp import NetworkSettings
from affinerank.rankers.trees import TreeSettings

NAIVE, AFFINE = Candidate(RANKER, BASELINE), Candidate(RANKER, ESTIMATOR)
NETWORK = NetworkSettings(hidden=(8, 4), epochs=2, device="cpu")
TREES = TreeSettings(trees=10, leaves=4, learning_rate=0.3, threads=1)


def up_to_gauge(alpha: ArrayLike, beta: ArrayLike) -> TrustModel:
    return TrustModel(
        alpha=np.asarray(alpha, dtype=np.float64),
        beta=np.asarray(beta, dtype=np.float64),
        identified="gauge",
    )


def two_documents(clicks: list[tuple[int, int]]) -> tuple[ClickCounts, RankingDataset]:
    """Queries of two documents, shown ten times each in the order of their names."""
    n = len(clicks)
    query = np.repeat(np.arange(n), 2)
    counts = ClickCounts.from_columns(
        query_id=query,
        doc_id=np.tile([0, 1], n),
        rank=np.tile([1, 2], n),
        impressions=np.full(2 * n, 10),
        clicks=np.concatenate(clicks),
    )
    data = RankingDataset(
        features=np.tile([[0.0], [1.0]], (n, 1)).astype(np.float32),
        offsets=np.arange(0, 2 * n + 1, 2),
        labels=None,
        query_ids=np.arange(n),
        doc_ids=np.tile([0, 1], n),
        feature_names=("f1",),
    )
    return counts, data


def test_gains_and_leads_are_the_written_out_sums() -> None:
    """Affine turns every list round, naive only the second."""
    users = up_to_gauge([0.5, 0.25], [0.2, 0.0])
    counts, data = two_documents([(4, 5), (6, 1), (2, 3), (7, 4)])
    scores = np.array([[1, 0, 0, 1, 1, 0, 1, 0], [0, 1] * 4], dtype=np.float64)
    found = choose([NAIVE, AFFINE], scores, rows_of(counts, data), users)
    # What turning a list round brings: (w_2 - w_1) (1 / log2(2) - 1 / log2(3)).
    step = 1 - 1 / log2(3)
    first = np.array([4, 6, 2, 7]) / 10
    second = np.array([5, 1, 3, 4]) / 10
    turned = (second / 0.25 - (first - 0.2) / 0.5) * step
    gain = {"naive": turned * [0, 1, 0, 0], "affine": turned}
    lead = gain["affine"] - gain["naive"]
    for row, values in zip(found.judged, gain.values(), strict=True):
        assert row.gain == pytest.approx(values.mean())
        assert row.standard_error == pytest.approx(values.std(ddof=1) / sqrt(4))
    naive, affine = found.leads
    assert naive.lead == 0
    assert affine.lead == pytest.approx(lead.mean())
    assert affine.standard_error == pytest.approx(lead.std(ddof=1) / sqrt(4))


def test_estimators_are_pooled_over_kinds_and_kinds_over_estimators() -> None:
    """One query decides: turning its list round is worth 1 document at rank 1."""
    users = TrustModel.position_bias([1.0, 1.0])
    counts, data = two_documents([(0, 10), (0, 10), (5, 5), (5, 5)])
    kept, turned = [1.0, 0.0] * 4, [0.0, 1.0] * 4
    first = [0.0, 1.0, *kept[2:]]
    trees = [Candidate(TREE_RANKER, name) for name in (BASELINE, ESTIMATOR)]
    scores = np.array([first, kept, kept, turned])
    among = [NAIVE, AFFINE, *trees]
    found = choose(among, scores, rows_of(counts, data), users)
    step = 1 - 1 / log2(3)
    gains = [row.gain for row in found.judged]
    assert gains == pytest.approx([step / 4, 0, 0, step / 2])
    lead = (np.array([-1, 0, 0, 0]) + np.array([1, 1, 0, 0])) / 2 * step
    assert found.leads[1].lead == pytest.approx(lead.mean())
    assert found.leads[1].standard_error == pytest.approx(lead.std(ddof=1) / sqrt(4))
    assert found.best == trees[1]  # means of 1/8 and 1/4 of a step


@pytest.mark.parametrize(
    ("second", "taken"),
    [([5, 5, 5, 1], NAIVE), ([8, 4, 4, 3], AFFINE)],
)
def test_naive_stays_unless_led_by_half_a_standard_error(
    second: list[int], taken: Candidate
) -> None:
    users = TrustModel.position_bias([0.5, 0.5])
    counts, data = two_documents([(4, clicks) for clicks in second])
    scores = np.array([[1.0, 0.0] * 4, [0.0, 1.0] * 4])
    found = choose([NAIVE, AFFINE], scores, rows_of(counts, data), users)
    difference = np.array(second) - 4.0
    error = difference.std(ddof=1) / sqrt(4)
    # A mean of 0, and one of 0.75 with an error of 1.11.
    assert (difference.mean() > error / 2) == (taken == AFFINE)
    assert found.best == taken


def test_the_gauge_of_the_users_changes_no_choice() -> None:
    counts, data = two_documents([(4, 5), (6, 1), (2, 3), (7, 4)])
    rows = rows_of(counts, data)
    scores = np.array([[1.0, 0.0] * 4, [0, 1, 1, 0, 0, 1, 1, 0]])
    alpha, beta = np.array([0.5, 0.25]), np.array([0.2, 0.05])
    leads = []
    for a, t in ((1.0, 0.0), (3.0, 0.4)):
        users = up_to_gauge(a * alpha, beta + t * alpha)
        found = choose([NAIVE, AFFINE], scores, rows, users)
        leads.append([(row.lead * a, row.standard_error * a) for row in found.leads])
    np.testing.assert_allclose(leads[0], leads[1], atol=1e-12)


def test_candidates_are_the_rows_whose_needs_the_users_meet() -> None:
    settings = ChoiceSettings()
    assert list(settings.rankers) == list(RANKERS)
    gauge = up_to_gauge([1.0, 0.5], [0.2, 0.0])
    of_networks = [NAIVE, AFFINE, Candidate(RANKER, ESTIMATOR, CLIP)]
    assert settings.candidates(gauge)[:3] == of_networks
    assert len(settings.candidates(gauge)) == 6
    assert len(settings.candidates(TrustModel.paper(depth=2))) == 14
    own = Estimator("own", "Our own", "gauge", affine.weigh, options=affine.ROW.options)
    with ESTIMATORS.added(own):
        assert Candidate(RANKER, "own", CLIP) in settings.candidates(gauge)


def logged_order_in_the_way() -> tuple[ClickCounts, RankingDataset, TrustModel]:
    """Clicks as expected, without noise; relevance and the logged order differ."""
    rng = np.random.default_rng(0)
    n_queries, size = 40, 6
    rank = np.tile(np.arange(1, size + 1), n_queries)
    relevant = rng.random(len(rank)) < 0.3
    data = RankingDataset(
        features=np.stack([relevant, -rank], axis=1).astype(np.float32),
        offsets=np.arange(0, len(rank) + 1, size),
        labels=None,
        query_ids=np.arange(n_queries),
        doc_ids=np.tile(np.arange(size), n_queries),
        feature_names=("relevant", "production"),
    )
    users = TrustModel.paper(depth=size)
    shown = 1_000_000
    counts = ClickCounts.from_columns(
        query_id=data.query_ids[data.query_of_doc],
        doc_id=data.doc_ids,
        rank=rank,
        impressions=np.full(len(rank), shown),
        clicks=(shown * users.click_probability(rank, relevant * 1.0)).astype(np.int64),
    )
    return counts, data, users


def test_affine_is_found_where_naive_learns_the_logged_order() -> None:
    counts, data, users = logged_order_in_the_way()
    settings = ChoiceSettings({TREE_RANKER: TREES}, folds=2)
    found = compare(counts, data, users, settings=settings)
    rows = {(row.estimator, row.clip): row for row in found.leads}
    assert found.best.estimator != BASELINE
    assert rows[ESTIMATOR, None].lead > 3 * rows[ESTIMATOR, None].standard_error


def test_nothing_is_judged_by_queries_it_learnt_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counts, data, users = logged_order_in_the_way()
    judged: list[str] = []

    def watched(ranker: Ranker, unseen: RankingDataset) -> Floats:
        ids = [str(query) for query in unseen.query_ids]
        assert not set(ranker.learnt_from) & set(ids)
        judged.extend(ids)
        return score(ranker, unseen)

    monkeypatch.setattr("affinerank.pipeline.choice.score", watched)
    settings = ChoiceSettings({TREE_RANKER: TREES}, folds=2)
    compare(counts, data, users, settings=settings)
    each = {str(query): 7 for query in data.query_ids}  # candidates
    assert Counter(judged) == each


def test_unissued_queries_and_several_rankers_change_nothing_but_rounding() -> None:
    """Counts by ranker are added up; a query that was not issued has no fold."""
    counts, data, users = logged_order_in_the_way()
    part = counts.table.slice(0, 30 * 6)
    issued = ClickCounts(part)
    settings = ChoiceSettings({TREE_RANKER: TREES}, folds=2)
    expected = compare(issued, data.select_queries(range(30)), users, settings=settings)
    first, second = issued.halves(rng=np.random.default_rng(1))
    tables = [first.labelled("ranker", "a").table, second.labelled("ranker", "b").table]
    both = ClickCounts(pa.concat_tables(tables))
    found = compare(both, data, users, settings=settings)
    for one, other in zip(found.judged, expected.judged, strict=True):
        assert one.candidate == other.candidate
        assert one.gain == pytest.approx(other.gain, rel=1e-9)


def test_the_chosen_ranker_is_trained_on_all_queries_and_keeps_the_table() -> None:
    counts, data, users = logged_order_in_the_way()
    rankers: dict[str, Any] = {RANKER: NETWORK, TREE_RANKER: TREES}
    trained, choice = train_chosen(
        counts, data, users, settings=ChoiceSettings(rankers, folds=2)
    )
    [(name, ranker)] = trained.rankers.items()
    assert name == (choice.best.estimator, 0)
    assert ranker.kind == choice.best.ranker
    assert ranker.provenance["choice"] == choice.to_dict()
    assert ranker.provenance["clip"] == choice.best.clip
    assert len(choice.to_dict()["candidates"]) == 14
    assert len(ranker.learnt_from) == data.n_queries
    assert trained.estimate is None


def test_what_cannot_be_compared_is_rejected() -> None:
    with pytest.raises(ConfigError, match="kind of ranker or more"):
        ChoiceSettings({})
    with pytest.raises(ConfigError, match="patience"):
        ChoiceSettings({RANKER: NetworkSettings(patience=2)})
    with pytest.raises(ConfigError, match="must be NetworkSettings, got TreeSettings"):
        ChoiceSettings({RANKER: TreeSettings()})
    with pytest.raises(ConfigError, match="folds must be 2 or more, got 1"):
        ChoiceSettings({RANKER: NETWORK}, folds=1)
    with pytest.raises(ConfigError, match="clip must be"):
        ChoiceSettings({RANKER: NETWORK}, clip="low")
    counts, data = two_documents([(4, 5), (6, 1)])
    with pytest.raises(DataError, match="2 queries were issued, too few for 5"):
        compare(
            counts,
            data,
            TrustModel.position_bias([1.0, 0.5]),
            settings=ChoiceSettings({RANKER: NETWORK}),
        )


SMALL = {
    RANKER: ["--set", "hidden=8,4", "--set", "epochs=2"],
    TREE_RANKER: ["--set", "trees=3", "--set", "leaves=4"],
}


@pytest.mark.parametrize("kind", [RANKER, TREE_RANKER])
def test_auto_trains_the_best_and_keeps_the_table(
    small_log: tuple[str, str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    kind: str,
) -> None:
    counts, users, world = small_log
    target = str(tmp_path / "model")
    arguments = ["train", counts, "--data", world, "--users", users]
    arguments += ["--estimator", "auto", "--ranker", kind, *SMALL[kind]]
    capsys.readouterr()
    assert main([*arguments, "-o", target, "--json"]) == 0
    about = json.loads(capsys.readouterr().out)
    [row] = about["rankers"]
    best = about["choice"]["best"]
    assert row["estimator"] == best["estimator"]
    assert len(about["choice"]["candidates"]) == 7
    ranker = load_ranker(target)
    assert ranker.provenance["choice"] == about["choice"]
    assert ranker.provenance["clip"] == best["clip"]
    assert ranker.kind == best["ranker"] == kind
    assert len(ranker.learnt_from) == 60  # refitted on all of them


def test_auto_with_estimated_users_prints_the_table(
    small_log: tuple[str, str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    counts, _, world = small_log
    target = str(tmp_path / "model")
    arguments = ["train", counts, "--data", world, "--estimator", "auto"]
    arguments += ["--ranker", TREE_RANKER, *SMALL[TREE_RANKER]]
    capsys.readouterr()
    assert main([*arguments, "-o", target]) == 0
    printed = capsys.readouterr().out
    assert "queries held out in 5 parts" in printed
    assert printed.count("affine ") == 3  # what judges, affine, affine clipped
    assert "taken: " in printed


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--estimator", "affine"], "--estimator auto"),
        (["--patience", "2"], "--patience"),
        (["--set", "learning_rate=0.1"], "--ranker"),
        (["--ranker", TREE_RANKER, "--set", "epochs=2"], "epochs"),
        (["--clip", "low"], "'low'"),
    ],
)
def test_bad_options_of_auto_are_one_sentence_and_write_nothing(
    small_log: tuple[str, str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    more: list[str],
    words: str,
) -> None:
    counts, users, world = small_log
    target = tmp_path / "model"
    arguments = ["train", counts, "--data", world, "--users", users]
    capsys.readouterr()
    assert main([*arguments, "--estimator", "auto", *more, "-o", str(target)]) == 2
    fault = capsys.readouterr().err
    assert words in fault
    assert fault.count("\n") == 1
    assert not target.exists()
