"""Clicks explained by networks: the likelihood of many rankers' counts, in torch.

The formula is that of :mod:`affinerank.rankers.likelihood`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
import torch
from torch import Tensor

from affinerank.rankers.likelihood import MIN_RATE
from affinerank.rankers.networks.batches import RaggedLists
from affinerank.rankers.targets import ClickTargets


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
    lists: RaggedLists

    @classmethod
    def of(cls, targets: ClickTargets, lists: RaggedLists) -> ClickBatch:
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

    def at(self, rows: Tensor, lists: RaggedLists) -> ClickBatch:
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
    rate = (alpha * relevance + beta).clamp(MIN_RATE, 1.0 - MIN_RATE)
    likelihood = clicks * torch.log(rate) + (impressions - clicks) * torch.log1p(-rate)
    total: Tensor = likelihood.sum(dim=(1, 2))
    return -total * batch.scale
