"""Numerical helpers that several rooms share."""
