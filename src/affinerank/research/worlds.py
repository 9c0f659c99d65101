"""Worlds: labelled data on which clicks are simulated, learnt from and judged.

The composition behind experiments. A cell of an experiment is measured here: its clicks
are drawn, its users known or estimated, its clicks weighed, its ranker trained beside
others and judged on test labels.
"""

from __future__ import annotations

import hashlib
import warnings
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import astuple, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from affinerank.bias import METHODS, Estimate, EstimationSettings
from affinerank.bias.method import HeldOutLogs
from affinerank.bias.pooling import pool_ranks
from affinerank.clicks.models import CLICK_MODELS, trust
from affinerank.clicks.models.trust import TrustModel
from affinerank.clicks.policies import fixed
from affinerank.clicks.simulation import simulate_counts
from affinerank.clicks.traffic import Traffic, prepare
from affinerank.counts.rows import ClickRows, join_counts
from affinerank.data.dataset import RankingDataset
from affinerank.data.feature_mapping import FREQUENT, FeatureMapping
from affinerank.data.read_options import Split
from affinerank.data.sources import DataSource
from affinerank.data.synthetic import WORLDS
from affinerank.defaults import RELEVANT_ABOVE
from affinerank.estimators import Weights, affine
from affinerank.evaluation.metrics import MetricValues, evaluate_scores
from affinerank.pipeline.click_model import estimate_from_rows
from affinerank.pipeline.features import (
    FeatureSource,
    prepare_members,
    readable_categories,
)
from affinerank.pipeline.production import train_production_ranker
from affinerank.pipeline.simulate import click_model_of
from affinerank.pipeline.train_members import (
    FittedMember,
    WeighedLists,
    fit_members,
    score_all,
)
from affinerank.pipeline.train_settings import TrainSettings
from affinerank.pipeline.training_lists import side_by_side
from affinerank.pipeline.training_weights import EstimatorJob, train_priors, weigh_job
from affinerank.pipeline.tuning import held_out_queries
from affinerank.rankers.networks import settings as mlp
from affinerank.rankers.ranker import Ranker, score
from affinerank.support.arrays import Floats, Ints, Matrix, Rng
from affinerank.support.errors import AffineRankWarning, ConfigError, DataError
from affinerank.support.files import PathLike
from affinerank.support.lists import ranks_by_score
from affinerank.support.progress import Progress, no_progress
from affinerank.support.seeds import stage_rng
from affinerank.support.settings import EntrySpec, require_at_least
from affinerank.support.threads import in_parallel

PRODUCTION = "production"
TRUE = "true"
PER_RUN, PER_DATA_SET = "per-run", "per-data-set"


@dataclass(frozen=True, slots=True)
class DataSet:
    """Ranking data, and what of simulation and training depends on them.

    Attributes:
        name: What cells and figures call it; its clicks depend on it.
        source: A world, folder or file, as :class:`DataSource` reads it.
        learning_rate: Of rankers that take a data set's, where none is given.
        validation_share: Held-out clicks per training click, on the validation split's
            queries; they are used for early stopping.
        relevant_above: Labels above this are relevant.
        folds: Where more than 1, runs take turns with its folds; a file without splits
            is dealt into as many parts: one to validate, one to test.
    """

    name: str
    source: str
    learning_rate: float = 0.02
    validation_share: float = 0.33
    relevant_above: float = RELEVANT_ABOVE
    folds: int = 1

    def __post_init__(self) -> None:
        """Reject what cannot be trained with."""
        positive = ("learning_rate", "validation_share")
        require_at_least(self, least={"folds": 1}, positive=positive)
        if self.folds == 2:
            raise ConfigError("folds must be 1, or 3 or more, got 2")

    def fold(self, run: int) -> int:
        """Return the fold that a run reads, from 1."""
        return run % self.folds + 1

    @property
    def synthetic(self) -> bool:
        """Whether it is a built-in world."""
        return self.source.partition(":")[0].partition("@")[0] in WORLDS

    def below(self, root: PathLike | None) -> DataSet:
        """Return the same data, read from a folder; worlds are read from none."""
        if root is None or self.synthetic:
            return self
        return replace(self, source=str(Path(root, self.source)))


