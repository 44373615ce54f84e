"""Solve generalised linear models for many mixtures, first in float32, then in float64.

The cost is in passes over the scores of all models on all rows. An anchor's quadratic model gives a
close start, quasi-Newton steps preconditioned by it finish in a few passes, most of them in
float32; the last one, in float64, is the one that certifies. Models that are done leave the batch;
those that are still not done take Newton steps of their own.

Where passes are few, because each is a round of messages, no cost but theirs counts: every mixture
has a Hessian of its own, and models that have to be certified take Newton steps at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import Tensor

from cuvee.components import Batch, LinearSums
from cuvee.erm.convex import lbfgs, newton
from cuvee.erm.convex.precondition import Anchor, Task
from cuvee.erm.convex.solver import Solved

# ‖∇‖∞ that is enough for a held-out loss, in units of each column's root mean square
ROUGH = 3e-4
FLOAT32_PAYS = 2e8  # multiplications in a pass
FLOAT32_PASSES = 40  # at most; three are usual
FLOAT32_HOLDS = 1e12  # the square of a larger entry, summed, might overflow
MAX_PASSES = 60  # in float64, before Newton steps
NEWTON_P = 1024  # with more parameters, no model has a Hessian of its own
LARGE_P_PASSES = 600  # in float64, where no Newton step fits
FAR_MEMORY = 2**30  # bytes of Hessians that are held where passes are few
FAR_HESSIANS = 2**20  # numbers in the Hessians of one round of messages
# A model that expects its gradient to fall to this share takes the step without checking it; the
# certifying pass does.
CREDIT = 0.06
ROUNDING = 4e-7  # of a column's root mean square: the accuracy of a float32 gradient


@dataclass(frozen=True)
class Wanted:
    """Hold what is asked of a solution.

    `extra` (M,) is added to every λ, `start` (M, Q, P) replaces the anchor's, `free` (M, Q, P)
    holds parameters fixed. Without `certified`, `tol` is in units of each column's root mean
    square, and models solved in float32 are left as they are: the gradient is where the last step
    began.
    """

    tol: float  # on ‖∇‖∞
    memory: int
    second: bool = False  # whether the Hessian in the intercepts is wanted too
    extra: Tensor | None = None
    start: Tensor | None = None
    free: Tensor | None = None
    certified: bool = True
    progress: Callable[[int, int], None] | None = None
    passes: int | None = None  # all that there may be, after those of the anchor

    def of(self, targets: slice) -> Wanted:
        """Return the same for some of the targets; `extra` has been added to λ already."""
        start, free = (None if x is None else x[targets] for x in (self.start, self.free))
        return replace(self, start=start, free=free)


@dataclass(frozen=True)
class _Plan:
    """Say how the work is cut up."""

    dense: bool  # whether every mixture has a Hessian of its own
    dtype: torch.dtype  # of the first passes
    targets: int  # at a time
    newton: int  # targets that may take Newton steps together
    rms: Tensor  # (P,) root mean square of each column, times a typical residual

    @classmethod
    def of(cls, components: LinearSums, alpha: Tensor, wanted: Wanted) -> _Plan:
        space, (M, Q, _), N = components.space, alpha.shape, len(components.counts)
        P, n, memory = space.n_params, components.n_rows, wanted.memory
        rms = components.mean_squares.sqrt().repeat(space.n_outputs)
        rms = rms * max(1.0, space.typical_curvature)
        if wanted.passes is not None or components.far:
            dense = 8 * P * P * (7 * M * Q + 2 * N) <= FAR_MEMORY
            newton = M if dense and M * Q * P * P <= FAR_HESSIANS else 0
            return cls(dense, space.dtype, M, newton, rms)
        # A Hessian per mixture saves about half of the passes, 4nP each; factorising and applying
        # it has to cost less.
        dense = (P <= 16 or n >= P * P) and memory >= 16 * N * P * P
        pays = M * Q * n * P > FLOAT32_PAYS and components.largest < FLOAT32_HOLDS
        dtype = torch.float32 if pays else space.dtype
        own_rows = components.own_rows if alpha.shape[-1] > N else 0
        # Pairs, iterates and copies of both when some leave; a Hessian, its factor and what LAPACK
        # copies of them.
        factors = 7 * dtype.itemsize * Q * P * P if dense else 0
        per_target = 8 * Q * P * (4 * lbfgs.MEMORY + 24 + own_rows) + factors
        newton = memory // (8 * Q * (6 * P * P + 4 * n * space.n_outputs)) if P <= NEWTON_P else 0
        return cls(dense, dtype, max(1, memory // per_target), newton, rms)


def solve(components: LinearSums, batch: Batch, alpha: Tensor, wanted: Wanted) -> Solved:
    """Minimise Σ_j α_j f_j(w) + λ/2‖w‖² for α (M, Q, N or N+1) until ‖∇‖∞ ≤ tol."""
    space, (M, _, _), N = components.space, alpha.shape, len(components.counts)
    penalty = (space.l2 * space.penalised).to(alpha).view(1, 1, -1)
    if wanted.extra is not None:
        penalty = penalty + wanted.extra.view(M, 1, 1)
    plan = _Plan.of(components, alpha, wanted)
    # Without a certificate, one model's result must not depend on the others through their centre.
    # Far away, the centre that cross-validation had is known already.
    own_centre = wanted.certified and not components.far
    centre = alpha[..., :N].mean((0, 1)) if own_centre else components.counts.to(alpha)
    # A little of every source, so that the anchor knows every class.
    centre = 0.9 * centre / centre.sum().clamp(min=torch.finfo(centre.dtype).tiny) + 0.1 / N
    anchor = Anchor.solve(
        components,
        centre,
        penalty.mean(0, keepdim=True),
        dense=plan.dense,
        tol=ROUGH if components.far else max(wanted.tol, 1e-5),
        memory=wanted.memory,
        dtype=plan.dtype,
    )
    own, result = alpha.shape[-1] > N, _room(components, alpha, wanted.second)
    for chunk in torch.arange(M, device=alpha.device).split(plan.targets):
        place = slice(int(chunk[0]), int(chunk[-1]) + 1)
        chunk_penalty = penalty if len(penalty) == 1 else penalty[place]
        part = components.narrow(chunk) if own and len(chunk) < M else components
        gradient: Tensor | None
        w, gradient, preconditioner = anchor.start(part, batch, alpha[place], chunk_penalty)
        some = wanted.of(place)
        task = Task(part, batch, alpha[place], chunk_penalty, preconditioner, some.free)
        if some.start is not None:
            w, gradient = some.start.to(w), None

        def tell(done: int, before: int = place.start) -> None:
            if wanted.progress is not None:
                wanted.progress(before + done, M)

        solved = _solve(task, w, gradient, some, plan, tell)
        for name, values in vars(solved).items():
            if values is not None:
                getattr(result, name)[place] = values
    return result


def _room(components: LinearSums, alpha: Tensor, second: bool) -> Solved:
    """Return empty tensors for all results, allocated at once.

    Small pieces kept between large ones that come and go would fragment the memory.
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
    wanted: Wanted,
    plan: _Plan,
    tell: Callable[[int], None],
) -> Solved:
    """Solve one chunk of targets from w, where the gradient may be known.

    It is done in the precision of w first.
    """
    second = wanted.second
    # a column that is 0 throughout has no gradient, which is no more than any tolerance
    scale = plan.rms.clamp(min=torch.finfo(plan.rms.dtype).tiny)
    tol = wanted.tol if wanted.certified else wanted.tol * scale
    passes = torch.zeros_like(task.alpha[..., 0], dtype=torch.int64)
    if w.dtype == torch.float32:
        most = FLOAT32_PASSES if wanted.certified or plan.newton else LARGE_P_PASSES
        enough = torch.maximum(ROUNDING * plan.rms, torch.as_tensor(0.5 * tol).to(plan.rms)).float()
        rough = lbfgs.minimise(
            task,
            w,
            gradient=gradient,
            tol=enough,
            max_passes=most,
            credit=CREDIT,
            report=tell,
        )
        w, passes = rough.w, passes + rough.passes
        if (
            not wanted.certified
            and not bool(rough.stuck.any())
            and bool((rough.passes < most).all())
        ):
            return Solved(w.double(), rough.gradient.double(), None, passes, rough.stuck)
    w = w.double()
    if task.free is None:
        w = task.components.space.canonical(w)
    g, bends = _certifying_pass(task, w, second)
    at_once = plan.newton > 0 and task.components.far and wanted.certified  # by Newton steps
    most = 0 if at_once else MAX_PASSES if plan.newton else LARGE_P_PASSES
    fine = lbfgs.minimise(
        task, w, gradient=g, tol=tol, max_passes=most if wanted.passes is None else wanted.passes
    )
    passes, stuck = passes + fine.passes + 1, fine.stuck
    w, g = fine.w, fine.gradient
    moved = ((fine.passes > 0) | ~(g.abs() <= tol).all(-1)).any(-1).nonzero()[:, 0]
    if len(moved):
        late = (~(g.abs() <= tol)).any(-1).any(-1).nonzero()[:, 0]
        newtonian = len(late) and plan.newton and wanted.passes is None
        for few in late.split(plan.newton) if newtonian else ():
            last = newton.minimise(task.narrow(few), w[few], tol=tol)
            w[few], g[few], stuck[few] = last.w, last.gradient, last.stuck
            passes[few] += last.passes
        if task.free is None:
            w[moved] = task.components.space.canonical(w[moved])
        if second:
            g[moved], bends[moved] = _certifying_pass(task.narrow(moved), w[moved], second)
    return Solved(w, g, bends if second else None, passes, stuck)


def _certifying_pass(task: Task, w: Tensor, second: bool) -> tuple[Tensor, Tensor]:
    """Return the gradient in float64, and the intercepts' Hessian if asked for."""
    if not second:
        return task.gradient(w), w[..., :0]
    g, bends = cast(LinearSums, task.components).pull_with_second(w, task.alpha, task.batch)
    return task.add_penalty(g, w), bends
