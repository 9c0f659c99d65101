r"""Regression EM: how users click and a ranker, estimated together from clicks.

Two steps take turns (the paper's section 5.3):

- click rates :math:`\zeta^+_k, \zeta^-_k` are updated from the posterior relevance of
  what was clicked and what was not (``updates``), with probabilities of relevance that
  the ranker's scores give (``activations``);
- the ranker trains on the affine correction with :math:`\alpha_k = \zeta^+_k -
  \zeta^-_k` and :math:`\beta_k = \zeta^-_k` (``stack``).

The second step minimises a ranking loss, not the likelihood, so the likelihood may
fall: the estimation ends when the parameters rest (``estimate``).
Where it ends depends on the activation, because clicks alone do not fix the scale of
relevance.
"""