@dataclass(frozen=True, slots=True)
class Cell:
    """One measurement; a coordinate that it does not depend on is ``None``.

    Attributes:
        data: Name of the data set.
        click_model: How users click: a row of ``CLICK_MODELS`` with parameters.
        policy: What they are shown: a row of ``POLICIES`` with parameters.
        clicks: Training clicks.
        estimator: A row of ``ESTIMATORS`` with options, or ``production``.
        click_model_from: How the estimator knows the click model: ``true``, or the row
            of ``METHODS`` that estimates it.
        ranker: What is trained: a row of ``RANKERS`` with parameters.
        run: Number of the run.
    """

    data: str
    click_model: str | None
    policy: str | None
    clicks: float | None
    estimator: str
    click_model_from: str | None
    ranker: str | None
    run: int

    @property
    def log(self) -> tuple[object, ...]:
        """What its clicks depend on: cells of one log learn from the same clicks."""
        return (self.data, self.click_model, self.policy, self.clicks, self.run)


@dataclass(frozen=True, slots=True)
class Measured:
    """What came of a cell.

    Attributes:
        ndcg: nDCG@10 on test labels, mean over queries, after the last epoch.
        per_query: nDCG@10 of each test query; NaN for one without a relevant document.
        queries: Training queries.
        digest: Of the labels and production ranks that all of a run is drawn from.
        held_out_ndcg: As ``ndcg``, after the epoch that held-out clicks chose.
        held_out_epoch: That epoch or number of trees, from 1.
        sessions: Simulated sessions.
        clicks_drawn: Clicks that those brought.
        alpha: By rank, where users were estimated.
        beta: By rank, where users were estimated.
    """

    ndcg: float
    per_query: tuple[float, ...]
    queries: int
    digest: str
    held_out_ndcg: float | None = None
    held_out_epoch: int | None = None
    sessions: int | None = None
    clicks_drawn: int | None = None
    alpha: tuple[float, ...] = ()
    beta: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Production:
    """What the production ranker of a run does.

    Attributes:
        ranks: ``[n_docs]`` rank of each document, by split.
        scores: ``[n_docs]`` score of each document, by split.
        value: nDCG@10 on the test split.
        digest: Of the training labels and ranks, which all of a run is drawn from.
    """

    ranks: Mapping[Split, Ints]
    scores: Mapping[Split, Floats]
    value: MetricValues
    digest: str


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """Clicks of a cell: to learn from, held out, and the users who clicked."""

    cell: Cell
    rows: ClickRows
    held: ClickRows
    click_model: Any


@dataclass(frozen=True, slots=True, eq=False)
class Training:
    """How the rankers of cells are trained; see :meth:`World.measure`."""

    settings: TrainSettings
    early_stopping: bool = False
    progress: Progress = no_progress


