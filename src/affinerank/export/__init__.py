"""Rankers as files that other systems read."""
