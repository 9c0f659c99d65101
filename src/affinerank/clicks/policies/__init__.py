"""Policies: how the list that a session shows departs from the ranker's own list."""

from affinerank.clicks.policies import fixed, rotate, swap
from affinerank.clicks.policies.policy import Placements, Policy, PolicyKind, placements
from affinerank.tables import Table

POLICIES: Table[PolicyKind] = Table("policy", fixed.ROW, swap.ROW, rotate.ROW)

__all__ = ["POLICIES", "Placements", "Policy", "PolicyKind", "placements"]
