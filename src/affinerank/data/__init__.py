"""Ranking data: features, labels, query boundaries."""
