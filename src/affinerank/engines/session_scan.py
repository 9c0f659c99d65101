"""A query of DuckDB that looks at every session of a log once.

It keeps the ranks of a session as bits of two integers, so that nothing is sorted.
"""

from __future__ import annotations

from collections.abc import Sequence

WORD = 63  # ranks to an integer; its highest bit is free for something else
REACH = 2 * WORD  # sessions of more rows are searched closely


def scan_query(rows: str, keys: Sequence[str], *, noted: bool) -> str:
    """Return a query for one row per session, of what is to be looked at.

    The ranks of a session are bits of two integers: 1 to 63, and 64 to 126. With n rows
    and the n lowest bits, no rank comes twice. A row that breaks a rule sets the
    highest bit of the second; a deeper rank sets none, so that a bit is missing.

    A document that comes twice leaves fewer bits than rows in each of four sets, by
    other parts of its hash. Ten different documents look so in 7 % of sessions, thirty
    in most; ``documents`` is then a fingerprint of the session's documents, in any
    order, by which sessions that show the same documents are recognised.

    The columns of the result: ``session_id``; ``size``, its rows; ``odd``, whether a
    row breaks or meets a rule; ``alike``, whether a document may come twice;
    ``documents``, the fingerprint of sessions that are alike, of up to 126 rows; and
    ``ragged``, whether there are several queries, or ranks other than 1, 2, ... 126.

    Args:
        rows: The log as SQL, with a column ``fault``: whether the row breaks a rule.
        keys: The columns that are the same in all rows of a session.
        noted: Whether a column ``note`` says that the row meets another rule.
    """
    or_noted = "OR bool_or(note)" if noted else ""
    note = "note," if noted else ""
    sets = [f"bit_or(1::UBIGINT << ((doc >> {8 * i}) & 63))" for i in range(4)]
    alike = " AND ".join(f"bit_count({bits}) < count(*)" for bits in sets)
    return f"""
        SELECT session_id, size, odd, alike,
            if(alike AND size <= {REACH}, hash(documents, size), NULL) AS documents,
            several_keys OR size > {REACH}
                OR low_ranks <> (1::UBIGINT << least(size, {WORD})) - 1
                OR high_ranks <> (1::UBIGINT << (greatest(least(size, {REACH}), {WORD})
                    - {WORD})) - 1 AS ragged
        FROM (
            SELECT session_id, count(*)::UBIGINT AS size,
                bit_or(low_rank) AS low_ranks, bit_or(high_rank) AS high_ranks,
                bit_or(high_rank) >> 63 = 1 {or_noted} AS odd,
                {alike} AS alike, bit_xor(doc) AS documents,
                min(key) < max(key) AS several_keys
            FROM (
                SELECT session_id, {note} hash(doc_id) AS doc,
                    hash({", ".join(keys)}) AS key,
                    CASE WHEN fault OR rank > {WORD} THEN 0::UBIGINT
                        ELSE 1::UBIGINT << (rank - 1)::UBIGINT END AS low_rank,
                    CASE WHEN fault THEN 1::UBIGINT << 63
                        WHEN rank <= {WORD} OR rank > {REACH} THEN 0::UBIGINT
                        ELSE 1::UBIGINT << (rank - {WORD + 1})::UBIGINT END AS high_rank
                FROM ({rows})
            ) GROUP BY session_id
        )"""  # noqa: S608
