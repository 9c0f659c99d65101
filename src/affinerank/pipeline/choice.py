r"""Choosing by data: which estimator, clipping and kind of ranker clicks speak for.

Every candidate is trained without one part of the queries, part after part, and ranks
the queries that it did not see. All are judged by the clicks on those, through one
correction, affine: unbiased if the users are right. (Where they were estimated, the
judge shares their error with the affine candidates, so users that are far off speak for
affine, and no standard error tells.) What is judged is
DCG@10 over the documents that were shown, less that of the logged ranking, so that
users need be known up to gauge only.

Few clicks make that judge noisy, and the best of many noisy values is often an
accident. So values are pooled: an estimator (with its clipping) is judged by its lead
over naive, the most stable one, on average over kinds of rankers, and a kind of ranker
by its gain on average over estimators. From a lead half a standard error is taken off,
query by query, so that what makes a query hard for both does not enter; where nothing
is left of any lead, naive is taken. On synthetic worlds, with 1e3 to 1e5 clicks, this
lost less than taking the highest value, or that of a single candidate less its error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from affinerank.clicks.counts import ClickCounts
from affinerank.clicks.join import JoinedCounts, join_counts
from affinerank.clicks.usermodel import UserModel
from affinerank.corrections import affine, parse_clip
from affinerank.data.dataset import RankingDataset
from affinerank.errors import ConfigError, DataError
from affinerank.evaluation.offpolicy import estimate
from affinerank.pipeline.corrected_log import DCG_10, correct_log
from affinerank.pipeline.parts import note_unmatched, train_part
from affinerank.pipeline.production import score
from affinerank.pipeline.training import Trained, train_rankers
from affinerank.pipeline.trees import TrainedTrees, train_trees
from affinerank.progress import Progress, quiet
from affinerank.rankers.gbdt import TreeSettings
from affinerank.rankers.mlp import NetworkSettings
from affinerank.seeds import stage_rng

Floats = NDArray[np.float64]

AUTO = "auto"
CLIP = "10/sqrt(n)"
FOLDS = 5
ERRORS = 0.5  # standard errors that are taken off a lead


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to learn a ranker.

    Attributes:
        ranker: ``mlp`` or ``lightgbm``.
        estimator: Of ``ESTIMATORS``.
        clip: Lower bound of alpha, as :meth:`Correction.clipped` takes it.
    """

    ranker: str
    estimator: str
    clip: str | float | None = None


@dataclass(frozen=True, slots=True)
class ChoiceSettings:
    """What is compared, and how.

    Attributes:
        kinds: The rankers, ``mlp`` and ``lightgbm`` or one of them, with their
            settings.
        clip: Rule that every estimator but naive is tried with, besides none.
        folds: Parts of the queries that are held out in turn.
        seed: Of the parts and of the rankers.
    """

    kinds: Mapping[str, NetworkSettings | TreeSettings]
    clip: str | float = CLIP
    folds: int = FOLDS
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what leaves nothing to compare."""
        known = {"mlp": NetworkSettings, "lightgbm": TreeSettings}
        for kind, settings in self.kinds.items():
            if kind not in known or not isinstance(settings, known[kind]):
                raise ConfigError(
                    "kinds of rankers are mlp with NetworkSettings and lightgbm with "
                    f"TreeSettings, got {kind!r} with {type(settings).__name__}"
                )
            if settings.patience is not None:
                raise ConfigError(
                    "candidates are compared after the same training, so patience "
                    "cannot be given"
                )
        if not self.kinds:
            raise ConfigError("give a kind of ranker or more: mlp, lightgbm")
        parse_clip(self.clip, 1)
        if self.folds < 2:
            raise ConfigError(f"folds must be 2 or more, got {self.folds}")

    def candidates(self, users: UserModel) -> list[Candidate]:
        """All that can be compared; IPS has to know examination itself."""
        propensity = () if users.identified == "gauge" else ("ips", "bayes-ips")
        found = []
        for kind in self.kinds:
            found.append(Candidate(kind, "naive"))
            for name in (*propensity, "affine"):
                found += [Candidate(kind, name, clip) for clip in (None, self.clip)]
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
        lead: Its value less that of naive.
        standard_error: Over queries.
    """

    estimator: str
    clip: str | float | None
    lead: float
    standard_error: float


