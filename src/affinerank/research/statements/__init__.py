"""Statements that are checked against results: the paper's, and our own."""
