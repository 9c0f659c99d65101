"""AffineRanker: the path from clicks to a ranker, by scikit-learn's conventions."""

from __future__ import annotations

import os
import warnings
from numbers import Integral
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from affinerank.errors import AffineRankWarning, ConfigError

try:
    from sklearn.base import BaseEstimator
    from sklearn.utils.metadata_routing import UNUSED
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError:
    raise ConfigError(
        "AffineRanker needs scikit-learn 1.6 or newer: "
        "pip install 'affinerank[sklearn]'"
    ) from None

from affinerank.clicks.usermodel import UserModel
from affinerank.corrections import ESTIMATORS
from affinerank.data.dataset import RankingDataset
from affinerank.pipeline import (
    EstimationSettings,
    estimate_users,
    gain_over_logged,
    needs_users,
    score,
    train_rankers,
    train_trees,
)
from affinerank.rankers.gbdt import TreeSettings
from affinerank.rankers.mlp import NetworkSettings
from affinerank.sklearn_rows import Rows, numbered, read_rows

Floats = NDArray[np.float64]

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

    **Lists.** Features are scaled within their query, so a score is one *in a list*.
    ``predict`` takes its rows for the candidates of one query unless ``qid`` tells
    several queries apart.

    **Routing.** ``fit`` and ``score`` request all their columns, ``predict`` requests
    ``qid``: after ``sklearn.set_config(enable_metadata_routing=True)``, searches and
    pipelines hand them on.

    Args:
        estimator: Of ``ESTIMATORS``: ``affine``, ``bayes-ips``, ``ips`` or ``naive``.
        ranker: ``mlp``, a network, or ``lightgbm``, trees.
        users: How users click: a user model or the file of one. ``None`` estimates it
            in ``fit``, from the same clicks, for ``affine``; ``naive`` needs none.
        clip: Lower bound of alpha: a number, or a rule as in ``"10/sqrt(n)"``.
        learning_rate: 0.02 for networks and 0.05 for trees where left out.
        epochs: Of a network.
        hidden: Sizes of a network's hidden layers.
        loss: Of a network: ``lambda``, ``squared`` or ``softmax``.
        device: Of a network: ``auto``, ``cpu`` or ``cuda``.
        trees: Most trees.
        leaves: Most leaves of a tree.
        least_documents: Of a leaf.
        random_state: A whole number; it draws everything that is random.

    Attributes:
        ranker_: The trained ranker, an ``MLPRanker`` or a ``TreeRanker``.
        users_: The user model that was given or estimated; ``None`` if there was none.
        longest_list_: Documents of the longest list learnt from.
        n_features_in_: Number of features.
        feature_names_in_: Names of the features, where ``X`` had some.
    """

    # What is not X or y by name counts as a routed column, so clicks are left out.
    __metadata_request__fit = {"clicks": UNUSED, **ROUTED}  # noqa: RUF012
    __metadata_request__score = {"clicks": UNUSED, **ROUTED}  # noqa: RUF012
    __metadata_request__predict = {"qid": True}  # noqa: RUF012

    def __init__(
        self,
        estimator: str = "affine",
        ranker: str = "mlp",
        *,
        users: UserModel | str | os.PathLike[str] | None = None,
        clip: str | float | None = None,
        learning_rate: float | None = None,
        epochs: int = 32,
        hidden: tuple[int, ...] = (512, 256, 128),
        loss: str = "lambda",
        device: str = "auto",
        trees: int = 300,
        leaves: int = 31,
        least_documents: int = 20,
        random_state: int = 0,
    ) -> None:
        self.estimator = estimator
        self.ranker = ranker
        self.users = users
        self.clip = clip
        self.learning_rate = learning_rate
        self.epochs = epochs
        self.hidden = hidden
        self.loss = loss
        self.device = device
        self.trees = trees
        self.leaves = leaves
        self.least_documents = least_documents
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
        settings = self._settings()
        features, clicked = validate_data(
            self, X, clicks, ensure_min_samples=2, **MATRIX
        )
        rows = read_rows(
            features, clicked, qid, position, impressions, doc, self._feature_names()
        )
        self.users_ = self._known_users(rows)
        train: Any = train_trees if self.ranker == "lightgbm" else train_rankers
        trained = train(
            rows.counts,
            rows.data,
            self.users_,
            estimators=[self.estimator],
            seeds=[int(self.random_state)],
            settings=settings,
            clip=self.clip,
        )
        (self.ranker_,) = trained.rankers.values()
        self.longest_list_ = int(rows.data.docs_per_query.max())
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
            warnings.warn(
                f"{n:,} rows without qid are taken for one list, and the longest "
                f"learnt from had {self.longest_list_:,} documents; give qid if they "
                "are of several queries",
                AffineRankWarning,
                stacklevel=2,
            )
        query_ids, query = numbered("qid", np.zeros(n, int) if qid is None else qid, n)
        order = np.argsort(query, kind="stable")
        data = RankingDataset.from_groups(
            features[order],
            query[order],
            query_ids,
            feature_names=self._feature_names(),
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
        corrected for position and trust bias by ``users_``, whatever the estimator, so
        that estimators can be compared if all are given the same ``users``; the unit is
        clicks at an average rank. Documents that were never shown do not count. No
        interval: for that, see ``affinerank evaluate --counts``.

        For the arguments see :meth:`fit`. The queries should be others than those
        learnt from, as with ``GroupKFold``; there is a warning if they are not.
        """
        check_is_fitted(self)
        if self.users_ is None:
            raise ConfigError(
                "score corrects clicks by how users click, which the naive estimator "
                "was fitted without: give users"
            )
        features, clicked = validate_data(self, X, clicks, reset=False, **MATRIX)
        rows = read_rows(
            features, clicked, qid, position, impressions, doc, self._feature_names()
        )
        known = set(self.ranker_.provenance["queries"])
        seen = sum(str(name) in known for name in rows.data.query_ids)
        if seen:
            warnings.warn(
                f"{seen:,} of {rows.data.n_queries:,} queries were learnt from, so the "
                "score is too high; hold queries out, as GroupKFold with groups=qid",
                AffineRankWarning,
                stacklevel=2,
            )
        return gain_over_logged(self.ranker_, rows.counts, rows.data, self.users_)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the ranker into a new folder, for ``load_ranker`` and the shell."""
        check_is_fitted(self)
        self.ranker_.save(Path(path))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.allow_nan = True
        return tags

    def _settings(self) -> NetworkSettings | TreeSettings:
        """Shape and training of the ranker; refuses parameters that make no sense."""
        if self.estimator not in ESTIMATORS:
            known = ", ".join(ESTIMATORS)
            raise ConfigError(f"estimator must be {known}, got {self.estimator!r}")
        if self.users is None and self.estimator in ("ips", "bayes-ips"):
            raise ConfigError(
                f"{self.estimator} has to know examination: give users; estimated from "
                "clicks, they are known up to gauge, which is enough for affine only"
            )
        if not isinstance(self.random_state, Integral):
            raise ConfigError(
                f"random_state must be a whole number, got {self.random_state!r}"
            )
        rate: dict[str, Any] = {}
        if self.learning_rate is not None:
            rate["learning_rate"] = self.learning_rate
        if self.ranker == "mlp":
            return NetworkSettings(
                hidden=tuple(self.hidden),
                loss=self.loss,
                epochs=self.epochs,
                device=self.device,
                data_seed=int(self.random_state),
                **rate,
            )
        if self.ranker == "lightgbm":
            return TreeSettings(
                trees=self.trees,
                leaves=self.leaves,
                least_documents=self.least_documents,
                **rate,
            )
        raise ConfigError(f"ranker must be mlp or lightgbm, got {self.ranker!r}")

    def _known_users(self, rows: Rows) -> UserModel | None:
        """The user model given, or one estimated where the estimator needs it."""
        if isinstance(self.users, UserModel):
            return self.users
        if self.users is not None:
            return UserModel.load(self.users)
        if not needs_users([self.estimator]):
            return None
        asked = EstimationSettings(seed=int(self.random_state))
        return estimate_users(rows.counts, rows.data, settings=asked).users

    def _feature_names(self) -> tuple[str, ...]:
        """Names of the features, or none, which has the data number them."""
        return tuple(map(str, getattr(self, "feature_names_in_", ())))
