"""Lists of a ranker: its own, or drawn by a policy."""

from __future__ import annotations

from collections.abc import Sequence

from affinerank.clicks.exposure import RIVAL, ranked_lists
from affinerank.clicks.policies.policy import list_places, one_list_each, probability
from affinerank.clicks.traffic import Traffic
from affinerank.data.dataset import RankingDataset
from affinerank.rankers.blend import AnyRanker
from affinerank.rankers.ranker import score
from affinerank.support.arrow import arrow_column, pa
from affinerank.support.errors import ConfigError
from affinerank.support.seeds import stage_rng


def rank(
    rankers: Sequence[AnyRanker],
    data: RankingDataset,
    *,
    policy: Sequence[str] = (),
    top_k: int | None = None,
    seed: int = 0,
) -> pa.Table:
    """Rank the documents of each query, or draw a list by a policy.

    Args:
        rankers: One; or two, whose lists a policy interleaves.
        data: Features of the documents.
        policy: Rows of ``POLICIES`` with settings; none: the ranker's own order.
        top_k: Documents of a list; ``None`` for all.
        seed: Of what is drawn.

    Returns:
        ``query_id, doc_id, rank, score`` of each list; ``rival_score``, that of the
        second ranker; and, drawn by a policy, ``propensity``: how likely it is to show
        the document at the rank.
    """
    if not 1 <= len(rankers) <= 2:
        raise ConfigError(f"rank by one ranker, or by two, got {len(rankers)}")
    own, *other = (score(ranker, data) for ranker in rankers)
    rival = other[0] if other else None
    lists, order = ranked_lists(own, data.offsets, rival=rival, top_k=top_k)
    policies = Traffic(top_k=top_k, policies=tuple(policy)).changes()
    rng = stage_rng("lists", seed)
    query, rank_from_0 = list_places(lists.shown)
    at = lists.starts[query] + one_list_each(policies, lists, rng)
    doc = order[at]
    columns = {
        "query_id": arrow_column(data.query_ids).take(pa.array(query)),
        "doc_id": arrow_column(data.doc_ids).take(pa.array(doc)),
        "rank": pa.array(rank_from_0 + 1),
        "score": pa.array(own[doc]),
    }
    if rival is not None:
        columns[RIVAL] = pa.array(rival[doc])
    if policies:
        columns["propensity"] = pa.array(probability(policies, lists)[at, rank_from_0])
    return pa.table(columns)
