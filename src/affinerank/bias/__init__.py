"""How users click, estimated from their clicks: counts (and features) to a user model."""
