r"""Choosing by data: which estimator the clicks favour, within a budget of time.

Compared are the default estimator, the unbiased correction, the baseline, and keeping
the logged ranking. Queries are dealt into parts. Part after part, the three are trained
on other queries, as the final ranker will be, and rank the queries of the part. All are
judged by the clicks on those. The value is DCG@10 over the documents that were shown,
less that of the logged ranking, so that users need be known up to gauge only.

Two judges correct these clicks, and err in different ways. The first is unbiased if the
users are right; if they are wrong, what was learnt with them shares its error, and no
standard error shows it. The second is not told of users
(:mod:`affinerank.pipeline.judges`).

The rule: by a judge, a candidate falls short by the most that another leads it, query
by query, less half a standard error; as a share of the largest lead there is. Taken is
the candidate that falls short least, by the judge that likes it less; of equals, the
default. Keeping the logged ranking is one of the candidates, whose leads count less two
standard errors: the final ranker learns from more queries than those judged. Where one
judge clearly prefers a candidate to the logged ranking and the other the reverse, the
users must be wrong, and the second judge decides alone.

The budget: after each part, the next is left out if the time used, the longest part so
far and the estimated time of the final training would exceed it. One part is always
done. In a part, rankers learn from queries with 15 documents in all for each second of
the budget (4,500 in 5 minutes), or 30 queries if these have more, drawn among those of
the other parts; the queries held out are all ranked.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from time import monotonic
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from affinerank.arrays import Floats, Ids, Ints, Rng
from affinerank.clicks.counts import ClickCounts
from affinerank.clicks.models import ClickModel
from affinerank.clicks.rows import ClickRows
from affinerank.data.dataset import RankingDataset
from affinerank.data.parquet import arrow_column
from affinerank.defaults import BASELINE, CORRECTION, ESTIMATOR, RANKER, RECIPE
from affinerank.errors import AffineRankWarning, ConfigError, DataError, warn
from affinerank.estimators import Weights
from affinerank.evaluation.offpolicy import estimate
from affinerank.evaluation.rank_weights import DCG_10, over_logged
from affinerank.pipeline.judges import second_judge
from affinerank.pipeline.parts import matched_rows, train_part
from affinerank.pipeline.recipe import LEAST_QUERIES
from affinerank.pipeline.training import Trained, train
from affinerank.pipeline.weighing import users_for, weigh
from affinerank.progress import Progress, quiet
from affinerank.rankers import RANKERS
from affinerank.rankers.ranker import score
from affinerank.seeds import stage_rng

COMPARED = (ESTIMATOR, CORRECTION, BASELINE)
KEEP = "keep the logged ranking"
FOLDS = 3
ERRORS = 0.5  # standard errors that are subtracted from a lead
KEEP_ERRORS = 2.0  # and from a lead of the logged ranking
CLEAR = 2.0  # standard errors from which a lead is clear
DOCUMENTS = 15  # that a part learns from at most, for each second of the budget
QUERIES = 30  # that it learns from at least, if there are so many
UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True, slots=True)
class ChoiceSettings:
    """How estimators are compared.

    Attributes:
        ranker: A row of ``RANKERS``.
        settings: Of that row; its defaults where left out.
        budget: Seconds that comparing and training should take at most.
        seed: Of the parts and of the rankers.
        folds: Parts that queries are dealt into.
        recipe: Of every training, see :func:`train`.
        scaling: Of features, see :func:`train`.
        categories: See there.
        safe: See there.
    """

    ranker: str = RANKER
    settings: Any = None
    budget: float = 300.0
    seed: int = 0
    folds: int = FOLDS
    recipe: str = RECIPE
    scaling: str | None = None
    categories: str | None = None
    safe: str | None = None

    def __post_init__(self) -> None:
        """Reject what cannot be compared."""
        RANKERS[self.ranker]
        if not self.budget > 0:
            raise ConfigError(f"the budget must be above 0 s, got {self.budget:g}")
        if self.folds < 2:
            raise ConfigError(f"folds must be 2 or more, got {self.folds}")

    def training(self) -> dict[str, Any]:
        """Return what every training is given."""
        names = ("ranker", "settings", "recipe", "scaling", "categories", "safe")
        return {"seeds": [self.seed], **{name: getattr(self, name) for name in names}}


@dataclass(frozen=True, slots=True)
class Judged:
    """How a candidate did on queries that it had not seen, by one judge.

    Attributes:
        judge: Its name.
        estimator: The candidate, an estimator or ``KEEP``.
        over: Its value less that of each candidate, with a standard error over queries.
        short: How far it falls short, from 0 (of none) to 1.
    """

    judge: str
    estimator: str
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
    folds: int = FOLDS
    parts: int = FOLDS

    def of(self, estimator: str) -> list[Judged]:
        """What each judge says of a candidate; the one with the users comes first."""
        return [row for row in self.judged if row.estimator == estimator]

    @property
    def best(self) -> str:
        """The estimator that was chosen, or ``KEEP``."""
        heard = slice(-1 if self.disagreement else 0, None)
        names = dict.fromkeys(row.estimator for row in self.judged)
        return min(names, key=lambda name: max(r.short for r in self.of(name)[heard]))

    @property
    def trained(self) -> str:
        """The estimator that a ranker is trained by: the default for ``KEEP``."""
        return ESTIMATOR if self.best == KEEP else self.best

    @property
    def advice(self) -> str | None:
        """What to do instead of using the ranker, if anything."""
        if self.best != KEEP:
            return None
        gains = " and ".join(row.gain for row in self.of(ESTIMATOR))
        return (
            f"{KEEP}: nothing here beats it; {ESTIMATOR} changes its {DCG_10.name} on "
            f"held-out queries by {gains}; a ranker is trained all the same"
        )

    @property
    def disagreement(self) -> str | None:
        """What the judges clearly disagree on: whether to keep the logged ranking."""
        for name in COMPARED:
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

    def to_dict(self) -> dict[str, Any]:
        """Return the table as plain data."""
        notes = {"advice": self.advice, "disagreement": self.disagreement}
        return {
            "judged_by": f"{DCG_10.name} over the logged ranking",
            "folds": self.folds,
            "parts": self.parts,
            "best": self.best,
            **{name: text for name, text in notes.items() if text},
            "candidates": [
                {
                    "estimator": row.estimator,
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
    """Compare estimators on held-out queries, and train by the best on all of them.

    Where keeping the logged ranking is best, the default estimator trains, and a
    warning says so.

    Args:
        counts: Clicks; of their ``split``, where they have one, the part ``train``.
        data: Features of the documents.
        users: How users click; estimated first where left out. They correct what
            candidates learn from; one of the two judges uses them.
        settings: How they are compared.
        strict: Reject ranks deeper than the user model instead of extending it.
        progress: Called as training advances.

    Returns:
        The one ranker, whose provenance holds the table; and the comparison.
    """
    how, started = settings or ChoiceSettings(), monotonic()
    known, estimated = users_for(
        COMPARED, counts, data, users, seed=how.seed, progress=progress
    )
    given: dict[str, Any] = {"strict": strict, "progress": progress}
    scores, rows, parts = hold_out(
        counts, data, known, settings=how, started=started, **given
    )
    choice = Choice(judge_all(scores, rows, known), how.folds, parts)
    for text in filter(None, (choice.disagreement, choice.advice)):
        warn(text)
    given |= {"estimators": [choice.trained], **how.training()}
    trained = train(counts, data, known, **given)
    [(name, one)] = trained.rankers.items()
    noted = replace(one, provenance={**one.provenance, "choice": choice.to_dict()})
    return replace(trained, rankers={name: noted}, estimate=estimated), choice


def hold_out(
    counts: ClickCounts,
    data: RankingDataset,
    users: ClickModel | None,
    *,
    settings: ChoiceSettings,
    estimators: Sequence[str] = COMPARED,
    started: float | None = None,
    strict: bool = False,
    progress: Progress = quiet,
) -> tuple[dict[str, Floats], ClickRows, int]:
    """Score queries by rankers that have not seen them, part after part.

    The budget counts from ``started``, a moment of ``time.monotonic``, or from now.

    Returns:
        Scores of each estimator; the clicks on queries that have some; parts done.
    """
    now = start = monotonic() if started is None else started
    part = train_part(counts)
    rows = matched_rows(part, data)
    rng = stage_rng("choice", settings.seed)
    fold = _dealt(rows, settings.folds, rng)
    stage = f"holding out for {', '.join(estimators)}: part"
    sizes = np.diff(data.offsets)
    scores = {name: np.zeros(rows.n_docs) for name in estimators}
    longest = final = 0.0
    done = 0
    while done < settings.folds:
        if done and now - start + longest + final > settings.budget:
            break
        progress(stage, done, settings.folds)
        others = rng.permutation(np.flatnonzero((fold >= 0) & (fold != done)))
        fits = np.cumsum(sizes[others]) <= DOCUMENTS * settings.budget
        fits[:QUERIES] = True
        kept = np.sort(others[fits])
        learnt = _of_queries(part, data.query_ids[kept])
        of, unseen = map(data.select_queries, (kept, np.flatnonzero(fold == done)))
        began = monotonic()
        given = {"estimators": estimators, "strict": strict, **settings.training()}
        with warnings.catch_warnings():  # the training of all queries repeats them
            warnings.simplefilter("ignore", AffineRankWarning)
            trained = train(learnt, of, users, **given)
        for (name, _), ranker in trained.rankers.items():
            scores[name][fold[rows.query_of_doc] == done] = score(ranker, unseen)
        now, done = monotonic(), done + 1
        longest = max(longest, now - began)
        final = longest * sizes[fold >= 0].sum() / sizes[kept].sum() / len(estimators)
    progress(stage, settings.folds, settings.folds)
    return scores, rows.of_queries((fold >= 0) & (fold < done)), done


def judge_all(
    scores: Mapping[str, Floats], rows: ClickRows, users: ClickModel | None
) -> list[Judged]:
    """Judge estimators, and keeping the logged ranking, by clicks corrected twice.

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
    """Compare each candidate with each, by one judge."""
    leads: dict[str, dict[str, tuple[float, float]]] = {name: {} for name in over}
    for one, other in product(over, over):
        found = estimate(weights, over[one] - over[other], query)
        leads[one][other] = found.least, found.queries.standard_error
    most = max(lead for each in leads.values() for lead, _ in each.values())
    for name, own in leads.items():
        behind = (
            -lead - (KEEP_ERRORS if other == KEEP else ERRORS) * error
            for other, (lead, error) in own.items()
        )
        yield Judged(judge, name, own, max(0.0, *behind) / most if most else 0.0)


