r"""What the features of a ranker are worth: by gain of splits, and by permutation.

By permutation, a feature is worth the DCG that held-out queries lose where its values
are permuted within each list: with weights :math:`w` of known documents and ranks
:math:`r`, DCG is :math:`\sum_d w_d / \log_2(r_d + 1)`, averaged over queries by their
share. Weights are corrected clicks, so a loss is in their unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from affinerank.arrays import Floats, Matrix
from affinerank.errors import DataError
from affinerank.metrics import discount, ranks_by_score
from affinerank.progress import Progress, quiet
from affinerank.rankers.blend import AnyRanker
from affinerank.rankers.targets import Targets

if TYPE_CHECKING:
    import pyarrow as pa

    from affinerank.data.dataset import RankingDataset

REPEATS = 5
VALUES_AT_ONCE = 2**24  # of features, scored in one call
DOCUMENTS = 20_000  # of the held-out queries, that are scored again for each feature


@dataclass(frozen=True, slots=True, eq=False)
class Importance:
    """What each feature is worth.

    Attributes:
        features: Their names.
        gain: ``[n_features]`` share of what the splits of trees gained; ``None`` for
            rankers without splits.
        loss: ``[n_features]`` DCG lost where a feature is permuted within its list;
            ``None`` where nothing was held out.
        standard_error: Of the loss, over queries.
        queries: Held-out queries that were judged.
    """

    features: Sequence[str]
    gain: Floats | None
    loss: Floats | None = None
    standard_error: Floats | None = None
    queries: int = 0

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each feature, the most important first."""
        columns = {n: getattr(self, n) for n in ("gain", "loss", "standard_error")}
        known = {name: values for name, values in columns.items() if values is not None}
        by = known.get("loss", known.get("gain", np.zeros(len(self.features))))
        return [
            {"feature": self.features[i]}
            | {name: float(values[i]) for name, values in known.items()}
            for i in np.argsort(-by, kind="stable")
        ]

    def frame(self) -> pa.Table:
        """Return the rows as a table of Arrow, which every frame library reads."""
        import pyarrow as pa

        return pa.Table.from_pylist(self.rows())


def by_gain(ranker: AnyRanker) -> Importance:
    """Return what splits gained, where the ranker has splits; of a blend, by shares."""
    names = ranker.features
    place = {name: i for i, name in enumerate(names)}
    total = np.zeros(len(names))
    for member in ranker.members:
        gain = getattr(member.ranker.model, "gain", None)
        if gain is None:
            continue
        gained = gain()
        counted = member.share * gained / max(gained.sum(), 1e-300)
        mapping = member.ranker.mapping
        for name, own in zip(mapping.names, counted, strict=True):
            total[place[mapping.source_of(name)]] += own
    if not total.any():
        return Importance(names, None)
    return Importance(names, total / total.sum())


def by_permutation(
    ranker: AnyRanker,
    data: RankingDataset,
    targets: Targets,
    *,
    rng: np.random.Generator,
    repeats: int = REPEATS,
    progress: Progress = quiet,
) -> Importance:
    """Permute each raw feature within its list, and see what held-out queries lose.

    Args:
        ranker: What scores.
        data: Raw documents.
        targets: Of one ranker: what documents are worth. Queries of no share do not
            count.
        rng: Draws permutations, and queries where documents are too many.
        repeats: Permutations of each feature.
        progress: Called after each feature.
    """
    names = ranker.features
    known, share = targets.known[0], targets.of_queries(data.offsets)[0]

    # Queries that can lose something, or as many of them as have enough documents.
    query = data.query_of_doc
    can_change = np.bincount(query, known, minlength=data.n_queries) > 1
    counts = np.flatnonzero(can_change & (share > 0))
    if not len(counts):
        raise DataError("no held-out query has two known documents to exchange")
    drawn = rng.permutation(counts)
    n_documents = np.cumsum(data.docs_per_query[drawn])
    n_taken = max(int(np.searchsorted(n_documents, DOCUMENTS)), 1)
    taken = np.sort(drawn[:n_taken])
    is_taken = np.isin(query, taken)
    data, share = data.select_queries(taken), share[taken]
    known = known[is_taken]
    worth = np.where(known, targets.weights[0, is_taken], 0.0)
    query = data.query_of_doc

    def dcg(scores: Floats) -> Floats:
        """Return the DCG of each query; what is not known goes last."""
        ranks = ranks_by_score(np.where(known, scores, -np.inf), data.offsets)
        gained = np.bincount(query, worth * discount(ranks), minlength=data.n_queries)
        return np.asarray(gained, dtype=np.float64)

    # Features that the data lack, or that no split reads, can lose nothing.
    gain = by_gain(ranker).gain
    only_trees = all(hasattr(member.ranker.model, "gain") for member in ranker.members)
    is_read = np.ones(len(names), dtype=bool)
    if gain is not None and only_trees:
        is_read = gain > 0
    columns = {name: i for i, name in enumerate(data.feature_names)}
    permuted = [i for i in np.flatnonzero(is_read) if names[i] in columns]
    jobs = np.repeat(np.array(permuted, dtype=np.int64), repeats)

    before = dcg(ranker.scores(data))
    lost = np.zeros((len(names), data.n_queries))
    at_once = max(VALUES_AT_ONCE // data.features.size, 1)
    for first in range(0, len(jobs), at_once):
        now = jobs[first : first + at_once]
        copies = np.tile(data.features, (len(now), 1, 1))
        for copy, i in zip(copies, now, strict=True):
            order = np.lexsort((rng.random(data.n_docs), query))
            column = columns[names[i]]
            copy[:, column] = data.features[order, column]
        scores = ranker.scores(_side_by_side(data, copies))
        for own, i in zip(scores.reshape(len(now), -1), now, strict=True):
            lost[i] += (before - dcg(own)) / repeats
        progress("permuting features", first + len(now), len(jobs))

    counted = share / share.sum()
    loss = lost @ counted
    error = np.sqrt(((lost - loss[:, None]) ** 2) @ counted**2)
    return Importance(names, gain, loss, error, data.n_queries)


def _side_by_side(data: RankingDataset, copies: Matrix) -> RankingDataset:
    """Return lists whose features are changed, one copy of all after the other."""
    n = len(copies)
    return replace(
        data,
        features=copies.reshape(-1, data.n_features),
        offsets=np.append(0, np.cumsum(np.tile(data.docs_per_query, n))),
        labels=None,
        query_ids=np.arange(n * data.n_queries),
        doc_ids=np.arange(n * data.n_docs),
        source_rows=np.arange(n * data.n_docs),
    )
