"""Logs of other systems, brought onto the columns of a click log."""
