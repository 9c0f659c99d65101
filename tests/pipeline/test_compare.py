"""Choosing by data: the judge, the rule, the budget, and `train --auto`."""

import json
from collections import Counter
from dataclasses import replace
from itertools import count
from math import log2, sqrt
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.typing import ArrayLike

from affinerank.cli import main
from affinerank.clicks.models import ClickModel
from affinerank.clicks.models.trust import TrustModel
from affinerank.counts.counts import ClickCounts
from affinerank.counts.rows import ClickRows, join_counts
from affinerank.data.dataset import RankingDataset
from affinerank.defaults import (
    BASELINE,
    CORRECTION,
    ESTIMATOR,
    NO_TUNING,
    QUICK,
    RANKER,
)
from affinerank.defaults import TREES as TREE_RANKER
from affinerank.evaluation.rank_effects import POWER
from affinerank.evaluation.rank_weights import DCG_10, over_logged
from affinerank.pipeline import compare as module
from affinerank.pipeline.compare import (
    COMPARED,
    KEEP,
    Candidate,
    Choice,
    ChoiceSettings,
    Evaluated,
    evaluate_all,
    hold_out,
    parse_budget,
    train_chosen,
)
from affinerank.pipeline.steps.second_evaluator import RANKS
from affinerank.pipeline.steps.train_settings import TrainSettings
from affinerank.pipeline.steps.weighing import weigh
from affinerank.rankers import Ranker, score
from affinerank.rankers.loading import load_ranker
from affinerank.rankers.networks.settings import NetworkSettings
from affinerank.rankers.trees.lightgbm import TreeSettings
from affinerank.support.arrays import Floats
from affinerank.support.errors import AffineRankWarning, ConfigError, DataError
from affinerank.support.progress import Progress, no_progress

pytestmark = pytest.mark.slow

TREES = ChoiceSettings(
    (TREE_RANKER,),
    training=TrainSettings(
        TREE_RANKER, TreeSettings(trees=6, leaves=4, learning_rate=0.3, threads=1)
    ),
)
NETWORK = ChoiceSettings(
    ("mlp",),
    training=TrainSettings(
        "mlp", NetworkSettings(hidden=(8,), epochs=2, device="cpu"), tuning=NO_TUNING
    ),
)


CANDIDATES = [Candidate(name, RANKER) for name in COMPARED]
DEFAULT, CORRECTED, NAIVE = (candidate.name for candidate in CANDIDATES)


def up_to_gauge(alpha: ArrayLike, beta: ArrayLike) -> TrustModel:
    return TrustModel(
        alpha=np.asarray(alpha, dtype=np.float64),
        beta=np.asarray(beta, dtype=np.float64),
        identified="relative",
    )


