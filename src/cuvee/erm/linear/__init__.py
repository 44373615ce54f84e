"""Generalised linear models: logistic, softmax, Poisson."""
