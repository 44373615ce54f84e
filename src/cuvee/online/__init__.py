"""Learn from targets that arrive one by one: Algorithm 4, its variants, and α for new targets."""
