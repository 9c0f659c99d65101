r"""How important each feature is to a ranker: by gain of splits, and by permutation.

Importance by permutation is the DCG that held-out queries lose when the values of a
feature are permuted within each list. With weights :math:`w` of known documents and
ranks :math:`r`, the DCG of a query is :math:`\sum_d w_d / \log_2(r_d + 1)`; the mean
over queries is weighted by their share of the sessions. Weights are corrected clicks,
so a loss is in their unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from affinerank.rankers.blend import AnyRanker
from affinerank.rankers.targets import Targets
from affinerank.support.arrays import Bools, Floats, Ints, Matrix, Rng
from affinerank.support.errors import DataError
from affinerank.support.lists import discount, ranks_by_score
from affinerank.support.progress import Progress, no_progress

if TYPE_CHECKING:
    import pyarrow as pa

    from affinerank.data.dataset import RankingDataset

REPEATS = 5
VALUES_AT_ONCE = 2**24  # feature values that are scored in one call
DOCUMENTS = 20_000  # most documents of held-out queries; each feature rescores them
SMALLEST = 1e-300  # avoids a division by 0


@dataclass(frozen=True, slots=True, eq=False)
class Importance:
    """How important each feature is.

    Attributes:
        features: Names of the features.
        gain: ``[n_features]`` share of the gain of all splits; ``None`` for rankers
            without splits.
        loss: ``[n_features]`` DCG lost when the feature is permuted within its list;
            ``None`` if no queries were held out.
        standard_error: ``[n_features]`` standard error of the loss, over queries.
        queries: Number of held-out queries that the loss is measured on.
    """

    features: Sequence[str]
    gain: Floats | None
    loss: Floats | None = None
    standard_error: Floats | None = None
    queries: int = 0

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each feature, the most important first."""
        columns = {
            "gain": self.gain,
            "loss": self.loss,
            "standard_error": self.standard_error,
        }
        measured = {
            name: values for name, values in columns.items() if values is not None
        }

        # The loss decides the order; without it the gain, and else the given order.
        no_order = np.zeros(len(self.features))
        importance = measured.get("loss", measured.get("gain", no_order))

        rows: list[dict[str, Any]] = []
        for i in np.argsort(-importance, kind="stable"):
            row: dict[str, Any] = {"feature": self.features[i]}
            for name, values in measured.items():
                row[name] = float(values[i])
            rows.append(row)
        return rows

    def frame(self) -> pa.Table:
        """Return the rows as an Arrow table, which every data frame library reads."""
        import pyarrow as pa

        return pa.Table.from_pylist(self.rows())


def by_gain(ranker: AnyRanker) -> Importance:
    """Return each feature's share of the gain of all splits.

    In a blend, each member with splits counts by its share.
    """
    names = ranker.features
    position = {name: i for i, name in enumerate(names)}
    total_gain = np.zeros(len(names))
    for member in ranker.members:
        gain = getattr(member.ranker.model, "gain", None)
        if gain is None:
            continue
        member_gain = gain()
        gain_in_blend = member.share * member_gain / max(member_gain.sum(), SMALLEST)

        # A model may read several features of one category: their gains add up.
        mapping = member.ranker.mapping
        for name, feature_gain in zip(mapping.names, gain_in_blend, strict=True):
            total_gain[position[mapping.source_of(name)]] += feature_gain
    if not total_gain.any():
        return Importance(names, None)
    return Importance(names, total_gain / total_gain.sum())


@dataclass(frozen=True, slots=True, eq=False)
class HeldOutQueries:
    """The queries that importance by permutation is measured on.

    Attributes:
        data: Raw features of their documents.
        is_known: ``[n_docs]`` whether a document has a weight.
        weights: ``[n_docs]`` weight of each document, 0 if it is not known.
        share: ``[n_queries]`` share of each query, 1 in total.
    """

    data: RankingDataset
    is_known: Bools
    weights: Floats
    share: Floats

    def dcg(self, scores: Floats) -> Floats:
        """Return the DCG of each query; documents that are not known rank last."""
        scores_of_known = np.where(self.is_known, scores, -np.inf)
        ranks = ranks_by_score(scores_of_known, self.data.offsets)
        query = self.data.query_of_doc
        gained = self.weights * discount(ranks)
        dcg = np.bincount(query, gained, minlength=self.data.n_queries)
        return np.asarray(dcg, dtype=np.float64)


def by_permutation(
    ranker: AnyRanker,
    data: RankingDataset,
    targets: Targets,
    *,
    rng: Rng,
    repeats: int = REPEATS,
    progress: Progress = no_progress,
) -> Importance:
    """Measure the DCG that is lost when each raw feature is permuted within its list.

    Args:
        ranker: The ranker whose features are permuted.
        data: Raw documents.
        targets: Held-out weights of one ranker. Queries without a share do not count.
        rng: Draws permutations, and a sample of queries if there are many documents.
        repeats: Permutations of each feature.
        progress: Called as features are done.
    """
    queries = _sample_queries(data, targets, rng)
    gain = by_gain(ranker).gain

    # Permute every feature that the ranker may use, `repeats` times each.
    permuted = _features_to_permute(ranker, queries.data, gain)
    jobs = np.repeat(permuted, repeats)
    dcg_lost = _lose_dcg(ranker, queries, jobs, repeats, rng, progress)

    # Mean over queries by their share, with its standard error.
    loss = dcg_lost @ queries.share
    deviation = dcg_lost - loss[:, None]
    standard_error = np.sqrt(deviation**2 @ queries.share**2)
    return Importance(
        ranker.features, gain, loss, standard_error, queries.data.n_queries
    )


