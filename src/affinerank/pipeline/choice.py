r"""Choosing by data: which estimator the clicks favour, within a budget of time.

Compared are the default estimator, the unbiased correction, the baseline, and keeping
the logged ranking. Queries are dealt into parts. Part after part, the three are trained
on other queries, as the final ranker will be, and rank the queries of the part. All are
judged by the clicks on those, through the correction: unbiased if the users are right.
(Where users were estimated, the judge shares their error with what it judges, and the
standard errors do not show it.) The value is DCG@10 over the documents that were shown,
less that of the logged ranking, so that users need be known up to gauge only.

The rule: few clicks make that judge noisy, and the default was measured to be the best
or near it everywhere. So it is taken unless another one leads it, query by query, by
more than half a standard error; keeping the logged ranking, which gains 0, is one of
the others. Among several the largest lead less half its error decides.

The budget: after each part, the next is left out if the time used, the longest part so
far and the estimated time of the final training would exceed it. One part is always
done. In a part, rankers learn from queries with 15 documents in all for each second of
the budget (4,500 in 5 minutes), or 30 queries if these have more, drawn among those of
the other parts; the queries held out are all ranked.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from time import monotonic
from typing import Any

import numpy as np

from affinerank.arrays import Floats, Ints
from affinerank.clicks.counts import EXTRA_KEYS, ClickCounts
from affinerank.clicks.models import ClickModel
from affinerank.clicks.rows import ClickRows, note_unmatched, rows_of
from affinerank.data.dataset import RankingDataset
from affinerank.defaults import BASELINE, CORRECTION, ESTIMATOR, RANKER, RECIPE
from affinerank.errors import AffineRankWarning, ConfigError, DataError
from affinerank.evaluation.offpolicy import estimate
from affinerank.evaluation.rank_weights import DCG_10, over_logged
from affinerank.pipeline.parts import train_part
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
    """

    ranker: str = RANKER
    settings: Any = None
    budget: float = 300.0
    seed: int = 0
    folds: int = FOLDS
    recipe: str = RECIPE

    def __post_init__(self) -> None:
        """Reject what cannot be compared."""
        RANKERS[self.ranker]
        if not self.budget > 0:
            raise ConfigError(f"the budget must be above 0 s, got {self.budget:g}")
        if self.folds < 2:
            raise ConfigError(f"folds must be 2 or more, got {self.folds}")

    def training(self) -> dict[str, Any]:
        """Return what every training is given."""
        names = ("ranker", "settings", "recipe")
        return {"seeds": [self.seed], **{name: getattr(self, name) for name in names}}


@dataclass(frozen=True, slots=True)
class Judged:
    """How a candidate did on queries that it had not seen.

    Attributes:
        estimator: Which; or ``KEEP``.
        gain: Its value less that of the logged ranking.
        standard_error: Over queries.
        lead: Its value less that of the default estimator.
        lead_error: Standard error of the lead, over queries.
    """

    estimator: str
    gain: float
    standard_error: float
    lead: float
    lead_error: float


