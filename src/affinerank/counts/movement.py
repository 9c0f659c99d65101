"""How often documents were shown away from their usual rank, and nobody says why.

Corrections take for granted that a document's rank tells nothing of who sees it. Lists
that move for a reason break that: a system that knows the taste of its user, a ranker
that was replaced, an index that drifts. Counts show the movement, not its reason. So
the log must declare it: ``ranker`` and ``segment`` say which lists are of one kind,
``policy`` and ``propensity`` which places were drawn at random. What moves besides is
measured here.

Two shares are measured, since an index that is updated moves documents, too: one that
enters or leaves shifts those below by a rank. Such shifts are common and small; lists
that move for a reason also move documents far. Limits are sized by simulation
(``benchmarks/moved_lists.py``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from affinerank.counts.counts import ClickCounts
from affinerank.counts.table import grouped, randomised_impressions
from affinerank.support.arrays import Floats
from affinerank.support.arrow import pa, pc

MOST_MOVED = 0.25  # of the impressions, at another rank than the usual one
MOST_FAR = 0.04  # more than one rank away from it
CONFIDENCE = 0.95
WHAT_TO_LOG = (
    "log what moved them: ranker or segment where lists are of several kinds, policy "
    "or propensity where documents were moved at random"
)
LISTS_OF_ONE_KIND = ("query_id", "ranker", "segment")


@dataclass(frozen=True, slots=True)
class MovedShare:
    """A share of impressions, and how sure it is.

    Attributes:
        share: Of the impressions; NaN where no document was shown twice.
        low: The share is above this with 95 % confidence; NaN with one query alone.
        limit: Above it, a comparison cannot be decided.
    """

    share: float
    low: float
    limit: float

    @property
    def too_large(self) -> bool:
        """Whether the share is above the limit, by more than chance."""
        return self.low > self.limit


@dataclass(frozen=True, slots=True)
class Movement:
    """How often documents moved within query, ranker and segment, undeclared.

    Attributes:
        impressions: Those that can show it: of documents that were shown twice or more,
            at places that no policy drew.
        moved: Share of them at another rank than the usual one of the document.
        far: Share of them more than one rank away from it.
        randomised_share: Share of all impressions at places that a policy drew.
    """

    impressions: int
    moved: MovedShare
    far: MovedShare
    randomised_share: float

    @property
    def unexplained(self) -> bool:
        """Whether lists moved so much that they may have moved for a reason."""
        return self.moved.too_large or self.far.too_large

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "impressions": self.impressions,
            "share": self.moved.share,
            "share_low": self.moved.low,
            "limit": self.moved.limit,
            "far_share": self.far.share,
            "far_share_low": self.far.low,
            "far_limit": self.far.limit,
            "randomised_share": self.randomised_share,
            "unexplained": self.unexplained,
        }

    def in_words(self) -> str:
        """Say how much moved, against the limits."""
        return (
            f"{self.moved.share:.1%} of the impressions show a document at another "
            f"rank than its usual one (limit {self.moved.limit:.0%}), "
            f"{self.far.share:.1%} more than one rank away (limit "
            f"{self.far.limit:.0%}), within one query and ranker"
        )


def measure_movement(counts: ClickCounts) -> Movement:
    """Measure how often documents were shown away from their usual rank.

    The usual rank of a document is the one with most impressions, in lists of one
    query, ranker and segment. Documents shown once there are left out.
    """
    totals = []
    impressions, randomised = 0, 0
    for part in counts.parts():
        table = part.table
        drawn = randomised_impressions(table)
        impressions += int(np.sum(np.asarray(table["impressions"])))
        randomised += int(np.sum(np.asarray(drawn)))
        totals.append(_totals_by_query(table, drawn))
    shown, moved, far = np.concatenate(totals, axis=1)
    return Movement(
        impressions=int(shown.sum()),
        moved=_share(moved, shown, MOST_MOVED),
        far=_share(far, shown, MOST_FAR),
        randomised_share=randomised / max(impressions, 1),
    )


def _totals_by_query(table: pa.Table, drawn: pa.ChunkedArray) -> Floats:
    """``[3, n_queries]`` impressions of documents shown twice; moved; moved far."""
    kind = [name for name in LISTS_OF_ONE_KIND if name in table.column_names]
    document = [*kind, "doc_id"]

    # Impressions at places that nobody drew, by document and rank.
    undeclared = pc.subtract(table["impressions"], drawn)
    places = table.select([*document, "rank"]).append_column("shown", undeclared)
    places = places.filter(pc.greater(undeclared, 0))
    places = grouped(places, [*document, "rank"], ("shown", "sum"))

    # By document, the most frequent rank first; of two as frequent, the upper one.
    order = [(name, "ascending") for name in document]
    places = places.sort_by([*order, ("shown", "descending"), ("rank", "ascending")])
    first = _begins(places, document)
    number = np.cumsum(first) - 1
    shown = np.asarray(places["shown"], dtype=np.float64)
    rank = np.asarray(places["rank"])
    distance = np.abs(rank - rank[first][number])

    # Documents that were shown once have no usual rank.
    several = np.bincount(number, shown, first.sum())[number] > 1
    query = np.cumsum(_begins(places, ["query_id"])) - 1
    n_queries = int(query[-1]) + 1 if len(query) else 0
    kinds_of_impressions = (several, several & (distance > 0), several & (distance > 1))
    return np.stack(
        [np.bincount(query, shown * kind, n_queries) for kind in kinds_of_impressions]
    )


def _begins(table: pa.Table, names: list[str]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """``[n_rows]`` whether a row differs from the one before in one of the columns."""
    differs = np.zeros(table.num_rows, dtype=bool)
    differs[:1] = True
    before, after = table.slice(0, max(table.num_rows - 1, 0)), table.slice(1)
    for name in names:
        differs[1:] |= np.asarray(pc.not_equal(before[name], after[name]))
    return differs


def _share(part: Floats, whole: Floats, limit: float) -> MovedShare:
    """Share of a total, and its lower bound; queries are a random sample."""
    total = float(whole.sum())
    if not total:
        return MovedShare(np.nan, np.nan, limit)
    share = float(part.sum()) / total
    n_queries = int(np.count_nonzero(whole))
    if n_queries < 2:
        return MovedShare(share, np.nan, limit)
    residuals = part - share * whole
    variance = float(np.sum(residuals**2)) / total**2 * n_queries / (n_queries - 1)
    reach = float(stats.t.ppf(CONFIDENCE, n_queries - 1)) * variance**0.5
    return MovedShare(share, share - reach, limit)