def _sample_queries(data: RankingDataset, targets: Targets, rng: Rng) -> HeldOutQueries:
    """Return queries whose DCG can change; a sample if they have many documents."""
    is_known = targets.known[0]
    share = targets.of_queries(data.offsets)[0]

    # A permutation can change the DCG of a query with two known documents or more.
    known_documents = np.bincount(data.query_of_doc, is_known, minlength=data.n_queries)
    usable = np.flatnonzero((known_documents > 1) & (share > 0))
    if not len(usable):
        raise DataError("no held-out query has two known documents to exchange")

    # Take queries in random order until they have enough documents.
    shuffled = rng.permutation(usable)
    documents_so_far = np.cumsum(data.docs_per_query[shuffled])
    n_queries = max(int(np.searchsorted(documents_so_far, DOCUMENTS)), 1)
    sample = np.sort(shuffled[:n_queries])

    in_sample = np.isin(data.query_of_doc, sample)
    is_known_in_sample = is_known[in_sample]
    return HeldOutQueries(
        data.select_queries(sample),
        is_known_in_sample,
        np.where(is_known_in_sample, targets.weights[0, in_sample], 0.0),
        share[sample] / share[sample].sum(),
    )


def _features_to_permute(
    ranker: AnyRanker, data: RankingDataset, gain: Floats | None
) -> Ints:
    """Return the numbers of the ranker's features that could lose DCG.

    A feature that the data lack, or that no split of a ranker of trees reads, loses
    nothing.
    """
    is_tree_model = [hasattr(member.ranker.model, "gain") for member in ranker.members]
    is_read = np.ones(len(ranker.features), dtype=bool)
    if gain is not None and all(is_tree_model):
        is_read = gain > 0
    in_data = np.isin(ranker.features, data.feature_names)
    return np.flatnonzero(is_read & in_data)


def _lose_dcg(
    ranker: AnyRanker,
    queries: HeldOutQueries,
    jobs: Ints,
    repeats: int,
    rng: Rng,
    progress: Progress,
) -> Floats:
    """Return the mean DCG that each query loses by each feature's permutation.

    Args:
        ranker: The ranker whose features are permuted.
        queries: The queries to measure on.
        jobs: Number of the feature that each job permutes.
        repeats: Jobs of each feature.
        rng: Draws the permutations.
        progress: Called as features are done.

    Returns:
        ``[n_features, n_queries]``.
    """
    data = queries.data
    column = {name: i for i, name in enumerate(data.feature_names)}
    dcg_before = queries.dcg(ranker.scores(data))
    dcg_lost = np.zeros((len(ranker.features), data.n_queries))

    # As many jobs at once as memory allows: each is a copy of the lists, with one
    # feature permuted, and one call scores all copies.
    jobs_at_once = max(VALUES_AT_ONCE // data.features.size, 1)
    for start in range(0, len(jobs), jobs_at_once):
        batch = jobs[start : start + jobs_at_once]
        copies = np.tile(data.features, (len(batch), 1, 1))
        for copy, feature in zip(copies, batch, strict=True):
            _permute_within_lists(copy, column[ranker.features[feature]], data, rng)
        scores = ranker.scores(_join_copies(data, copies))
        scores_by_job = scores.reshape(len(batch), data.n_docs)
        for job_scores, feature in zip(scores_by_job, batch, strict=True):
            dcg_lost[feature] += (dcg_before - queries.dcg(job_scores)) / repeats
        progress("permuting features", start + len(batch), len(jobs))
    return dcg_lost


def _permute_within_lists(
    features: Matrix, column: int, data: RankingDataset, rng: Rng
) -> None:
    """Permute one column of ``features`` in place, within each list of ``data``."""
    random_order = np.lexsort((rng.random(data.n_docs), data.query_of_doc))
    features[:, column] = data.features[random_order, column]


def _join_copies(data: RankingDataset, copies: Matrix) -> RankingDataset:
    """Return a data set with all copies of the lists, one copy after the other.

    Args:
        data: The original lists.
        copies: ``[n_copies, n_docs, n_features]`` features of each copy.
    """
    n_copies = len(copies)
    documents_per_list = np.tile(data.docs_per_query, n_copies)
    return replace(
        data,
        features=copies.reshape(-1, data.n_features),
        offsets=np.append(0, np.cumsum(documents_per_list)),
        labels=None,
        query_ids=np.arange(n_copies * data.n_queries),
        doc_ids=np.arange(n_copies * data.n_docs),
        source_rows=np.arange(n_copies * data.n_docs),
    )
