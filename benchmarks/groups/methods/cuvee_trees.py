"""cuvee.adapt with model="trees": boosting on a mixture for each target."""

from benchmarks.groups.methods._cuvee import adapt

INSTALL = ("cuvee",)


def fit(task):
    return adapt(task, model="trees")
