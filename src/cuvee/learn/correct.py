"""Predict, certify and correct, at the level of trust that the caller asks for.

"predicted": no pass over the data; bounds are calibrated.

"certified": one pass for every row; bounds are proven, whatever made w.

"corrected": Newton steps for rows that fail the pass, then the exact solver for those that still
fail.

None: predicted where the calibrated bound is within the tolerance, corrected elsewhere.
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
    """Hold one row per model in every field; rows that are corrected are overwritten."""

    w: Tensor  # (M, P)
    distance: Tensor  # (M,) the three bounds of a certificate
    excess: Tensor
    gradient: Tensor
    calibrated: Tensor  # (M,) bounds are calibrated, not proven
    status: Array  # (M,) of Status
    passes: Tensor  # (M,)

    def put(
        self,
        rows: Tensor,
        outcome: Outcome,
        ok: Status,
        tol: float,
        otherwise: Status | None = None,
    ) -> Tensor:
        """Write an oracle's outcome into `rows` and return which of them are not within `tol`.

        A row gets the status `ok` where it is proven to be within the tolerance.
        """
        self.w[rows] = outcome.w.to(self.w)
        self.distance[rows] = outcome.bounds.distance.to(self.distance)
        self.excess[rows] = outcome.bounds.excess.to(self.excess)
        self.gradient[rows] = outcome.gradient.to(self.gradient)
        self.calibrated[rows] = False
        self.passes[rows] += outcome.passes
        within = (outcome.gradient <= tol) & torch.as_tensor(
            outcome.status == Status.SOLVED, device=rows.device
        )
        proven = within & outcome.bounds.distance.isfinite()
        status = outcome.status.copy() if otherwise is None else np.full(len(rows), otherwise)
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
    """Return what is known of predictions w (M, P) without a pass over the data.

    A prediction with NaN or infinite entries is replaced by `instead` (P,).
    """
    finite = w.sum(1).isfinite()  # one NaN or infinite entry makes the sum so
    unknown = hopeless | ~finite
    bounds: Errors = calibration.bounds(alpha)
    distance, excess, gradient = (
        torch.where(unknown, torch.inf, bound) for bound in vars(bounds).values()
    )
    status = np.full(len(w), Status.OFF_TOLERANCE)
    status[(gradient <= tol).cpu().numpy()] = Status.PREDICTED
    counted = torch.full_like(gradient, passes, dtype=torch.int64)
    if not bool(finite.all()):
        w = torch.where(finite[:, None], w, instead)
    return Answer(w, distance, excess, gradient, torch.ones_like(unknown), status, counted)


def nothing(w: Tensor) -> Answer:
    """Return an answer for models w (M, P) of which nothing is known yet."""
    distance, excess, gradient = (torch.full_like(w[:, 0], torch.inf) for _ in range(3))
    passes = torch.zeros(len(w), dtype=torch.int64, device=w.device)
    return Answer(
        w, distance, excess, gradient, passes.bool(), np.full(len(w), Status.OFF_TOLERANCE), passes
    )


def look(
    answer: Answer, rows: Tensor, oracle: Oracle, alpha: Tensor, tol: float
) -> tuple[Tensor, Tensor]:
    """Certify some rows with one pass over the data; return those that fail and their gradients."""
    outcome = oracle.certify(alpha[rows], answer.w[rows], tol=tol)
    late = answer.put(rows, outcome, Status.CERTIFIED, tol, Status.OFF_TOLERANCE)
    return rows[late], outcome.vector[late]


def correct(
    answer: Answer, rows: Tensor, oracle: Oracle, alpha: Tensor, newton: Newton | None, tol: float
) -> None:
    """Certify some rows, then correct those that fail by Newton steps and the exact solver."""
    rows, gradient = look(answer, rows, oracle, alpha, tol)
    for _ in range(NEWTON_STEPS):
        if newton is None or len(rows) == 0:
            break
        w = newton(alpha[rows], answer.w[rows], gradient)
        # A row whose step is NaN or infinite keeps its w and is left to the solver.
        w = torch.where(w.isfinite().all(1, keepdim=True), w, answer.w[rows])
        outcome = oracle.certify(alpha[rows], w, tol=tol)
        late = answer.put(rows, outcome, Status.CORRECTED, tol, Status.OFF_TOLERANCE)
        rows, gradient = rows[late], outcome.vector[late]
    if len(rows):
        answer.put(
            rows, oracle.solve(alpha[rows], tol=tol, start=answer.w[rows]), Status.SOLVED, tol
        )
