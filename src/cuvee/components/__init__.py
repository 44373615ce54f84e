"""Hold all rows: `protocol` says what may be asked of them, the other files answer."""

from cuvee.components.binding import bind, input_sums
from cuvee.components.bounded import BoundedComponents
from cuvee.components.bounds import RowConstants
from cuvee.components.inputs import InputMeans, input_means
from cuvee.components.linear import LinearComponents
from cuvee.components.local import LocalComponents
from cuvee.components.protocol import (
    ALL,
    Batch,
    Components,
    Folds,
    Half,
    LinearSums,
    Part,
    Pullback,
    QuadraticSums,
)
from cuvee.components.quadratic import QuadraticComponents
from cuvee.components.rows import HELD_OUT, check_precision

__all__ = [
    "ALL",
    "HELD_OUT",
    "Batch",
    "BoundedComponents",
    "Components",
    "Folds",
    "Half",
    "InputMeans",
    "LinearComponents",
    "LinearSums",
    "LocalComponents",
    "Part",
    "Pullback",
    "QuadraticComponents",
    "QuadraticSums",
    "RowConstants",
    "bind",
    "check_precision",
    "input_means",
    "input_sums",
]
