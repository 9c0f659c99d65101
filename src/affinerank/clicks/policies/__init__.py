"""Policies: how the list that a session shows departs from the ranker's own list."""

from affinerank.clicks.policies import (
    epsilon_swap,
    fixed,
    plackett_luce,
    rotate,
    swap,
    team_draft,
)
from affinerank.clicks.policies.policy import Placements, PolicyKind
from affinerank.support.registry import Registry

ROWS = (fixed, swap, rotate, epsilon_swap, plackett_luce, team_draft)
POLICIES: Registry[PolicyKind] = Registry("policy", *(module.ROW for module in ROWS))

__all__ = ["POLICIES", "Placements", "PolicyKind"]
