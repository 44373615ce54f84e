"""LightGBM as it comes, on all rows without the domain."""

from benchmarks.groups.methods import lightgbm_default

INSTALL = ("lightgbm==4.7.0",)


def fit(task):
    return lightgbm_default.fit(task, domain=False)
