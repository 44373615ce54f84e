"""cuvee.adapt with its default options: a mixture and a linear model for each target."""

from benchmarks.groups.methods._cuvee import adapt

INSTALL = ("cuvee",)


def fit(task):
    return adapt(task, model="linear")
