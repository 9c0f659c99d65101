"""Expected exposure: how a named policy shows documents, and counts that know it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from affinerank.clicks.policies.policy import AnyPolicy, RankedLists, probability
from affinerank.clicks.traffic import Traffic
from affinerank.counts.counts import ClickCounts
from affinerank.counts.table import EXPOSURE, NUMBERS, typed_column
from affinerank.logs.schema import KEYS, RANDOMISED
from affinerank.support.arrays import Floats, Ints
from affinerank.support.arrow import pa, parquet_errors, pc, pq
from affinerank.support.errors import ConfigError, DataError
from affinerank.support.files import existing_file, scratch_folder
from affinerank.support.lists import ranks_by_score

RIVAL = "rival_score"


def ranked_lists(
    scores: Floats,
    offsets: Ints,
    *,
    rival: Floats | None = None,
    top_k: int | None = None,
) -> tuple[RankedLists, Ints]:
    """Rank by score: lists for policies, and the document at each of their places.

    ``rival`` are the scores of a second ranker, to be interleaved with.
    """
    sizes = np.diff(offsets)
    starts = np.repeat(offsets[:-1], sizes)
    order = np.empty(len(scores), dtype=np.int64)
    order[starts + ranks_by_score(scores, offsets) - 1] = np.arange(len(scores))
    second = None if rival is None else ranks_by_score(rival, offsets)[order] - 1
    shown = np.minimum(sizes, top_k or sizes)
    return RankedLists(offsets[:-1], sizes, shown, scores[order], second), order


@contextmanager
def expected_exposure(
    target: Path, scores: Path, policy: Sequence[str], top_k: int | None
) -> Iterator[Path]:
    """Give a place to count into; add exposure afterwards, and write ``target``."""
    policies = Traffic(top_k=top_k, policies=tuple(policy)).changes()
    table = _read_scores(scores)
    with scratch_folder() as folder:
        counts = Path(folder) / "counts.parquet"
        yield counts
        with_exposure(ClickCounts.load(counts), table, policies, top_k).save(target)


def with_exposure(
    counts: ClickCounts,
    scores: pa.Table,
    policies: Sequence[AnyPolicy],
    top_k: int | None = None,
) -> ClickCounts:
    """Add what the policy is expected to show, also documents that it never showed.

    Args:
        counts: Of lists that the policy showed.
        scores: ``query_id, doc_id, score`` of all documents that it could show, and
            ``rival_score`` where two rankers are interleaved.
        policies: The policy, or several with their shares.
        top_k: How many documents a session shows; ``None`` for all.
    """
    if "ranker" in counts.keys:
        if len(pc.unique(counts.table["ranker"])) > 1:
            raise ConfigError(
                "a named policy is that of one ranker; count each by itself (--where)"
            )
        counts = counts.merged("ranker")
    extra = [key for key in counts.keys if key not in KEYS]
    if "context" in extra:
        raise ConfigError("a named policy goes by rank; count with --context none")
    issued = counts.sessions_per_query
    chances = _chances(scores, policies, top_k)
    theirs = [counts.table.schema.field(name) for name in KEYS]
    chances = chances.cast(pa.schema([*theirs, chances.schema.field("chance")]))
    keys = [*KEYS, *extra]
    possible = chances.join(issued, "query_id", join_type="inner")
    seen = pc.multiply(possible["chance"], possible["sessions"].cast(pa.float64()))
    possible = possible.append_column(EXPOSURE, seen).drop_columns("chance")
    known = counts.table.select([*keys, *NUMBERS[:2]])
    both = possible.join(known, keys, join_type="full outer")
    lost = both.filter(pc.is_null(both[EXPOSURE]))
    if lost.num_rows:
        first = ", ".join(f"{key} {lost[key][0].as_py()!r}" for key in KEYS)
        raise DataError(
            f"{first}: shown, but the policy never shows it ({lost.num_rows} such "
            "rows); are these the scores, the policy and --top-k that logged?"
        )
    columns = {name: both[name] for name in both.column_names}
    columns |= {name: pc.fill_null(both[name], 0) for name in NUMBERS[:2]}
    columns[RANDOMISED] = columns["impressions"]  # each place is one that it could draw
    return ClickCounts(pa.table(columns))


def _chances(
    scores: pa.Table, policies: Sequence[AnyPolicy], top_k: int | None
) -> pa.Table:
    """Probability of each document at each rank where it is above 0."""
    table = scores.sort_by("query_id")
    query = table["query_id"].combine_chunks().dictionary_encode()
    first = np.flatnonzero(np.diff(np.asarray(query.indices), prepend=-1))
    offsets = np.append(first, table.num_rows)
    by, rival = np.asarray(table["score"]), None
    if RIVAL in table.column_names:
        rival = np.asarray(table[RIVAL])
    lists, order = ranked_lists(by, offsets, rival=rival, top_k=top_k)
    found = probability(policies, lists)
    place, rank = np.nonzero(found)
    ids = table.select(KEYS[:2]).take(pa.array(order[place]))
    ids = ids.append_column("rank", pa.array(rank + 1))
    return ids.append_column("chance", pa.array(found[place, rank]))


def _read_scores(path: Path) -> pa.Table:
    """Read scores, and check them."""
    source = existing_file(path)
    columns = {}
    with parquet_errors(source):
        table = pq.read_table(source)
        known = table.column_names
        for name in (*KEYS[:2], "score", *([RIVAL] if RIVAL in known else [])):
            if name not in known:
                raise DataError(f"has no column {name!r}; write it by affinerank rank")
            if name in KEYS:
                columns[name] = typed_column(name, table[name])
                continue
            columns[name] = table[name].cast(pa.float64())
            if not np.isfinite(np.asarray(columns[name].fill_null(np.nan))).all():
                raise DataError(f"{name} must be numbers, and none missing")
    if not table.num_rows:
        raise DataError(f"{source}: holds no scores")
    return pa.table(columns)
