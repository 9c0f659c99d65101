"""Networks, trained many at once; the only rankers that need torch."""
