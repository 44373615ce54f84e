"""Predict → certify → correct, at the level of trust that the caller asks for.

"predicted"  no pass over the data; bounds are calibrated
"certified"  one pass for every row; bounds are proven, whatever made w
"corrected"  Newton steps for rows that the pass found wanting, the exact solver for what is then
left None         predicted where the calibrated bound keeps the tolerance, corrected elsewhere
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from cuvee.learn.calibrate import Calibration, Errors
from cuvee.oracle import Oracle, Outcome
from cuvee.problem import Array
from cuvee.results import Status

Trust = Literal["predicted", "certified", "corrected"]
Newton = Callable[[Tensor, Tensor, Tensor], Tensor]  # α, w, ∇ -> w − H⁻¹∇

NEWTON_STEPS = 2


@dataclass(frozen=True)
class Answer:
    """Every field has a row per model; rows that are looked at again are written over."""

    w: Tensor  # (M, P)
    distance: Tensor  # (M,) the three bounds of a certificate
    excess: Tensor
    gradient: Tensor
    calibrated: Tensor  # (M,) bounds are calibrated, not proven
    status: Array  # (M,) of Status
    passes: Tensor  # (M,)

    def put(
        self, rows: Tensor, found: Outcome, ok: Status, tol: float, otherwise: Status | None = None
    ) -> Tensor:
        """What an oracle found for some rows: `ok` where it is proven within the tolerance. Returns
        which are not.
        """
        self.w[rows] = found.w.to(self.w)
        self.distance[rows] = found.bounds.distance.to(self.distance)
        self.excess[rows] = found.bounds.excess.to(self.excess)
        self.gradient[rows] = found.gradient.to(self.gradient)
        self.calibrated[rows] = False
        self.passes[rows] += found.passes
        within = (found.gradient <= tol) & torch.as_tensor(
            found.status == Status.SOLVED, device=rows.device
        )
        proven = within & found.bounds.distance.isfinite()
        status = found.status.copy() if otherwise is None else np.full(len(rows), otherwise)
        # as near as rounding lets the solver come
        status[status == Status.SOLVED] = Status.ILL_CONDITIONED
        status[within.cpu().numpy()] = Status.SOLVED
        status[proven.cpu().numpy()] = ok
        self.status[rows.cpu().numpy()] = status
        return ~within

    def rows(self, status: Status) -> Tensor:
        return torch.as_tensor(np.flatnonzero(self.status == status), device=self.w.device)


def predicted(
    w: Tensor,
    alpha: Tensor,
    calibration: Calibration,
    hopeless: Tensor,
    tol: float,
    passes: int,
    instead: Tensor,
) -> Answer:
    """What is known of predictions w (M, P) without a look at the data; one that is no number is
    `instead` (P,).
    """
    finite = w.sum(1).isfinite()  # one that is not makes its row's sum so
    nothing = hopeless | ~finite
    said: Errors = calibration.bounds(alpha)
    distance, excess, gradient = (
        torch.where(nothing, torch.inf, bound) for bound in vars(said).values()
    )
    status = np.full(len(w), Status.OFF_TOLERANCE)
    status[calibration.within(alpha, gradient, tol).cpu().numpy()] = Status.PREDICTED
    counted = torch.full_like(gradient, passes, dtype=torch.int64)
    if not bool(finite.all()):
        w = torch.where(finite[:, None], w, instead)
    return Answer(w, distance, excess, gradient, torch.ones_like(nothing), status, counted)


def nothing(w: Tensor) -> Answer:
    """Models w (M, P) of which nothing is known yet."""
    distance, excess, gradient = (torch.full_like(w[:, 0], torch.inf) for _ in range(3))
    passes = torch.zeros(len(w), dtype=torch.int64, device=w.device)
    return Answer(
        w, distance, excess, gradient, passes.bool(), np.full(len(w), Status.OFF_TOLERANCE), passes
    )


def look(
    answer: Answer, rows: Tensor, oracle: Oracle, alpha: Tensor, tol: float
) -> tuple[Tensor, Tensor]:
    """One pass over the data for some rows: those that fail, and the gradient there."""
    found = oracle.certify(alpha[rows], answer.w[rows], tol=tol)
    late = answer.put(rows, found, Status.CERTIFIED, tol, Status.OFF_TOLERANCE)
    return rows[late], found.vector[late]


def correct(
    answer: Answer, rows: Tensor, oracle: Oracle, alpha: Tensor, newton: Newton | None, tol: float
) -> None:
    """A look at some rows, Newton steps for those that fail, and the exact solver for what is then
    left.
    """
    rows, gradient = look(answer, rows, oracle, alpha, tol)
    for _ in range(NEWTON_STEPS):
        if newton is None or len(rows) == 0:
            break
        w = newton(alpha[rows], answer.w[rows], gradient)
        # A step that is no number leaves its row to the solver.
        w = torch.where(w.isfinite().all(1, keepdim=True), w, answer.w[rows])
        found = oracle.certify(alpha[rows], w, tol=tol)
        late = answer.put(rows, found, Status.CORRECTED, tol, Status.OFF_TOLERANCE)
        rows, gradient = rows[late], found.vector[late]
    if len(rows):
        answer.put(
            rows, oracle.solve(alpha[rows], tol=tol, start=answer.w[rows]), Status.SOLVED, tol
        )
