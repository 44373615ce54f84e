"""L-BFGS on many mixtures at once: every model has its own history, step and stopping, all share the passes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from cuvee.components import LocalComponents, Rows

MEMORY = 10
ARMIJO = 1e-4
SMALLEST_STEP = 1e-10


@dataclass(frozen=True)
class Minimised:
    """w (M, Q, P) with ‖∇‖∞ (M, Q) and the number of passes over the rows."""

    w: Tensor
    gradient: Tensor
    passes: int


def solve(
    components: LocalComponents, rows: Rows, alpha: Tensor, w: Tensor, *, tol: float, max_passes: int = 500
) -> Minimised:
    """Minimise Σ_j α_j f_j(w) + λ/2‖w‖² from w (M, Q, P) until ‖∇‖∞ ≤ tol for every model."""
    penalty = components.space.l2 * components.space.penalised.to(w)
    scale = _scale(rows, components).to(w)  # a diagonal that undoes the units of the columns

    def evaluate(w: Tensor) -> tuple[Tensor, Tensor]:
        losses, pullback = components.losses(w, rows)
        value = (alpha * losses).sum(-1) + 0.5 * (penalty * w.square()).sum(-1)
        return value, pullback(alpha) + penalty * w

    value, gradient = evaluate(w)
    history: list[tuple[Tensor, Tensor, Tensor]] = []
    passes, running = 1, gradient.abs().amax(-1) > tol
    while bool(running.any()) and passes < max_passes:
        direction = _two_loops(gradient, history, scale)
        slope = (direction * gradient).sum(-1)
        downhill = slope < 0
        direction = torch.where(downhill[..., None], direction, -scale * gradient)
        slope = torch.where(downhill, slope, -(scale * gradient.square()).sum(-1))
        length = running.to(w)
        while True:
            trial = w + length[..., None] * direction
            new_value, new_gradient = evaluate(trial)
            passes += 1
            slack = 1e-12 * value.abs() + torch.finfo(w.dtype).eps
            too_long = running & (length > SMALLEST_STEP) & ~(new_value <= value + ARMIJO * length * slope + slack)
            if not bool(too_long.any()) or passes >= max_passes:
                break
            length = torch.where(too_long, 0.5 * length, length)
        accepted = running & (new_value <= value + slack)
        step = torch.where(accepted[..., None], trial - w, 0.0)
        change = torch.where(accepted[..., None], new_gradient - gradient, 0.0)
        history = [*history[-MEMORY + 1 :], (step, change, (step * change).sum(-1))]
        w = w + step
        value = torch.where(accepted, new_value, value)
        gradient = gradient + change
        running = accepted & (gradient.abs().amax(-1) > tol)
    return Minimised(w, gradient.abs().amax(-1), passes)


def _scale(rows: Rows, components: LocalComponents) -> Tensor:
    """1/(¼ mean x² + λ) per parameter: the inverse diagonal of the Hessian's upper bound, (P,)."""
    outputs = components.space.n_params // rows.X.shape[-1]
    curvature = 0.25 * rows.X.square().mean(0).repeat(outputs)
    return 1.0 / (curvature + components.space.l2 * components.space.penalised.to(curvature)).clamp(min=1e-12)


def _two_loops(gradient: Tensor, history: list[tuple[Tensor, Tensor, Tensor]], scale: Tensor) -> Tensor:
    """−H∇ by the usual two loops; pairs without positive curvature are passed over, model by model."""
    q, kept = gradient, []
    for s, y, sy in reversed(history):
        rho = torch.where(sy > 1e-300, 1.0 / sy.clamp(min=1e-300), 0.0)
        a = rho * (s * q).sum(-1)
        q = q - a[..., None] * y
        kept.append((s, y, rho, a))
    if history:
        _, y, sy = history[-1]
        yHy = (scale * y.square()).sum(-1)
        factor = torch.where((sy > 0) & (yHy > 0), sy / yHy.clamp(min=1e-300), 1.0)
        r = factor[..., None] * scale * q
    else:
        r = scale * q
    for s, y, rho, a in reversed(kept):
        b = rho * (y * r).sum(-1)
        r = r + (a - b)[..., None] * s
    return -r
