"""From clicks to the weights that rankers learn from, for one log or for many at once.

Estimators that expect something of a document before its clicks need rankers that were
trained on other queries. Those of all jobs are trained first, together; then the clicks
of each job are weighed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from affinerank.clicks.models import ClickModel
from affinerank.counts.rows import ClickRows
from affinerank.data.dataset import RankingDataset
from affinerank.estimators import Fold, Weights
from affinerank.pipeline.steps.features import FeatureSource, prior_mapping
from affinerank.pipeline.steps.out_of_fold import RankerJob, train_out_of_fold
from affinerank.pipeline.steps.train_settings import TrainSettings
from affinerank.pipeline.steps.weighing import (
    labels_for,
    learns_of,
    validation_estimator,
    weigh,
)
from affinerank.rankers.trees.parameters import without_monotone
from affinerank.support.progress import Progress, no_progress
from affinerank.support.settings import EntrySpec


@dataclass(frozen=True, slots=True, eq=False)
class EstimatorJob:
    """Clicks that an estimator turns into weights.

    Attributes:
        rows: Clicks on the documents of the data.
        click_model: How users click, where it is known.
        estimator: A row of ``ESTIMATORS`` with its options.
        seed: Of the rankers that predict relevance out of fold.
    """

    rows: ClickRows
    click_model: ClickModel | None
    estimator: EntrySpec
    seed: int

    def on_validation_clicks(self, rows: ClickRows) -> EstimatorJob:
        """Return the job that weighs held-out clicks, which end the training."""
        return replace(self, rows=rows, estimator=validation_estimator(self.estimator))


def train_priors(
    jobs: Sequence[EstimatorJob],
    source: FeatureSource,
    settings: TrainSettings,
    *,
    seed: int,
    progress: Progress = no_progress,
) -> list[list[Fold]]:
    """Train what estimators ask of other queries; return the folds of each job.

    Args:
        jobs: Clicks on the same data; a job that asks for nothing gets no folds.
        source: The data.
        settings: Which ranker is trained afterwards: it decides which predict.
        seed: Splits the queries.
        progress: Called after each part of the queries.
    """
    logs = [
        RankerJob(job.rows, job.click_model, learns_of(job.estimator), job.seed)
        for job in jobs
    ]
    if not any(log.learns for log in logs):
        return [[] for _ in jobs]
    mapped_data = source.mapped(prior_mapping(source, settings))
    return train_out_of_fold(
        logs,
        mapped_data.features,
        mapped_data.offsets,
        rankers=settings.kind.prior,
        # Directions of single features are for the ranker that is served.
        settings={
            plan.ranker: without_monotone(plan.settings) for plan in settings.members
        },
        seed=seed,
        progress=progress,
    )


def weigh_job(
    job: EstimatorJob,
    data: RankingDataset,
    relevant_above: float,
    folds: Sequence[Fold] = (),
) -> Weights:
    """Turn the clicks of a job into weights, one for each document of the data."""
    labels = labels_for([job.estimator], data, relevant_above)
    weights = weigh(
        job.rows, job.estimator, job.click_model, labels=labels, folds=folds
    )
    # Hundreds of them may be held at once: leave out what training does not read. Only
    # whether there is a slope is read.
    slope = None if weights.slope is None else np.empty(0)
    return replace(weights, variance=np.empty(0), slope=slope, own_click_share=None)
