"""Estimate mixture weights: how much each target should learn from each source."""
