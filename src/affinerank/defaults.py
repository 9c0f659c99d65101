"""What is chosen where nobody says: names of rows, in one place."""

from __future__ import annotations

ESTIMATOR = "posterior"
EVALUATOR = "posterior(prior=rank)"  # of clicks on queries without rankers of others
CORRECTION = "affine"  # unbiased: what rankings are evaluated by
TUNING = "held-out"  # learning rate and length by held-out queries
NO_TUNING = "none"
LABELS = "full-information"
BASELINE = "naive"  # what other estimators are compared with
CLICK_MODEL = "trust"
POLICY = "fixed"
RANKER = "blend"
NETWORK = "mlp"
TREES = "lightgbm"  # what a production ranker is made of
QUICK = "linear-model"  # what predicts relevance where no ranker is asked for
PRIOR = (TREES, QUICK)  # what predicts it for rankers of trees and linear ones
LOSS = "lambda"
METHOD = "mixture"
METHOD_FROM_SWAPS = "interventions"  # where documents were shown at several ranks
METHOD_FROM_CLICKED_LISTS = "listwise"  # where lists without a click are missing
EM = "soft-min-max"
CLIP = "10/sqrt(n)"
RELEVANT_ABOVE = 2.0
