"""Solve generalised linear models: logistic, softmax, Poisson."""
