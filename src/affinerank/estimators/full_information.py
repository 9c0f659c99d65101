"""Full information: learn from the labels, which is the best that clicks could do."""

from __future__ import annotations

import numpy as np

from affinerank.estimators.estimator import Estimator, Evidence, Weights
from affinerank.support.errors import DataError


def weigh(evidence: Evidence) -> Weights:
    """Take labels for what they are; every query counts the same."""
    labels, n_queries = evidence.labels, evidence.rows.n_queries
    if labels is None:
        raise DataError("these data carry no labels, and this estimator learns by them")
    known = np.ones(len(labels), dtype=bool)
    share = np.full(n_queries, 1.0 / n_queries)
    return Weights(labels, known, share, np.zeros(len(labels)))


ROW = Estimator("full-information", "Full information", "labels", weigh)
