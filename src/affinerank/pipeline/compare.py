r"""Choose the estimator and the ranker that held-out clicks favour, then train them.

**Candidates** are pairs of an estimator and a ranker: the default estimator, the
unbiased correction and the baseline, each with the default ranker, trees, the linear
model and, if torch is installed and the budget is long enough, a network. Keeping the
logged ranking is a candidate, too.

**Held-out queries.** Queries are split into parts. For each part, the candidates are
trained on the queries of the other parts, and rank the queries of this part. The value
of a candidate is the DCG@10 of its ranking of the documents that were shown, less that
of the logged ranking. So the click model need only be known up to gauge.

**Two evaluators** correct the clicks on these queries, and they err in different ways.
The first uses the click model: it is unbiased if the click model is right. If it is
wrong, candidates that learnt with it share its error, and no standard error shows that.
The second does not use the click model (``second_evaluator``).

**The rule.** The regret of a candidate is the largest lead of another candidate less
half a standard error over queries, as a share of the largest lead of all. The candidate
with the smallest worst-case regret over both evaluators wins. Ties go to the default.
Leads of the logged ranking count less two standard errors, because the final ranker
learns from more queries than the candidates did. If the evaluators clearly contradict
each other on a candidate and the logged ranking, the click model must be wrong, and the
second evaluator decides alone.

**The budget.** The first part is always done. Another part is done only if the time
used so far, the longest part and the estimated time of the final training fit into the
budget. For each part, candidates learn from a random sample of the other parts'
queries. The budget decides its size: the ``pace`` of the slowest ranker (documents per
second; 30, or 15 for networks) times the seconds of the budget, but at least 30
queries. All candidates learn from the same queries, and all held-out queries are
ranked. A network that would shrink the sample is left out, with a warning.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from time import monotonic
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from affinerank.clicks.models import ClickModel
from affinerank.counts.counts import ClickCounts
from affinerank.counts.holdout import matched_rows, train_part
from affinerank.counts.rows import ClickRows
from affinerank.data.dataset import RankingDataset
from affinerank.defaults import (
    BASELINE,
    CORRECTION,
    ESTIMATOR,
    NETWORK,
    QUICK,
    RANKER,
    TREES,
)
from affinerank.estimators import Weights
from affinerank.evaluation.click_value import estimate
from affinerank.evaluation.rank_weights import DCG_10, over_logged
from affinerank.pipeline.steps.features import readable_categories
from affinerank.pipeline.steps.second_evaluator import second_evaluator
from affinerank.pipeline.steps.train_settings import TrainSettings, ranker_settings
from affinerank.pipeline.steps.tuning import MIN_QUERIES
from affinerank.pipeline.steps.weighing import click_model_for, weigh
from affinerank.pipeline.train import Trained, train
from affinerank.rankers import RANKERS
from affinerank.rankers.blend import AnyRanker
from affinerank.rankers.ranker import MemberPlan, score
from affinerank.support.arrays import Floats, Ids, Ints, Rng
from affinerank.support.arrow import arrow_column
from affinerank.support.errors import AffineRankWarning, ConfigError, DataError, warn
from affinerank.support.progress import Progress, no_progress
from affinerank.support.seeds import stage_rng

COMPARED = (ESTIMATOR, CORRECTION, BASELINE)
RANKERS_COMPARED = (RANKER, TREES, QUICK, NETWORK)
KEEP = "keep the logged ranking"
FOLDS = 3
ERRORS = 0.5  # standard errors subtracted from a lead
KEEP_ERRORS = 2.0  # standard errors subtracted from a lead of the logged ranking
CLEAR_ERRORS = 2.0  # a gain or loss of more standard errors than this is clear
MIN_TRAINING_QUERIES = 30  # in each part, if there are as many
SECONDS_PER_UNIT = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


class Candidate(NamedTuple):
    """An estimator and the ranker that learns from it.

    Attributes:
        estimator: A row of ``ESTIMATORS``.
        ranker: A row of ``RANKERS``.
    """

    estimator: str
    ranker: str

    @property
    def name(self) -> str:
        """Name of the candidate in tables and messages."""
        return f"{self.estimator}, {self.ranker}"


def rankers_to_compare() -> tuple[str, ...]:
    """Return the rankers compared by default: a network only if torch is there."""
    has_torch = find_spec("torch") is not None
    return tuple(name for name in RANKERS_COMPARED if name != NETWORK or has_torch)


@dataclass(frozen=True, slots=True)
class ChoiceSettings:
    """What is compared, and how.

    Attributes:
        rankers: Rows of ``RANKERS``.
        estimators: Rows of ``ESTIMATORS``.
        training: How each candidate is trained. Its ranker and its estimator are those
            of the candidate. Its first seed also splits the queries. Settings of a
            ranker are given only if one ranker is compared.
        budget: Seconds that comparison and final training should take at most.
        folds: Number of parts that queries are split into.
    """

    rankers: tuple[str, ...] = field(default_factory=rankers_to_compare)
    estimators: tuple[str, ...] = COMPARED
    training: TrainSettings = field(default_factory=TrainSettings)
    budget: float = 300.0
    folds: int = FOLDS

    def __post_init__(self) -> None:
        """Reject settings that no comparison can follow."""
        for name in self.rankers:
            self.training_of(name)
        if self.training.ranker_settings is not None and len(self.rankers) > 1:
            raise ConfigError(
                "settings are of one ranker: name it (--ranker), or leave --set out"
            )
        if not self.budget > 0:
            raise ConfigError(f"the budget must be above 0 s, got {self.budget:g}")
        if self.folds < 2:
            raise ConfigError(f"folds must be 2 or more, got {self.folds}")

    @property
    def candidates(self) -> list[Candidate]:
        """Every estimator with every ranker, the default first."""
        return [
            Candidate(estimator, ranker)
            for estimator in self.estimators
            for ranker in self.rankers
        ]

    @property
    def seed(self) -> int:
        """Seed of the parts and of the rankers."""
        return self.training.seeds[0]

    def training_of(
        self, ranker: str, data: RankingDataset | None = None
    ) -> TrainSettings:
        """Return how one of the rankers is trained, by all estimators.

        Args:
            ranker: One of the rankers.
            data: What it learns from, whose categories it may not be able to read.
        """
        categories = self.training.categories
        if data is not None:
            categories = readable_categories(ranker, data, categories)
        default_settings = ranker_settings(ranker, (), self.seed)
        return replace(
            self.training,
            ranker=ranker,
            ranker_settings=self.training.ranker_settings or default_settings,
            estimators=self.estimators,
            seeds=(self.seed,),
            categories=categories,
        )

    def training_documents(self) -> float:
        """Return how many documents a part may learn from, by the slowest ranker."""
        slowest_pace = min(RANKERS[name].pace for name in self.rankers)
        return slowest_pace * self.budget


@dataclass(frozen=True, slots=True)
class Evaluated:
    """The value of a candidate on held-out queries, by one evaluator.

    Attributes:
        evaluator: Name of the evaluator.
        candidate: Name of the candidate, or ``KEEP``.
        over: Lead over each candidate: the difference of their values, and its standard
            error over queries. The lead over ``KEEP`` is the gain over the logged
            ranking.
        short: Regret: how far the candidate falls short of the best other one, from 0
            (no other is better) to 1; see :func:`judge_all`.
    """

    evaluator: str
    candidate: str
    over: Mapping[str, tuple[float, float]]
    short: float

    @property
    def gain(self) -> str:
        """Gain over the logged ranking, in words."""
        return self.lead_over(KEEP)

    def lead_over(self, rival: str) -> str:
        """Return the lead over another candidate, in words."""
        lead, error = self.over[rival]
        return f"{lead:+.3g} (standard error {error:.2g}) according to {self.evaluator}"


@dataclass(frozen=True, slots=True)
class Choice:
    """The compared candidates, and which one was chosen.

    Attributes:
        evaluated: A row for each evaluator and candidate; the evaluator that uses the
            click model comes first.
        candidates: The candidates except ``KEEP``, the default first.
        folds: Number of parts that queries were split into.
        parts: Number of parts that were held out before the budget ended.
    """

    evaluated: Sequence[Evaluated]
    candidates: Sequence[Candidate]
    folds: int = FOLDS
    parts: int = FOLDS

    def of(self, name: str) -> list[Evaluated]:
        """Return the rows of a candidate, in the order of the evaluators."""
        return [row for row in self.evaluated if row.candidate == name]

    @property
    def best(self) -> str:
        """Name of the chosen candidate: the one with the smallest worst-case regret."""
        names = dict.fromkeys(row.candidate for row in self.evaluated)
        # Of equals, min returns the first: the default.
        return min(names, key=self._worst_regret)

    def _worst_regret(self, name: str) -> float:
        """Return the largest regret of a candidate over the evaluators that count."""
        rows = self.of(name)
        if self.disagreement:
            rows = rows[-1:]  # the click model is wrong: only the last counts
        return max(row.short for row in rows)

    @property
    def trained(self) -> Candidate:
        """The candidate to train on all queries: the default if ``KEEP`` is best."""
        by_name = {candidate.name: candidate for candidate in self.candidates}
        return by_name.get(self.best, self.candidates[0])

    @property
    def advice(self) -> str | None:
        """Advice against using the trained ranker; ``None`` if there is none."""
        if self.best != KEEP:
            return None
        default = self.candidates[0].name
        gains = " and ".join(row.gain for row in self.of(default))
        return (
            f"{KEEP}: no candidate beats it; {default} changes its {DCG_10.name} on "
            f"held-out queries by {gains}; {default} is trained all the same"
        )

    @property
    def disagreement(self) -> str | None:
        """How the evaluators clearly contradict each other; ``None`` if they do not.

        Only candidates with the first ranker count: of many candidates, one often
        differs clearly by chance.
        """
        first_ranker = self.candidates[0].ranker
        for candidate in self.candidates:
            rows = self.of(candidate.name)
            if candidate.ranker == first_ranker and _contradict(rows):
                gains = " and ".join(row.gain for row in rows)
                return (
                    f"the two evaluators disagree: {candidate.name} changes the "
                    f"{DCG_10.name} of the logged ranking by {gains}; the click model "
                    f"(--click-model) may be wrong, so {self.evaluated[-1].evaluator} "
                    "alone decide"
                )
        return None

    @property
    def decision(self) -> str:
        """The chosen candidate and its gains, in words."""
        if self.best == KEEP:
            return KEEP
        rows = self.of(self.best)
        gains = " and ".join(row.gain for row in rows)
        sentence = (
            f"{self.best} changes the {DCG_10.name} of the logged ranking by {gains}"
        )
        default = self.candidates[0].name
        if self.best == default:
            return f"{sentence}; no other candidate is clearly better"
        leads = " and ".join(row.lead_over(default) for row in rows)
        return f"{sentence}; its lead over {default} is {leads}"

    def to_dict(self) -> dict[str, Any]:
        """Return the table as plain data."""
        notes = {"advice": self.advice, "disagreement": self.disagreement}
        notes_to_give = {name: text for name, text in notes.items() if text}
        rows = []
        for row in self.evaluated:
            gain, standard_error = row.over[KEEP]
            rows.append(
                {
                    "candidate": row.candidate,
                    "evaluator": row.evaluator,
                    "gain": gain,
                    "standard_error": standard_error,
                    "short": row.short,
                }
            )
        return {
            "evaluated_by": f"{DCG_10.name} over the logged ranking",
            "folds": self.folds,
            "parts": self.parts,
            "best": self.best,
            "decision": self.decision,
            **notes_to_give,
            "candidates": rows,
        }


def _contradict(rows: Sequence[Evaluated]) -> bool:
    """Whether one evaluator sees a clear gain over the log, and one a clear loss."""
    sees_gain = False
    sees_loss = False
    for row in rows:
        gain, error = row.over[KEEP]
        sees_gain |= gain > CLEAR_ERRORS * error
        sees_loss |= gain < -CLEAR_ERRORS * error
    return sees_gain and sees_loss


def train_chosen(
    counts: ClickCounts,
    data: RankingDataset,
    click_model: ClickModel | None = None,
    *,
    settings: ChoiceSettings | None = None,
    progress: Progress = no_progress,
) -> tuple[Trained, Choice]:
    """Compare candidates on held-out queries, and train the best on all queries.

    If keeping the logged ranking is best, a warning says so, and the default candidate
    is trained.

    Args:
        counts: Impressions and clicks. If they are split, only ``train`` is used.
        data: Features of the documents.
        click_model: How users click; estimated if ``None``. Candidates learn
            with it, and the first evaluator uses it.
        settings: What is compared, and how.
        progress: Called as training advances.

    Returns:
        The one trained ranker, whose provenance holds the table; and the comparison.
    """
    settings = settings or ChoiceSettings()
    started = monotonic()
    settings = _within_budget(settings, data)
    click_model, click_model_estimate = click_model_for(
        COMPARED, counts, data, click_model, seed=settings.seed, progress=progress
    )

    # Score held-out queries by all candidates, and choose one.
    scores, rows, n_parts = hold_out(
        counts,
        data,
        click_model,
        settings=settings,
        started=started,
        progress=progress,
    )
    candidates = [
        candidate for candidate in settings.candidates if candidate.name in scores
    ]
    table = evaluate_all(scores, rows, click_model)
    choice = Choice(table, candidates, settings.folds, n_parts)
    if choice.disagreement:
        warn(choice.disagreement)
    if choice.advice:
        warn(choice.advice)

    # Train it on all queries, and store the comparison in its provenance.
    trained = train(
        counts,
        data,
        click_model,
        settings.training_of(choice.trained.ranker, data),
        estimators=[choice.trained.estimator],
        check_click_model=False,  # done above
        progress=progress,
    )
    [(name, ranker)] = trained.rankers.items()
    provenance = {**ranker.provenance, "choice": choice.to_dict()}
    rankers = {name: replace(ranker, provenance=provenance)}
    return replace(trained, rankers=rankers, estimate=click_model_estimate), choice


def _within_budget(settings: ChoiceSettings, data: RankingDataset) -> ChoiceSettings:
    """Leave the network out if all candidates would learn from fewer documents."""
    other_rankers = tuple(name for name in settings.rankers if name != NETWORK)
    if NETWORK not in settings.rankers or not other_rankers:
        return settings

    # How many documents a part learns from, with the network and without it.
    without_network = replace(settings, rankers=other_rankers)
    documents_available = data.n_docs * (1.0 - 1.0 / settings.folds)
    documents_without = min(without_network.training_documents(), documents_available)
    documents_with = settings.training_documents()
    if documents_with >= documents_without:
        return settings

    budget_with_network = documents_without / RANKERS[NETWORK].pace
    warn(
        f"{NETWORK} is not compared: with it, candidates could learn from "
        f"{documents_with:,.0f} documents in {settings.budget:g} s, without it from "
        f"{documents_without:,.0f}; to compare it, give --budget "
        f"{np.ceil(budget_with_network / 60):.0f}m"
    )
    return without_network


@dataclass(slots=True)
class TimeBudget:
    """Decides whether the budget has time for another part and the final training.

    Attributes:
        seconds: The budget.
        started: When it began, in seconds of ``time.monotonic``.
        used: Seconds used when the last part ended.
        longest_part: Seconds of the longest part so far.
        final_training: Estimated seconds of the final training.
    """

    seconds: float
    started: float
    used: float = 0.0
    longest_part: float = 0.0
    final_training: float = 0.0

    def has_time_for_a_part(self) -> bool:
        """Whether another part and the final training still fit."""
        needed = self.longest_part + self.final_training
        return self.used + needed <= self.seconds

    def add_part(self, started: float, ended: float, final_work: float) -> None:
        """Count a part. The final training takes ``final_work`` times its time."""
        self.used = ended - self.started
        self.longest_part = max(self.longest_part, ended - started)
        self.final_training = self.longest_part * final_work


def hold_out(
    counts: ClickCounts,
    data: RankingDataset,
    click_model: ClickModel | None,
    *,
    settings: ChoiceSettings,
    started: float | None = None,
    progress: Progress = no_progress,
) -> tuple[dict[str, Floats], ClickRows, int]:
    """Score each part of the queries by rankers trained on the other parts.

    A candidate that cannot learn from a part is left out, with a warning.

    Args:
        counts: Impressions and clicks. If they are split, only ``train`` is used.
        data: Features of the documents.
        click_model: How users click.
        settings: What is compared, and how.
        started: When the budget began, in seconds of ``time.monotonic``; now if
            ``None``.
        progress: Called after each part.

    Returns:
        The scores of each candidate ``[n_docs]``; the clicks on the queries that were
        scored; the number of parts that were scored.
    """
    budget = TimeBudget(
        settings.budget, started=monotonic() if started is None else started
    )
    training_counts = train_part(counts)
    rows = matched_rows(training_counts, data)
    rng = stage_rng("choice", settings.seed)
    part_of_query = _split_queries(rows, settings.folds, rng)
    names = ", ".join((*settings.estimators, *settings.rankers))
    stage = f"holding out for {names}: part"

    scores = {
        candidate.name: np.zeros(rows.n_docs) for candidate in settings.candidates
    }
    n_done = 0
    while n_done < settings.folds:
        if n_done and not budget.has_time_for_a_part():
            break
        progress(stage, n_done, settings.folds)

        # Draw as many queries of the other parts as the budget has time for.
        is_held_out = part_of_query == n_done
        other_queries = np.flatnonzero((part_of_query >= 0) & ~is_held_out)
        training_queries = _draw_queries(other_queries, data, settings, rng)
        training_data = data.select_queries(training_queries)

        # Train all candidates on them. The final training repeats their warnings.
        part_started = monotonic()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AffineRankWarning)
            rankers, faults = _train_candidates(
                _counts_of_queries(training_counts, data.query_ids[training_queries]),
                training_data,
                click_model,
                settings,
            )
        _drop_candidates(scores, faults)

        # Score the held-out queries.
        held_out_data = data.select_queries(np.flatnonzero(is_held_out))
        held_out_documents = is_held_out[rows.query_of_doc]
        for candidate, ranker in rankers.items():
            if candidate.name in scores:
                held_out_scores = score(ranker, held_out_data)
                scores[candidate.name][held_out_documents] = held_out_scores

        # The final training learns from all queries, but with one estimator alone.
        part_ended = monotonic()
        documents_issued = data.docs_per_query[part_of_query >= 0].sum()
        growth = documents_issued / training_data.n_docs
        budget.add_part(part_started, part_ended, growth / len(settings.estimators))
        n_done += 1
    progress(stage, settings.folds, settings.folds)
    is_scored = (part_of_query >= 0) & (part_of_query < n_done)
    return scores, rows.of_queries(is_scored), n_done


def _split_queries(rows: ClickRows, folds: int, rng: Rng) -> Ints:
    """Split queries into parts at random.

    Returns:
        ``[n_queries]`` part of each query; -1 for queries that were never issued.
    """
    issued = np.unique(rows.query)
    # Each training needs MIN_QUERIES, and learns from all parts but one.
    n_required = math.ceil(MIN_QUERIES * folds / (folds - 1))
    if len(issued) < n_required:
        raise DataError(
            f"{len(issued)} queries were issued, too few to hold some out in {folds} "
            f"parts, which takes {n_required}"
        )
    part_of_query = np.full(rows.n_queries, -1)
    part_of_query[issued] = rng.permutation(len(issued)) % folds
    return part_of_query


def _draw_queries(
    queries: Ints, data: RankingDataset, settings: ChoiceSettings, rng: Rng
) -> Ints:
    """Draw queries to learn from: as many documents as the budget allows."""
    shuffled = rng.permutation(queries)
    documents_so_far = np.cumsum(data.docs_per_query[shuffled])
    is_drawn = documents_so_far <= settings.training_documents()
    is_drawn[:MIN_TRAINING_QUERIES] = True
    return np.sort(shuffled[is_drawn])


def _drop_candidates(scores: dict[str, Floats], faults: Mapping[str, str]) -> None:
    """Remove candidates that could not learn; raise an error if none is left."""
    for name, fault in faults.items():
        if scores.pop(name, None) is not None:
            warn(f"{name} is not compared: {fault}")
    if not scores:
        raise DataError(next(iter(faults.values())))


def _counts_of_queries(counts: ClickCounts, query_ids: Ids) -> ClickCounts:
    """Return the counts of some queries."""
    column = counts.table["query_id"]
    wanted_ids = arrow_column(query_ids)
    # Ids of two different types are compared as text.
    if column.type != wanted_ids.type:
        column = column.cast(pa.string())
        wanted_ids = wanted_ids.cast(pa.string())
    is_wanted = pc.is_in(column, value_set=wanted_ids)
    return ClickCounts(counts.table.filter(is_wanted))


def _train_candidates(
    counts: ClickCounts,
    data: RankingDataset,
    click_model: ClickModel | None,
    settings: ChoiceSettings,
) -> tuple[dict[Candidate, AnyRanker], dict[str, str]]:
    """Train all candidates.

    A blend also trains its members. A member that is a candidate itself is taken from
    the blend instead of being trained again.

    Returns:
        The trained candidates; and by name of a candidate that could not learn, why.
    """
    rankers: dict[Candidate, AnyRanker] = {}
    faults: dict[str, str] = {}
    for ranker_name in settings.rankers:
        if Candidate(settings.estimators[0], ranker_name) in rankers:
            continue  # taken from a blend

        # All estimators at once, or none if one of them cannot learn.
        try:
            trained = train(
                counts,
                data,
                click_model,
                settings.training_of(ranker_name, data),
                check_click_model=False,
            )
        except DataError as error:
            for estimator in settings.estimators:
                faults[Candidate(estimator, ranker_name).name] = str(error)
            continue

        # The rankers, and those members that are candidates.
        default_members = _members_like_their_rows(ranker_name, data)
        for (estimator, _), ranker in trained.rankers.items():
            rankers[Candidate(estimator, ranker_name)] = ranker
            member_by_name = {member.name: member.ranker for member in ranker.members}
            for plan in default_members:
                if plan.ranker in settings.rankers and plan.name in member_by_name:
                    candidate = Candidate(estimator, plan.ranker)
                    rankers[candidate] = member_by_name[plan.name]
    return rankers, faults


def _members_like_their_rows(
    ranker_name: str, data: RankingDataset
) -> list[MemberPlan]:
    """Return the members of a blend that are trained as their rows are by default.

    A member whose row cannot read categories is trained in another way if there are
    categories: in a blend, it reads fewer of their values.
    """
    kind = RANKERS[ranker_name]
    if kind.members is None:
        return []
    default_plans = []
    for plan in kind.members(kind.settings()):
        row = RANKERS[plan.ranker]
        has_defaults = plan.settings == row.settings() and plan.scaling == row.scaling
        reads_the_same = row.reads_categories or not data.categories
        if has_defaults and reads_the_same:
            default_plans.append(plan)
    return default_plans


def evaluate_all(
    scores: Mapping[str, Floats], rows: ClickRows, click_model: ClickModel | None
) -> list[Evaluated]:
    """Compare all candidates, and keeping the logged ranking, by both evaluators.

    Args:
        scores: ``[n_docs]`` scores of each candidate, by rankers that did not learn
            from the query.
        rows: The clicks on these queries.
        click_model: How users click, for the first evaluator.

    Returns:
        The rows of the first evaluator, then those of the second.
    """
    # What each candidate's ranking adds to the logged ranking's weight of a document.
    added_weights = {
        name: over_logged(candidate_scores, rows, DCG_10)
        for name, candidate_scores in scores.items()
    }
    added_weights[KEEP] = np.zeros(rows.n_docs)

    # Both evaluators compare the same rankings, each by its own corrected clicks.
    query = rows.query_of_doc
    corrected = weigh(rows, CORRECTION, click_model)
    first_rows = _judge_candidates(CORRECTION, corrected, added_weights, query)
    second_name, second_weights = second_evaluator(
        rows, list(scores.values()), click_model
    )
    second_rows = _judge_candidates(second_name, second_weights, added_weights, query)
    return [*first_rows, *second_rows]


def _judge_candidates(
    evaluator: str,
    relevance: Weights,
    added_weights: Mapping[str, Floats],
    query: Ints,
) -> list[Evaluated]:
    """Compare every pair of candidates by one evaluator.

    Args:
        evaluator: Name of the evaluator.
        relevance: Its estimate of each document's relevance, from corrected clicks.
        added_weights: ``[n_docs]`` rank weights of each candidate's ranking, less those
            of the logged ranking.
        query: ``[n_docs]`` number of each document's query.
    """
    # The value of each candidate less that of every other, with a standard error.
    leads: dict[str, dict[str, tuple[float, float]]] = {}
    largest_lead = 0.0
    for name in added_weights:
        leads[name] = {}
        for rival in added_weights:
            difference = estimate(
                relevance, added_weights[name] - added_weights[rival], query
            )
            lead = difference.least
            leads[name][rival] = (lead, difference.queries.standard_error)
            largest_lead = max(largest_lead, lead)

    # Regret: the largest lead of a rival less some standard errors, as a share of the
    # largest lead of all.
    evaluated = []
    for name, leads_over in leads.items():
        regret = 0.0
        for rival, (lead, error) in leads_over.items():
            errors_subtracted = KEEP_ERRORS if rival == KEEP else ERRORS
            regret = max(regret, -lead - errors_subtracted * error)
        share = regret / largest_lead if largest_lead else 0.0
        evaluated.append(Evaluated(evaluator, name, leads_over, share))
    return evaluated


def parse_budget(text: str) -> float:
    """Read a time as seconds.

    >>> parse_budget("5m"), parse_budget("1.5h"), parse_budget("90")
    (300.0, 5400.0, 90.0)
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", text.strip())
    seconds = float(match[1]) * SECONDS_PER_UNIT[match[2]] if match else 0.0
    if not seconds > 0:
        raise ConfigError(f"a budget is a time as in 5m, 300s, 1h or 90, got {text!r}")
    return seconds
