"""Provide numerical helpers that several packages share."""
