"""How users click, estimated from clicks: counts (and features) to a user model."""