@dataclass(frozen=True, slots=True)
class Choice:
    """What was compared, and what came of it.

    Attributes:
        judged: The candidates.
        leads: Of the estimators.
        best: The candidate that was taken.
        folds: Parts of the queries.
    """

    judged: Sequence[Judged]
    leads: Sequence[Lead]
    best: Candidate
    folds: int

    def summary(self) -> dict[str, Any]:
        """The table, as plain data."""
        return {
            "judged_by": f"{DCG_10.name}, corrected by affine",
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
    users: UserModel,
    *,
    settings: ChoiceSettings,
    strict: bool = False,
    progress: Progress = quiet,
) -> tuple[Trained | TrainedTrees, Choice]:
    """Compare candidates on held-out queries, and train the best on all of them.

    Args:
        counts: Clicks; of their ``split``, where they have one, the part ``train``.
        data: Features of the documents.
        users: How users click, known or estimated: they correct what candidates learn
            from, and judge all of them.
        settings: What is compared.
        strict: Refuse ranks deeper than the user model instead of extending it.
        progress: Told of each training.

    Returns:
        The one ranker, whose provenance holds the table; and the comparison.
    """
    choice = compare(
        counts, data, users, settings=settings, strict=strict, progress=progress
    )
    best = choice.best
    trained = _fit([best], counts, data, users, settings, strict, progress)
    rankers: Any = {
        name: replace(
            ranker, provenance={**ranker.provenance, "choice": choice.summary()}
        )
        for name, ranker in trained.rankers.items()
    }
    return replace(trained, rankers=rankers), choice


def compare(
    counts: ClickCounts,
    data: RankingDataset,
    users: UserModel,
    *,
    settings: ChoiceSettings,
    strict: bool = False,
    progress: Progress = quiet,
) -> Choice:
    """Train all candidates by parts, and judge them; see :func:`train_chosen`."""
    joined = join_counts(train_part(counts), data)
    note_unmatched(joined)
    asked = np.unique(data.query_of_doc[joined.doc])
    if len(asked) < settings.folds:
        raise DataError(
            f"{len(asked)} queries were asked, too few for {settings.folds} parts; "
            "name an estimator"
        )
    issued = data.select_queries(asked)
    joined = join_counts(joined.counts, issued)
    rng = stage_rng("choice", settings.seed)
    fold = rng.permutation(len(asked)) % settings.folds
    among = settings.candidates(users)
    scores = np.zeros((len(among), issued.n_docs))
    for part in range(settings.folds):
        progress("comparing candidates", part, settings.folds)
        kept, held = np.flatnonzero(fold != part), np.flatnonzero(fold == part)
        rows = fold[issued.query_of_doc[joined.doc]] != part
        learnt = ClickCounts(joined.counts.table.filter(pa.array(rows)))
        unseen = issued.select_queries(held)
        here = fold[issued.query_of_doc] == part
        for mine in _alike(among):
            trained = _fit(
                [among[i] for i in mine],
                learnt,
                issued.select_queries(kept),
                users,
                settings,
                strict,
            )
            for i in mine:
                ranker = trained.rankers[among[i].estimator, settings.seed]
                scores[i, here] = score(ranker, unseen)
    progress("comparing candidates", settings.folds, settings.folds)
    return choose(among, scores, joined, issued, users, folds=settings.folds)


def choose(
    among: Sequence[Candidate],
    scores: Floats,
    joined: JoinedCounts,
    data: RankingDataset,
    users: UserModel,
    *,
    folds: int = FOLDS,
) -> Choice:
    """Judge candidates by corrected clicks, and take one.

    Args:
        among: The candidates: the same estimators, naive one of them, for each kind.
        scores: ``[n, n_docs]`` of each, by rankers that had not seen the query.
        joined: The clicks.
        data: The queries and documents.
        users: How users click.
        folds: In how many parts queries were held out, for the reader.
    """
    log = correct_log(joined, data, affine(joined.counts, users))
    given = dict(zip(among, log.over_logged(scores, DCG_10), strict=True))
    gains = {one: estimate(log.labels, over, data) for one, over in given.items()}
    kinds = list(dict.fromkeys(candidate.ranker for candidate in among))
    leads = []
    for estimator, clip in dict.fromkeys((one.estimator, one.clip) for one in among):
        ahead = np.mean(
            [
                given[Candidate(kind, estimator, clip)]
                - given[Candidate(kind, "naive")]
                for kind in kinds
            ],
            axis=0,
        )
        found = estimate(log.labels, ahead, data)
        leads.append(Lead(estimator, clip, found.least, found.queries.standard_error))
    method = max(leads, key=lambda row: row.lead - ERRORS * row.standard_error)
    kind = max(
        kinds,
        key=lambda kind: sum(gains[c].least for c in among if c.ranker == kind),
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


def _fit(
    alike: Sequence[Candidate],
    counts: ClickCounts,
    data: RankingDataset,
    users: UserModel,
    settings: ChoiceSettings,
    strict: bool,
    progress: Progress = quiet,
) -> Trained | TrainedTrees:
    """Train candidates of one kind and clipping."""
    kind = settings.kinds[alike[0].ranker]
    common: dict[str, Any] = {
        "estimators": [candidate.estimator for candidate in alike],
        "seeds": [settings.seed],
        "clip": alike[0].clip,
        "strict": strict,
        "progress": progress,
    }
    if isinstance(kind, NetworkSettings):
        return train_rankers(counts, data, users, settings=kind, **common)
    return train_trees(counts, data, users, settings=kind, **common)
