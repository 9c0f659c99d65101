"""Counts of impressions and clicks: made from logs, kept in files, joined with data."""
