r"""Clicks explained by a network: the likelihood of counts, through the affine link.

.. math::

    -\sum_k c_k \log p_k + (n_k - c_k) \log(1 - p_k), \qquad
    p_k = \alpha_k \, \mathrm{sigmoid}(s) + \beta_k

for a document of score s, clicked c times in n impressions at rank k. It never divides
by alpha and knows no negative weights.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from affinerank.rankers.lists import Lists
from affinerank.rankers.targets import ClickTargets

LEAST_RATE = 1e-6
NEWTON_STEPS = 30


@dataclass(frozen=True, slots=True, eq=False)
class ClickBatch:
    """Clicks on some lists, on the device.

    Attributes:
        values: ``[4, n_networks, n_docs, slots]`` impressions, clicks, alpha and beta.
        scale: ``[n_networks]`` what the loss is multiplied by.
        lists: Where each list's documents lie.
    """

    values: Tensor
    scale: Tensor
    lists: Lists

    @classmethod
    def of(cls, targets: ClickTargets, lists: Lists) -> ClickBatch:
        """Move clicks to the device of the lists; the scale is 1."""
        arrays = [getattr(targets, field.name) for field in fields(targets)]
        values = torch.from_numpy(np.stack(arrays)).to(lists.offsets.device)
        return cls(values, torch.ones_like(values[0, :, 0, 0]), lists)

    def scaled(self, start: Tensor) -> ClickBatch:
        """Scale the loss so that a document's slope at score ``start [n]`` is about 1.

        In root mean square over documents that were shown: then steps do not depend
        on the number of clicks.
        """
        impressions = self.values[0]
        scores = start[:, None].expand(impressions.shape[:2]).clone().requires_grad_()
        (slope,) = torch.autograd.grad(click_loss(scores, self).sum(), scores)
        shown = (impressions.sum(dim=2) > 0).sum(dim=1).clamp(min=1)
        size = (slope.square().sum(dim=1) / shown).sqrt()
        return replace(self, scale=1.0 / size.clamp(min=1e-12))

    def at(self, rows: Tensor, lists: Lists) -> ClickBatch:
        """Select the documents ``rows``; those beyond ``lists`` were never shown."""
        values = self.values[:, :, rows]
        values[:2] *= lists.inside(len(rows))[:, None]
        return ClickBatch(values, self.scale, lists)

    def part(self, networks: slice) -> ClickBatch:
        """Select networks."""
        return ClickBatch(self.values[:, networks], self.scale[networks], self.lists)


def click_loss(scores: Tensor, batch: ClickBatch) -> Tensor:
    """Return the negative log-likelihood of each network, times its scale, ``[n]``."""
    impressions, clicks, alpha, beta = batch.values
    relevance = torch.sigmoid(scores)[..., None]
    rate = (alpha * relevance + beta).clamp(LEAST_RATE, 1.0 - LEAST_RATE)
    likelihood = clicks * torch.log(rate) + (impressions - clicks) * torch.log1p(-rate)
    total: Tensor = likelihood.sum(dim=(1, 2))
    return -total * batch.scale


def mean_score(targets: ClickTargets) -> NDArray[np.float64]:
    """``[n]`` the score that explains the clicks best if all documents share it."""
    found = np.full(len(targets.clicks), -1.0)
    for i in range(len(found)):
        shown = targets.impressions[i] > 0
        n, clicks, alpha, beta = (
            getattr(targets, field.name)[i][shown].astype(np.float64)
            for field in fields(targets)
        )
        for _ in range(NEWTON_STEPS):
            m = 1.0 / (1.0 + np.exp(-found[i]))
            p = np.clip(alpha * m + beta, LEAST_RATE, 1.0 - LEAST_RATE)
            inner = alpha * m * (1.0 - m)
            slope = np.sum((clicks - n * p) / (p * (1.0 - p)) * inner)
            curve = np.sum(n * inner**2 / (p * (1.0 - p))) + 1e-3
            found[i] = np.clip(found[i] + np.clip(slope / curve, -1.0, 1.0), -6.0, 6.0)
    return found
