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
from affinerank.defaults import NO_TUNING, RELEVANT_ABOVE, TUNING
from affinerank.estimators import Fold, Weights, affine
from affinerank.evaluation.metrics import MetricValues, evaluate_scores
from affinerank.pipeline.click_model import estimate_from_rows
from affinerank.pipeline.features import FeatureSource, prepare_members
from affinerank.pipeline.out_of_fold import RankerJob, train_out_of_fold
from affinerank.pipeline.production import train_production_ranker
from affinerank.pipeline.simulate import click_model_of
from affinerank.pipeline.train_members import (
    WeighedLists,
    assemble,
    fit_members,
)
from affinerank.pipeline.train_settings import TrainSettings
from affinerank.pipeline.training_lists import TrainingLists, fit_all, side_by_side
from affinerank.pipeline.tuning import held_out_queries, require_tuning, tune_then_train
from affinerank.pipeline.weighing import (
    labels_for,
    learns_of,
    validation_estimator,
    weigh,
)
from affinerank.rankers import RANKERS
from affinerank.rankers.networks import settings as mlp
from affinerank.rankers.ranker import Fitted, Model, Ranker, predict_all, score
from affinerank.rankers.trees.parameters import for_features
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
class Part:
    """A split of the data: as it was read, and as rankers read it."""

    raw: RankingDataset
    mapping: FeatureMapping
    features: Matrix


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """Clicks of a cell: to learn from, held out, and the users who clicked."""

    cell: Cell
    rows: ClickRows
    held: ClickRows
    click_model: Any


