"""Which part of counts a stage takes: learnt from, or held out."""

from __future__ import annotations

from affinerank.clicks.counts import HELD_OUT, KEPT, ClickCounts
from affinerank.errors import ConfigError, DataError


def train_part(counts: ClickCounts) -> ClickCounts:
    """Return the part of the counts that is learnt from."""
    return counts.select("split", KEPT) if "split" in counts.keys else counts


def held_out(counts: ClickCounts) -> ClickCounts:
    """Return the part of the counts that was set aside (``count --holdout``)."""
    if "split" not in counts.keys:
        raise ConfigError(
            "early stopping needs held-out clicks: give --validation COUNTS, or count "
            "with --holdout 0.2"
        )
    return counts.select("split", HELD_OUT)


def held_part(counts: ClickCounts) -> ClickCounts:
    """Return the held-out part of counts that are split, or all of them."""
    held = held_out(counts) if "split" in counts.keys else counts
    if not len(held.rank) and held is not counts:
        raise DataError(
            f"the counts are split, and none are marked {HELD_OUT!r}; count with "
            "--holdout 0.2"
        )
    return held
