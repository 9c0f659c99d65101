"""Rivals of the field: methods of others, to compare with, as a plug-in of our own.

Importing this package adds their rows. Its entry point in the group ``affinerank.rows``
lets the tables find it, as they find the plug-ins of other packages. No room below
imports it.
"""

from affinerank.bias import METHODS
from affinerank.estimators import ESTIMATORS
from affinerank.rivals import cascade_ips, contextual, dual_learning, pairwise

ESTIMATORS.add(cascade_ips.ROW)

METHODS.add(dual_learning.ROW)
METHODS.add(pairwise.ROW)
METHODS.add(contextual.ROW)
