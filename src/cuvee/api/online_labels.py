"""What the data say of mixtures that arrive one by one: a label, a gradient, what an
answer lost.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from cuvee.api.bound import Bound
from cuvee.api.checks import check_device, check_hypothesis, check_memory
from cuvee.hypothesis.base import Hypothesis
from cuvee.oracle import gradient_norms
from cuvee.problem import Domain, Problem, as_problem
from cuvee.results import Floats, Status

# a label at the limit of rounding is one; these are none
BAD = (Status.DIVERGED, Status.ABSENT_CLASS)


def bind_sources(
    data: Problem | Sequence[Domain],
    hypothesis: Hypothesis,
    device: str,
    memory: int | None,
    seed: int = 0,
) -> Bound:
    """Return a user's sources, checked and bound to the hypothesis."""
    check_hypothesis(hypothesis)
    check_device(device)
    room = check_memory(memory, device)
    return Bound.of(as_problem(data).without_targets(), hypothesis, device, room, seed)


def label(
    bound: Bound, alpha: Floats, start: Floats, *, tol: float, slopes: bool, K: int | None
) -> tuple[Floats | None, Floats | None, Status]:
    """Return w*(α) (P,) for α (N,), dw*/dα (N, P) where it is wanted, and how that ended.

    With K it is GD(0, α, K), as in the paper. Where there is no label, None comes with the status
    that says why.
    """
    a = torch.as_tensor(alpha, device=bound.device)[None]
    if K is not None:
        w, status = (
            bound.descend(torch.zeros(1, bound.space.n_params).to(a), a, K),
            Status.STEP_LIMIT,
        )
    else:
        near = torch.as_tensor(start, device=bound.device)[None] if bound.space.convex else None
        outcome = bound.oracle.solve(a, tol=tol, start=near)
        w, status = outcome.w.double(), outcome.status[0]
    moves = bound.oracle.sensitivity(a, w) if slopes else None
    finite = bool(w.isfinite().all()) and (moves is None or bool(moves.isfinite().all()))
    if status in BAD or not finite:
        return None, None, Status.DIVERGED if status.ok else status
    return (
        np.asarray(w[0].cpu()),
        None if moves is None else np.asarray(moves[0].double().cpu()),
        status,
    )


def gradient(bound: Bound, alpha: Floats, w: Floats) -> float:
    """Return ‖∇f_α(w)‖∞ for α (N,) and w (P,), by one pass over the data."""
    a, at = (torch.as_tensor(x, device=bound.device)[None] for x in (alpha, w))
    return float(gradient_norms(bound.oracle, bound.space, a, at)[0])


def has_minimiser(bound: Bound, alpha: Floats) -> bool:
    return not bool(
        bound.oracle.without_minimiser(torch.as_tensor(alpha, device=bound.device)[None])[0]
    )


def losses(bound: Bound, alpha: Floats, w: Floats, tol: float) -> Floats:
    """Return ‖w − w*(α)‖² of answers (M, P) to mixtures (M, N); NaN where there is no w*.

    All w* are solved together.
    """
    try:
        outcome = bound.oracle.solve(torch.as_tensor(alpha, device=bound.device), tol=tol)
    except Exception:  # the answers stand; what they lost is not known
        return np.full(len(alpha), np.nan)
    loss = ((w - np.asarray(outcome.w.double().cpu())) ** 2).sum(1)
    bad = np.array([status in BAD for status in outcome.status])
    return np.where(bad | ~np.isfinite(loss), np.nan, loss)