@dataclass(frozen=True, slots=True, eq=False)
class Training:
    """How rankers are trained; see :meth:`World.measure`."""

    settings: Any
    early: bool = False
    chosen: bool = False
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
        self._parts: dict[Split, Part] = {}
        self._production: dict[int, Production] = {}

    def part(self, split: Split) -> Part:
        """Return a split, read at first use."""
        if split not in self._parts:
            source = DataSource.parse(self.data.source, fold=self.fold)
            dealt = self.data.folds > 1 and not source.splits
            if not dealt and split not in source.splits:
                has = ", ".join(source.splits) or "none"
                raise DataError(
                    f"{source.name}: an experiment needs the split {split}, and the "
                    f"splits there are {has}"
                )
            raw = self._dealt(source, split) if dealt else source.read(split)
            if split == "train":
                mapping = FeatureMapping.fit(raw, one_hot=FREQUENT)
            else:
                mapping = self.part("train").mapping
            self._parts[split] = Part(raw, mapping, mapping.apply(raw).features)
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
        train, above = self.part("train").raw, self.data.relevant_above
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
        data = self.part(split).raw
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
        settings: Any,
        *,
        early_stopping: bool = False,
        tuning: str = NO_TUNING,
        progress: Progress = no_progress,
    ) -> list[Measured]:
        """Train rankers at once, and judge them.

        Args:
            cells: What to measure: cells of one ranker, for which
                :func:`trained_jointly` is the same, and production rankers.
            settings: Shape and training: an instance of the row's ``settings``.
            early_stopping: Also judge each ranker as held-out clicks liked it best.
            tuning: ``paper``: as the settings say; ``chosen``: learning rate and length
                by held-out queries.
            progress: Called as training advances.
        """
        trained = [cell for cell in cells if cell.estimator != PRODUCTION]
        (joint,) = {trained_jointly(cell) for cell in trained} or {False}
        fit = self._fit_jointly if joint else self._fit_apart
        blends = any(RANKERS[_ranker_of(cell)].members for cell in trained)
        if blends and early_stopping:
            raise ConfigError(
                "a blend cannot be stopped early; leave early_stopping out"
            )
        self.rank({cell.run for cell in cells}, held_out=early_stopping)
        found: dict[Cell, Measured] = {}
        # Few clicks leave poor estimates, and how poor is what is measured.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AffineRankWarning)
            if trained:
                own = for_features(settings, self.part("train").mapping.names)
                how = Training(own, early_stopping, require_tuning(tuning), progress)
                logs: dict[object, list[Cell]] = {}
                for cell in trained:
                    logs.setdefault(cell.log, []).append(cell)
                parts = in_parallel(lambda own: self._drawn(own, how), logs.values())
                drawn = {one.cell: one for part in parts for one in part}
                every = [drawn[cell] for cell in trained]
                if blends:
                    found = self._blends(every, how)
                else:
                    found = self._judged_all(*fit(every, how), how)
        return [
            found.get(cell) or self._measured(cell, self.production(cell.run).value)
            for cell in cells
        ]

    def _drawn(self, cells: Sequence[Cell], how: Training) -> list[Drawn]:
        """Draw one log; users estimated from several logs at once are found later."""
        rows, true = self.draw(cells[0])
        held = self.draw(cells[0], held_out=True)[0] if how.early else rows
        train, click_models = self.part("train"), {None: true, TRUE: true}
        for cell in cells:
            if cell.click_model_from in click_models or stacked(cell):
                continue
            asked = self._estimation(cell, how)
            # Of few clicks fewer make a pool: an estimate that is poor is measured.
            least = asked.min_clicks
            while least >= 1 and pool_ranks(rows, least).n_pools == 1:
                least /= 2
            asked = replace(asked, min_clicks=least)
            given = rows, train.features, train.raw
            estimate = estimate_from_rows(*given, settings=asked)
            click_models[cell.click_model_from] = estimate.click_model
        return [
            Drawn(cell, rows, held, click_models.get(cell.click_model_from))
            for cell in cells
        ]

    def _fit_jointly(
        self, drawn: Sequence[Drawn], how: Training
    ) -> tuple[list[Drawn], list[Fitted]]:
        """Estimate users and train rankers in one."""
        part, held_out = self.part("validation") if how.early else None, None

        def targets(one: Drawn, click_model: Any) -> Any:
            found = self._weigh(replace(one, click_model=click_model), "validation")
            return side_by_side([found])

        if part is not None:
            evaluators = [partial(targets, one) for one in drawn]
            held_out = HeldOutLogs(part.features, part.raw.offsets, evaluators)
        found = self._estimated(drawn, how, train_on=True, held_out=held_out)
        pairs = zip(drawn, found, strict=True)
        known = [replace(one, click_model=own.click_model) for one, own in pairs]
        return known, [one.ranker for one in found if one.ranker is not None]

    def _fit_apart(
        self, drawn: Sequence[Drawn], how: Training
    ) -> tuple[list[Drawn], list[Fitted]]:
        """Weigh the clicks of each cell, and train rankers on the weights."""
        known = self._with_click_models(drawn, how)
        lists = self._lists("train", self._weighed(known, how.settings))
        name = _ranker_of(drawn[0].cell)
        seeds = [self.seed + one.cell.run for one in drawn]
        given: dict[str, Any] = {"seeds": seeds, "settings": how.settings}
        if how.chosen:
            held = held_out_queries(lists.targets.share, self.seed)
            fitted = tune_then_train(name, lists, held, **given)
            return known, [replace(one, model=one.kept) for one in fitted]
        if how.early:
            by = [self._weigh(one, "validation") for one in known]
            given["held_out"] = self._lists("validation", by)
        with self.turn():
            return known, fit_all(name, lists, progress=how.progress, **given)

    def _blends(self, drawn: Sequence[Drawn], how: Training) -> dict[Cell, Measured]:
        """Train the members of a blend on the weights of each cell, and judge it."""
        known = self._with_click_models(drawn, how)
        name = _ranker_of(drawn[0].cell)
        tuning = TUNING if how.chosen else NO_TUNING
        settings = TrainSettings(name, how.settings, tuning=tuning)
        source = FeatureSource(self.part("train").raw)
        learnt = WeighedLists(source, self._weighed(known, how.settings))
        held = held_out_queries(learnt.shares, self.seed) if how.chosen else None
        with self.turn():
            members = fit_members(
                prepare_members(source, settings),
                learnt,
                settings,
                seeds=[self.seed + one.cell.run for one in drawn],
                is_held_out=held,
                progress=how.progress,
            )
        test, above = self.part("test").raw, self.data.relevant_above
        found = {}
        for i, one in enumerate(known):
            blend = assemble(name, members, i, {}, ())
            value = evaluate_scores(score(blend, test), test, above)
            found[one.cell] = self._measured(one.cell, value, **_about(one))
        return found

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
        logs = [one.rows for one in drawn], self.part("train").features
        asked = [self._estimation(one.cell, how) for one in drawn]
        fit_many: Any = METHODS[asked[0].method].fit_many
        with self.turn():
            found: list[Estimate] = fit_many(*logs, asked, how.progress, **more)
        return found

    def _estimation(self, cell: Cell, how: Training) -> EstimationSettings:
        spec = EntrySpec.parse(cell.click_model_from or "")
        own = {"method": spec.name, "seed": self.seed + cell.run, "replicates": 0}
        network: Any = None
        if isinstance(how.settings, mlp.ROW.settings):
            network = how.settings
        return replace(spec.settings(EstimationSettings, **own), network=network)

    def _judged_all(
        self, drawn: Sequence[Drawn], fitted: Sequence[Fitted], how: Training
    ) -> dict[Cell, Measured]:
        """Judge rankers after the last epoch, and after the chosen one."""
        last = self._evaluated([one.model for one in fitted])
        kept = self._evaluated([one.kept for one in fitted]) if how.early else last
        found = {}
        for i, one in enumerate(drawn):
            about = _about(one)
            if how.early:
                about["held_out_ndcg"] = kept[i].mean
                about["held_out_epoch"] = fitted[i].best_length
            found[one.cell] = self._measured(one.cell, last[i], **about)
        return found

    def _measured(self, cell: Cell, value: MetricValues, **more: Any) -> Measured:
        values, queries = tuple(value.values.tolist()), self.part("train").raw.n_queries
        digest = self.production(cell.run).digest
        return Measured(value.mean, values, queries, digest, **more)

    def _evaluated(self, models: Sequence[Model]) -> list[MetricValues]:
        """nDCG@10 of each model on the test split."""
        test, above = self.part("test"), self.data.relevant_above
        scores = predict_all(models, test.features)
        return in_parallel(
            lambda row: evaluate_scores(row, test.raw, above), list(scores)
        )

    def _weighed(self, drawn: Sequence[Drawn], settings: Any) -> list[Weights]:
        """Weigh the clicks of each cell, with rankers of other queries where asked."""
        train, logs = self.part("train"), []
        name = _ranker_of(drawn[0].cell)
        plans = TrainSettings(name, settings).members
        for one in drawn:
            learns, seed = learns_of(one.cell.estimator), self.seed + one.cell.run
            logs.append(RankerJob(one.rows, one.click_model, learns, seed))
        folds = train_out_of_fold(
            logs,
            train.features,
            train.raw.offsets,
            rankers=RANKERS[name].prior,
            settings={plan.ranker: plan.settings for plan in plans},
            seed=self.seed,
        )
        pairs = zip(drawn, folds, strict=True)
        return in_parallel(lambda pair: self._weigh(pair[0], "train", pair[1]), pairs)

    def _weigh(self, one: Drawn, split: Split, folds: Sequence[Fold] = ()) -> Weights:
        spec, rows = EntrySpec.parse(one.cell.estimator), one.rows
        if split == "validation":
            spec, rows = validation_estimator(spec), one.held
        labels = labels_for([spec], self.part(split).raw, self.data.relevant_above)
        weights = weigh(rows, spec, one.click_model, labels=labels, folds=folds)
        # Hundreds of them are held at once: leave out what training does not read.
        slope = None if weights.slope is None else np.empty(0)
        return replace(weights, variance=np.empty(0), slope=slope, own_click_share=None)

    def _lists(self, split: Split, weights: Sequence[Weights]) -> TrainingLists:
        part = self.part(split)
        return TrainingLists.of(part.features, part.raw.offsets, weights)

    def _ranked(self, ranker: Ranker, splits: Iterable[Split]) -> Production:
        train, test = self.part("train").raw, self.part("test").raw
        raw = {split: self.part(split).raw for split in splits}
        scores = {s: score(ranker, r) for s, r in raw.items()}
        ranks = {s: ranks_by_score(scores[s], r.offsets) for s, r in raw.items()}
        digest = hashlib.blake2b(digest_size=16)
        for array in (train.known_labels(), ranks["train"]):
            digest.update(np.ascontiguousarray(array).data)
        value = evaluate_scores(score(ranker, test), test, self.data.relevant_above)
        return Production(ranks, scores, value, digest.hexdigest())


def _ranker_of(cell: Cell) -> str:
    """The row of ``RANKERS`` of a cell that trains one."""
    return EntrySpec.parse(cell.ranker or "").name


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
