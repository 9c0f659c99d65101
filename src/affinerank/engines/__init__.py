"""Engines that read logs where they are."""
