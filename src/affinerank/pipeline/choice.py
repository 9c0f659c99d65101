r"""Choosing by data: which estimator and which ranker the clicks favour.

Compared are pairs of an estimator and a ranker, and keeping the logged ranking: the
default estimator, the unbiased correction and the baseline, each with the default
ranker, its trees alone, its linear model alone and, where torch is installed and the
budget is long enough, with a network. Queries are dealt into parts. Part after part,
the candidates are trained on other queries, as the final ranker will be, and rank the
queries of the part. All are judged by the clicks on those. The value is DCG@10 over the
documents that were shown, less that of the logged ranking, so that users need be known
up to gauge only.

Two judges correct these clicks, and err in different ways. The first is unbiased if the
users are right; if they are wrong, what was learnt with them shares its error, and no
standard error shows it. The second is not told of users
(:mod:`affinerank.pipeline.judges`).

The rule: by a judge, a candidate falls short by the most that another leads it, query
by query, less half a standard error; as a share of the largest lead there is. Taken is
the candidate that falls short least, by the judge that likes it less; of equals, the
first: the default. Keeping the logged ranking is one of the candidates, whose leads
count less two standard errors: the final ranker learns from more queries than those
judged. Where one judge clearly prefers a candidate to the logged ranking and the other
the reverse, the users must be wrong, and the second judge decides alone.

The budget: after each part, the next is left out if the time used, the longest part so
far and the estimated time of the final training would exceed it. One part is always
done. In a part, rankers learn from queries with a number of documents in all for each
second of the budget, the ``pace`` of the ranker's row (30, so 9,000 in 5 minutes; of
networks 15), or 30 queries if these have more, drawn among those of the other parts;
the queries held out are all ranked. All candidates learn from the same queries. So a
ranker that could not keep the pace of the others is left out, with a warning.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from itertools import product, starmap
from time import monotonic
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from affinerank.arrays import Floats, Ids, Ints, Rng
from affinerank.clicks.counts import ClickCounts
from affinerank.clicks.models import ClickModel
from affinerank.clicks.rows import ClickRows
from affinerank.data.dataset import RankingDataset
from affinerank.data.parquet import arrow_column
from affinerank.defaults import (
    BASELINE,
    CORRECTION,
    ESTIMATOR,
    NETWORK,
    QUICK,
    RANKER,
    RECIPE,
    RELEVANT_ABOVE,
    TREES,
)
from affinerank.errors import AffineRankWarning, ConfigError, DataError, warn
from affinerank.estimators import Weights
from affinerank.evaluation.offpolicy import estimate
from affinerank.evaluation.rank_weights import DCG_10, over_logged
from affinerank.pipeline.judges import second_judge
from affinerank.pipeline.members import ONE_HOT, member_plans
from affinerank.pipeline.parts import matched_rows, train_part
from affinerank.pipeline.recipe import LEAST_QUERIES
from affinerank.pipeline.training import Trained, ranker_settings, train
from affinerank.pipeline.weighing import users_for, weigh
from affinerank.progress import Progress, quiet
from affinerank.rankers import RANKERS
from affinerank.rankers.blend import AnyRanker
from affinerank.rankers.ranker import MemberPlan, score
from affinerank.seeds import stage_rng

COMPARED = (ESTIMATOR, CORRECTION, BASELINE)
RANKERS_COMPARED = (RANKER, TREES, QUICK, NETWORK)
KEEP = "keep the logged ranking"
FOLDS = 3
ERRORS = 0.5  # standard errors that are subtracted from a lead
KEEP_ERRORS = 2.0  # and from a lead of the logged ranking
CLEAR = 2.0  # standard errors from which a lead is clear
QUERIES = 30  # that a part learns from at least, if there are so many
UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


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
        """What tables call it."""
        return f"{self.estimator}, {self.ranker}"


def rankers_to_compare() -> tuple[str, ...]:
    """Return the rankers that are compared where nobody says: those that can be."""
    has_torch = find_spec("torch") is not None
    return tuple(name for name in RANKERS_COMPARED if name != NETWORK or has_torch)


@dataclass(frozen=True, slots=True)
class ChoiceSettings:
    """What is compared, and how.

    Attributes:
        rankers: Rows of ``RANKERS``.
        settings: Of the ranker, where there is but one; its defaults where left out.
        estimators: Rows of ``ESTIMATORS``.
        budget: Seconds that comparing and training should take at most.
        seed: Of the parts and of the rankers.
        folds: Parts that queries are dealt into.
        recipe: Of every training, see :func:`train`.
        scaling: Of features, see :func:`train`.
        categories: See there.
        rates: Learning rates to choose from, see :func:`train`.
        relevant_above: Labels above this are relevant, for estimators by labels.
    """

    rankers: tuple[str, ...] = field(default_factory=rankers_to_compare)
    settings: Any = None
    estimators: tuple[str, ...] = COMPARED
    budget: float = 300.0
    seed: int = 0
    folds: int = FOLDS
    recipe: str = RECIPE
    scaling: str | None = None
    categories: str | None = None
    rates: Sequence[float] | None = None
    relevant_above: float = RELEVANT_ABOVE

    def __post_init__(self) -> None:
        """Reject what cannot be compared."""
        for name in self.rankers:
            member_plans(name, RANKERS[name].settings(), self.scaling)
        if self.settings is not None and len(self.rankers) > 1:
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
        return list(starmap(Candidate, product(self.estimators, self.rankers)))

    def training(self, ranker: str, data: RankingDataset) -> dict[str, Any]:
        """Return what every training of a ranker is given."""
        categories = self.categories
        if data.categories and not RANKERS[ranker].reads_categories:
            categories = ONE_HOT
        return {
            "ranker": ranker,
            "settings": self.settings or ranker_settings(ranker, (), self.seed),
            "seeds": [self.seed],
            "recipe": self.recipe,
            "scaling": self.scaling,
            "categories": categories,
            "rates": self.rates,
            "relevant_above": self.relevant_above,
        }

    def documents(self) -> float:
        """Return how many documents a part learns from, by the slowest ranker."""
        return min(RANKERS[name].pace for name in self.rankers) * self.budget


@dataclass(frozen=True, slots=True)
class Judged:
    """How a candidate did on queries that it had not seen, by one judge.

    Attributes:
        judge: Its name.
        candidate: Its name, or ``KEEP``.
        over: Its value less that of each candidate, with a standard error over queries.
        short: How far it falls short, from 0 (of none) to 1.
    """

    judge: str
    candidate: str
    over: Mapping[str, tuple[float, float]]
    short: float

    @property
    def gain(self) -> str:
        """Its value less that of the logged ranking, in words."""
        value, error = self.over[KEEP]
        return f"{value:+.3g} (standard error {error:.2g}) by {self.judge}"


@dataclass(frozen=True, slots=True)
class Choice:
    """What was compared, and what was chosen.

    Attributes:
        judged: The candidates, by each judge.
        folds: Parts of the queries.
        parts: How many of them were held out before the budget ended.
    """

    judged: Sequence[Judged]
    candidates: Sequence[Candidate]
    folds: int = FOLDS
    parts: int = FOLDS

    def of(self, name: str) -> list[Judged]:
        """What each judge says of a candidate; the one with the users comes first."""
        return [row for row in self.judged if row.candidate == name]

    @property
    def best(self) -> str:
        """The name of the candidate that was chosen, or ``KEEP``."""
        heard = slice(-1 if self.disagreement else 0, None)
        names = dict.fromkeys(row.candidate for row in self.judged)
        return min(names, key=lambda name: max(r.short for r in self.of(name)[heard]))

    @property
    def trained(self) -> Candidate:
        """The candidate that is trained on all queries: the default for ``KEEP``."""
        by_name = {candidate.name: candidate for candidate in self.candidates}
        return by_name.get(self.best, self.candidates[0])

    @property
    def advice(self) -> str | None:
        """What to do instead of using the ranker, if anything."""
        if self.best != KEEP:
            return None
        name = self.candidates[0].name
        gains = " and ".join(row.gain for row in self.of(name))
        return (
            f"{KEEP}: nothing here beats it; {name} changes its {DCG_10.name} on "
            f"held-out queries by {gains}; a ranker is trained all the same"
        )

    @property
    def disagreement(self) -> str | None:
        """What the judges clearly disagree on: whether to keep the logged ranking.

        They are asked about the first ranker alone: of many candidates one is often
        clear by chance.
        """
        first = self.candidates[0].ranker
        for name in (c.name for c in self.candidates if c.ranker == first):
            gains = [row.over[KEEP] for row in self.of(name)]
            clear = {gain > 0 for gain, error in gains if abs(gain) > CLEAR * error}
            if len(clear) > 1:
                says = " and ".join(row.gain for row in self.of(name))
                return (
                    f"the judges disagree: {name} changes the {DCG_10.name} of the "
                    f"logged ranking by {says}; the users may be wrong, so "
                    f"{self.judged[-1].judge} decide"
                )
        return None

    @property
    def decision(self) -> str:
        """What was decided, and by how much, in words."""
        if self.best == KEEP:
            return KEEP
        gains = " and ".join(row.gain for row in self.of(self.best))
        said = f"{self.best} changes the {DCG_10.name} of the logged ranking by {gains}"
        default = self.candidates[0].name
        if self.best == default:
            return f"{said}; nothing else does clearly better"
        leads = []
        for row in self.of(self.best):
            lead, error = row.over[default]
            leads.append(f"{lead:+.3g} (standard error {error:.2g}) by {row.judge}")
        return f"{said}, and that of {default} by {' and '.join(leads)}"

    def to_dict(self) -> dict[str, Any]:
        """Return the table as plain data."""
        notes = {"advice": self.advice, "disagreement": self.disagreement}
        return {
            "judged_by": f"{DCG_10.name} over the logged ranking",
            "folds": self.folds,
            "parts": self.parts,
            "best": self.best,
            "decision": self.decision,
            **{name: text for name, text in notes.items() if text},
            "candidates": [
                {
                    "candidate": row.candidate,
                    "judge": row.judge,
                    "gain": row.over[KEEP][0],
                    "standard_error": row.over[KEEP][1],
                    "short": row.short,
                }
                for row in self.judged
            ],
        }


def train_chosen(
    counts: ClickCounts,
    data: RankingDataset,
    users: ClickModel | None = None,
    *,
    settings: ChoiceSettings | None = None,
    strict: bool = False,
    progress: Progress = quiet,
) -> tuple[Trained, Choice]:
    """Compare candidates on held-out queries, and train the best on all of them.

    Where keeping the logged ranking is best, the default is trained, and a warning says
    so.

    Args:
        counts: Clicks; of their ``split``, where they have one, the part ``train``.
        data: Features of the documents.
        users: How users click; estimated first where left out. They correct what
            candidates learn from; one of the two judges uses them.
        settings: What is compared, and how.
        strict: Reject ranks deeper than the user model instead of extending it.
        progress: Called as training advances.

    Returns:
        The one ranker, whose provenance holds the table; and the comparison.
    """
    settings, started = settings or ChoiceSettings(), monotonic()
    settings = _within_budget(settings, data)
    known, estimated = users_for(
        COMPARED, counts, data, users, seed=settings.seed, progress=progress
    )
    scores, rows, parts = hold_out(
        counts,
        data,
        known,
        settings=settings,
        started=started,
        strict=strict,
        progress=progress,
    )
    judged = judge_all(scores, rows, known)
    compared = [one for one in settings.candidates if one.name in scores]
    choice = Choice(judged, compared, settings.folds, parts)
    for text in filter(None, (choice.disagreement, choice.advice)):
        warn(text)
    trained = train(
        counts,
        data,
        known,
        estimators=[choice.trained.estimator],
        strict=strict,
        progress=progress,
        **settings.training(choice.trained.ranker, data),
    )
    [(name, one)] = trained.rankers.items()
    noted = replace(one, provenance={**one.provenance, "choice": choice.to_dict()})
    return replace(trained, rankers={name: noted}, estimate=estimated), choice


def _within_budget(settings: ChoiceSettings, data: RankingDataset) -> ChoiceSettings:
    """Leave the network out if all candidates would learn from fewer documents."""
    others = tuple(name for name in settings.rankers if name != NETWORK)
    if NETWORK not in settings.rankers or not others:
        return settings
    without = replace(settings, rankers=others)
    in_a_part = data.n_docs * (1.0 - 1.0 / settings.folds)
    documents_without = min(without.documents(), in_a_part)
    if settings.documents() >= documents_without:
        return settings
    seconds = documents_without / RANKERS[NETWORK].pace
    warn(
        f"{NETWORK} is not compared: with it, candidates could learn from "
        f"{settings.documents():,.0f} documents in {settings.budget:g} s, without it "
        f"from {documents_without:,.0f}; --budget {np.ceil(seconds / 60):.0f}m lets it "
        "take part"
    )
    return without


def hold_out(
    counts: ClickCounts,
    data: RankingDataset,
    users: ClickModel | None,
    *,
    settings: ChoiceSettings,
    started: float | None = None,
    strict: bool = False,
    progress: Progress = quiet,
) -> tuple[dict[str, Floats], ClickRows, int]:
    """Score each part of the queries by rankers that learnt from the other parts.

    The budget counts from ``started``, a moment of ``time.monotonic``, or from now. A
    candidate that cannot learn from a part is left out, with a warning.

    Returns:
        The scores of each candidate; the clicks on the queries of the parts that were
        scored; the number of these parts.
    """
    start = monotonic() if started is None else started
    training_counts = train_part(counts)
    rows = matched_rows(training_counts, data)
    rng = stage_rng("choice", settings.seed)
    part_of_query = _deal_queries(rows, settings.folds, rng)
    n_documents = np.diff(data.offsets)
    names = ", ".join((*settings.estimators, *settings.rankers))
    stage = f"holding out for {names}: part"

    scores = {
        candidate.name: np.zeros(rows.n_docs) for candidate in settings.candidates
    }
    seconds_used = 0.0
    seconds_of_longest_part = 0.0
    seconds_of_final_training = 0.0
    n_done = 0
    while n_done < settings.folds:
        seconds_to_come = seconds_of_longest_part + seconds_of_final_training
        if n_done and seconds_used + seconds_to_come > settings.budget:
            break
        progress(stage, n_done, settings.folds)
        is_held_out = part_of_query == n_done

        # As many of the other parts' queries as the budget has time for.
        others = rng.permutation(np.flatnonzero((part_of_query >= 0) & ~is_held_out))
        is_taken = np.cumsum(n_documents[others]) <= settings.documents()
        is_taken[:QUERIES] = True
        taken = np.sort(others[is_taken])

        # Train all candidates on these, and rank the queries that are held out.
        part_started = monotonic()
        with warnings.catch_warnings():  # the training of all queries repeats them
            warnings.simplefilter("ignore", AffineRankWarning)
            rankers, faults = _train_candidates(
                _of_queries(training_counts, data.query_ids[taken]),
                data.select_queries(taken),
                users,
                settings,
                strict,
            )
        for name, fault in faults.items():
            if scores.pop(name, None) is not None:
                warn(f"{name} is not compared: {fault}")
        if not scores:
            raise DataError(next(iter(faults.values())))
        held_out = data.select_queries(np.flatnonzero(is_held_out))
        for candidate, ranker in rankers.items():
            if candidate.name in scores:
                documents = is_held_out[rows.query_of_doc]
                scores[candidate.name][documents] = score(ranker, held_out)

        # The final training learns from all queries, but by one estimator alone.
        part_ended = monotonic()
        seconds_used = part_ended - start
        seconds_of_longest_part = max(
            seconds_of_longest_part, part_ended - part_started
        )
        growth = n_documents[part_of_query >= 0].sum() / n_documents[taken].sum()
        seconds_of_final_training = (
            seconds_of_longest_part * growth / len(settings.estimators)
        )
        n_done += 1
    progress(stage, settings.folds, settings.folds)
    is_scored = (part_of_query >= 0) & (part_of_query < n_done)
    return scores, rows.of_queries(is_scored), n_done


def _train_candidates(
    counts: ClickCounts,
    data: RankingDataset,
    users: ClickModel | None,
    settings: ChoiceSettings,
    strict: bool,
) -> tuple[dict[Candidate, AnyRanker], dict[str, str]]:
    """Train all candidates; also return why some could not learn, by their names.

    A blend is trained first. A member of it that is a candidate, too, is taken from it
    in place of being trained again.
    """
    trained_rankers: dict[Candidate, AnyRanker] = {}
    faults: dict[str, str] = {}
    for name in settings.rankers:
        if Candidate(settings.estimators[0], name) in trained_rankers:
            continue
        try:
            trained = train(
                counts,
                data,
                users,
                estimators=settings.estimators,
                strict=strict,
                **settings.training(name, data),
            )
        except DataError as error:
            candidates = [Candidate(each, name) for each in settings.estimators]
            faults |= {candidate.name: str(error) for candidate in candidates}
            continue
        for (estimator, _), ranker in trained.rankers.items():
            trained_rankers[Candidate(estimator, name)] = ranker
            members = {member.name: member.ranker for member in ranker.members}
            for plan in _trained_as_alone(name, data):
                if plan.ranker in settings.rankers and plan.name in members:
                    candidate = Candidate(estimator, plan.ranker)
                    trained_rankers[candidate] = members[plan.name]
    return trained_rankers, faults


def _trained_as_alone(name: str, data: RankingDataset) -> list[MemberPlan]:
    """Return the members of a blend that are trained as their rows are by default.

    A member that cannot read text gets fewer of its values than its row does.
    """
    kind = RANKERS[name]
    if kind.members is None:
        return []
    alike = []
    for plan in kind.members(kind.settings()):
        row = RANKERS[plan.ranker]
        is_default = (plan.settings, plan.scaling) == (row.settings(), row.scaling)
        reads_the_same = row.reads_categories or not data.categories
        if is_default and reads_the_same:
            alike.append(plan)
    return alike


def judge_all(
    scores: Mapping[str, Floats], rows: ClickRows, users: ClickModel | None
) -> list[Judged]:
    """Judge candidates, and keeping the logged ranking, by clicks corrected twice.

    Args:
        scores: ``[n_docs]`` of each, by rankers that had not seen the query.
        rows: The clicks.
        users: How users click, for the first judge.
    """
    over = {name: over_logged(own, rows, DCG_10) for name, own in scores.items()}
    over[KEEP] = np.zeros(rows.n_docs)
    judges = {CORRECTION: weigh(rows, CORRECTION, users)}
    judges |= [second_judge(rows, list(scores.values()), users)]
    return [
        row
        for judge, weights in judges.items()
        for row in _judged(judge, weights, over, rows.query_of_doc)
    ]


def _judged(
    judge: str, weights: Weights, over: Mapping[str, Floats], query: Ints
) -> Iterator[Judged]:
    """Compare every pair of candidates, by one judge's corrected clicks."""
    # The value of each less that of every other, and its standard error over queries.
    leads: dict[str, dict[str, tuple[float, float]]] = {name: {} for name in over}
    for name, rival in product(over, over):
        difference = estimate(weights, over[name] - over[rival], query)
        error = difference.queries.standard_error
        leads[name][rival] = (difference.least, error)
    largest = max(lead for row in leads.values() for lead, _ in row.values())

    # How far the strongest rival is ahead, less some standard errors, as a share of the
    # largest lead. The logged ranking must be ahead by more of them.
    for name, leads_over in leads.items():
        short = 0.0
        for rival, (lead, error) in leads_over.items():
            margin = KEEP_ERRORS if rival == KEEP else ERRORS
            short = max(short, -lead - margin * error)
        yield Judged(judge, name, leads_over, short / largest if largest else 0.0)


