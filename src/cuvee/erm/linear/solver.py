"""Generalised linear models for many mixtures: an anchor, float32 on the way, float64 at the end.

What costs is passes over the scores of all models on all rows. The anchor's quadratic model starts
close, quasi-Newton steps preconditioned by it finish in a few passes, most of them in float32; the
last one, in float64, is the one that certifies. Models that are done leave the batch; those that
are still not done take Newton steps of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor

from cuvee.components import Batch, LinearSums
from cuvee.erm.convex import lbfgs, newton
from cuvee.erm.convex.precondition import Anchor, Task
from cuvee.erm.convex.solver import Solved

FLOAT32_PAYS = 2e8  # multiplications in a pass
FLOAT32_PASSES = 40  # at most; three are usual
FLOAT32_HOLDS = 1e12  # the square of a larger entry, summed, might overflow
MAX_PASSES = 60  # in float64, before Newton steps
NEWTON_P = 1024  # with more parameters, no model has a Hessian of its own
LARGE_P_PASSES = 600  # in float64, where no Newton step fits
# of its gradient: a model that can expect so little after a step takes it unseen, to be certified
CREDIT = 0.06
ROUNDING = 4e-7  # of a column's root mean square: no float32 gradient is known better


def solve(
    components: LinearSums,
    batch: Batch,
    alpha: Tensor,
    *,
    tol: float,
    memory: int,
    second: bool = False,
    extra: Tensor | None = None,
    start: Tensor | None = None,
    free: Tensor | None = None,
    certified: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> Solved:
    """Minimise Σ_j α_j f_j(w) + λ/2‖w‖² for α (M, Q, N or N+1) until ‖∇‖∞ ≤ tol.

    `extra` (M,) is added to every λ, `start` (M, Q, P) replaces the anchor's, `free` (M, Q, P)
    holds parameters fixed. Without `certified`, models solved in float32 are left as they are: the
    gradient is where the last step began.
    """
    space, (M, Q, _), N = components.space, alpha.shape, len(components.counts)
    P, n = space.n_params, components.n_rows
    penalty = (space.l2 * space.penalised).to(alpha).view(1, 1, P)
    if extra is not None:
        penalty = penalty + extra.view(M, 1, 1)
    # A Hessian per mixture saves about half of the passes, 4nP each; factorising and applying it
    # has to cost less.
    dense = (P <= 16 or n >= P * P) and memory >= 16 * N * P * P
    pays = M * Q * n * P > FLOAT32_PAYS and components.largest < FLOAT32_HOLDS
    first_dtype = torch.float32 if pays else space.dtype  # of the first passes
    # (P,) root mean square of each column
    rms = components.mean_squares.sqrt().repeat(space.n_outputs)
    centre = alpha[..., :N].mean((0, 1))
    # A little of every source, so that the anchor knows every class.
    centre = 0.9 * centre / centre.sum().clamp(min=torch.finfo(centre.dtype).tiny) + 0.1 / N
    anchor = Anchor.solve(
        components,
        centre,
        penalty.mean(0, keepdim=True),
        dense=dense,
        tol=max(tol, 1e-5),
        memory=memory,
        dtype=first_dtype,
    )
    own_rows = components.own_rows if alpha.shape[-1] > N else 0
    # Pairs, iterates and copies of both when some leave; a Hessian, its factor and what LAPACK
    # copies of them.
    per_target = 8 * Q * P * (4 * lbfgs.MEMORY + 24 + own_rows) + (
        7 * first_dtype.itemsize * Q * P * P if dense else 0
    )
    size = max(1, memory // per_target)
    at_a_time = memory // (8 * Q * (6 * P * P + 4 * n * space.n_outputs)) if P <= NEWTON_P else 0
    result = _room(components, alpha, second)
    targets = torch.arange(M, device=alpha.device)
    for first in range(0, M, size):
        chunk = slice(first, first + size)
        chunk_penalty = penalty if len(penalty) == 1 else penalty[chunk]
        part = components if size >= M or not own_rows else components.narrow(targets[chunk])
        w, gradient, preconditioner = anchor.start(part, batch, alpha[chunk], chunk_penalty)
        held = None if free is None else free[chunk]
        task = Task(part, batch, alpha[chunk], chunk_penalty, preconditioner, held)

        def told(done: int, first: int = first) -> None:
            if progress is not None:
                progress(first + done, M)

        done = _solve(
            task,
            w if start is None else start[chunk].to(w),
            gradient if start is None else None,
            tol=tol,
            rms=rms * max(1.0, space.typical_curvature),
            at_a_time=at_a_time,
            second=second,
            certified=certified,
            told=told,
        )
        for name, part in vars(done).items():
            if part is not None:
                getattr(result, name)[chunk] = part
    return result


def _room(components: LinearSums, alpha: Tensor, second: bool) -> Solved:
    """Return room for all results at once.

    Small pieces kept between large ones that come and go would scatter the memory.
    """
    (M, Q, _), K = alpha.shape, components.space.n_outputs
    w, gradient = (alpha.new_zeros(M, Q, components.space.n_params) for _ in range(2))
    passes, stuck = (
        torch.zeros(M, Q, dtype=kind, device=alpha.device) for kind in (torch.int64, torch.bool)
    )
    return Solved(w, gradient, alpha.new_zeros(M, Q, K, K) if second else None, passes, stuck)


def _solve(
    task: Task,
    w: Tensor,
    gradient: Tensor | None,
    *,
    tol: float,
    rms: Tensor,
    at_a_time: int,
    second: bool,
    certified: bool,
    told: Callable[[int], None],
) -> Solved:
    """Solve one chunk of targets from w, first in the precision of w.

    The gradient at w may be known.

    `at_a_time` targets may take Newton steps together, if any.
    """
    passes = torch.zeros_like(task.alpha[..., 0], dtype=torch.int64)
    if w.dtype == torch.float32:
        enough = (ROUNDING * rms).clamp(min=0.5 * tol).float()
        rough = lbfgs.minimise(
            task,
            w,
            gradient=gradient,
            tol=enough,
            max_passes=FLOAT32_PASSES,
            credit=CREDIT,
            told=told,
        )
        w, passes = rough.w, passes + rough.passes
        if (
            not certified
            and not bool(rough.stuck.any())
            and bool((rough.passes < FLOAT32_PASSES).all())
        ):
            return Solved(w.double(), rough.gradient.double(), None, passes, rough.stuck)
    w = w.double()
    if task.free is None:
        w = task.components.space.canonical(w)
    g, bends = _certifying_pass(task, w, second)
    fine = lbfgs.minimise(
        task,
        w,
        gradient=g,
        tol=tol,
        max_passes=MAX_PASSES if at_a_time else LARGE_P_PASSES,
    )
    passes, stuck = passes + fine.passes + 1, fine.stuck
    w, g = fine.w, fine.gradient
    moved = ((fine.passes > 0) | ~(g.abs() <= tol).all(-1)).any(-1).nonzero()[:, 0]
    if len(moved):
        late = (~(g.abs() <= tol)).any(-1).any(-1).nonzero()[:, 0]
        for chunk in late.split(at_a_time) if len(late) and at_a_time else ():
            last = newton.minimise(task.narrow(chunk), w[chunk], tol=tol)
            w[chunk], g[chunk], stuck[chunk] = last.w, last.gradient, last.stuck
            passes[chunk] += last.passes
        if task.free is None:
            w[moved] = task.components.space.canonical(w[moved])
        if second:
            g[moved], bends[moved] = _certifying_pass(task.narrow(moved), w[moved], second)
    return Solved(w, g, bends if second else None, passes, stuck)


def _certifying_pass(task: Task, w: Tensor, second: bool) -> tuple[Tensor, Tensor]:
    """Return the gradient in float64, and the intercepts' Hessian when asked for."""
    if not second:
        return task.gradient(w), w[..., :0]
    g, bends = cast(LinearSums, task.components).pull_with_second(w, task.alpha, task.batch)
    return task.add_penalty(g, w), bends
