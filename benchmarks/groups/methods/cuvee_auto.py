"""cuvee.adapt with model="auto": linear models, trees or a forest, whichever its folds prefer."""

from benchmarks.groups.methods._cuvee import adapt

INSTALL = ("cuvee",)


def fit(task):
    return adapt(task, model="auto")
