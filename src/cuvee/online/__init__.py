"""Targets that arrive one by one: Algorithm 4, its variants, and α predicted for new targets."""
