"""Rivals of the field: methods of others, to compare with, as a plug-in of our own.

Importing this package adds their rows. Its entry point in the group ``affinerank.rows``
lets the tables find it, as they find the plug-ins of other packages. No room below
imports it.
"""

from affinerank.bias import METHODS
from affinerank.estimators import ESTIMATORS
from affinerank.rankers import RANKERS
from affinerank.rankers.networks.losses import LOSSES
from affinerank.rivals import (
    cascade_ips,
    contextual,
    dual_learning,
    heckman,
    pairwise,
    rank_losses,
    two_tower,
    xgboost,
)

ESTIMATORS.add(cascade_ips.ROW)

METHODS.add(dual_learning.ROW)
METHODS.add(pairwise.ROW)
METHODS.add(contextual.ROW)

RANKERS.add(xgboost.ROW)
RANKERS.add(two_tower.ROW)
RANKERS.add(heckman.ROW)

LOSSES.add(rank_losses.SVM_RANK)
LOSSES.add(rank_losses.DCG_BOUND)
