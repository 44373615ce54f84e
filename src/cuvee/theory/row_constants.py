"""Constants of single rows: G_f and L_f of Assumption 1, and Theorem 1's complexities.

They are those of the losses that the discrepancy compares, on W. All are proven for the rows that
are there, from the lengths of rows, for `Ridge` and `Logistic` (also softmax); a longer row that
was never seen may exceed them.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log, sqrt
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional

from cuvee.components import LocalComponents, source_sums
from cuvee.errors import OptionError, check_choice, check_number
from cuvee.hypothesis.base import Hypothesis, LossKind, Space
from cuvee.hypothesis.logistic import LogisticSpace
from cuvee.hypothesis.ridge import RidgeSpace
from cuvee.problem import Problem
from cuvee.results import Floats
from cuvee.theory.stationarity import Constants

Loss = Literal["auto", "trained", "bounded"]


@dataclass(frozen=True)
class RowConstants:
    """Hold G_f and L_f of Assumption 1 and the largest loss, for every row and every w in W."""

    G_f: float
    L_f: float
    largest_loss: float


def row_constants(
    problem: Problem,
    hypothesis: Hypothesis,
    *,
    loss: Loss = "auto",
    standardised: bool | None = None,
) -> RowConstants:
    """Return G_f, L_f and the largest loss of any row, for any w in W (Assumption 1).

    Args:
        problem: N sources and M targets, whose rows count alike.
        hypothesis: `Ridge` or `Logistic`.
        loss: that of the discrepancy; "auto" is what `cuvee.estimate` takes, squared for ridge,
            else bounded.
        standardised: in which coordinates W lies; by default as in `cuvee.estimate`, in those of X
            where the hypothesis has a radius.

    Example:
        >>> import cuvee
        >>> a = cuvee.Domain("a", [[0.0], [1.0], [2.0]], [0, 1, 1])
        >>> k = row_constants(cuvee.Problem([a]), cuvee.Logistic(radius=3.0, intercept=False))
        >>> k.G_f, round(k.L_f, 3), k.largest_loss
        (0.5, 0.385, 1.0)
    """
    return row_constants_of(_components(problem, hypothesis, loss, standardised))


def row_constants_of(components: LocalComponents) -> RowConstants:
    """Return `row_constants` for data that are bound already."""
    rows, space = components.everything, components.space
    X, y = torch.cat([rows.X, rows.own_X.flatten(0, 1)]), torch.cat([rows.y, rows.own_y.flatten()])
    length = torch.linalg.vector_norm(X.double(), dim=-1)
    slope, bend, largest = _by_score(space, components.loss, length, y)
    return RowConstants(
        G_f=float((slope * length).max()),
        L_f=bend * float(length.max()) ** 2,
        largest_loss=float(largest.max()),
    )


def minimax_constants(
    problem: Problem,
    hypothesis: Hypothesis,
    *,
    C: float,
    c: float,
    loss: Loss = "auto",
    standardised: bool | None = None,
) -> Constants:
    """Return the constants of Assumption 1 for F with this C and c, measured row by row.

    c is that of g(x) = √(x² + c). Arguments as in `row_constants`.

    >>> import cuvee
    >>> a = cuvee.Domain("a", [[0.0], [1.0], [2.0]], [0, 1, 1])
    >>> b = cuvee.Domain("b", [[0.0], [1.0], [3.0]], [0, 1, 1])
    >>> problem = cuvee.Problem([a, b], [cuvee.Domain("t", [[0.5], [1.5]], [0, 1])])
    >>> k = minimax_constants(problem, cuvee.Logistic(radius=3.0), C=1.0, c=1e-4)
    >>> k.n_sources, k.L_g, round(k.mu, 3)
    (2, 100.0, 0.667)
    """
    check_number("c", c, above=0.0)
    rows = row_constants(problem, hypothesis, loss=loss, standardised=standardised)
    m = [s.n_rows for s in problem.sources]
    return Constants(len(m), min(m), max(m), C, rows.G_f, rows.L_f, L_g=c**-0.5)


def rademacher(
    problem: Problem,
    hypothesis: Hypothesis,
    *,
    loss: Loss = "auto",
    standardised: bool | None = None,
) -> tuple[Floats, Floats]:
    """Return bounds on the losses' Rademacher complexities: of sources (N,), of targets (M,).

    They are Theorem 1's complexity term, from the rows instead of a VC dimension. For scores w·x
    over ‖w‖ ≤ r and a loss that is ρ_i-Lipschitz in the score of row i, contraction and Jensen give
    R ≤ r √(Σ_i p_i² ρ_i² ‖x_i‖²), p_i = 1/m; with K scores √(2K) times that (Maurer, 2016).
    Arguments as in `row_constants`.

    >>> import cuvee
    >>> a = cuvee.Domain("a", [[0.0], [1.0], [2.0], [2.0]], [0, 1, 1, 0])
    >>> hypothesis = cuvee.Logistic(radius=4.0, intercept=False)
    >>> sources, targets = rademacher(cuvee.Problem([a]), hypothesis)
    >>> sources, targets.shape  # ¼ · 4 · √(0 + 1 + 4 + 4)/4
    (array([0.75]), (0,))
    """
    return rademacher_of(_components(problem, hypothesis, loss, standardised))


def rademacher_of(components: LocalComponents) -> tuple[Floats, Floats]:
    """Return `rademacher` for data that are bound already."""
    rows, space = components.everything, components.space
    if space.radius is None:
        raise OptionError("without a radius W is infinitely complex: give the hypothesis a radius")
    outputs = getattr(space, "n_outputs", 1)
    factor = space.radius * (1.0 if outputs == 1 else sqrt(2.0 * outputs))

    def squares(X: Tensor, y: Tensor, p: Tensor) -> Tensor:
        length = torch.linalg.vector_norm(X.double(), dim=-1)
        slope, _, _ = _by_score(space, components.loss, length, y)
        return (p.double() * slope * length).square()

    sources = source_sums(squares(rows.X, rows.y, rows.weight), rows)
    own = squares(rows.own_X, rows.own_y[:, 0], rows.own_weight[:, 0]).sum(-1)
    return factor * sources.sqrt().cpu().numpy(), factor * own.sqrt().cpu().numpy()


def _components(
    problem: Problem,
    hypothesis: Hypothesis,
    loss: Loss,
    standardised: bool | None,
) -> LocalComponents:
    """Return the rows bound to the W and the loss that were asked for."""
    check_choice("loss", loss, ("auto", "trained", "bounded"))
    scaled = hypothesis.radius is None if standardised is None else standardised
    space = known_space(hypothesis.bind(problem, standardised=scaled))
    kind: LossKind = ("trained" if space.quadratic else "bounded") if loss == "auto" else loss
    return LocalComponents(problem, space, kind)


def _by_score(
    space: Any,
    loss: LossKind,
    length: Tensor,
    y: Tensor,
) -> tuple[Tensor, float, Tensor]:
    """Return how steep a row's loss is in its scores (…,), how bent, and its maximum (…,).

    This is for rows of this length (…,) with labels y (…,), and for any w in W.
    """
    ones = torch.ones_like(length)
    if isinstance(space, RidgeSpace) and loss == "bounded":  # ½r²/(1 + r²/s²)
        largest = space.bounded(ones.new_full((1, 1), 1e100), ones.new_zeros(1)) * ones  # ½s²
        return 9 / (16 * sqrt(3.0)) * (2.0 * largest).sqrt(), 1.0, largest  # steepest at r = s/√3
    if loss == "bounded" and space.n_outputs == 1:  # 1 − p_y: σ' ≤ ¼ and |σ''| ≤ 1/(6√3)
        return 0.25 * ones, 1 / (6 * sqrt(3.0)), ones
    if loss == "bounded":  # no steeper than √2 p(1 − p), no more bent than 2p(1 − p)² or 2p²(1 − p)
        return sqrt(2.0) / 4 * ones, 8 / 27, ones
    if space.radius is None:
        raise OptionError("without a radius this loss has no bound: give the hypothesis a radius")
    if isinstance(space, RidgeSpace):
        residual = length * space.radius + y.abs()
        return residual, 1.0, 0.5 * residual.square()
    steepest, most_bent = (1.0, 0.25) if space.n_outputs == 1 else (sqrt(2.0), 0.5)
    against = lead(length, space.radius, space.n_outputs)
    return steepest * torch.sigmoid(against), most_bent, functional.softplus(against)


def lead(length: Tensor, radius: float, n_outputs: int) -> Tensor:
    """Return the largest log-odds against its class that w of norm `radius` gives such a row.

    Two scores of a softmax differ by √2‖w‖‖x‖ at most, and each of the other classes may be that
    far ahead.
    """
    return length * radius if n_outputs == 1 else sqrt(2.0) * length * radius + log(n_outputs - 1)


def largest_chance_of_error(length: Tensor, radius: float, n_outputs: int) -> Tensor:
    """Return the largest 1 − p_y that any w of norm `radius` gives to a row of this length."""
    return torch.sigmoid(lead(length, radius, n_outputs))


def is_known(space: Space) -> bool:
    """Return whether the constants of this space are known."""
    return isinstance(space, RidgeSpace | LogisticSpace)


def known_space(space: Space) -> Any:
    """Return the space, or raise `OptionError` where its constants are not known."""
    if not is_known(space):
        raise OptionError("the theorems' constants are known for Ridge and Logistic alone")
    return space
