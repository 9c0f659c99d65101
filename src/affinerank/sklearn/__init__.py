"""AffineRanker: the path from clicks to a ranker, by scikit-learn's conventions."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields
from numbers import Integral
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from affinerank.support.errors import ConfigError, warn
from affinerank.support.files import PathLike

try:
    from sklearn.base import BaseEstimator
    from sklearn.utils.metadata_routing import UNUSED
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError:
    raise ConfigError(
        "AffineRanker needs scikit-learn 1.6 or newer: "
        "pip install 'affinerank[sklearn]'"
    ) from None

from affinerank.clicks.models import ClickModel
from affinerank.clicks.models.files import load_click_model
from affinerank.counts.counts import ClickCounts
from affinerank.data.dataset import RankingDataset
from affinerank.defaults import ESTIMATOR, RANKER, TUNING
from affinerank.estimators import ESTIMATORS
from affinerank.pipeline.evaluate_clicks import gain_over_logged
from affinerank.pipeline.steps.train_settings import TrainSettings
from affinerank.pipeline.train import train
from affinerank.rankers import RANKERS
from affinerank.rankers.ranker import score
from affinerank.sklearn.rows import numbered, read_rows
from affinerank.support.arrays import Floats
from affinerank.support.settings import from_table

# How X is read: as rankers take features, NaN for what is missing.
MATRIX = {"dtype": np.float32, "ensure_all_finite": "allow-nan"}
ROUTED = {"qid": True, "position": True, "impressions": True, "doc": True}


class AffineRanker(BaseEstimator):  # type: ignore[misc]
    """A ranker learnt from clicks that are biased by rank.

    A row of ``X`` holds the features of a document that was shown for a query. Each row
    is either one impression, with clicks 0 or 1, or the counts of the document at one
    rank: ``impressions``, and ``clicks`` among them. Rows come in any order; the model
    does not depend on it.

    **Documents.** What was shown at several ranks is one document on several rows.
    ``doc`` names it; its features must then be the same on all rows of the query.
    Without ``doc``, rows of one query with equal features are one document: a ranker
    could not tell them apart.

    **Lists.** Most rankers scale features within their query, the default among them,
    so a score is one *in a list*.
    ``predict`` takes its rows for the candidates of one query unless ``qid`` tells
    several queries apart.

    **Routing.** ``fit`` and ``score`` request all their columns, ``predict`` requests
    ``qid``: after ``sklearn.set_config(enable_metadata_routing=True)``, searches and
    pipelines hand them on.

    Args:
        estimator: A row of ``ESTIMATORS``.
        ranker: A row of ``RANKERS``.
        click_model: How users click: a click model or the file of one. ``None``
            estimates it in ``fit``, from the same clicks, where the estimator needs it.
        clip: Lower bound of alpha: a number, or a rule as in ``"10/sqrt(n)"``.
        tuning: ``held-out``: learning rate and length by held-out queries, then trained
            on all; ``none``: as the settings say.
        scaling: Of features: ``list``, within the query; ``data``; ``none``; left out,
            that of the ranker's row.
        learning_rate: Of the ranker; chosen, or its own default, where left out.
        settings: Further settings of the ranker by name, as in ``{"epochs": 12}``.
        random_state: A whole number; it draws everything that is random.

    Attributes:
        ranker_: The trained ranker.
        click_model_: The click model that was given or estimated, or ``None``.
        longest_list_: Documents of the longest list learnt from.
        n_features_in_: Number of features.
        feature_names_in_: Names of the features, where ``X`` had some.
    """

    # What is not X or y by name counts as a routed column, so clicks are left out.
    __metadata_request__fit = {"clicks": UNUSED, **ROUTED}  # noqa: RUF012
    # Pipeline.score names a sample_weight, even where it has none to hand on.
    __metadata_request__score = {  # noqa: RUF012
        "clicks": UNUSED,
        "sample_weight": None,
        **ROUTED,
    }
    __metadata_request__predict = {"qid": True}  # noqa: RUF012

    def __init__(
        self,
        estimator: str = ESTIMATOR,
        ranker: str = RANKER,
        *,
        click_model: ClickModel | PathLike | None = None,
        clip: str | float | None = None,
        tuning: str = TUNING,
        scaling: str | None = None,
        learning_rate: float | None = None,
        settings: Mapping[str, Any] | None = None,
        random_state: int = 0,
    ) -> None:
        self.estimator = estimator
        self.ranker = ranker
        self.click_model = click_model
        self.clip = clip
        self.tuning = tuning
        self.scaling = scaling
        self.learning_rate = learning_rate
        self.settings = settings
        self.random_state = random_state

    def fit(
        self,
        X: Any,
        clicks: ArrayLike,
        *,
        qid: ArrayLike,
        position: ArrayLike,
        impressions: ArrayLike | None = None,
        doc: ArrayLike | None = None,
    ) -> Self:
        """Learn to rank from clicks.

        Args:
            X: ``[n_rows, n_features]``: numpy, pandas, polars or Arrow.
            clicks: ``[n_rows]`` clicks of each row.
            qid: ``[n_rows]`` query of each row: strings or whole numbers.
            position: ``[n_rows]`` rank it was shown at, from 1.
            impressions: ``[n_rows]`` how often it was shown there, once each where left
                out. The features of a document with 0 take part in the scaling of its
                query, its position means nothing.
            doc: ``[n_rows]`` document of each row, within its query; see the class.
        """
        settings, click_model = self._settings(), self.click_model
        rate = self.learning_rate or (self.settings or {}).get("learning_rate")
        columns = (qid, position, impressions, doc)
        data, counts = self._rows(X, clicks, *columns, ensure_min_samples=2)
        if isinstance(click_model, str | os.PathLike):
            click_model = load_click_model(click_model)
        trained = train(
            counts,
            data,
            click_model,
            TrainSettings(
                ranker=self.ranker,
                ranker_settings=settings,
                learning_rates=() if rate is None else (float(rate),),
                estimators=(self.estimator,),
                clip=self.clip,
                seeds=(int(self.random_state),),
                tuning=self.tuning,
                scaling=self.scaling,
            ),
        )
        self.click_model_ = trained.click_model
        (self.ranker_,) = trained.rankers.values()
        self.longest_list_ = int(data.docs_per_query.max())
        return self

    def predict(self, X: Any, *, qid: ArrayLike | None = None) -> Floats:
        """Score documents: ``[n_rows]``, higher is ranked earlier.

        Args:
            X: ``[n_rows, n_features]`` of all the documents that are ranked together.
            qid: ``[n_rows]`` query of each row; all of one query where left out.
        """
        check_is_fitted(self)
        features = validate_data(self, X, reset=False, **MATRIX)
        n = len(features)
        if qid is None and n > 2 * self.longest_list_:
            warn(
                f"{n:,} rows without qid are taken for one list, and the longest "
                f"learnt from had {self.longest_list_:,}; give qid to separate queries"
            )
        query_ids, query = numbered("qid", np.zeros(n, int) if qid is None else qid, n)
        order = np.argsort(query, kind="stable")
        names = self._feature_names()
        data = RankingDataset.from_groups(
            features[order], query[order], query_ids, feature_names=names
        )
        scores = np.empty(n)
        scores[order] = score(self.ranker_, data)
        return scores

    def score(
        self,
        X: Any,
        clicks: ArrayLike,
        *,
        qid: ArrayLike,
        position: ArrayLike,
        impressions: ArrayLike | None = None,
        doc: ArrayLike | None = None,
    ) -> float:
        """Judge the ranker by held-out clicks: DCG@10 gained over the logged ranking.

        Above 0 it is better than the ranking that was clicked on. The clicks are
        corrected for position and trust bias by ``click_model_``, whatever the
        estimator, so that estimators can be compared if all are given the same
        ``click_model``; the unit is clicks at an average rank. Documents that were
        never shown do not count. No interval: for that, see ``affinerank evaluate
        --counts``.

        For the arguments see :meth:`fit`. The queries should be others than those
        learnt from, as with ``GroupKFold``; there is a warning if they are not.
        """
        check_is_fitted(self)
        if self.click_model_ is None:
            raise ConfigError(
                "score needs users, which the naive estimator was fitted without"
            )
        columns = (qid, position, impressions, doc)
        data, counts = self._rows(X, clicks, *columns, reset=False)
        known = set(self.ranker_.training_queries)
        seen = sum(str(name) in known for name in data.query_ids)
        if seen:
            warn(
                f"{seen:,} of {data.n_queries:,} queries were learnt from, so the "
                "score is too high; hold queries out, as GroupKFold with groups=qid"
            )
        return gain_over_logged(self.ranker_, counts, data, self.click_model_)

    def save(self, path: PathLike) -> None:
        """Write the ranker into a new folder, for ``load_ranker`` and the shell."""
        check_is_fitted(self)
        self.ranker_.save(Path(path))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.allow_nan = True
        return tags

    def _settings(self) -> Any:
        """Read the settings of the ranker; reject parameters that make no sense."""
        ESTIMATORS[self.estimator]
        if not isinstance(self.random_state, Integral):
            raise ConfigError(
                f"random_state must be a whole number, got {self.random_state!r}"
            )
        given = dict(self.settings or {})
        if self.learning_rate is not None:
            given["learning_rate"] = self.learning_rate
        kind = RANKERS[self.ranker].settings
        if any(entry.name == "data_seed" for entry in fields(kind)):
            given.setdefault("data_seed", int(self.random_state))
        return from_table(kind, given, self.ranker)

    def _rows(
        self, X: Any, clicks: Any, *columns: Any, **how: Any
    ) -> tuple[RankingDataset, ClickCounts]:
        """Read rows of features and clicks, and the columns that go with them."""
        features, clicked = validate_data(self, X, clicks, **MATRIX, **how)
        return read_rows(features, self._feature_names(), clicked, *columns)

    def _feature_names(self) -> tuple[str, ...]:
        """Names of the features, or none, which has the data number them."""
        return tuple(map(str, getattr(self, "feature_names_in_", ())))
