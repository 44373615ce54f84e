"""Squared loss, from Gram matrices."""
