"""Policies: how the list that a session shows departs from the ranker's own list."""

from affinerank.clicks.policies import (
    epsilon_swap,
    fixed,
    plackett_luce,
    rotate,
    swap,
    team_draft,
)
from affinerank.clicks.policies.policy import (
    Group,
    Lists,
    Placements,
    Policy,
    PolicyKind,
    Selection,
    one_list_each,
    placements,
    probability,
)
from affinerank.tables import Table

POLICIES: Table[PolicyKind] = Table(
    "policy",
    fixed.ROW,
    swap.ROW,
    rotate.ROW,
    epsilon_swap.ROW,
    plackett_luce.ROW,
    team_draft.ROW,
)

__all__ = [
    "POLICIES",
    "Group",
    "Lists",
    "Placements",
    "Policy",
    "PolicyKind",
    "Selection",
    "one_list_each",
    "placements",
    "probability",
]
