"""Activations: what they are, on scores of any size."""

import math

import numpy as np
import pytest
import torch

from affinerank.bias.regression_em.activations import (
    ACTIVATIONS,
    sigmoid,
    soft_min_max,
    softmax,
)
from affinerank.rankers.networks.batches import RaggedLists

LISTS = RaggedLists.of(np.array([3, 1, 2]))
SCORES = torch.tensor([[1.0, 2.0, -1.0, 5.0, 0.5, 0.0]], dtype=torch.float64)
ALL = torch.ones(1, 6, dtype=torch.bool)


def test_activations_are_the_written_out_arithmetic() -> None:
    e = math.exp
    mean = (1 + 2 - 1) / 3
    np.testing.assert_allclose(
        sigmoid(SCORES, ALL, LISTS)[0, :3],
        [1 / (1 + e(-(x - mean))) for x in (1, 2, -1)],
    )
    total = e(1) + e(2) + e(-1)
    np.testing.assert_allclose(
        softmax(SCORES, ALL, LISTS)[0, :4],
        [e(1) / total, e(2) / total, e(-1) / total, 1],
    )
    np.testing.assert_allclose(
        soft_min_max(SCORES, ALL, LISTS)[0, [0, 1, 2, 4, 5]],
        [(e(1) - e(-1)) / (e(2) - e(-1)), 1, 0, 1, 0],
        atol=1e-15,
    )


@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_activations_take_scores_of_any_size(name: str, dtype: torch.dtype) -> None:
    scores = torch.tensor([[1000.0, -1000.0, 999.0, 3e4, 1e-30, 0.0]], dtype=dtype)
    values = ACTIVATIONS[name](scores, ALL, LISTS)[0, [0, 1, 2, 4, 5]]
    assert bool(((values >= 0) & (values <= 1)).all())
    assert float(values[0]) >= float(values[2]) > float(values[1])
    assert float(values[3]) >= float(values[4])


@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
def test_documents_that_were_not_shown_take_no_part(name: str) -> None:
    shown = torch.tensor([[True, False, True, False, True, True]])
    values = ACTIVATIONS[name](SCORES, shown, LISTS)
    other = ACTIVATIONS[name](torch.where(shown, SCORES, 99.0), shown, LISTS)
    assert torch.equal(values.isnan(), ~shown)
    assert torch.equal(values[shown], other[shown])
    alone = ACTIVATIONS[name](
        SCORES[:, [0, 2]], torch.ones(1, 2).bool(), RaggedLists.of(np.array([2]))
    )
    assert torch.equal(values[0, [0, 2]], alone[0])


def test_soft_min_max_keeps_differences_far_below_the_scores_themselves() -> None:
    scores = torch.tensor([[0.0, 1e-20, 3e-20]], dtype=torch.float64)
    values = soft_min_max(
        scores, torch.ones(1, 3).bool(), RaggedLists.of(np.array([3]))
    )
    np.testing.assert_allclose(values, [[0.0, 1.0 / 3.0, 1.0]])


def test_soft_min_max_of_one_document_or_of_equal_scores_is_left_out() -> None:
    scores = torch.tensor([[2.0, 2.0, 2.0, 5.0, 0.0, 1.0]])
    values = soft_min_max(scores, ALL, LISTS)
    assert values[0, :4].isnan().all()
    assert values[0, 4:].tolist() == [0.0, 1.0]
