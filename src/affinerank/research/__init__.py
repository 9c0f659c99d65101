"""Experiments: plan -> cells -> results -> figures and report."""