def two_documents(
    clicks: list[tuple[int, int]], times: int = 1
) -> tuple[ClickCounts, RankingDataset]:
    """Queries of two documents, shown ten times each in the order of their names.

    Or so many ``times`` as often, with as many times the clicks.
    """
    n = len(clicks)
    counts = ClickCounts.from_columns(
        query_id=np.repeat(np.arange(n), 2),
        doc_id=np.tile([0, 1], n),
        rank=np.tile([1, 2], n),
        impressions=np.full(2 * n, 10 * times),
        clicks=times * np.concatenate(clicks),
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


def evaluated(
    clicks: list[tuple[int, int]],
    click_model: ClickModel,
    default: Floats,
    correction: Floats,
    times: int = 1,
) -> Choice:
    """Judge by these clicks two rankers of lists of two documents."""
    rows = join_counts(*two_documents(clicks, times))
    scores = {DEFAULT: default, CORRECTED: correction}
    return Choice(evaluate_all(scores, rows, click_model), CANDIDATES[:2])


def compare(
    counts: ClickCounts,
    data: RankingDataset,
    click_model: ClickModel | None,
    settings: ChoiceSettings,
    progress: Progress = no_progress,
) -> Choice:
    """Train the estimators by parts, and judge them."""
    scores, rows, parts = hold_out(
        counts, data, click_model, settings=settings, progress=progress
    )
    table = evaluate_all(scores, rows, click_model)
    return Choice(table, settings.candidates, settings.folds, parts)


KEPT, TURNED = np.array([1.0, 0.0] * 4), np.array([0.0, 1.0] * 4)
STEP = 1 - 1 / log2(3)  # what the first rank of two weighs more than the second


def test_leads_and_shortfalls_are_the_written_out_sums() -> None:
    """The correction turns every list round, the default none: both know the rank only.

    So the second judge sees click rates by rank, to the power 0.85.
    """
    click_model = up_to_gauge([0.5, 0.25], [0.2, 0.0])
    found = evaluated(
        [(4, 5), (6, 1), (2, 3), (7, 4)], click_model, KEPT, TURNED, times=10**6
    )
    first, second = np.array([4, 6, 2, 7]) / 10, np.array([5, 1, 3, 4]) / 10
    mean = (first.mean() + second.mean()) / 2
    bias = (first.mean() / mean) ** POWER, (second.mean() / mean) ** POWER
    values = {
        CORRECTION: (second / 0.25 - (first - 0.2) / 0.5) * STEP,
        RANKS: (second / bias[1] - first / bias[0]) * STEP,
    }
    for row, evaluator in zip(found.of(CORRECTED), values, strict=True):
        assert row.evaluator == evaluator
        error = values[evaluator].std(ddof=1) / sqrt(4)
        for name in (DEFAULT, KEEP):
            expected = (values[evaluator].mean(), error)
            assert row.over[name] == pytest.approx(expected, rel=1e-4)
        assert row.over[CORRECTED] == (0, 0)
    # Keeping is short by the gain of turning less half its error, where above 0.
    for row, evaluator in zip(found.of(KEEP), values, strict=True):
        gain, error = values[evaluator].mean(), values[evaluator].std(ddof=1) / sqrt(4)
        assert row.short == pytest.approx(
            max(gain - error / 2, 0) / abs(gain), rel=1e-4
        )


@pytest.mark.parametrize(
    ("second", "taken"), [([5, 6, 4, 2], DEFAULT), ([8, 4, 4, 3], CORRECTED)]
)
def test_the_default_stays_unless_led_by_half_a_standard_error(
    second: list[int], taken: str
) -> None:
    """The default keeps all lists, so that keeping them leads it by nothing."""
    difference = np.array(second) - 4.0
    error = difference.std(ddof=1) / sqrt(4)
    # Means of 0.25 and 0.75, with errors of 0.85 and 1.11.
    assert (difference.mean() > error / 2) == (taken == CORRECTED)
    click_model = TrustModel.position_bias([0.5, 0.5])
    found = evaluated([(4, s) for s in second], click_model, KEPT, TURNED)
    of_users = [row for row in found.evaluated if row.evaluator == CORRECTION]
    by_click_model = Choice(of_users, CANDIDATES[:2])
    assert by_click_model.best == taken


def test_keeping_the_logged_ranking_is_taken_where_both_judges_say_so() -> None:
    click_model = TrustModel.position_bias([0.5, 0.5])
    # With rates of 0.9 and 0.3 by rank, a second document of 1 in 10 is below its rank.
    lists = [(9, 1), (9, 2), (8, 1), (9, 1)]
    rows = join_counts(*two_documents(lists))
    effects = up_to_gauge([0.5, 0.4], [0.0, 0.0])
    both = [*_by("one", rows, click_model), *_by("other", rows, effects)]
    found = Choice(both, CANDIDATES[:1])
    assert (found.best, found.trained) == (KEEP, CANDIDATES[0])
    assert found.advice is not None
    assert found.advice.startswith(f"{KEEP}: no candidate beats it")
    assert found.to_dict()["advice"] == found.advice
    assert found.disagreement is None
    other = evaluated([(1, 5), (2, 5), (2, 4), (4, 4)], click_model, TURNED, TURNED)
    assert other.advice is None
    assert "advice" not in other.to_dict()


def _by(evaluator: str, rows: ClickRows, click_model: ClickModel) -> list[Evaluated]:
    """Judge turning all lists round by these users."""
    over = {DEFAULT: over_logged(TURNED, rows, DCG_10), KEEP: np.zeros(rows.n_docs)}
    weights = weigh(rows, CORRECTION, click_model)
    return module._judge_candidates(evaluator, weights, over, rows.query_of_doc)


def row(
    evaluator: str, candidate: str, short: float, **over: tuple[float, float]
) -> Evaluated:
    names = {"default": DEFAULT, "naive": NAIVE, "keep": KEEP}
    return Evaluated(
        evaluator, candidate, {names[k]: v for k, v in over.items()}, short
    )


def test_the_worse_judge_decides() -> None:
    """Each judge has a favourite of its own; the baseline is second for both."""
    table = [
        row("users", DEFAULT, 0.0, keep=(0.7, 0.1)),
        row("users", NAIVE, 0.3, keep=(0.5, 0.1)),
        row("users", KEEP, 1.0, keep=(0.0, 0.0)),
        row("ranks", DEFAULT, 0.4, keep=(-0.1, 0.2)),
        row("ranks", NAIVE, 0.35, keep=(0.1, 0.2)),
        row("ranks", KEEP, 0.0, keep=(0.0, 0.0)),
    ]
    found = Choice(table, [CANDIDATES[0], CANDIDATES[2]])
    assert found.best == NAIVE
    assert found.disagreement is None


def test_where_judges_clearly_disagree_the_one_without_users_decides() -> None:
    table = [
        row("users", DEFAULT, 0.0, keep=(0.7, 0.1)),
        row("users", NAIVE, 0.3, keep=(0.5, 0.1)),
        row("users", KEEP, 1.0, keep=(0.0, 0.0)),
        row("ranks", DEFAULT, 1.0, keep=(-0.9, 0.2)),
        row("ranks", NAIVE, 0.1, keep=(-0.1, 0.1)),
        row("ranks", KEEP, 0.0, keep=(0.0, 0.0)),
    ]
    found = Choice(table, [CANDIDATES[0], CANDIDATES[2]])
    assert found.best == KEEP
    assert found.disagreement is not None
    for words in (DEFAULT, "+0.7 ", "to users", "-0.9 ", "to ranks"):
        assert words in found.disagreement
    assert found.to_dict()["disagreement"] == found.disagreement
    # A gain of -0.9 with an error of 0.5 is not clear: both judges are heard again.
    table[3] = row("ranks", DEFAULT, 1.0, keep=(-0.9, 0.5))
    assert Choice(table, [CANDIDATES[0], CANDIDATES[2]]).disagreement is None
    assert Choice(table, [CANDIDATES[0], CANDIDATES[2]]).best == NAIVE


def test_the_gauge_of_the_users_changes_no_choice() -> None:
    alpha, beta = np.array([0.5, 0.25]), np.array([0.2, 0.05])
    leads = []
    for a, t in ((1.0, 0.0), (3.0, 0.4)):
        click_model = up_to_gauge(a * alpha, beta + t * alpha)
        found = evaluated([(4, 5), (6, 1), (2, 3), (7, 4)], click_model, KEPT, TURNED)
        rows = [row for row in found.evaluated if row.evaluator == CORRECTION]
        leads.append([np.array(row.over[DEFAULT]) * a for row in rows])
        leads[-1] += [np.array([row.short, 0.0]) for row in rows]
    np.testing.assert_allclose(leads[0], leads[1], atol=1e-12)


def world(
    *, ideal: bool = False, shown: int = 1_000_000, n_queries: int = 40
) -> tuple[ClickCounts, RankingDataset, TrustModel]:
    """Clicks on lists whose logged order is ideal, or has nothing to do with relevance.

    With an ideal order the feature is noise; else it is relevance, and clicks are as
    expected.
    """
    rng = np.random.default_rng(0)
    size = 6
    rank = np.tile(np.arange(1, size + 1), n_queries)
    relevant = rank <= 2 if ideal else rng.random(len(rank)) < 0.3
    seen = rng.random(len(rank)) if ideal else relevant
    data = RankingDataset(
        features=np.stack([seen, 0 * seen if ideal else -rank], 1).astype(np.float32),
        offsets=np.arange(0, len(rank) + 1, size),
        labels=None,
        query_ids=np.arange(n_queries),
        doc_ids=np.tile(np.arange(size), n_queries),
        feature_names=("relevant", "production"),
    )
    click_model = TrustModel.paper(depth=size)
    share = click_model.click_probability(rank, relevant * 1.0)
    counts = ClickCounts.from_columns(
        query_id=data.query_ids[data.query_of_doc],
        doc_id=data.doc_ids,
        rank=rank,
        impressions=np.full(len(rank), shown),
        clicks=rng.binomial(shown, share) if ideal else (shown * share).astype(int),
    )
    return counts, data, click_model


def test_what_corrects_is_found_where_naive_learns_the_logged_order() -> None:
    found = compare(*world(), settings=TREES)
    names = [row.candidate for row in found.evaluated]
    compared = [f"{name}, {TREE_RANKER}" for name in COMPARED]
    assert names == 2 * [*compared, KEEP]
    assert found.trained.estimator in (ESTIMATOR, CORRECTION)
    for row in found.of(found.best):
        for other in (f"{BASELINE}, {TREE_RANKER}", KEEP):
            lead, error = row.over[other]
            assert lead > 3 * error
    assert all(row.over[KEEP] == (0, 0) for row in found.of(KEEP))
    assert found.parts == found.folds == 3


@pytest.mark.filterwarnings("ignore:the click model does not fit this log")
def test_an_ideal_logged_ranking_is_kept_and_a_ranker_written_with_the_advice() -> None:
    counts, data, click_model = world(ideal=True, shown=20)
    with pytest.warns(AffineRankWarning, match=KEEP):
        trained, choice = train_chosen(counts, data, click_model, settings=NETWORK)
    assert choice.best == KEEP
    [(name, ranker)] = trained.rankers.items()
    assert name == (ESTIMATOR, 0)
    assert ranker.provenance["choice"] == choice.to_dict()
    assert choice.to_dict()["advice"] == choice.advice
    assert len(ranker.training_queries) == data.n_queries


def test_counts_by_context_and_segment_are_compared_as_their_sums() -> None:
    counts, data, click_model = world(shown=1000)
    table = counts.table.to_pydict()
    below = np.array(table["rank"]) > 1
    apart = {name: np.concatenate([v, np.array(v)[below]]) for name, v in table.items()}
    apart["impressions"][:] = np.concatenate(
        [np.where(below, 600, 1000), 400 * below[below]]
    )
    clicks = np.array(table["clicks"])
    first = np.where(below, clicks * 6 // 10, clicks)
    apart["clicks"] = np.concatenate([first, (clicks - first)[below]])
    del apart["sessions"]
    context = np.repeat([0, 1], [len(below), below.sum()])
    by_context = ClickCounts.from_columns(
        **apart, context=context, sessions=np.full(len(context), 1000)
    )
    both = (by_context, by_context.merged("context"), counts.labelled("segment", "all"))
    found = [
        compare(c, data, click_model, settings=ChoiceSettings((QUICK,))) for c in both
    ]
    for rows in zip(*(each.evaluated for each in found), strict=True):
        for row in rows[1:]:
            if not row.candidate.startswith(ESTIMATOR):
                assert row.over[KEEP] == pytest.approx(rows[0].over[KEEP], rel=1e-6)


def test_nothing_is_judged_by_queries_it_learnt_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counts, data, click_model = world()
    scored: list[str] = []

    def watched(ranker: Ranker, unseen: RankingDataset) -> Floats:
        ids = [str(query) for query in unseen.query_ids]
        assert not set(ranker.training_queries) & set(ids)
        scored.extend(ids)
        return score(ranker, unseen)

    monkeypatch.setattr(module, "score", watched)
    compare(counts, data, click_model, settings=NETWORK)
    assert Counter(scored) == {str(query): 3 for query in data.query_ids}


def test_seeds_alone_decide_and_queries_that_were_not_issued_change_nothing() -> None:
    counts, data, click_model = world()
    issued = ClickCounts(counts.table.slice(0, 30 * 6))
    few = data.select_queries(range(30))
    found = [
        compare(issued, d, click_model, settings=NETWORK) for d in (few, few, data)
    ]
    assert found[0] == found[1]
    for one, other in zip(found[0].evaluated, found[2].evaluated, strict=True):
        assert one.over[KEEP] == pytest.approx(other.over[KEEP], rel=1e-6)


@pytest.mark.parametrize(
    ("tick", "parts", "left"),
    # The clock moves at each look: at the start, before and after each part. A part
    # takes a tick, the final training of one of three estimators about half of one.
    [(1.0, 3, 0), (60.0, 2, 1), (90.0, 1, 2)],
)
def test_parts_are_left_out_where_the_budget_would_not_hold(
    monkeypatch: pytest.MonkeyPatch, tick: float, parts: int, left: int
) -> None:
    clock = count(step=tick)
    monkeypatch.setattr(module, "monotonic", lambda: next(clock))
    steps: list[tuple[str, int, int]] = []
    found = compare(
        *world(), settings=NETWORK, progress=lambda *step: steps.append(step)
    )
    assert (found.parts, found.folds) == (parts, parts + left)
    assert found.to_dict()["parts"] == parts
    stage = f"holding out for {', '.join(COMPARED)}, mlp: part"
    assert steps == [*((stage, i, 3) for i in range(parts)), (stage, 3, 3)]


def test_a_small_budget_learns_from_few_queries_and_judges_by_a_part(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counts, data, click_model = world(n_queries=60)
    sizes: list[tuple[int, int]] = []

    def watched(ranker: Ranker, unseen: RankingDataset) -> Floats:
        sizes.append((len(ranker.training_queries), unseen.n_queries))
        return score(ranker, unseen)

    monkeypatch.setattr(module, "score", watched)
    settings = replace(NETWORK, budget=14.0)
    monkeypatch.setattr(module, "monotonic", count(step=14.0).__next__)
    assert compare(counts, data, click_model, settings=settings).parts == 1
    assert sizes == [(35, 20)] * 3  # 14 x 15 documents are those of 35 queries


def test_users_are_estimated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counts, data, click_model = world()
    found: list[SimpleNamespace] = []

    def estimated(*_: object, **__: object) -> SimpleNamespace:
        found.append(SimpleNamespace(click_model=click_model))
        return found[-1]

    monkeypatch.setattr(
        "affinerank.pipeline.steps.click_model.estimate_click_model", estimated
    )
    trained, _ = train_chosen(counts, data, settings=NETWORK)
    assert [trained.estimate] == found
    assert trained.click_model is click_model


def test_what_cannot_be_compared_is_rejected() -> None:
    with pytest.raises(ConfigError, match="'tree'"):
        ChoiceSettings(("tree",))
    with pytest.raises(ConfigError, match="above 0 s, got 0"):
        ChoiceSettings(budget=0)
    with pytest.raises(ConfigError, match="folds must be 2 or more, got 1"):
        ChoiceSettings(folds=1)
    with pytest.raises(DataError, match=r"14 queries were issued.* 3 parts.* 15"):
        compare(*world(n_queries=14), settings=NETWORK)


def test_a_budget_is_a_time() -> None:
    texts = ("5m", "300s", "1h", "90", " 1.5 m ")
    assert [parse_budget(t) for t in texts] == [300, 300, 3600, 90, 90]
    for text in ("", "0", "soon", "-5m", "5d", "nan", "1e3"):
        with pytest.raises(ConfigError, match=f"5m.*{text!r}"):
            parse_budget(text)


def test_auto_trains_the_best_and_keeps_the_table(
    small_log: tuple[str, str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    counts, click_model, data = small_log
    target = str(tmp_path / "model")
    arguments = [
        "train",
        counts,
        "--data",
        data,
        "--click-model",
        click_model,
        "--budget",
        "2m",
    ]
    arguments += ["--auto", "--ranker", "mlp", "--set", "hidden=8", "--set", "epochs=2"]
    capsys.readouterr()
    assert main([*arguments, "-o", target, "--json"]) == 0
    about = json.loads(capsys.readouterr().out)
    [row] = about["rankers"]
    found = about["choice"]
    best = found["best"].partition(",")[0]
    assert row["estimator"] == (ESTIMATOR if "advice" in found else best)
    names = [each["candidate"] for each in found["candidates"]]
    assert names == 2 * [*(f"{name}, mlp" for name in COMPARED), KEEP]
    assert {each["evaluator"] for each in found["candidates"]} == {CORRECTION, RANKS}
    ranker = load_ranker(target)
    assert ranker.provenance["choice"] == found
    assert len(ranker.training_queries) == 60  # refitted on all of them
    assert main([*arguments, "-o", f"{target}2"]) == 0
    printed = capsys.readouterr().out
    assert "3 of 3 parts" in printed
    assert f"taken: {found['best']}" in printed
    assert f"by {RANKS}" in printed
    assert found["decision"][:60] in printed.replace("\n", " ")


def test_auto_compares_estimators_and_rankers(
    small_log: tuple[str, str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The time is too short for networks; members of the blend are compared, too."""
    counts, click_model, data = small_log
    arguments = [
        "train",
        counts,
        "--data",
        data,
        "--click-model",
        click_model,
        "--auto",
    ]
    arguments += ["--budget", "15s", "-o", str(tmp_path / "model"), "--json"]
    capsys.readouterr()
    assert main(arguments) == 0
    printed = capsys.readouterr()
    said = "mlp is not compared: with it, candidates could learn from 225 documents"
    assert said in printed.err
    found = json.loads(printed.out)["choice"]
    names = {each["candidate"] for each in found["candidates"]}
    rankers = (RANKER, TREE_RANKER, QUICK)
    pairs = {f"{name}, {ranker}" for name in COMPARED for ranker in rankers}
    assert names == pairs | {KEEP}


def test_a_member_stands_for_the_ranker_that_it_is_alone() -> None:
    """What is judged is what would be trained: the same scores, without training."""
    counts, data, click_model = world(shown=100)
    settings = ChoiceSettings((RANKER, QUICK), estimators=(CORRECTION,))
    rankers, _ = module._train_candidates(counts, data, click_model, settings)
    alone = ChoiceSettings((QUICK,), estimators=(CORRECTION,))
    others, _ = module._train_candidates(counts, data, click_model, alone)
    [other] = others.values()
    member = rankers[Candidate(CORRECTION, QUICK)]
    np.testing.assert_array_equal(score(member, data), score(other, data))
    assert len(rankers) == 2


def test_what_cannot_learn_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trees need 40 documents; the linear model learns from fewer."""
    counts, data, click_model = world(shown=100, n_queries=16)
    few = data.select_queries(np.arange(16))
    rankers = (RANKER, TREE_RANKER, QUICK)
    settings = ChoiceSettings(rankers, estimators=(CORRECTION,), budget=1e-9)
    monkeypatch.setattr(module, "MIN_TRAINING_QUERIES", 6)  # of 6 documents, in a part
    with pytest.warns(AffineRankWarning, match=f"{TREE_RANKER} is not compared"):
        scores, _, parts = hold_out(counts, few, click_model, settings=settings)
    assert parts == 1
    assert [*scores] == [f"{CORRECTION}, {name}" for name in (RANKER, QUICK)]
    assert all(np.any(own) for own in scores.values())


def test_members_that_read_text_in_another_way_are_trained_alone() -> None:
    plain = world(shown=100)[1]
    values = tuple(f"v{i}" for i in range(150))
    text = replace(plain, categories={"relevant": values})
    found = [
        {plan.ranker for plan in module._members_like_their_rows(RANKER, data)}
        for data in (plain, text)
    ]
    assert found == [{TREE_RANKER, QUICK}, {TREE_RANKER}]


def test_every_training_is_given_rates_labels_and_the_seed() -> None:
    data = world(shown=100)[1]
    training = TrainSettings(seeds=[5], learning_rates=[0.5], relevant_above=0.0)
    settings = ChoiceSettings(training=training)
    for name in (RANKER, "mlp"):
        told = settings.training_of(name, data)
        assert (told.learning_rates, told.relevant_above) == ((0.5,), 0.0)
    assert settings.training_of("mlp", data).ranker_settings.data_seed == 5


def test_a_learning_rate_that_is_set_is_the_one_that_is_taken(
    small_log: tuple[str, str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    counts, click_model, data = small_log
    command = ["train", counts, "--data", data, "--click-model", click_model, "--json"]
    command += ["--ranker", "mlp", "--estimator", "naive"]
    for pair in ("learning_rate=0.03", "epochs=2", "hidden=4"):
        command += ["--set", pair]
    for i, more in enumerate((["--auto"], ["--safe", "--production", "f1"])):
        capsys.readouterr()
        assert main([*command, *more, "-o", str(tmp_path / str(i))]) == 0
        [row] = json.loads(capsys.readouterr().out)["rankers"]
        assert row["learning_rate"] == 0.03


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--scaling", "none"], "scales features its own way"),
        (["--set", "trees=5"], "--set is for one ranker"),
        (["--safe", "--production", "f1"], "--auto and --safe"),
        (["--patience", "2"], "--patience"),
        (["--ranker", TREE_RANKER, "--set", "epochs=2"], "epochs"),
        (["--budget", "soon"], "'soon'"),
    ],
)
def test_bad_options_of_auto_are_one_sentence_and_write_nothing(
    small_log: tuple[str, str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    more: list[str],
    words: str,
) -> None:
    counts, click_model, data = small_log
    target = tmp_path / "model"
    arguments = ["train", counts, "--data", data, "--click-model", click_model]
    capsys.readouterr()
    assert main([*arguments, "--auto", *more, "-o", str(target)]) == 2
    fault = capsys.readouterr().err
    assert words in fault
    assert fault.count("\n") == 1
    assert not target.exists()
