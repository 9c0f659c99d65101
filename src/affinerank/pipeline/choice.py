r"""Choosing by data: which estimator, clipping and kind of ranker clicks favour.

Every candidate is trained without one part of the queries, part after part, and ranks
the queries that it did not see. All are judged by the clicks on those, through one
correction, the default: unbiased if the users are right. (Where they were estimated,
the judge shares their error with the candidates of that correction, so a badly
estimated user model favours those, and the standard errors do not show it.) The value
is DCG@10 over the documents that were shown, less that of the logged ranking, so that
users need be known up to gauge only.

Few clicks make that judge noisy, and the best of many noisy values is often an
accident. So values are pooled: an estimator (with its clipping) is judged by its lead
over the baseline, the most stable one, on average over kinds of rankers, and a kind of
ranker by its gain on average over estimators. From a lead half a standard error is
subtracted, query by query, so that what makes a query hard for both does not enter; if
no lead remains, the baseline is chosen. On synthetic worlds, with 1e3 to 1e5 clicks,
this lost less than taking the highest value, or that of a single candidate less its
error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from affinerank.arrays import Floats
from affinerank.clicks.counts import EXTRA_KEYS, ClickCounts
from affinerank.clicks.models import ClickModel
from affinerank.clicks.rows import ClickRows, note_unmatched, rows_of
from affinerank.data.dataset import RankingDataset
from affinerank.defaults import BASELINE, CLIP, ESTIMATOR
from affinerank.errors import ConfigError, DataError
from affinerank.estimators import ESTIMATORS
from affinerank.estimators.evidence import parse_clip
from affinerank.evaluation.offpolicy import estimate
from affinerank.evaluation.rank_weights import DCG_10, over_logged
from affinerank.pipeline.parts import train_part
from affinerank.pipeline.training import Trained, train
from affinerank.pipeline.weighing import users_for, weigh, with_clip
from affinerank.progress import Progress, quiet
from affinerank.rankers import RANKERS
from affinerank.rankers.ranker import score
from affinerank.seeds import stage_rng

FOLDS = 5
ERRORS = 0.5  # standard errors that are subtracted from a lead


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to train a ranker.

    Attributes:
        ranker: A row of ``RANKERS``.
        estimator: A row of ``ESTIMATORS``.
        clip: Clipping rule.
    """

    ranker: str
    estimator: str
    clip: str | float | None = None


@dataclass(frozen=True, slots=True)
class ChoiceSettings:
    """What is compared, and how.

    Attributes:
        rankers: Rows of ``RANKERS``, each with its settings; all of them where left
            out.
        clip: Rule that every estimator that divides is tried with, besides none.
        folds: Parts of the queries that are held out in turn.
        seed: Of the parts and of the rankers.
    """

    rankers: Mapping[str, Any] = field(
        default_factory=lambda: {name: row.settings() for name, row in RANKERS.items()}
    )
    clip: str | float = CLIP
    folds: int = FOLDS
    seed: int = 0

    def __post_init__(self) -> None:
        """Reject what leaves nothing to compare."""
        if not self.rankers:
            raise ConfigError(f"give a kind of ranker or more: {RANKERS.choices}")
        for kind, settings in self.rankers.items():
            expected = RANKERS[kind].settings
            if not isinstance(settings, expected):
                raise ConfigError(
                    f"settings of {kind} must be {expected.__name__}, got "
                    f"{type(settings).__name__}"
                )
            if getattr(settings, "patience", None) is not None:
                raise ConfigError(
                    "candidates are compared after the same training, so patience "
                    "cannot be given"
                )
        parse_clip(self.clip, 1)
        if self.folds < 2:
            raise ConfigError(f"folds must be 2 or more, got {self.folds}")

    def candidates(self, users: ClickModel | None) -> list[Candidate]:
        """List all candidates whose needs the users meet."""
        met = {"nothing"}
        if users is not None:
            met |= (
                {"gauge"} if users.identified == "gauge" else {"gauge", "examination"}
            )
        found = []
        for kind in self.rankers:
            for name, row in ESTIMATORS.items():
                if row.needs in met:
                    found.append(Candidate(kind, name))
                    if with_clip(name, self.clip).parameters:
                        found.append(Candidate(kind, name, self.clip))
        return found


@dataclass(frozen=True, slots=True)
class Judged:
    """How a candidate did on queries that it had not seen.

    Attributes:
        candidate: Which.
        gain: Its value less that of the logged ranking.
        standard_error: Over queries.
    """

    candidate: Candidate
    gain: float
    standard_error: float


@dataclass(frozen=True, slots=True)
class Lead:
    """How an estimator did, on average over kinds of rankers.

    Attributes:
        estimator: Which.
        clip: With which clipping.
        lead: Its value less that of the baseline.
        standard_error: Over queries.
    """

    estimator: str
    clip: str | float | None
    lead: float
    standard_error: float


