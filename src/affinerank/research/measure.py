"""Cells measured: clicks drawn, rankers trained by the steps of ``train``, and tested.

Many cells are trained at once. What one cell learns is what :func:`train` would learn
from its log alone: the functions are the same, given one job for each cell.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from affinerank.bias import METHODS, Estimate, EstimationSettings
from affinerank.bias.method import HeldOutLogs
from affinerank.bias.pooling import pool_ranks
from affinerank.clicks.models.trust import TrustModel
from affinerank.counts.rows import ClickRows
from affinerank.data.feature_mapping import FREQUENT, FeatureMapping
from affinerank.data.read_options import Split
from affinerank.estimators import Weights
from affinerank.evaluation.metrics import MetricValues, evaluate_scores
from affinerank.pipeline.steps.click_model import estimate_from_rows
from affinerank.pipeline.steps.features import prepare_members, readable_categories
from affinerank.pipeline.steps.train_members import (
    FittedMember,
    WeighedLists,
    fit_members,
    score_all,
)
from affinerank.pipeline.steps.train_settings import TrainSettings
from affinerank.pipeline.steps.training_lists import side_by_side
from affinerank.pipeline.steps.training_weights import (
    EstimatorJob,
    train_priors,
    weigh_job,
)
from affinerank.pipeline.steps.tuning import held_out_queries
from affinerank.rankers.networks import settings as mlp
from affinerank.research.cells import (
    PRODUCTION,
    TRUE,
    Cell,
    Measured,
    stacked,
    trained_jointly,
)
from affinerank.research.worlds import World
from affinerank.support.arrays import Matrix
from affinerank.support.errors import AffineRankWarning, ConfigError
from affinerank.support.progress import Progress, no_progress
from affinerank.support.settings import EntrySpec
from affinerank.support.threads import in_parallel


def measure(
    world: World,
    cells: Sequence[Cell],
    settings: TrainSettings,
    *,
    early_stopping: bool = False,
    progress: Progress = no_progress,
) -> list[Measured]:
    """Train the rankers of cells at once, and test them.

    Args:
        world: Their data set.
        cells: What to measure: cells of one ranker, for which
            :func:`trained_jointly` is the same, and production rankers.
        settings: How the ranker is trained; estimators and seeds are of the cells.
        early_stopping: Also test each ranker as held-out clicks liked it best.
        progress: Called as training advances.
    """
    world.rank({cell.run for cell in cells}, held_out=early_stopping)
    measured: dict[Cell, Measured] = {}
    trained = [cell for cell in cells if cell.estimator != PRODUCTION]
    if trained:
        training = CellTraining.of(world, settings, early_stopping, progress)
        # Few clicks leave poor estimates, and how poor is what is measured.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AffineRankWarning)
            measured = training.train_and_test(trained)
    for cell in cells:
        if cell.estimator == PRODUCTION:
            value = world.production(cell.run).value
            measured[cell] = measured_value(world, cell, value)
    return [measured[cell] for cell in cells]


def measured_value(
    world: World, cell: Cell, value: MetricValues, **about: Any
) -> Measured:
    """Return what came of a cell, with what there is to note about it."""
    return Measured(
        ndcg=value.mean,
        per_query=tuple(value.values.tolist()),
        queries=world.part("train").data.n_queries,
        digest=world.production(cell.run).digest,
        **about,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """The clicks of a cell.

    Attributes:
        cell: Which.
        rows: Clicks to learn from.
        held_rows: Held-out clicks on validation queries, for early stopping.
        click_model: How users click: true, or estimated; ``None`` until then.
    """

    cell: Cell
    rows: ClickRows
    held_rows: ClickRows
    click_model: Any


@dataclass(frozen=True, slots=True, eq=False)
class CellTraining:
    """Trains the rankers of cells, and tests them.

    Attributes:
        world: The data set of the cells.
        settings: How the ranker is trained, on this data set.
        early_stopping: Whether held-out clicks choose an epoch.
        progress: Called as training advances.
    """

    world: World
    settings: TrainSettings
    early_stopping: bool = False
    progress: Progress = no_progress

    @classmethod
    def of(
        cls,
        world: World,
        settings: TrainSettings,
        early_stopping: bool = False,
        progress: Progress = no_progress,
    ) -> CellTraining:
        """Adapt settings to the data set: its relevant labels, its categories."""
        if early_stopping and settings.kind.members is not None:
            raise ConfigError(
                "a blend cannot be stopped early; leave early_stopping out"
            )
        categories = readable_categories(
            settings.ranker, world.part("train").data, settings.categories
        )
        adapted = replace(
            settings, categories=categories, relevant_above=world.data.relevant_above
        )
        return cls(world, adapted, early_stopping, progress)

    def train_and_test(self, cells: Sequence[Cell]) -> dict[Cell, Measured]:
        """Train the rankers of cells by the steps of ``train``, and test them."""
        # Features as each member of the ranker reads them.
        train = self.world.part("train")
        members = prepare_members(train, self.settings)

        # Clicks, and how users click: as simulated, or estimated from their clicks.
        drawn = self.draw_all(cells)
        (joint,) = {trained_jointly(cell) for cell in cells}
        if joint:  # the method that estimates also trains the ranker
            drawn, fitted = self.estimate_and_fit(drawn)
            return self.test(drawn, fitted)
        drawn = self.with_click_models(drawn)

        # Weights of documents, by each cell's estimator.
        learnt = self.weigh(drawn)
        validation = self.weigh_validation(drawn) if self.early_stopping else None
        is_held_out = None
        if self.settings.is_tuned and self.settings.kind.patience:
            is_held_out = held_out_queries(learnt.shares, self.world.seed)

        # The members of all rankers, on these weights.
        with self.world.turn():
            fitted = fit_members(
                members,
                learnt,
                self.settings,
                seeds=[self.seed_of(one.cell) for one in drawn],
                is_held_out=is_held_out,
                validation=validation,
                progress=self.progress,
            )
        return self.test(drawn, fitted)

    def seed_of(self, cell: Cell) -> int:
        """Return the seed of a cell's run."""
        return self.world.seed + cell.run

    def draw_all(self, cells: Sequence[Cell]) -> list[Drawn]:
        """Draw the clicks of cells, each log once; in the order of the cells."""
        logs: dict[object, list[Cell]] = {}
        for cell in cells:
            logs.setdefault(cell.log, []).append(cell)
        if any(cell.click_model_from not in (None, TRUE) for cell in cells):
            self.filled_features("train")  # mapped before threads need it
        parts = in_parallel(self.draw, logs.values())
        drawn = {one.cell: one for part in parts for one in part}
        return [drawn[cell] for cell in cells]

    def draw(self, cells: Sequence[Cell]) -> list[Drawn]:
        """Draw the clicks of cells of one log, and estimate click models from it.

        Those that are estimated from several logs at once are found later.
        """
        rows, true_model = self.world.draw(cells[0])
        held_rows = rows
        if self.early_stopping:
            held_rows, _ = self.world.draw(cells[0], held_out=True)
        click_models = {None: true_model, TRUE: true_model}
        for cell in cells:
            if cell.click_model_from in click_models or stacked(cell):
                continue
            settings = self.estimation_settings(cell)
            # Of few clicks fewer make a pool: an estimate that is poor is measured.
            min_clicks = settings.min_clicks
            while min_clicks >= 1 and pool_ranks(rows, min_clicks).n_pools == 1:
                min_clicks /= 2
            estimate = estimate_from_rows(
                rows,
                self.filled_features("train"),
                self.world.part("train").data,
                settings=replace(settings, min_clicks=min_clicks),
            )
            click_models[cell.click_model_from] = estimate.click_model
        return [
            Drawn(cell, rows, held_rows, click_models.get(cell.click_model_from))
            for cell in cells
        ]

    def filled_mapping(self) -> FeatureMapping:
        """Return the mapping for methods that estimate click models."""
        return self.world.part("train").fit_mapping(impute=True, one_hot=FREQUENT)

    def filled_features(self, split: Split) -> Matrix:
        """Return features as methods that estimate click models read them."""
        return self.world.part(split).mapped(self.filled_mapping()).features

    def with_click_models(self, drawn: Sequence[Drawn]) -> list[Drawn]:
        """Estimate by methods that rank too, each from all its logs at once."""
        # Logs that a method is asked for, once each.
        logs_of_method: dict[str | None, dict[object, Drawn]] = {}
        for one in drawn:
            if stacked(one.cell):
                logs = logs_of_method.setdefault(one.cell.click_model_from, {})
                logs.setdefault(one.cell.log, one)

        estimated: dict[Any, Any] = {}
        for method, logs in logs_of_method.items():
            estimates = replace(self, progress=no_progress).estimate(
                list(logs.values())
            )
            for log, estimate in zip(logs, estimates, strict=True):
                estimated[log, method] = estimate.click_model
        return [
            replace(
                one,
                click_model=estimated.get(
                    (one.cell.log, one.cell.click_model_from), one.click_model
                ),
            )
            for one in drawn
        ]

    def estimate_and_fit(
        self, drawn: Sequence[Drawn]
    ) -> tuple[list[Drawn], list[FittedMember]]:
        """Estimate click models and train rankers in one."""
        held_out = None
        if self.early_stopping:

            def targets(one: Drawn, click_model: Any) -> Any:
                weights = self.validation_weights(replace(one, click_model=click_model))
                return side_by_side([weights])

            held_out = HeldOutLogs(
                self.filled_features("validation"),
                self.world.part("validation").data.offsets,
                [partial(targets, one) for one in drawn],
            )
        estimates = self.estimate(drawn, train_on=True, held_out=held_out)
        known = [
            replace(one, click_model=estimate.click_model)
            for one, estimate in zip(drawn, estimates, strict=True)
        ]
        fitted = [one.ranker for one in estimates if one.ranker is not None]
        [plan] = self.settings.members
        units = [1.0] * len(fitted)
        return known, [FittedMember(plan, self.filled_mapping(), fitted, units)]

    def estimate(self, drawn: Sequence[Drawn], **options: Any) -> list[Estimate]:
        """Estimate from the logs of cells at once, by their method, which ranks too."""
        settings = [self.estimation_settings(one.cell) for one in drawn]
        fit_many: Any = METHODS[settings[0].method].fit_many
        with self.world.turn():
            estimates: list[Estimate] = fit_many(
                [one.rows for one in drawn],
                self.filled_features("train"),
                settings,
                self.progress,
                **options,
            )
        return estimates

    def estimation_settings(self, cell: Cell) -> EstimationSettings:
        """Return how the click model of a cell is estimated."""
        spec = EntrySpec.parse(cell.click_model_from or "")
        settings = spec.settings(
            EstimationSettings,
            method=spec.name,
            seed=self.seed_of(cell),
            replicates=0,
        )
        network: Any = None
        if isinstance(self.settings.settings_of_ranker, mlp.ROW.settings):
            network = self.settings.settings_of_ranker
        return replace(settings, network=network)

    def job(self, one: Drawn) -> EstimatorJob:
        """Return what the estimator of a cell is to weigh."""
        return EstimatorJob(
            one.rows,
            one.click_model,
            EntrySpec.parse(one.cell.estimator),
            self.seed_of(one.cell),
        )

    def weigh(self, drawn: Sequence[Drawn]) -> WeighedLists:
        """Weigh the clicks of each cell, with rankers of other queries where asked."""
        train = self.world.part("train")
        jobs = [self.job(one) for one in drawn]
        folds = train_priors(jobs, train, self.settings, seed=self.world.seed)
        weights = in_parallel(
            lambda job, job_folds: weigh_job(
                job, train.data, self.settings.relevant_above, job_folds
            ),
            jobs,
            folds,
        )
        return WeighedLists(train, weights)

    def weigh_validation(self, drawn: Sequence[Drawn]) -> WeighedLists:
        """Weigh the held-out clicks of each cell, which end the training."""
        weights = [self.validation_weights(one) for one in drawn]
        return WeighedLists(self.world.part("validation"), weights)

    def validation_weights(self, one: Drawn) -> Weights:
        """Weigh held-out clicks as those of the training, but without a clip."""
        return weigh_job(
            self.job(one).on_validation_clicks(one.held_rows),
            self.world.part("validation").data,
            self.settings.relevant_above,
        )

    def test(
        self, drawn: Sequence[Drawn], members: Sequence[FittedMember]
    ) -> dict[Cell, Measured]:
        """Test the rankers; with early stopping, also those of the last epoch."""
        values = self.test_values(members)
        last_values = values
        if self.early_stopping:
            last_values = self.test_values(
                [member.after_the_last_epoch() for member in members]
            )
        measured = {}
        for i, one in enumerate(drawn):
            about = about_clicks(one)
            if self.early_stopping:
                about["held_out_ndcg"] = values[i].mean
                about["held_out_epoch"] = members[0].fitted[i].best_length
            measured[one.cell] = measured_value(
                self.world, one.cell, last_values[i], **about
            )
        return measured

    def test_values(self, members: Sequence[FittedMember]) -> list[MetricValues]:
        """Return nDCG@10 of each ranker on the test split."""
        test = self.world.part("test")
        above = self.settings.relevant_above
        scores = score_all(members, test)
        return in_parallel(
            lambda row: evaluate_scores(row, test.data, above), list(scores)
        )


def about_clicks(one: Drawn) -> dict[str, Any]:
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
