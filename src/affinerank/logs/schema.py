"""Columns of a log once it is read, by the names that counts have, too."""

from __future__ import annotations

from collections.abc import Sequence

KEYS = ("query_id", "doc_id", "rank")
CONTEXT = "context"  # the rank of the last click above in the session; 0 for none
EXTRA_KEYS = ("ranker", "segment", "split", "user_bucket")
RANDOMISED = "randomised"  # impressions whose place a policy drew at random


def session_keys(columns: Sequence[str]) -> list[str]:
    """Columns that sessions are counted by: the query, then the keys that are there."""
    return [name for name in ("query_id", *EXTRA_KEYS) if name in columns]