@dataclass(frozen=True, slots=True)
class Choice:
    """What was compared, and what was chosen.

    Attributes:
        judged: The candidates.
        leads: Of the estimators.
        best: The candidate that was chosen.
        folds: Parts of the queries.
    """

    judged: Sequence[Judged]
    leads: Sequence[Lead]
    best: Candidate
    folds: int

    def to_dict(self) -> dict[str, Any]:
        """Return the table as plain data."""
        return {
            "judged_by": f"{DCG_10.name}, corrected by {ESTIMATOR}",
            "folds": self.folds,
            "best": asdict(self.best),
            "estimators": [asdict(row) for row in self.leads],
            "candidates": [
                {
                    **asdict(row.candidate),
                    "gain": row.gain,
                    "standard_error": row.standard_error,
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

    Args:
        counts: Clicks; of their ``split``, where they have one, the part ``train``.
        data: Features of the documents.
        users: How users click; estimated first where left out. They correct what
            candidates learn from, and judge all of them.
        settings: What is compared.
        strict: Reject ranks deeper than the user model instead of extending it.
        progress: Called as training advances.

    Returns:
        The one ranker, whose provenance holds the table; and the comparison.
    """
    chosen = settings or ChoiceSettings()
    known, estimated = users_for(
        [ESTIMATOR], counts, data, users, seed=chosen.seed, progress=progress
    )
    choice = compare(
        counts, data, known, settings=chosen, strict=strict, progress=progress
    )
    trained = _train([choice.best], counts, data, known, chosen, strict, progress)
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
    strict: bool = False,
    progress: Progress = quiet,
) -> Choice:
    """Train all candidates by parts, and judge them; see :func:`train_chosen`."""
    part = train_part(counts)
    rows = rows_of(part.merged(*(k for k in EXTRA_KEYS if k in part.keys)), data)
    note_unmatched(rows)
    issued = np.unique(rows.query)
    if len(issued) < settings.folds:
        raise DataError(
            f"{len(issued)} queries were issued, too few for {settings.folds} parts; "
            "name an estimator"
        )
    fold = np.full(rows.n_queries, -1)
    rng = stage_rng("choice", settings.seed)
    fold[issued] = rng.permutation(len(issued)) % settings.folds
    among = settings.candidates(users)
    scores = np.zeros((len(among), rows.n_docs))
    for number in range(settings.folds):
        progress("comparing candidates", number, settings.folds)
        learnt = _counts_of(rows.select(fold[rows.query] != number), data)
        kept = data.select_queries(np.flatnonzero((fold >= 0) & (fold != number)))
        unseen = data.select_queries(np.flatnonzero(fold == number))
        here = fold[rows.query_of_doc] == number
        for mine in _alike(among):
            alike = [among[i] for i in mine]
            trained = _train(alike, learnt, kept, users, settings, strict)
            for i, ranker in zip(mine, trained.rankers.values(), strict=True):
                scores[i, here] = score(ranker, unseen)
    progress("comparing candidates", settings.folds, settings.folds)
    return choose(among, scores, rows, users, folds=settings.folds)


def choose(
    among: Sequence[Candidate],
    scores: Floats,
    rows: ClickRows,
    users: ClickModel | None,
    *,
    folds: int = FOLDS,
) -> Choice:
    """Judge candidates by corrected clicks, and choose one.

    Args:
        among: The candidates: the same estimators, the baseline one of them, for each
            kind of ranker.
        scores: ``[n, n_docs]`` of each, by rankers that had not seen the query.
        rows: The clicks.
        users: How users click.
        folds: Number of parts that queries were held out in, to be reported.
    """
    weights, query = weigh(rows, ESTIMATOR, users), rows.query_of_doc
    over = [over_logged(new, rows, DCG_10) for new in scores]
    given = dict(zip(among, over, strict=True))
    gains = {one: estimate(weights, given[one], query) for one in among}
    kinds = list(dict.fromkeys(one.ranker for one in among))
    leads = []
    for name, clip in dict.fromkeys((one.estimator, one.clip) for one in among):
        ahead = [
            given[Candidate(kind, name, clip)] - given[Candidate(kind, BASELINE)]
            for kind in kinds
        ]
        found = estimate(weights, np.mean(ahead, axis=0), query)
        leads.append(Lead(name, clip, found.least, found.queries.standard_error))
    method = max(leads, key=lambda row: row.lead - ERRORS * row.standard_error)
    kind = max(
        kinds, key=lambda kind: sum(gains[c].least for c in among if c.ranker == kind)
    )
    return Choice(
        [Judged(one, g.least, g.queries.standard_error) for one, g in gains.items()],
        leads,
        Candidate(kind, method.estimator, method.clip),
        folds,
    )


def _alike(among: Sequence[Candidate]) -> list[list[int]]:
    """Numbers of candidates that are trained together: of one kind and clipping."""
    groups: dict[tuple[str, str | float | None], list[int]] = {}
    for i, candidate in enumerate(among):
        groups.setdefault((candidate.ranker, candidate.clip), []).append(i)
    return list(groups.values())


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


def _train(
    alike: Sequence[Candidate],
    counts: ClickCounts,
    data: RankingDataset,
    users: ClickModel | None,
    settings: ChoiceSettings,
    strict: bool,
    progress: Progress = quiet,
) -> Trained:
    """Train candidates of one kind and clipping."""
    first = alike[0]
    return train(
        counts,
        data,
        users,
        ranker=first.ranker,
        settings=settings.rankers[first.ranker],
        estimators=[candidate.estimator for candidate in alike],
        seeds=[settings.seed],
        clip=first.clip,
        strict=strict,
        progress=progress,
    )
