"""What users did: click models, logs, counts, simulation."""
