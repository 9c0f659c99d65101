"""Which part of counts a stage takes: learnt from, held out, without features."""

from __future__ import annotations

import warnings

from affinerank.clicks.counts import HELD_OUT, KEPT, ClickCounts
from affinerank.clicks.join import JoinedCounts
from affinerank.errors import AffineRankWarning, ConfigError, DataError


def train_part(counts: ClickCounts) -> ClickCounts:
    """The part of the counts that is learnt from."""
    return counts.select("split", KEPT) if "split" in counts.keys else counts


def held_out(counts: ClickCounts) -> ClickCounts:
    """The part of the counts that was set aside (``count --holdout``)."""
    if "split" not in counts.keys:
        raise ConfigError(
            "stopping early needs held-out clicks: give --validation COUNTS, or count "
            "with --holdout 0.2"
        )
    return counts.select("split", HELD_OUT)


def held_part(counts: ClickCounts) -> ClickCounts:
    """The held-out part of counts that are split, or all of them."""
    if "split" not in counts.keys:
        return counts
    held = counts.select("split", HELD_OUT)
    if not len(held.rank):
        raise DataError(
            f"the counts are split, and none are marked {HELD_OUT!r}; count with "
            "--holdout 0.2"
        )
    return held


def note_unmatched(joined: JoinedCounts, *, stacklevel: int = 3) -> None:
    """Say how much of the log has no features; most of it is hardly meant."""
    lost = joined.unmatched["impressions"]
    if not lost:
        return
    share = lost / (lost + int(joined.counts.impressions.sum()))
    if share > 0.5:
        raise DataError(
            f"{share:.0%} of the impressions are of documents that the data have no "
            "features for; are these the data that the log is about?"
        )
    warnings.warn(
        f"{share:.1%} of the impressions are of documents without features, and were "
        "left out",
        AffineRankWarning,
        stacklevel=stacklevel,
    )
