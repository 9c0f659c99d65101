"""Features scaled within the list, as networks and linear models read them."""

from affinerank.data.dataset import RankingDataset
from affinerank.data.feature_mapping import FeatureMapping


def scaled_in_lists(data: RankingDataset) -> RankingDataset:
    """Scale each feature to [0, 1] within each query."""
    mapping = FeatureMapping(data.feature_names, categories=data.categories)
    return mapping.apply(data)