class World:
    """A data set read once, with the production rankers trained on it so far.

    Args:
        data: What is read, and how it is used.
        seed: Of the first run; run r has the seed ``seed + r``.
        production: ``per-run``: each run has a production ranker of its own;
            ``per-data-set``: all have that of the first.
        fold: Which fold of the data.
        turn: What training waits for, where processes share a device.
    """

    def __init__(
        self,
        data: DataSet,
        seed: int = 0,
        *,
        production: str = PER_RUN,
        fold: int = 1,
        turn: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        self.turn = turn
        self.data = data
        self.seed = seed
        self.fold = fold
        self.shared = production == PER_DATA_SET
        self._parts: dict[Split, FeatureSource] = {}
        self._production: dict[int, Production] = {}

    def part(self, split: Split) -> FeatureSource:
        """Return a split and its features, read and mapped at first use."""
        if split not in self._parts:
            source = DataSource.parse(self.data.source, fold=self.fold)
            dealt = self.data.folds > 1 and not source.splits
            if not dealt and split not in source.splits:
                has = ", ".join(source.splits) or "none"
                raise DataError(
                    f"{source.name}: an experiment needs the split {split}, and the "
                    f"splits there are {has}"
                )
            data = self._dealt(source, split) if dealt else source.read(split)
            self._parts[split] = FeatureSource(data, keeps=True)
        return self._parts[split]

    def _dealt(self, source: DataSource, split: Split) -> RankingDataset:
        """Deal the queries of a file into parts, and take a fold's, as LETOR does."""
        data, folds = source.read(None), self.data.folds
        order = stage_rng("folds", self.seed).permutation(data.n_queries)
        part = (order - self.fold + 1) % folds
        last = {"validation": folds - 2, "test": folds - 1}
        taken = part == last[split] if split in last else part < folds - 2
        return data.select_queries(np.flatnonzero(taken))

    def production(self, run: int) -> Production:
        """Return what the production ranker of a run does; see :meth:`rank`."""
        return self._production[0 if self.shared else run]

    def rank(self, runs: Iterable[int], *, held_out: bool = False) -> None:
        """Train the production rankers of runs, and rank what their users will see."""
        splits: tuple[Split, ...] = ("train", "validation") if held_out else ("train",)
        ranked = {r for r, p in self._production.items() if set(splits) <= set(p.ranks)}
        new = sorted(({0} if self.shared else set(runs)) - ranked)
        for split in (*splits, "test"):
            self.part(split)  # read before threads need it
        train, above = self.part("train").data, self.data.relevant_above
        rankers = [
            train_production_ranker(train, relevant_above=above, seed=self.seed + run)
            for run in new
        ]
        made = in_parallel(lambda ranker: self._ranked(ranker, splits), rankers)
        self._production |= zip(new, made, strict=True)

    def draw(self, cell: Cell, *, held_out: bool = False) -> tuple[ClickRows, Any]:
        """Draw a cell's clicks: on training queries, or fewer on validation queries.

        Returns:
            The clicks and the users who clicked; no clicks for a cell that depends on
            none.
        """
        split: Split = "validation" if held_out else "train"
        data = self.part(split).data
        if cell.click_model is None or cell.policy is None or cell.clicks is None:
            none, nothing = np.zeros(0, dtype=np.int64), np.zeros(0)
            columns = (none, none, none, nothing, nothing, data.query_of_doc)
            return ClickRows(*columns, np.zeros(data.n_queries)), None
        production = self.production(cell.run)
        simulation = prepare(
            data,
            {PRODUCTION: production.ranks[split]},
            data.relevance(self.data.relevant_above),
            click_model_of(cell.click_model, int(data.docs_per_query.max())),
            traffic=Traffic.of(EntrySpec.parse(cell.policy)),
            scores={PRODUCTION: production.scores[split]},
            rng=stage_rng("traffic", self.seed + cell.run),
        )
        share = self.data.validation_share if held_out else 1.0
        sessions = simulation.sessions_for(cell.clicks * share)
        rng = click_rng(cell, self.seed, held_out=held_out)
        by_rank = simulation.click_model.click_probability(np.ones(1, int), np.zeros(1))
        context = by_rank is None  # such users may go by their clicks above
        counts = simulate_counts(simulation, sessions, rng=rng, context=context)
        return join_counts(counts, data), simulation.click_model

    def measure(
        self,
        cells: Sequence[Cell],
        settings: TrainSettings,
        *,
        early_stopping: bool = False,
        progress: Progress = no_progress,
    ) -> list[Measured]:
        """Train rankers at once, by the steps of ``train``, and test them.

        Args:
            cells: What to measure: cells of one ranker, for which
                :func:`trained_jointly` is the same, and production rankers.
            settings: How the ranker is trained; estimators and seeds are of the cells.
            early_stopping: Also test each ranker as held-out clicks liked it best.
            progress: Called as training advances.
        """
        self.rank({cell.run for cell in cells}, held_out=early_stopping)
        trained = [cell for cell in cells if cell.estimator != PRODUCTION]
        measured: dict[Cell, Measured] = {}
        if trained:
            how = Training(self._for_data(settings), early_stopping, progress)
            # Few clicks leave poor estimates, and how poor is what is measured.
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", AffineRankWarning)
                measured = self._trained_and_tested(trained, how)
        return [
            measured.get(cell) or self._measured(cell, self.production(cell.run).value)
            for cell in cells
        ]

    def _for_data(self, settings: TrainSettings) -> TrainSettings:
        """Return settings for rankers of this data set."""
        train = self.part("train").data
        categories = readable_categories(settings.ranker, train, settings.categories)
        return replace(
            settings,
            categories=categories,
            relevant_above=self.data.relevant_above,
        )

    def _trained_and_tested(
        self, cells: Sequence[Cell], how: Training
    ) -> dict[Cell, Measured]:
        """Train the rankers of cells as ``train`` does, all at once, and test them."""
        (joint,) = {trained_jointly(cell) for cell in cells}
        if how.early_stopping and how.settings.kind.members is not None:
            raise ConfigError(
                "a blend cannot be stopped early; leave early_stopping out"
            )

        # Features as each member of the ranker reads them.
        members = prepare_members(self.part("train"), how.settings)

        # Clicks, and how users click: as simulated, or estimated from their clicks.
        drawn = self._draw_all(cells, how)
        if joint:  # the method that estimates also trains the ranker
            drawn, fitted = self._estimate_and_fit(drawn, how)
        else:
            drawn = self._with_click_models(drawn, how)

            # Weights of documents, by each cell's estimator.
            learnt = self._weigh(drawn, how)
            validation = self._weigh_validation(drawn) if how.early_stopping else None
            is_held_out = None
            if how.settings.is_tuned and how.settings.kind.patience:
                is_held_out = held_out_queries(learnt.shares, self.seed)

            # The members of all rankers, on these weights.
            with self.turn():
                fitted = fit_members(
                    members,
                    learnt,
                    how.settings,
                    seeds=[self.seed + one.cell.run for one in drawn],
                    is_held_out=is_held_out,
                    validation=validation,
                    progress=how.progress,
                )
        return self._tested(drawn, fitted, how)

    def _draw_all(self, cells: Sequence[Cell], how: Training) -> list[Drawn]:
        """Draw the clicks of cells, each log once; in the order of the cells."""
        logs: dict[object, list[Cell]] = {}
        for cell in cells:
            logs.setdefault(cell.log, []).append(cell)
        self._filled_features("train")  # mapped before threads need it
        parts = in_parallel(lambda own: self._drawn(own, how), logs.values())
        drawn = {one.cell: one for part in parts for one in part}
        return [drawn[cell] for cell in cells]

    def _drawn(self, cells: Sequence[Cell], how: Training) -> list[Drawn]:
        """Draw one log; users estimated from several logs at once are found later."""
        rows, true = self.draw(cells[0])
        held = rows
        if how.early_stopping:
            held, _ = self.draw(cells[0], held_out=True)
        click_models = {None: true, TRUE: true}
        for cell in cells:
            if cell.click_model_from in click_models or stacked(cell):
                continue
            asked = self._estimation(cell, how)
            # Of few clicks fewer make a pool: an estimate that is poor is measured.
            least = asked.min_clicks
            while least >= 1 and pool_ranks(rows, least).n_pools == 1:
                least /= 2
            estimate = estimate_from_rows(
                rows,
                self._filled_features("train"),
                self.part("train").data,
                settings=replace(asked, min_clicks=least),
            )
            click_models[cell.click_model_from] = estimate.click_model
        return [
            Drawn(cell, rows, held, click_models.get(cell.click_model_from))
            for cell in cells
        ]

    def _filled_mapping(self) -> FeatureMapping:
        """Return the mapping for methods that estimate click models."""
        return self.part("train").fit_mapping(impute=True, one_hot=FREQUENT)

    def _filled_features(self, split: Split) -> Matrix:
        """Return features as methods that estimate click models read them."""
        return self.part(split).mapped(self._filled_mapping()).features

    def _estimate_and_fit(
        self, drawn: Sequence[Drawn], how: Training
    ) -> tuple[list[Drawn], list[FittedMember]]:
        """Estimate users and train rankers in one."""
        held_out = None
        if how.early_stopping:

            def targets(one: Drawn, click_model: Any) -> Any:
                job = self._job(replace(one, click_model=click_model))
                return side_by_side([self._validation_weights(job, one.held)])

            evaluators = [partial(targets, one) for one in drawn]
            validation = self.part("validation")
            features = self._filled_features("validation")
            held_out = HeldOutLogs(features, validation.data.offsets, evaluators)
        estimates = self._estimated(drawn, how, train_on=True, held_out=held_out)
        known = [
            replace(one, click_model=estimate.click_model)
            for one, estimate in zip(drawn, estimates, strict=True)
        ]
        fitted = [one.ranker for one in estimates if one.ranker is not None]
        [plan] = how.settings.members
        units = [1.0] * len(fitted)
        return known, [FittedMember(plan, self._filled_mapping(), fitted, units)]

    def _with_click_models(self, drawn: Sequence[Drawn], how: Training) -> list[Drawn]:
        """Estimate users by methods that rank too, each from all its logs at once."""
        found: dict[Any, Any] = {}
        asked = [one for one in drawn if stacked(one.cell)]
        for method in dict.fromkeys(one.cell.click_model_from for one in asked):
            own = {
                one.cell.log: one
                for one in asked
                if one.cell.click_model_from == method
            }
            made = self._estimated(
                list(own.values()), replace(how, progress=no_progress)
            )
            pairs = zip(own, made, strict=True)
            found |= {(log, method): each.click_model for log, each in pairs}
        return [
            replace(
                one,
                click_model=found.get(
                    (one.cell.log, one.cell.click_model_from), one.click_model
                ),
            )
            for one in drawn
        ]

    def _estimated(
        self, drawn: Sequence[Drawn], how: Training, **more: Any
    ) -> list[Estimate]:
        """Estimate from the logs of cells at once, by their method, which ranks too."""
        logs = [one.rows for one in drawn], self._filled_features("train")
        asked = [self._estimation(one.cell, how) for one in drawn]
        fit_many: Any = METHODS[asked[0].method].fit_many
        with self.turn():
            found: list[Estimate] = fit_many(*logs, asked, how.progress, **more)
        return found

    def _estimation(self, cell: Cell, how: Training) -> EstimationSettings:
        spec = EntrySpec.parse(cell.click_model_from or "")
        own = {"method": spec.name, "seed": self.seed + cell.run, "replicates": 0}
        network: Any = None
        if isinstance(how.settings.settings_of_ranker, mlp.ROW.settings):
            network = how.settings.settings_of_ranker
        return replace(spec.settings(EstimationSettings, **own), network=network)

    def _job(self, one: Drawn) -> EstimatorJob:
        """Return what the estimator of a cell is to weigh."""
        return EstimatorJob(
            one.rows,
            one.click_model,
            EntrySpec.parse(one.cell.estimator),
            self.seed + one.cell.run,
        )

    def _weigh(self, drawn: Sequence[Drawn], how: Training) -> WeighedLists:
        """Weigh the clicks of each cell, with rankers of other queries where asked."""
        source = self.part("train")
        jobs = [self._job(one) for one in drawn]
        folds = train_priors(jobs, source, how.settings, seed=self.seed)
        weights = in_parallel(
            lambda job, job_folds: weigh_job(
                job, source.data, self.data.relevant_above, job_folds
            ),
            jobs,
            folds,
        )
        return WeighedLists(source, weights)

    def _weigh_validation(self, drawn: Sequence[Drawn]) -> WeighedLists:
        """Weigh the held-out clicks of each cell, which end the training."""
        weights = [self._validation_weights(self._job(one), one.held) for one in drawn]
        return WeighedLists(self.part("validation"), weights)

    def _validation_weights(self, job: EstimatorJob, held: ClickRows) -> Weights:
        """Weigh held-out clicks as the training's are, without clip or prior."""
        return weigh_job(
            job.on_validation_clicks(held),
            self.part("validation").data,
            self.data.relevant_above,
        )

    def _tested(
        self, drawn: Sequence[Drawn], members: Sequence[FittedMember], how: Training
    ) -> dict[Cell, Measured]:
        """Test the rankers, with early stopping after the last epoch as well."""
        kept = self._values(members)
        last = kept
        if how.early_stopping:
            last = self._values([member.after_the_last_epoch() for member in members])
        measured = {}
        for i, one in enumerate(drawn):
            about = _about(one)
            if how.early_stopping:
                about["held_out_ndcg"] = kept[i].mean
                about["held_out_epoch"] = members[0].fitted[i].best_length
            measured[one.cell] = self._measured(one.cell, last[i], **about)
        return measured

    def _values(self, members: Sequence[FittedMember]) -> list[MetricValues]:
        """nDCG@10 of each ranker on the test split."""
        test, above = self.part("test"), self.data.relevant_above
        scores = score_all(members, test)
        return in_parallel(
            lambda row: evaluate_scores(row, test.data, above), list(scores)
        )

    def _measured(self, cell: Cell, value: MetricValues, **more: Any) -> Measured:
        return Measured(
            ndcg=value.mean,
            per_query=tuple(value.values.tolist()),
            queries=self.part("train").data.n_queries,
            digest=self.production(cell.run).digest,
            **more,
        )

    def _ranked(self, ranker: Ranker, splits: Iterable[Split]) -> Production:
        train, test = self.part("train").data, self.part("test").data
        raw = {split: self.part(split).data for split in splits}
        scores = {s: score(ranker, r) for s, r in raw.items()}
        ranks = {s: ranks_by_score(scores[s], r.offsets) for s, r in raw.items()}
        digest = hashlib.blake2b(digest_size=16)
        for array in (train.known_labels(), ranks["train"]):
            digest.update(np.ascontiguousarray(array).data)
        value = evaluate_scores(score(ranker, test), test, self.data.relevant_above)
        return Production(ranks, scores, value, digest.hexdigest())


def stacked(cell: Cell) -> bool:
    """Whether a method that ranks too estimates its users, from many logs at once."""
    if cell.click_model_from is None or cell.click_model_from == TRUE:
        return False
    return METHODS[EntrySpec.parse(cell.click_model_from).name].ranks_too


def trained_jointly(cell: Cell) -> bool:
    """Whether the method that estimates a cell's users trains its ranker too.

    Such methods train a network on affine weights; other rankers and estimators, and
    new rankers where they are asked for, take the users that they estimate.
    """
    network = EntrySpec.parse(cell.ranker or mlp.ROW.name).name == mlp.ROW.name
    if not stacked(cell) or cell.estimator != affine.ROW.name or not network:
        return False
    return (
        not EntrySpec.parse(cell.click_model_from or "")
        .settings(EstimationSettings)
        .fresh
    )


def click_rng(cell: Cell, seed: int, *, held_out: bool = False) -> Rng:
    """Return the stream of a cell's clicks: a function of its coordinates.

    Committed runs drew their clicks by these numbers, so the numbers do not change.
    """
    model, policy = cell.click_model or "", cell.policy or ""
    spec = EntrySpec.parse(model)
    click_model: Any = spec.settings(CLICK_MODELS[spec.name].settings)
    numbers = [_number(cell.data), round(cell.clicks or 0.0), int(held_out)]
    if spec.name == trust.ROW.name:
        numbers[1:1] = [round(value * 1e6) for value in astuple(click_model)]
    else:
        numbers.append(_number(model))
    if policy != fixed.ROW.name:
        numbers.append(_number(policy))
    return stage_rng("clicks", seed + cell.run, *numbers)


def _number(text: str) -> int:
    return zlib.crc32(text.encode())


def _about(one: Drawn) -> dict[str, Any]:
    """Return what there is to note of the clicks that a cell learnt from."""
    cell, rows, click_model = one.cell, one.rows, one.click_model
    if cell.clicks is None:
        return {}
    about = {"sessions": rows.n_sessions, "clicks_drawn": int(rows.clicks.sum())}
    if cell.click_model_from == TRUE:
        return about
    if isinstance(click_model, TrustModel):
        alpha, beta = click_model.alpha, click_model.beta
    else:  # the mean at each rank
        seen = np.maximum(rows.by_rank(rows.impressions), 1.0)
        n = rows.impressions
        alpha, beta = (rows.by_rank(n * v) / seen for v in click_model.at(rows))
    return about | {"alpha": tuple(alpha.tolist()), "beta": tuple(beta.tolist())}
