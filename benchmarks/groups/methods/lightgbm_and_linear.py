"""The mean of two answers: LightGBM with rounds by cross-validation, and the linear model."""

from benchmarks.groups.methods import lightgbm_cv, one_hot_linear

INSTALL = ("lightgbm==4.7.0", "scikit-learn>=1.6")


def fit(task):
    trees, linear = lightgbm_cv.fit(task), one_hot_linear.fit(task)
    return lambda frame: (trees(frame) + linear(frame)) / 2
