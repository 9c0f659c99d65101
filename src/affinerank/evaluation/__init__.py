"""A ranker's value, and whether a difference is more than chance."""
