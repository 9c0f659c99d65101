r"""Intervention-aware: corrects once, over all rankers (Oosterhuis, de Rijke, 2021).

.. math::

    w_d = \frac{S_d}{A_d}, \qquad
    S_d = C_d - \sum_k n_{dk} \beta_k, \qquad
    A_d = \sum_k n_{dk} \alpha_k

Expected clicks on a document of relevance g are
:math:`\sum_k n_{dk} (\alpha_k g + \beta_k)`, so it is unbiased. A rank where clicks say
little has little weight, which affine divides by a small alpha. Where the policy is
known, its probabilities times sessions take the place of impressions n.
"""

from __future__ import annotations

from affinerank.estimators import policy_aware
from affinerank.estimators.estimator import ClipOptions, Estimator

weigh = policy_aware.weigh  # here rows are added up over rankers

ROW = Estimator(
    "intervention-aware", "Intervention-aware", "relative", weigh, options=ClipOptions
)
