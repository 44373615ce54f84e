"""One linear model on all rows with a column of 0 and 1 for each domain."""

from benchmarks.groups.methods._frames import Matrix
from benchmarks.groups.methods._linear import fit_linear

INSTALL = ("scikit-learn>=1.6",)


def fit(task):
    matrix = Matrix(task, domain=True)
    answer = fit_linear(task, matrix(task.rows))
    return lambda frame: answer(matrix(frame))
