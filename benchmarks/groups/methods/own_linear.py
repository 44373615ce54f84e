"""A linear model for each target, on its own labelled rows alone."""

from benchmarks.groups.methods._frames import Matrix
from benchmarks.groups.methods._linear import fit_linear
from benchmarks.groups.methods._per_target import each_target

INSTALL = ("scikit-learn>=1.6",)


def fit(task):
    def one(own):
        alone = task.only(own)
        matrix = Matrix(alone)
        model = fit_linear(alone, matrix(alone.rows))
        return lambda frame: model(matrix(frame))

    return each_target(task, one)
