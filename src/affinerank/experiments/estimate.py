"""How users click, estimated for a cell by a method that trains no ranker."""

from __future__ import annotations

from affinerank.bias.level_mixture import fit_mixture
from affinerank.clicks.join import JoinedCounts
from affinerank.clicks.usermodel import UserModel
from affinerank.data.dataset import RankingDataset
from affinerank.errors import ConfigError
from affinerank.pipeline import rows_and_features
from affinerank.seeds import stage_rng


def estimate_users(
    method: str, joined: JoinedCounts, data: RankingDataset, seed: int
) -> UserModel:
    """Estimate users from a cell's clicks; regression EM trains with its ranker."""
    if method != "default":
        raise ConfigError(f"there is no way {method!r} to estimate users")
    rows, features = rows_and_features(joined, data)
    users = fit_mixture(rows, features, rng=stage_rng("estimation", seed)).users
    return users.to_depth(int(data.docs_per_query.max()))
