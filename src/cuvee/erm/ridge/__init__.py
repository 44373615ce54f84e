"""Solve squared loss from Gram matrices."""
