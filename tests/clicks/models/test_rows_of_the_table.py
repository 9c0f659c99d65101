"""Every row of the table, against click patterns written out by hand."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext as skip
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from affinerank.cli import main
from affinerank.clicks.models import CLICK_MODELS, Shown
from affinerank.clicks.models.browsing import BrowsingModel
from affinerank.clicks.models.by_query import ModelByQuery
from affinerank.clicks.models.by_segment import SegmentedModel
from affinerank.clicks.models.files import load_click_model, save_click_model
from affinerank.clicks.models.trust import EstimatedBy, TrustModel
from affinerank.clicks.simulation import simulate_counts, write_session_log
from affinerank.clicks.traffic import Simulation, Traffic, prepare
from affinerank.counts.counting import count_log, open_table
from affinerank.counts.counts import ClickCounts
from affinerank.counts.rows import ClickRows, join_counts
from affinerank.data.dataset import RankingDataset
from affinerank.logs.options import LogOptions
from affinerank.pipeline.simulate import click_model_of
from affinerank.support.errors import AffineRankWarning, ConfigError, DataError
from affinerank.support.settings import EntrySpec

pytestmark = pytest.mark.slow

Pattern = tuple[int, ...]
Rate = Callable[[int, int, float], float]  # P(click) of rank, last click, relevance
SESSIONS = 20_000


def paper(
    k: int, distance: int, gamma: float, eta: float = 1, eps: float = 0.65
) -> Any:
    plus, minus = 1 - (k + 1) / 100, eps / k
    return distance**-eta * (plus * gamma + minus * (1 - gamma))


def steep(eta: float, k: int, _: int, gamma: float) -> float:
    return float(paper(k, k, gamma, eta, 0.4))


def flat(gamma: float, plus: float, minus: float) -> float:
    return plus * gamma + minus * (1 - gamma)


RATES: dict[str, Rate] = {
    "trust": lambda k, s, g: paper(k, k, g),
    "trust(eta=2, eps_minus_1=0.35)": lambda k, s, g: paper(k, k, g, 2, 0.35),
    "position-based": lambda k, s, g: 0.98 * g / k,
    "position-based(eta=2, eps_plus=0.9, eps_minus=0.3)": (
        lambda k, s, g: k**-2 * flat(g, 0.9, 0.3)
    ),
    "cascade": lambda k, s, g: 0.0 if s else flat(g, 0.98, 0.05),
    "cascade(eps_plus=0.7, eps_minus=0.2, persistence=0.8)": (
        lambda k, s, g: 0.0 if s else 0.8 ** (k - 1) * flat(g, 0.7, 0.2)
    ),
    "browsing": lambda k, s, g: paper(k, k - s, g),
    "browsing(eta=2, eps_minus_1=0.35)": lambda k, s, g: paper(k, k - s, g, 2, 0.35),
}


def chance(rate: Rate, gammas: Any, clicks: Pattern) -> float:
    """P(clicks) of users who go by rank and last click above."""
    last, p = 0, 1.0
    for k, (gamma, clicked) in enumerate(zip(gammas, clicks, strict=True), start=1):
        here = rate(k, last, gamma)
        p *= here if clicked else 1 - here
        last = k if clicked else last
    return p


def dependent(
    gammas: Any, clicks: Pattern, stay: Any, plus: float, minus: float
) -> float:
    """P(clicks) of users who may stop after each click: over where they stop."""
    total = 0.0
    for end in range(1, len(clicks) + 1):  # the last rank that is examined
        p = 1.0
        for k, (gamma, clicked) in enumerate(zip(gammas, clicks, strict=True), start=1):
            if k > end:
                p *= not clicked
                continue
            p *= flat(gamma, plus, minus) if clicked else 1 - flat(gamma, plus, minus)
            if k < len(clicks):
                goes_on = stay(k) if clicked else 1.0
                p *= goes_on if k < end else 1 - goes_on
        total += p
    return total


def patterns(n: int = 3) -> Iterator[Pattern]:
    return product((0, 1), repeat=n)


def frequencies(click_model: Any, gammas: Any, **columns: Any) -> Any:
    """``[8]`` shares of sessions with each click pattern."""
    n = len(gammas)
    rank = np.tile(np.arange(1, n + 1), SESSIONS)
    shown = Shown(
        np.repeat(np.arange(SESSIONS), n),
        rank,
        np.tile(np.asarray(gammas, dtype=float), SESSIONS),
        **{"query": 0 * rank, "segment": 0 * rank, **columns},
    )
    seed = int(sum(2**i * g for i, g in enumerate(gammas)))
    clicked = click_model.click(shown, np.random.default_rng(seed)).reshape(SESSIONS, n)
    code = clicked @ 2 ** np.arange(n)[::-1]
    return np.bincount(code, minlength=2**n) / SESSIONS


def assert_expected(found: Any, expected: Any) -> None:
    """Within 4 standard errors."""
    expected = np.array(expected)
    assert expected.sum() == pytest.approx(1)
    error = np.sqrt(expected * (1 - expected) / SESSIONS)
    np.testing.assert_array_less(np.abs(found - expected), 4 * error + 1e-12)


@pytest.mark.parametrize("text", RATES)
def test_click_patterns_are_those_written_out(text: str) -> None:
    click_model = click_model_of(text, 3)
    for gammas in patterns():
        expected = [chance(RATES[text], gammas, clicks) for clicks in patterns()]
        assert_expected(frequencies(click_model, gammas), expected)


@pytest.mark.parametrize(
    ("text", "stay", "rates"),
    [
        ("dependent-click", lambda k: 0.6, (0.98, 0.05)),
        (
            "dependent-click(stay=0.9, decay=1, eps_plus=0.8, eps_minus=0.3)",
            lambda k: 0.9 / k,
            (0.8, 0.3),
        ),
    ],
)
def test_dependent_clicks_are_those_written_out(
    text: str, stay: Any, rates: Any
) -> None:
    click_model = click_model_of(text, 3)
    for gammas in patterns():
        expected = [dependent(gammas, clicks, stay, *rates) for clicks in patterns()]
        assert_expected(frequencies(click_model, gammas), expected)


def test_clicks_of_each_query_have_its_steepness() -> None:
    click_model = click_model_of("by-query(eta=1.5, spread=1, eps_minus_1=0.4)", 3)
    assert isinstance(click_model, ModelByQuery)
    for query in (0, 5):
        eta = float(click_model.eta(np.array([query]))[0])
        gammas = (1, 0, 1)
        rate = partial(steep, eta)
        expected = [chance(rate, gammas, clicks) for clicks in patterns()]
        column = np.full(3 * SESSIONS, query)
        assert_expected(frequencies(click_model, gammas, query=column), expected)
    # Uniform from 0.5 to 2.5: mean 1.5, standard error 2 / sqrt(12 n).
    many = click_model.eta(np.arange(10_000))
    assert abs(many.mean() - 1.5) < 4 * 2 / np.sqrt(12 * 10_000)
    assert 0.5 < many.min() < 0.51
    assert 2.49 < many.max() < 2.5
    np.testing.assert_array_equal(click_model.eta(np.array([7, 3])), many[[7, 3]])


def test_sessions_have_segments_by_their_shares_and_click_by_them() -> None:
    text = "by-segment(eta=1,2, eps_minus_1=0.65,0.1, share=0.3,0.7)"
    click_model = click_model_of(text, 3)
    assert isinstance(click_model, SegmentedModel)
    segment = click_model.draw(SESSIONS, np.random.default_rng(1))
    assert abs(segment.mean() - 0.7) < 4 * np.sqrt(0.21 / SESSIONS)
    column = np.repeat(segment, 3)
    for gammas in patterns():
        expected = [
            0.3 * chance(lambda k, s, g: paper(k, k, g, 1, 0.65), gammas, clicks)
            + 0.7 * chance(lambda k, s, g: paper(k, k, g, 2, 0.1), gammas, clicks)
            for clicks in patterns()
        ]
        assert_expected(frequencies(click_model, gammas, segment=column), expected)


def test_lists_of_several_lengths_are_read_from_their_tops() -> None:
    sizes = np.array([1, 3, 2])
    session = np.repeat([4, 7, 9], sizes)
    rank = np.array([1, 1, 2, 3, 1, 2])
    shown = Shown(session, rank, np.ones(6), 0 * rank, 0 * rank)
    down = [(these.tolist(), lists.tolist()) for these, lists in shown.down()]
    assert down == [([0, 1, 4], [0, 1, 2]), ([2, 5], [1, 2]), ([3], [1])]
    sure = BrowsingModel.from_zeta(np.ones((3, 2)) * [1, 0], np.zeros((3, 2)))
    clicked = sure.click(shown, np.random.default_rng(0))
    assert clicked.tolist() == [True, True, False, False, True, False]


# Unbiased, by enumeration.


def expected_rows(rate: Rate, gammas: Any) -> ClickRows:
    """Impressions and clicks per session by context, over relevance and clicks."""
    cells: dict[tuple[int, int], Any] = {}
    for relevant in patterns():
        share = np.prod(
            [g if r else 1 - g for g, r in zip(gammas, relevant, strict=True)]
        )
        for clicks in patterns():
            p, last = share * chance(rate, relevant, clicks), 0
            for k, clicked in enumerate(clicks, start=1):
                cells.setdefault((k, last), np.zeros(2))[:] += p, p * clicked
                last = k if clicked else last
    shown = {cell: value for cell, value in cells.items() if value[0] > 0}
    rank, context = np.array(list(shown)).T
    impressions, clicks = np.array(list(shown.values())).T
    rows = ClickRows(
        rank - 1, rank, context, impressions, clicks, np.zeros(3, int), np.ones(1)
    )
    return replace(rows, has_context=True)


@pytest.mark.parametrize("text", [t for t in RATES if t.startswith(("casc", "brow"))])
def test_corrected_clicks_are_unbiased_in_every_context(text: str) -> None:
    gammas = np.array([0.3, 0.85, 0.55])
    rows = expected_rows(RATES[text], gammas)
    alpha, beta = click_model_of(text, 3).at(rows)
    known = alpha > 0
    found = (rows.clicks - beta * rows.impressions)[known] / alpha[known]
    np.testing.assert_allclose(
        found / rows.impressions[known], gammas[rows.doc[known]], rtol=1e-12
    )
    if text.startswith("brow"):  # rank 3 after none, after 1 and after 2
        assert np.count_nonzero(known) == 1 + 2 + 3
    else:
        np.testing.assert_array_equal(known, rows.context == 0)


def test_the_slope_of_dependent_clicks_goes_by_the_document_between() -> None:
    """Rank 3 after a click at rank 1, stay 0.6: .54 / .94 and .06 / .46."""
    slopes = []
    for between in (0.1, 0.9):
        rates = []
        for gamma in (0.0, 1.0):
            gammas = (0.5, between, gamma)
            clicked, missed = (
                dependent(gammas, (1, 0, last), lambda k: 0.6, 1.0, 0.0)
                for last in (1, 0)
            )
            rates.append(clicked / (clicked + missed))
        slopes.append(rates[1] - rates[0])
    np.testing.assert_allclose(slopes, [0.54 / 0.94, 0.06 / 0.46])
    np.testing.assert_allclose(slopes, [0.57, 0.13], atol=0.005)
    click_model = click_model_of("dependent-click", 3)
    rows = expected_rows(RATES["trust"], [0.5, 0.5, 0.5])
    for asked in (click_model.at, click_model.examination):
        with pytest.raises(ConfigError, match="no correction exists for dependent"):
            asked(rows)


# Browsing models.

BROWSING = BrowsingModel.from_zeta(
    [[0.9, 0.0, 0.0], [0.5, 0.8, 0.8], [0.4, 0.7, 0.5]],
    [[0.2, 0.0, 0.0], [0.1, 0.2, 0.2], [0.1, 0.3, 0.0]],
    estimated=EstimatedBy("a method", features=True),
)


def rows_in(rank: Any, context: Any, impressions: Any = None, **more: Any) -> ClickRows:
    rank, context = np.array(rank), np.array(context)
    shown = np.ones(len(rank)) if impressions is None else np.array(impressions)
    doc = np.arange(len(rank))
    rows = ClickRows(doc, rank, context, shown, 0 * shown, 0 * doc, np.ones(1))
    return replace(rows, **{"has_context": True, **more})


@pytest.mark.filterwarnings("ignore::affinerank.support.errors.AffineRankWarning")
def test_a_row_is_in_the_column_of_its_distance_or_the_furthest() -> None:
    # Rank 3 after none, after 2 (distance 1), after 1 (2); rank 5 after 1 (4).
    alpha, beta = BROWSING.at(rows_in([3, 3, 3, 5], [0, 2, 1, 1]))
    np.testing.assert_allclose(alpha, [0.3, 0.4, 0.5, 0.5])
    np.testing.assert_allclose(beta, [0.1, 0.3, 0.0, 0.0])
    deep = BROWSING.to_depth(5)
    np.testing.assert_array_equal(deep.at(rows_in([5], [1])), [[0.5], [0.0]])
    theta, plus, minus = BROWSING.examination(rows_in([3], [2]))
    np.testing.assert_allclose(
        np.concatenate([theta, plus, minus]), [0.7, 1.0, 0.3 / 0.7]
    )


def test_values_by_rank_are_means_over_impressions() -> None:
    rows = rows_in([1, 3, 3, 3], [0, 0, 2, 1], [8, 1, 3, 4])
    click_model = BROWSING.by_rank(rows)
    # Rank 3: (.3 + 3 x .4 + 4 x .5) / 8 and (.1 + 3 x .3) / 8; rank 2 was not shown.
    np.testing.assert_allclose(click_model.alpha, [0.7, 0.4, 3.5 / 8])
    np.testing.assert_allclose(click_model.beta, [0.2, 0.1, 1 / 8])
    assert isinstance(click_model, TrustModel)
    assert (click_model.identified, click_model.estimated) == (
        "click-rates",
        BROWSING.estimated,
    )


def test_counts_without_context_do_not_do_for_browsing_users() -> None:
    rows = rows_in([1], [0], has_context=False)
    for asked in (BROWSING.at, BROWSING.examination):
        with (
            pytest.raises(DataError, match="count with --context last-click"),
            pytest.warns(AffineRankWarning)
            if asked == BROWSING.examination
            else skip(),
        ):
            asked(rows)


@pytest.mark.parametrize(
    "click_model",
    [
        BROWSING,
        click_model_of("browsing", 25),
        BrowsingModel(
            alpha=np.array([[3.0, 1.0]]),
            beta=np.array([[-1.0, 0.0]]),
            identified="relative",
            span=(0.4, 0.6),
        ),
    ],
)
def test_a_browsing_model_is_the_same_after_its_file(
    click_model: BrowsingModel, tmp_path: Path
) -> None:
    click_model.save(tmp_path / "click-model.json")
    again = load_click_model(tmp_path / "click-model.json")
    assert again.to_dict() == click_model.to_dict()
    np.testing.assert_array_equal(again.alpha, click_model.alpha)
    assert (again.estimated, again.span) == (click_model.estimated, click_model.span)


def test_what_cannot_be_simulated_or_is_not_known_is_said() -> None:
    click_model = BrowsingModel(
        alpha=np.array([[0.5, 3.0]]),
        beta=np.array([[0.0, -1.0]]),
        identified="relative",
    )
    with pytest.raises(
        DataError, match=r"irrelevant .* rank 1, column 1 must .* got -1"
    ):
        click_model.require_probabilities()
    with pytest.raises(ConfigError, match="theta is not known"):
        click_model.examination(rows_in([1], [0]))
    with pytest.raises(DataError, match=r"rank 1, column 1 must be .* got 1\.5"):
        BrowsingModel.from_zeta([[0.5, 1.5]], [[0, 0]])


# Segments.


def test_rows_have_the_values_of_their_segment(tmp_path: Path) -> None:
    models: dict[str, Any] = {"a": TrustModel.paper(depth=3), "b": BROWSING}
    click_model = SegmentedModel(models, {"a": 0.2, "b": 0.8})
    rows = rows_in(
        [2, 2, 3], [1, 1, 2], segments=("b", "a"), segment=np.array([0, 1, 0])
    )
    alpha, beta = click_model.at(rows)
    trust = models["a"]
    np.testing.assert_allclose(alpha, [0.6, trust.alpha[1], 0.4])
    np.testing.assert_allclose(beta, [0.2, trust.beta[1], 0.3])
    with pytest.warns(AffineRankWarning, match="click rates only"):
        np.testing.assert_allclose(click_model.examination(rows)[0], [0.8, 0.5, 0.7])
    assert (click_model.identified, click_model.depth, click_model.span) == (
        "click-rates",
        3,
        (0, 1),
    )
    save_click_model(click_model, tmp_path / "click-model.json")
    again = load_click_model(tmp_path / "click-model.json")
    assert again.to_dict() == click_model.to_dict()
    assert (
        load_click_model(tmp_path / "click-model.json", "b").to_dict()
        == BROWSING.to_dict()
    )
    with pytest.raises(DataError, match="count with --segment"):
        click_model.at(rows_in([1], [0]))
    with pytest.raises(DataError, match="no users of segment 'c', only of 'a', 'b'"):
        click_model.at(replace(rows, segments=("b", "c")))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("position-based(eta=-1)", "position-based: eta must be 0 or more, got -1"),
        ("position-based(eps_minus=2)", "eps_minus must be from 0 to 1, got 2"),
        ("cascade(persistence=1.5)", "persistence must be from 0 to 1, got 1.5"),
        ("cascade(eps_plus=-1)", "eps_plus must be from 0 to 1, got -1"),
        ("browsing(eps_minus_1=7)", "eps_minus_1 must be from 0 to 1, got 7"),
        ("dependent-click(stay=1.1)", "stay must be from 0 to 1, got 1.1"),
        ("dependent-click(decay=-1)", "decay must be 0 or more, got -1"),
        ("by-query(spread=2)", "spread must be from 0 to eta, got 2"),
        ("by-query(eta=-2)", "eta must be 0 or more, got -2"),
        ("by-segment(eta=1,2,3)", "for each segment, got 3, 2 and 2"),
        ("by-segment(share=1,0)", "shares must be above 0, up to 1, got"),
        ("by-segment(eps_minus_1=1,2)", "eps_minus_1 must be from 0 to 1, got 2"),
        ("by-segment(steep=1)", "no key 'steep'"),
    ],
)
def test_wrong_settings_are_one_sentence(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        click_model_of(text, 3)
    assert "\n" not in str(caught.value)


# Simulation.


def world(click_model: str, *rankers: int) -> Simulation:
    """Three queries of 2, 4 and 5 documents."""
    sizes = [2, 4, 5]
    data = RankingDataset.from_rows(
        np.zeros((11, 1)), np.repeat(["a", "b", "c"], sizes), doc_ids=np.arange(11)
    )
    ranks = {
        f"r{seed}": np.concatenate(
            [np.random.default_rng(seed).permutation(size) + 1 for size in sizes]
        )
        for seed in rankers or (1,)
    }
    relevance = np.random.default_rng(7).random(11).round(2)
    traffic = Traffic(policies=("swap(share=0.4)",))
    rng = np.random.default_rng(11)
    return prepare(
        data, ranks, relevance, click_model_of(click_model, 5), traffic=traffic, rng=rng
    )


BY_SESSION = ("browsing", "by-query", "by-segment", "cascade", "dependent-click")


@pytest.mark.parametrize(
    ("name", "context"),
    [*((name, False) for name in BY_SESSION), *((name, True) for name in CLICK_MODELS)],
)
def test_counts_are_those_of_the_log(name: str, context: bool, tmp_path: Path) -> None:
    """The same stream draws the same sessions where both go session by session."""
    simulation = world(name, 1, 2)
    rng, again = np.random.default_rng(5), np.random.default_rng(5)
    counts = simulate_counts(simulation, 2_000, rng=rng, context=context)
    write_session_log(simulation, 2_000, tmp_path / "log.parquet", rng=again)
    options = LogOptions(segment="segment" if simulation.segments else None)
    with open_table(str(tmp_path / "log.parquet")) as table:
        how: Any = "last-click" if context else "none"
        count_log(table, tmp_path / "c.parquet", options=options, context=how)
    assert ClickCounts.load(tmp_path / "c.parquet").equals(counts)
    assert ("context" in counts.keys) == context
    assert ("segment" in counts.keys) == bool(simulation.segments)


@pytest.mark.parametrize("name", ["browsing", "cascade"])
def test_counts_by_context_give_relevance_back(name: str) -> None:
    """Corrected clicks over impressions are within 5 standard errors of relevance."""
    simulation, n = world(name), 100_000
    counts = simulate_counts(simulation, n, rng=np.random.default_rng(1), context=True)
    rows = join_counts(counts, simulation.data)
    alpha, beta = simulation.click_model.at(rows)
    rows, alpha, beta = (
        rows.select(alpha > 0),
        alpha[alpha > 0],
        beta[alpha > 0],
    )
    rate = alpha * simulation.relevance[rows.doc] + beta
    error = np.sqrt(rate * (1 - rate) / rows.impressions) / alpha
    found = (rows.clicks / rows.impressions - beta) / alpha
    assert len(rows) > 20
    np.testing.assert_array_less(
        np.abs(found - simulation.relevance[rows.doc]), 5 * error
    )


def test_the_command_counts_by_context_and_segment(tmp_path: Path) -> None:
    for click_model in ("cascade", "by-segment(eta=1,2)"):
        for log in ([], ["--log", str(tmp_path / "log.parquet")]):
            counts, model = tmp_path / "counts.parquet", tmp_path / "click-model.json"
            arguments = ["--click-model", click_model, "--sessions", "300", *log]
            arguments += ["--context", "last-click", "--save-click-model", str(model)]
            command = ["simulate", "yahoo-like:20", "--counts", str(counts), *arguments]
            assert main(command) == 0
            rows = join_counts(ClickCounts.load(counts))
            load_click_model(model).at(rows)
            assert rows.has_context
            assert bool(rows.segments) == (
                EntrySpec.parse(click_model).name == "by-segment"
            )
    assert main([*command, "--context", "x"]) == 2