def parse_budget(text: str) -> float:
    """Read a time as seconds.

    >>> parse_budget("5m"), parse_budget("1.5h"), parse_budget("90")
    (300.0, 5400.0, 90.0)
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", text.strip())
    seconds = float(match[1]) * UNITS[match[2]] if match else 0.0
    if not seconds > 0:
        raise ConfigError(f"a budget is a time as in 5m, 300s, 1h or 90, got {text!r}")
    return seconds


def _deal_queries(rows: ClickRows, folds: int, rng: Rng) -> Ints:
    """``[n_queries]`` part of each query; -1 for those that were not issued."""
    issued = np.unique(rows.query)
    least = -(-LEAST_QUERIES * folds // (folds - 1))
    if len(issued) < least:
        raise DataError(
            f"{len(issued)} queries were issued, too few to hold some out in {folds} "
            f"parts, which takes {least}"
        )
    part_of_query = np.full(rows.n_queries, -1)
    part_of_query[issued] = rng.permutation(len(issued)) % folds
    return part_of_query


def _of_queries(counts: ClickCounts, ids: Ids) -> ClickCounts:
    """Keep the clicks on some queries."""
    column, wanted = counts.table["query_id"], arrow_column(ids)
    if column.type != wanted.type:
        column, wanted = column.cast(pa.string()), wanted.cast(pa.string())
    return ClickCounts(counts.table.filter(pc.is_in(column, value_set=wanted)))