@dataclass(frozen=True, slots=True)
class Choice:
    """What was compared, and what was chosen.

    Attributes:
        judged: The candidates.
        folds: Parts of the queries.
        parts: How many of them were held out before the budget ended.
    """

    judged: Sequence[Judged]
    folds: int = FOLDS
    parts: int = FOLDS

    @property
    def best(self) -> str:
        """The estimator that was chosen, or ``KEEP``."""
        return max(self.judged, key=lambda c: c.lead - ERRORS * c.lead_error).estimator

    @property
    def trained(self) -> str:
        """The estimator that a ranker is trained by: the default for ``KEEP``."""
        return ESTIMATOR if self.best == KEEP else self.best

    @property
    def advice(self) -> str | None:
        """What to do instead of using the ranker, if anything."""
        if self.best != KEEP:
            return None
        row = next(row for row in self.judged if row.estimator == ESTIMATOR)
        return (
            f"{KEEP}: by the clicks on held-out queries, {ESTIMATOR} changes its "
            f"{DCG_10.name} by {row.gain:+.3g} (standard error "
            f"{row.standard_error:.2g}); a ranker is trained all the same"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the table as plain data."""
        return {
            "judged_by": f"{DCG_10.name} over the logged ranking, corrected by "
            f"{CORRECTION}",
            "folds": self.folds,
            "parts": self.parts,
            "best": self.best,
            **({"advice": self.advice} if self.advice else {}),
            "candidates": [asdict(row) for row in self.judged],
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
            candidates learn from, and judge all of them.
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
    choice = compare(counts, data, known, settings=how, started=started, **given)
    if choice.advice:
        warnings.warn(choice.advice, AffineRankWarning, stacklevel=2)
    given |= {"estimators": [choice.trained], **how.training()}
    trained = train(counts, data, known, **given)
    rankers = {
        name: replace(one, provenance={**one.provenance, "choice": choice.to_dict()})
        for name, one in trained.rankers.items()
    }
    return replace(trained, rankers=rankers, estimate=estimated), choice


def compare(
    counts: ClickCounts,
    data: RankingDataset,
    users: ClickModel | None,
    *,
    settings: ChoiceSettings,
    **more: Any,
) -> Choice:
    """Train the estimators by parts, and judge them; ``more`` as of ``hold_out``."""
    scores, rows, parts = hold_out(counts, data, users, settings=settings, **more)
    return Choice(judge_all(scores, rows, users), settings.folds, parts)


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
    """Score queries by rankers that have not seen them, part after part.

    The budget counts from ``started``, a moment of ``time.monotonic``, or from now.

    Returns:
        Scores of each estimator; the clicks on queries that have some; parts done.
    """
    now = start = monotonic() if started is None else started
    part = train_part(counts)
    rows = rows_of(part.merged(*(k for k in EXTRA_KEYS if k in part.keys)), data)
    note_unmatched(rows)
    rng = stage_rng("choice", settings.seed)
    fold = _dealt(rows, settings.folds, rng)
    sizes, stage = np.diff(data.offsets), f"comparing {', '.join(COMPARED)}: part"
    scores = {name: np.zeros(rows.n_docs) for name in COMPARED}
    longest = final = 0.0
    done = 0
    while done < settings.folds and not (
        done and now - start + longest + final > settings.budget
    ):
        progress(stage, done, settings.folds)
        others = rng.permutation(np.flatnonzero((fold >= 0) & (fold != done)))
        kept = _drawn(others, sizes, DOCUMENTS * settings.budget)
        learnt = _counts_of(rows.select(np.isin(rows.query, kept)), data)
        of, unseen = map(data.select_queries, (kept, np.flatnonzero(fold == done)))
        began = monotonic()
        given = {"estimators": COMPARED, "strict": strict, **settings.training()}
        trained = train(learnt, of, users, **given)
        for (name, _), ranker in trained.rankers.items():
            scores[name][fold[rows.query_of_doc] == done] = score(ranker, unseen)
        now, done = monotonic(), done + 1
        longest = max(longest, now - began)
        final = longest * sizes[fold >= 0].sum() / sizes[kept].sum() / len(COMPARED)
    progress(stage, settings.folds, settings.folds)
    judged = (fold >= 0) & (fold < done)
    rows = rows.select(judged[rows.query])
    return scores, replace(rows, sessions=np.where(judged, rows.sessions, 0.0)), done


def judge_all(
    scores: Mapping[str, Floats],
    rows: ClickRows,
    users: ClickModel | None,
    reference: str = ESTIMATOR,
) -> list[Judged]:
    """Judge estimators, and keeping the logged ranking, by corrected clicks.

    Args:
        scores: ``[n_docs]`` of each, by rankers that had not seen the query.
        rows: The clicks.
        users: How users click.
        reference: The estimator that leads are over.
    """
    weights, query = weigh(rows, CORRECTION, users), rows.query_of_doc
    over = {name: over_logged(own, rows, DCG_10) for name, own in scores.items()}
    over[KEEP] = np.zeros(rows.n_docs)
    judged = []
    for name, own in over.items():
        gain = estimate(weights, own, query)
        lead = estimate(weights, own - over[reference], query)
        errors = [each.queries.standard_error for each in (gain, lead)]
        judged.append(Judged(name, gain.least, errors[0], lead.least, errors[1]))
    return judged


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


def _dealt(rows: ClickRows, folds: int, rng: np.random.Generator) -> Ints:
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


def _drawn(queries: Ints, sizes: Ints, most: float) -> Ints:
    """Keep the first queries that have at most so many documents together."""
    fits = np.cumsum(sizes[queries]) <= most
    fits[:QUERIES] = True
    return np.sort(queries[fits])


def _counts_of(rows: ClickRows, data: RankingDataset) -> ClickCounts:
    """Return rows as counts of documents of the data."""
    return ClickCounts.from_columns(
        query_id=data.query_ids[rows.query],
        doc_id=data.doc_ids[rows.doc],
        rank=rows.rank,
        impressions=rows.impressions,
        clicks=rows.clicks,
        sessions=rows.sessions[rows.query],
    )
