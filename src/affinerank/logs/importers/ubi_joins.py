"""Queries that join searches, impressions and clicks of UBI into a click log.

They read the tables that the module ``ubi`` beside this one writes and lists:
``searches``, ``impressions`` and ``clicks``. ``search`` is UBI's query_id, and ``line``
names a search as well as an event. ``STEPS`` make one table from another, ``LOG`` is
the result, and ``FINDINGS`` count what was found on the way.
"""

from __future__ import annotations

# One query_id may be logged several times: again, without results (facets), or with
# another text. Each text of a search has one list: its first results.
LISTS = """
    CREATE TABLE lists AS
    SELECT line, search, text, results, timestamp, user_id
    FROM searches
    SEMI JOIN (
        SELECT min(line) AS line FROM searches
        WHERE len(results) > 0
        GROUP BY search, text
    ) USING (line)
"""
LISTED = """
    CREATE VIEW listed AS
    SELECT line, search, unnest(results) AS doc_id,
        generate_subscripts(results, 1)::INT AS rank
    FROM lists
"""
# The text of a search, where it has only one: events need not repeat it.
ONLY_TEXT = """
    CREATE VIEW only_text AS
    SELECT search, CASE
        WHEN min(text) FILTER (WHERE len(results) > 0)
            = max(text) FILTER (WHERE len(results) > 0)
        THEN min(text) FILTER (WHERE len(results) > 0)
        WHEN min(text) = max(text) THEN min(text)
        END AS text
    FROM searches
    GROUP BY search
"""
# An application that ever reports position 0 counts from 0.
FIRST_POSITION = """
    CREATE VIEW first_position AS
    SELECT application, CASE min(position) WHEN 0 THEN 0 ELSE 1 END AS first
    FROM impressions
    GROUP BY application
"""
# Impressions of documents that are in no results of their search.
UNLISTED = """
    CREATE TABLE unlisted AS
    SELECT search, coalesce(impressions.text, only_text.text) AS text, doc_id,
        (position + 1 - first)::INT AS rank, min(line) AS line,
        min(timestamp) AS timestamp, min(user_id) AS user_id
    FROM impressions
    JOIN first_position USING (application)
    LEFT JOIN only_text USING (search)
    ANTI JOIN listed USING (search, doc_id)
    GROUP BY ALL
"""
# If one such impression cannot be right, none of its list is: they are of another list,
# which was not logged, as while the user types.
CONTRADICTIONS = """
    CREATE TABLE contradictions AS
    SELECT unlisted.search, unlisted.text,
        coalesce(min(rank) <= max(len(results)), false) AS with_results
    FROM unlisted
    LEFT JOIN lists
        ON unlisted.search = lists.search
        AND unlisted.text IS NOT DISTINCT FROM lists.text
    GROUP BY unlisted.search, unlisted.text
    HAVING with_results
        OR count(*) > count(DISTINCT rank)
        OR count(*) > count(DISTINCT doc_id)
"""
BELIEVED = """
    CREATE VIEW believed AS
    SELECT unlisted.*
    FROM unlisted
    ANTI JOIN contradictions
        ON unlisted.search = contradictions.search
        AND unlisted.text IS NOT DISTINCT FROM contradictions.text
"""
# Our sessions: one per search and text. A search whose text nobody logged is a query of
# its own, called by the search.
SESSIONS = """
    CREATE TABLE sessions AS
    SELECT line, search, text, timestamp, user_id, coalesce(text, search) AS query_id,
        row_number() OVER (PARTITION BY search ORDER BY line) AS place,
        search || CASE place WHEN 1 THEN '' ELSE '/' || place END AS session_id
    FROM (
        SELECT line, search, text, timestamp, user_id FROM lists
        UNION ALL
        SELECT min(believed.line), believed.search, believed.text,
            min(believed.timestamp), min(believed.user_id)
        FROM believed
        ANTI JOIN lists
            ON believed.search = lists.search
            AND believed.text IS NOT DISTINCT FROM lists.text
        GROUP BY believed.search, believed.text
    )
"""
SHOWN = """
    CREATE TABLE shown AS
    SELECT line, search, doc_id, rank FROM listed
    UNION ALL
    SELECT sessions.line, sessions.search, doc_id, rank
    FROM believed
    JOIN sessions
        ON believed.search = sessions.search
        AND believed.text IS NOT DISTINCT FROM sessions.text
"""
# A click belongs to a list of its search that has the document. Of several: to that of
# the same text, then to the last that was there before the click.
CLICKED = """
    CREATE TABLE clicked AS
    SELECT sessions.line, clicks.doc_id
    FROM clicks
    JOIN shown USING (search, doc_id)
    JOIN sessions ON shown.line = sessions.line
    QUALIFY 1 = row_number() OVER (
        PARTITION BY clicks.line
        ORDER BY coalesce(clicks.text = sessions.text, false) DESC,
            coalesce(sessions.timestamp <= clicks.timestamp, false) DESC,
            sessions.timestamp DESC NULLS LAST,
            sessions.line DESC
    )
"""
STEPS = (
    *(LISTS, LISTED, ONLY_TEXT, FIRST_POSITION, UNLISTED),
    *(CONTRADICTIONS, BELIEVED, SESSIONS, SHOWN, CLICKED),
)
LOG = """
    SELECT session_id, query_id, doc_id, rank, clicked IS NOT NULL AS clicked{more}
    FROM shown
    JOIN (SELECT line, session_id, query_id{more} FROM sessions) USING (line)
    LEFT JOIN (SELECT DISTINCT line, doc_id, true AS clicked FROM clicked)
    USING (line, doc_id)
    ORDER BY line, rank
"""
# What was found, and how many times: name and query.
FINDINGS = {
    "impressions": "SELECT count(*) FROM shown",
    "sessions": "SELECT count(*) FROM sessions",
    "sessions of unknown queries": "SELECT count(*) FROM sessions WHERE text IS NULL",
    "searches": "SELECT count(*) FROM searches",
    "searches without results": "SELECT count(*) FROM searches WHERE len(results) = 0",
    "searches seen twice": """
        SELECT count(*) - (SELECT count(*) FROM lists)
        FROM searches JOIN lists USING (search, text)
        WHERE searches.results = lists.results""",
    "searches with other results": """
        SELECT count(*) FROM searches JOIN lists USING (search, text)
        WHERE len(searches.results) > 0 AND searches.results <> lists.results""",
    "impression events": None,
    "impression events without search, document or position": None,
    "impression events seen twice": """
        SELECT count(*) - (
            SELECT count(*)
            FROM (SELECT DISTINCT search, text, doc_id, position FROM impressions)
        ) FROM impressions""",
    "impressions that contradict the results": """
        SELECT count(*) FROM unlisted JOIN contradictions
        ON unlisted.search = contradictions.search
        AND unlisted.text IS NOT DISTINCT FROM contradictions.text
        AND with_results""",
    "impressions that contradict each other": """
        SELECT count(*) FROM unlisted JOIN contradictions
        ON unlisted.search = contradictions.search
        AND unlisted.text IS NOT DISTINCT FROM contradictions.text
        AND NOT with_results""",
    "applications that count from 0": """
        SELECT count(*) FROM first_position WHERE first = 0""",
    "other events": None,
    "clicks": "SELECT count(*) FROM clicks",
    "clicks on one impression again": """
        SELECT count(*) - (SELECT count(*) FROM (SELECT DISTINCT * FROM clicked))
        FROM clicked""",
    "clicks without an impression": """
        SELECT count(*) FROM clicks ANTI JOIN shown USING (search, doc_id)""",
    "clicks of searches without impressions": """
        SELECT count(*) FROM clicks ANTI JOIN sessions USING (search)""",
    "clicks on documents not shown": """
        SELECT count(*) FROM clicks SEMI JOIN sessions USING (search)
        ANTI JOIN shown USING (search, doc_id)""",
}