def parse_budget(text: str) -> float:
    """Read a time as seconds.

    >>> parse_budget("5m"), parse_budget("1.5h"), parse_budget("90")
    (300.0, 5400.0, 90.0)
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", text.strip())
    seconds = float(found[1]) * UNITS[found[2]] if found else 0.0
    if not seconds > 0:
        raise ConfigError(f"a budget is a time as in 5m, 300s, 1h or 90, got {text!r}")
    return seconds


def _dealt(rows: ClickRows, folds: int, rng: Rng) -> Ints:
    """``[n_queries]`` part of each query; -1 for those that were not issued."""
    issued = np.unique(rows.query)
    least = -(-LEAST_QUERIES * folds // (folds - 1))
    if len(issued) < least:
        raise DataError(
            f"{len(issued)} queries were issued, too few to compare estimators in "
            f"{folds} parts, which takes {least}; name an estimator"
        )
    fold = np.full(rows.n_queries, -1)
    fold[issued] = rng.permutation(len(issued)) % folds
    return fold


def _of_queries(counts: ClickCounts, ids: Ids) -> ClickCounts:
    """Keep the clicks on some queries."""
    column, wanted = counts.table["query_id"], arrow_column(ids)
    if column.type != wanted.type:
        column, wanted = column.cast(pa.string()), wanted.cast(pa.string())
    return ClickCounts(counts.table.filter(pc.is_in(column, value_set=wanted)))
