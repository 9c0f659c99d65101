"""Corrected labels and their standard errors, written out and by simulation."""

from math import comb

import numpy as np
import pytest

from affinerank.clicks.counts import ClickCounts
from affinerank.clicks.join import join_counts
from affinerank.clicks.usermodel import UserModel
from affinerank.corrections import affine
from affinerank.data.dataset import RankingDataset
from affinerank.evaluation.labels import (
    click_variance,
    label_documents,
    smoothed_variance,
)

USERS = UserModel.from_zeta([0.9, 0.5], [0.5, 0.1])


def test_a_label_and_its_error_are_the_written_out_sums() -> None:
    data = RankingDataset.from_rows(np.zeros((2, 1)), ["q", "q"], doc_ids=["a", "b"])
    counts = ClickCounts.from_columns(
        query_id=["q", "q"],
        doc_id=["a", "a"],
        rank=[1, 2],
        impressions=[8, 2],
        clicks=[6, 1],
    )
    joined = join_counts(counts, data)
    labels = label_documents(joined, affine(joined.counts, USERS), data)
    relevance = ((6 - 0.5 * 8) / 0.4 + (1 - 0.1 * 2) / 0.4) / 10
    assert labels.relevance[0] == pytest.approx(relevance)
    assert labels.variance[0] == pytest.approx((6 * 2 / 7 + 1 * 1 / 1) / 0.4**2 / 10**2)
    smoothed = 0.0
    for shown, clicks in ((8, 6), (2, 1)):
        mean = (clicks + 0.5) / (shown + 1)  # its rank has no one else
        rate = (clicks + 0.5) / (shown + 0.5 / mean)
        smoothed += shown * rate * (1 - rate) / 0.4**2
    assert labels.standard_error[0] == pytest.approx(np.sqrt(smoothed) / 10)
    assert labels.shown.tolist() == [True, False]
    assert (labels.impressions[0], labels.clicks[0]) == (10, 7)


@pytest.mark.parametrize("shown", [1, 2, 7])
def test_the_variance_of_clicks_is_unbiased(shown: int) -> None:
    """In exact expectation; one impression rests on the rank, of the same rate."""
    rate, expected = 0.3, 0.0
    for clicks in range(shown + 1):
        counts = ClickCounts.from_columns(
            query_id=["q", "r"],
            doc_id=["a", "b"],
            rank=[1, 1],
            impressions=[shown, 10**9],
            clicks=[clicks, 3 * 10**8],
        )
        chance = comb(shown, clicks) * rate**clicks * (1 - rate) ** (shown - clicks)
        expected += chance * click_variance(counts)[0]
    assert expected == pytest.approx(shown * rate * (1 - rate), rel=1e-6)


def test_a_document_without_clicks_still_has_an_error() -> None:
    counts = ClickCounts.from_columns(
        query_id=["q", "q", "r"],
        doc_id=["a", "b", "c"],
        rank=[1, 2, 1],
        impressions=[5, 5, 5],
        clicks=[0, 0, 2],
    )
    assert click_variance(counts).tolist() == [0.0, 0.0, 2 * 3 / 4]
    assert np.all(smoothed_variance(counts) > 0)
