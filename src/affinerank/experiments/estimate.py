"""How users click, estimated for a cell by a method that trains no ranker."""

from __future__ import annotations

from affinerank.clicks.join import JoinedCounts
from affinerank.clicks.usermodel import UserModel
from affinerank.data.dataset import RankingDataset
from affinerank.errors import ConfigError


def estimate_users(
    method: str, joined: JoinedCounts, data: RankingDataset, seed: int
) -> UserModel:
    """Estimate users from a cell's clicks; regression EM trains with its ranker."""
    del joined, data, seed
    raise ConfigError(f"there is no way {method!r} to estimate users")
