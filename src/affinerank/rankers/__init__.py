"""Features and weights in, scores out."""
