r"""What the features of a ranker are worth: by gain of splits, and by permutation.

By permutation, a feature is worth the DCG that held-out queries lose where its values
are permuted within each list: with weights :math:`w` of known documents and ranks
:math:`r`, DCG is :math:`\sum_d w_d / \log_2(r_d + 1)`, averaged over queries by their
share. Weights are corrected clicks, so a loss is in their unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from affinerank.arrays import Floats, Ints, Matrix
from affinerank.errors import DataError
from affinerank.metrics import discount, ranks_by_score
from affinerank.progress import Progress, quiet
from affinerank.rankers.ranker import Model
from affinerank.rankers.targets import Targets

if TYPE_CHECKING:
    import pyarrow as pa

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


def by_gain(model: Model, names: Sequence[str]) -> Importance:
    """Return what splits gained, where the model has splits."""
    gain = getattr(model, "gain", None)
    if gain is None:
        return Importance(names, None)
    found = gain()
    return Importance(names, found / max(found.sum(), 1e-300))


def by_permutation(
    model: Model,
    names: Sequence[str],
    features: Matrix,
    targets: Targets,
    offsets: Ints,
    *,
    rng: np.random.Generator,
    repeats: int = REPEATS,
    progress: Progress = quiet,
) -> Importance:
    """Permute each feature within its list, and see what held-out queries lose.

    Args:
        model: What scores.
        names: ``[n_features]``.
        features: ``[n_docs, n_features]`` mapped, of held-out queries.
        targets: Of one ranker: what documents are worth.
        offsets: ``[n_queries + 1]``.
        rng: Draws permutations, and queries where documents are too many.
        repeats: Permutations of each feature.
        progress: Called after each feature.
    """
    known, share = targets.known[0], targets.of_queries(offsets)[0]
    sizes = np.diff(offsets)
    query = np.arange(len(sizes)).repeat(sizes)
    differs = np.bincount(query, known, minlength=len(sizes)) > 1
    counts = np.flatnonzero(differs & (share > 0))
    if not len(counts):
        raise DataError("no held-out query has two known documents to exchange")
    drawn = rng.permutation(counts)
    few = drawn[: max(int(np.searchsorted(np.cumsum(sizes[drawn]), DOCUMENTS)), 1)]
    some = np.isin(np.arange(len(sizes)), few)
    docs, share, sizes = some[query], share[some], sizes[some]
    x, known, query = features[docs], known[docs], np.arange(len(sizes)).repeat(sizes)
    worth = np.where(known, targets.weights[0, docs], 0.0)
    bounds = np.concatenate([[0], np.cumsum(sizes)])

    def value(scores: Floats) -> Floats:
        """Return the DCG of each query; what is not known goes last."""
        ranks = ranks_by_score(np.where(known, scores, -np.inf), bounds)
        gained = np.bincount(query, worth * discount(ranks), minlength=len(sizes))
        return np.asarray(gained, dtype=np.float64)

    before, gain = value(model.predict(x)), by_gain(model, names).gain
    lost = np.zeros((len(names), len(sizes)))
    # Where no split reads a feature, nothing is lost.
    used = np.arange(len(names)) if gain is None else np.flatnonzero(gain)
    jobs = used.repeat(repeats)
    at_once = max(VALUES_AT_ONCE // x.size, 1)
    for first in range(0, len(jobs), at_once):
        now = jobs[first : first + at_once]
        changed = np.tile(x, (len(now), 1, 1))
        for copy, i in zip(changed, now, strict=True):
            copy[:, i] = x[np.lexsort((rng.random(len(query)), query)), i]
        scores = model.predict(changed.reshape(-1, x.shape[1]))
        for own, i in zip(scores.reshape(len(now), -1), now, strict=True):
            lost[i] += (before - value(own)) / repeats
        progress("permuting features", first + len(now), len(jobs))
    counted = share / share.sum()
    loss = lost @ counted
    error = np.sqrt(((lost - loss[:, None]) ** 2) @ counted**2)
    return Importance(names, gain, loss, error, len(sizes))
