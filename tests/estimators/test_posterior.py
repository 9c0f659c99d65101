"""The posterior: own clicks against a prior that they have no part in."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import ArrayLike
from scipy.special import expit, logit

from affinerank.clicks.models.trust import TrustModel
from affinerank.counts.rows import ClickRows
from affinerank.estimators import Evidence, Fold, Weights, affine, posterior
from affinerank.estimators.estimator import CLICKS
from affinerank.estimators.prior import spread_around, stacked_prior
from affinerank.estimators.relevance_scale import RelevanceScale
from affinerank.estimators.shrinkage import shrink
from affinerank.pipeline.steps import out_of_fold as pipeline_folds
from affinerank.pipeline.steps.weighing import learns_of
from affinerank.rankers import RANKERS
from affinerank.support.arrays import Floats, Ints
from affinerank.support.errors import ConfigError

CLICK_MODEL = TrustModel.from_zeta([0.9, 0.7, 0.5, 0.4], [0.4, 0.2, 0.1, 0.05])
QUERIES, SIZE = 40, 5
QUERY_OF_DOC = np.repeat(np.arange(QUERIES), SIZE)


def rows_of(
    doc: Ints,
    rank: Ints,
    impressions: ArrayLike,
    clicks: ArrayLike,
    query_of_doc: Ints,
) -> ClickRows:
    """Rows in which every query was issued as often."""
    return ClickRows(
        doc=doc,
        rank=rank,
        context=np.zeros_like(doc),
        impressions=np.asarray(impressions, dtype=np.float64),
        clicks=np.asarray(clicks, dtype=np.float64),
        query_of_doc=query_of_doc,
        sessions=np.full(int(query_of_doc.max()) + 1, float(np.max(impressions))),
    )


def shown_once(
    impressions: float, clicks: Floats, click_model: TrustModel
) -> ClickRows:
    """Four documents of each query at a rank of their own; the last is not shown."""
    doc = np.flatnonzero(np.arange(QUERIES * SIZE) % SIZE < SIZE - 1)
    assert click_model.depth == SIZE - 1
    n = np.full(len(doc), impressions)
    return rows_of(doc, doc % SIZE + 1, n, clicks, QUERY_OF_DOC)


def simulated(
    relevance: Floats,
    impressions: int,
    click_model: TrustModel = CLICK_MODEL,
    seed: int = 0,
) -> ClickRows:
    rows = shown_once(impressions, np.zeros(QUERIES * (SIZE - 1)), click_model)
    alpha, beta = click_model.at(rows)
    rate = alpha * relevance[rows.doc] + beta
    clicks = np.random.default_rng(seed).binomial(impressions, rate)
    return replace(rows, clicks=clicks.astype(np.float64))


def halves(scores: Floats, query_of_doc: Ints = QUERY_OF_DOC) -> list[Fold]:
    """Each half of the queries weighs for the other; scores are given."""
    odd = np.arange(int(query_of_doc.max()) + 1) % 2 == 1
    named = {CLICKS: scores}
    return [Fold(odd, ~odd, named), Fold(~odd, odd, named)]


def relevance_and_scores(seed: int = 0) -> tuple[Floats, Floats]:
    """Relevance between 0 and 1, and what a ranker that is half right says of it."""
    rng = np.random.default_rng(seed)
    score = rng.normal(-0.5, 1.0, QUERIES * SIZE)
    return expit(score + rng.normal(size=len(score))), score


def weigh(
    rows: ClickRows, scores: Floats, click_model: TrustModel = CLICK_MODEL
) -> Weights:
    return posterior.weigh(Evidence(rows, click_model, folds=halves(scores)))


def own_click_share_of(weights: Weights) -> Floats:
    assert weights.own_click_share is not None
    return weights.own_click_share


def moved_by(click_model: TrustModel, a: float, t: float) -> TrustModel:
    """The same users in another gauge; what span says moves along."""
    span = click_model.span and (
        (click_model.span[0] - t) / a,
        (click_model.span[1] - t) / a,
    )
    return TrustModel(
        alpha=a * click_model.alpha,
        beta=click_model.beta + t * click_model.alpha,
        identified="relative",
        span=span,
    )


def test_queries_that_rankers_learnt_from_have_no_say_in_the_prior() -> None:
    relevance, scores = relevance_and_scores()
    rows = simulated(relevance, 5)
    part = np.arange(QUERIES) % 3
    learnt = part[QUERY_OF_DOC] == 0
    own = Fold(part == 1, part == 2, {CLICKS: scores[~learnt]})
    mean, variance = stacked_prior(RelevanceScale.of(CLICK_MODEL, rows), [own])

    # The same log without those queries.
    left = rows.of_queries(part != 0)
    number = np.cumsum(~learnt) - 1
    query = np.cumsum(part != 0) - 1
    alone = replace(
        left,
        doc=number[left.doc],
        query_of_doc=query[QUERY_OF_DOC[~learnt]],
        sessions=left.sessions[part != 0],
    )
    same = Fold((part == 1)[part != 0], (part == 2)[part != 0], own.scores)
    expected = stacked_prior(RelevanceScale.of(CLICK_MODEL, alone), [same])
    here = part[QUERY_OF_DOC] == 2
    assert mean[here] == pytest.approx(expected[0][here[~learnt]], rel=1e-9)
    assert variance[here] == pytest.approx(expected[1][here[~learnt]], rel=1e-9)
    assert np.ptp(mean[here]) > 0.1


def test_own_clicks_count_in_full_once_there_are_many() -> None:
    relevance, scores = relevance_and_scores()
    few = simulated(relevance, 3)
    many = replace(few, impressions=few.impressions * 1e6, clicks=few.clicks * 1e6)
    before, after = (own_click_share_of(weigh(rows, scores)) for rows in (few, many))
    shown = few.by_doc(few.impressions) > 0
    assert np.all((before[shown] > 0) & (before[shown] < 0.9))
    assert np.all((after[shown] > 1 - 1e-3) & (after[shown] <= 1))
    assert not before[~shown].any()
    assert not after[~shown].any()


@pytest.mark.parametrize("impressions", [1, 1000])
def test_a_document_never_shown_is_what_the_prior_says(impressions: int) -> None:
    relevance, scores = relevance_and_scores()
    rows = simulated(relevance, impressions)
    found = weigh(rows, scores)
    mean, variance = stacked_prior(RelevanceScale.of(CLICK_MODEL, rows), halves(scores))
    hidden = rows.by_doc(rows.impressions) == 0
    assert hidden.sum() == QUERIES
    assert found.known.all()
    np.testing.assert_array_equal(found.weight[hidden], mean[hidden])
    np.testing.assert_array_equal(found.variance[hidden], variance[hidden])
    assert np.all(found.variance[~hidden] < variance[~hidden])
    assert np.ptp(mean[hidden]) > 0.05  # scores have a say in it


def test_queries_that_nobody_issued_are_not_known() -> None:
    relevance, scores = relevance_and_scores()
    rows = simulated(relevance, 10)
    issued = np.arange(QUERIES) != 7
    some = replace(rows.select(issued[rows.query]), sessions=rows.sessions * issued)
    found = weigh(some, scores)
    np.testing.assert_array_equal(found.known, issued[QUERY_OF_DOC])
    assert not found.weight[~found.known].any()


@pytest.mark.parametrize("wrong", ["noise", "reversed"])
def test_many_clicks_overrule_a_wrong_prior(wrong: str) -> None:
    relevance, scores = relevance_and_scores()
    noise = np.random.default_rng(1).normal(size=len(scores))
    said = noise if wrong == "noise" else -logit(relevance)
    impressions = 200_000
    rows = simulated(relevance, impressions)
    mean, _ = stacked_prior(RelevanceScale.of(CLICK_MODEL, rows), halves(said))
    assert np.mean(np.abs(mean - relevance)) > 0.15
    found = weigh(rows, said).weight[rows.doc]
    alpha, beta = CLICK_MODEL.at(rows)
    rate = alpha * relevance[rows.doc] + beta
    error = np.sqrt(rate * (1 - rate) / impressions) / alpha
    assert np.all(np.abs(found - relevance[rows.doc]) < 5 * error)


def test_a_prior_that_knows_nothing_leaves_the_corrected_click() -> None:
    relevance, scores = relevance_and_scores()
    rows = simulated(relevance, 10)
    link = RelevanceScale.of(CLICK_MODEL, rows)
    mean, shown = expit(scores), rows.by_doc(rows.impressions) > 0
    found, _, own_click_share = shrink(link, mean, np.full(rows.n_docs, 1e9))
    own = affine.weigh(Evidence(rows, CLICK_MODEL, options=affine.AffineOptions()))
    np.testing.assert_allclose(found[shown], own.weight[shown], atol=1e-9)
    np.testing.assert_allclose(own_click_share[shown], 1.0)
    assert np.ptp(own.weight[shown]) > 1


def test_a_prior_that_knows_all_leaves_the_clicks_out() -> None:
    relevance, scores = relevance_and_scores()
    mean = expit(scores)
    link = RelevanceScale.of(CLICK_MODEL, simulated(relevance, 1000))
    found, variance, own_click_share = shrink(link, mean, np.zeros_like(mean))
    np.testing.assert_array_equal(found, mean)
    assert not variance.any()
    assert not own_click_share.any()


@pytest.mark.parametrize("sign", [1, -1])
def test_two_documents_at_two_ranks_written_out(sign: int) -> None:
    """Of either sign of the slope at the second rank."""
    n, c = np.array([[4.0, 10.0], [2.0, 7.0]]), np.array([[3.0, 2.0], [0.0, 5.0]])
    alpha, beta = np.array([0.5, sign * 0.3]), np.array([0.2, 0.4])
    m, u = np.array([0.3, 0.6]), np.array([0.1, 0.05])
    doc, rank = np.array([0, 0, 1, 1]), np.array([1, 2, 1, 2])
    rows = rows_of(doc, rank, n.ravel(), c.ravel(), np.array([0, 0]))
    link = RelevanceScale(rows, np.tile(alpha, 2), np.tile(beta, 2))
    relevance, variance, own_click_shares = shrink(link, m, u)
    for d in range(2):
        h = []
        for k in range(2):
            p = alpha[k] * m[d] + beta[k]
            h.append(n[d, k] * alpha[k] ** 2 / (p * (1 - p) - alpha[k] ** 2 * u[d]))
        s = [(c[d, k] - n[d, k] * beta[k]) / (n[d, k] * alpha[k]) for k in range(2)]
        s_d = (h[0] * s[0] + h[1] * s[1]) / (h[0] + h[1])
        v_d = 1 / (h[0] + h[1])
        own_click_share = u[d] / (u[d] + v_d)
        assert own_click_shares[d] == pytest.approx(own_click_share)
        assert relevance[d] == pytest.approx(m[d] + own_click_share * (s_d - m[d]))
        assert variance[d] == pytest.approx(u[d] * v_d / (u[d] + v_d))


def test_rows_without_a_slope_drop_out() -> None:
    """The first document has one of two rows left, the second none."""
    doc, rank = np.array([0, 0, 1]), np.array([1, 2, 2])
    n, c = np.array([5.0, 9.0, 9.0]), np.array([3.0, 8.0, 8.0])
    rows = rows_of(doc, rank, n, c, np.array([0, 0]))
    alpha, beta = np.array([0.5, 0.0, 0.0]), np.array([0.2, 0.3, 0.3])
    mean, variance = np.array([0.4, 0.7]), np.array([0.2, 0.1])
    found = shrink(RelevanceScale(rows, alpha, beta), mean, variance)
    first = np.array([0])
    alone = RelevanceScale(rows.select(first), alpha[first], beta[first])
    for with_them, without in zip(found, shrink(alone, mean, variance), strict=True):
        np.testing.assert_array_equal(with_them, without)
    relevance, left, own_click_share = found
    assert (relevance[1], left[1], own_click_share[1]) == (0.7, 0.1, 0.0)
    assert own_click_share[0] > 0


def test_a_click_counts_against_a_document_where_alpha_is_negative() -> None:
    relevance, scores = relevance_and_scores()
    click_model = TrustModel.from_zeta([0.9, 0.2, 0.5, 0.1], [0.4, 0.7, 0.1, 0.5])
    rows = simulated(relevance, 200_000, click_model)
    alpha, beta = click_model.at(rows)
    rate = alpha * relevance[rows.doc] + beta
    error = np.sqrt(rate * (1 - rate) / 200_000) / np.abs(alpha)
    found = weigh(rows, scores, click_model).weight[rows.doc]
    assert np.all(np.abs(found - relevance[rows.doc]) < 5 * error)
    # One more click, with the prior as it was.
    few = simulated(relevance, 5, click_model)
    mean = np.full(few.n_docs, 0.4)
    added = replace(few, clicks=few.clicks + 1)
    before, after = (
        shrink(RelevanceScale(rows, alpha, beta), mean, 0.2 * mean)[0][few.doc]
        for rows in (few, added)
    )
    np.testing.assert_array_equal(np.sign(after - before), np.sign(alpha))


@pytest.mark.parametrize(("a", "t"), [(0.3, 0.0), (1.0, -1.5), (4.0, 0.7)])
@pytest.mark.parametrize("known", [True, False], ids=["span", "no span"])
def test_weights_move_with_the_gauge_and_kappa_stays(
    known: bool, a: float, t: float
) -> None:
    relevance, scores = relevance_and_scores()
    rows = simulated(relevance, 7)
    span = (0.0, 1.0) if known else None
    click_model = replace(CLICK_MODEL, identified="relative", span=span)
    moved = moved_by(click_model, a, t)
    assert (moved.span is None) == (not known)
    plain, shifted = weigh(rows, scores, click_model), weigh(rows, scores, moved)
    # As exact as the optimum of the prior is found.
    np.testing.assert_allclose(shifted.weight, (plain.weight - t) / a, atol=1e-5 / a)
    np.testing.assert_allclose(shifted.variance, plain.variance / a**2, rtol=1e-4)
    np.testing.assert_allclose(
        own_click_share_of(shifted), own_click_share_of(plain), atol=1e-5
    )
    if known:
        np.testing.assert_array_equal(plain.weight, weigh(rows, scores).weight)


def test_the_clicks_of_a_query_have_no_say_in_its_own_prior() -> None:
    relevance, scores = relevance_and_scores()
    rows = simulated(relevance, 10)
    own = rows.query == 6
    changed = replace(rows, clicks=np.where(own, (rows.clicks + 5) % 11, rows.clicks))
    before, after = (
        stacked_prior(RelevanceScale.of(CLICK_MODEL, some), halves(scores))
        for some in (rows, changed)
    )
    theirs = QUERY_OF_DOC == 6
    np.testing.assert_array_equal(after[0][theirs], before[0][theirs])
    np.testing.assert_array_equal(after[1][theirs], before[1][theirs])
    assert np.all(after[0][QUERY_OF_DOC == 7] != before[0][QUERY_OF_DOC == 7])
    weights = [weigh(some, scores).weight for some in (rows, changed)]
    assert np.all(weights[0][rows.doc[own]] != weights[1][rows.doc[own]])


@pytest.mark.parametrize("query", [0, 6, 39])
def test_nor_when_rankers_learn_anew(query: int) -> None:
    relevance, scores = relevance_and_scores()
    rng = np.random.default_rng(2)
    features = np.stack([scores, *rng.normal(size=(2, len(scores)))], axis=1)
    rows = simulated(relevance, 10)
    own = rows.query == query
    changed = replace(rows, clicks=np.where(own, (rows.clicks + 5) % 11, rows.clicks))
    learns = learns_of(posterior.ROW.name)
    kind = RANKERS["linear-model"]
    learnt = [
        pipeline_folds.train_out_of_fold(
            [pipeline_folds.RankerJob(some, CLICK_MODEL, learns, 0)],
            features.astype(np.float32),
            np.arange(0, QUERIES * SIZE + 1, SIZE),
            rankers=(kind.name,),
        )[0]
        for some in (rows, changed)
    ]
    assert set(learnt[0][0].scores) == set(learns)
    before, after = (
        stacked_prior(RelevanceScale.of(CLICK_MODEL, some), folds)
        for some, folds in zip((rows, changed), learnt, strict=True)
    )
    theirs = query == QUERY_OF_DOC
    np.testing.assert_allclose(after[0][theirs], before[0][theirs], atol=1e-12)
    np.testing.assert_allclose(after[1][theirs], before[1][theirs], atol=1e-12)
    # Of the other queries, only those of the same part keep theirs.
    assert np.mean(after[0] != before[0]) > 0.5
    assert np.corrcoef(before[0], relevance)[0, 1] > 0.3


def test_long_lists_may_be_more_relevant_down_to_their_end() -> None:
    lengths = np.tile([3, 3, 12, 12], 50)
    query = np.repeat(np.arange(len(lengths)), lengths)
    rank = np.concatenate([np.arange(1, n + 1) for n in lengths])
    relevance = np.where(lengths > 3, 0.6, 0.2)[query]
    click_model = TrustModel.paper(depth=12)
    rate = click_model.alpha[rank - 1] * relevance + click_model.beta[rank - 1]
    clicks = np.random.default_rng(0).binomial(50, rate)
    rows = rows_of(np.arange(len(rank)), rank, np.full(len(rank), 50), clicks, query)
    mean, _ = stacked_prior(RelevanceScale.of(click_model, rows), [])
    for own in (lengths[query] == 3, rank <= 2, rank >= 8):
        assert mean[own].mean() == pytest.approx(relevance[own].mean(), abs=0.05)


@pytest.mark.parametrize("clicks_per_query", [3, 30])
def test_the_variance_is_the_squared_distance_from_relevance(
    clicks_per_query: int,
) -> None:
    """Documents are relevant or not; scores are their log-odds with noise."""
    rng = np.random.default_rng(clicks_per_query)
    queries, size = 100, 10
    click_model = TrustModel.paper(depth=size)
    query = np.repeat(np.arange(queries), size)
    ratio = []
    for _ in range(20):
        odds = rng.normal(-1.0, 1.5, queries * size)
        relevance = (rng.random(len(odds)) < expit(odds)).astype(np.float64)
        noisy = (odds + rng.normal(size=len(odds))).reshape(queries, size)
        rank = (np.argsort(np.argsort(-noisy, axis=1), axis=1) + 1).ravel()
        alpha, beta = click_model.alpha[rank - 1], click_model.beta[rank - 1]
        rate = alpha * relevance + beta
        sessions = max(round(clicks_per_query * queries / rate.sum()), 1)
        clicks = rng.binomial(sessions, rate)
        n = np.full(len(rank), sessions)
        rows = rows_of(np.arange(len(rank)), rank, n, clicks, query)
        folds = halves(odds + rng.normal(0.0, 0.7, len(odds)), query)
        found = posterior.weigh(Evidence(rows, click_model, folds=folds))
        ratio.append(np.mean((relevance - found.weight) ** 2 / found.variance))
    assert 0.85 < np.mean(ratio) < 1.15


@pytest.mark.parametrize("rho", [0.05, 0.3, 0.8])
def test_the_spread_around_the_prior_is_found(rho: float) -> None:
    """Relevance of a beta distribution around each mean, 30 logs of 1,000 documents."""
    rng = np.random.default_rng(0)
    size, shown = 1000, 50
    doc = np.arange(size)
    found = []
    for _ in range(30):
        mean = rng.uniform(0.1, 0.6, size)
        relevance = rng.beta(mean * (1 / rho - 1), (1 - mean) * (1 / rho - 1))
        rank = rng.integers(1, 5, size)
        rate = CLICK_MODEL.alpha[rank - 1] * relevance + CLICK_MODEL.beta[rank - 1]
        n, clicks = np.full(size, shown), rng.binomial(shown, rate)
        rows = rows_of(doc, rank, n, clicks, doc // 10)
        found.append(spread_around(mean, RelevanceScale.of(CLICK_MODEL, rows)))
    error = np.std(found, ddof=1) / np.sqrt(len(found))
    assert abs(np.mean(found) - rho) < 3 * error
    assert error < 0.02


def test_it_asks_for_rankers_unless_the_rank_is_the_prior() -> None:
    assert posterior.ROW.learns(posterior.PosteriorOptions())[0] == CLICKS
    assert posterior.ROW.learns(posterior.PosteriorOptions(prior="rank")) == ()
    with pytest.raises(
        ConfigError, match="prior must be features or rank, got 'magic'"
    ):
        posterior.PosteriorOptions(prior="magic")
    relevance, _ = relevance_and_scores()
    with pytest.raises(ConfigError, match="click model"):
        posterior.weigh(Evidence(simulated(relevance, 3)))
