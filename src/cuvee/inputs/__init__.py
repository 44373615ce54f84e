"""Read values as people pass them in: arrays, labels, and weights matched by name."""
