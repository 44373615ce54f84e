"""Solve any smooth convex risk."""
