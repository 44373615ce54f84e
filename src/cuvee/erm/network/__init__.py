"""Train networks together."""
