"""Measure constants of single rows: G_f, L_f of Assumption 1, and Theorem 1's complexities.

They are those of the losses that the discrepancy compares, on W. All are proven for the rows that
are there, from the lengths of rows, for `Ridge` and `Logistic` (also softmax); a longer row that
was never seen may exceed them.
"""

from __future__ import annotations

from math import sqrt
from typing import Any, Literal

from cuvee.components import LocalComponents, RowConstants, bind
from cuvee.errors import OptionError, check_choice, check_number
from cuvee.hypothesis.base import Hypothesis, LossKind, Space
from cuvee.problem import Problem
from cuvee.results import Floats
from cuvee.theory.stationarity import Constants

Loss = Literal["auto", "trained", "bounded"]


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
    return _components(problem, hypothesis, loss, standardised).row_constants()


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
    """Return `rademacher` for components, whose data are bound already."""
    space: Any = components.space
    if space.radius is None:
        raise OptionError(
            "without a radius the complexity of W is infinite: give the hypothesis a radius"
        )
    factor = space.radius * (1.0 if space.n_outputs == 1 else sqrt(2.0 * space.n_outputs))
    sources, own = (x.sqrt().cpu().numpy() for x in components.squared_lengths())
    return factor * sources, factor * own


def _components(
    problem: Problem,
    hypothesis: Hypothesis,
    loss: Loss,
    standardised: bool | None,
) -> LocalComponents:
    """Return the rows bound to the W and the loss that were asked for."""
    check_choice("loss", loss, ("auto", "trained", "bounded"))
    scaled = hypothesis.radius is None if standardised is None else standardised
    space = known_space(hypothesis.bind(problem.facts, standardised=scaled))
    kind: LossKind = ("trained" if space.quadratic else "bounded") if loss == "auto" else loss
    bound: LocalComponents = bind(problem, space, kind)
    return bound


def known_space(space: Space) -> Any:
    """Return the space, or raise `OptionError` where its constants are not known."""
    if not space.bounds_known:
        raise OptionError(
            "the theorems' constants are known only for Ridge and Logistic: use one of them"
        )
    return space
