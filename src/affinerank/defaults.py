"""What is chosen where nobody says: names of rows, in one place."""

from __future__ import annotations

ESTIMATOR = "affine"
BASELINE = "naive"  # what other estimators are compared with
CLICK_MODEL = "trust"
POLICY = "fixed"
RANKER = "mlp"
TREES = "lightgbm"  # what a production ranker is made of
LOSS = "lambda"
METHOD = "mixture"
METHOD_FROM_SWAPS = "interventions"  # where documents were shown at several ranks
EM = "soft-min-max"
CLIP = "10/sqrt(n)"
RELEVANT_ABOVE = 2.0
