"""Find α for a whole path of C at once from cuts.

F(α, w) is convex in α, and z(w) = f_T(w) − f_j(w) depends neither on α nor on C. So a pass over the
data at adversaries w gives *cuts*: F(α, w) is a lower bound on max_w F for every α and every C. All
cuts are kept. The best α for the cuts so far is a small problem without data
(`cuvee.mixture.cut_problem`), solved for all targets and all C together. Then each value of C sends
its adversaries some steps up its own F, and where they arrive they give the next cuts.

No α has a largest F below the value of the small problem. So the largest F that adversaries find at
α, minus that value, is a true *gap*.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from cuvee.mixture import cut_problem, panel, pooled, pooled_own
from cuvee.mixture.method import SEARCH, AlphaMethod, Estimate, Progress, Request
from cuvee.mixture.objective import Objective
from cuvee.mixture.panel import Panel
from cuvee.mixture.players import Settings
from cuvee.mixture.points import Points
from cuvee.numerics.parallel import each, slices

# numbers in the cuts that a small problem looks at, but at least LEAST cuts: the largest ones
WORKING, LEAST = 3_000, 40
# a small problem is solved to this share of the present gap, within these limits (of F)
CAREFUL, ACCURACY = 0.1, (2e-3, 0.02)
SOLVED = 0.5  # of the tolerance: points with a smaller gap are not solved again
COURSE = 64 * 2**20  # bytes of α kept of the rounds
CHUNK = 2**19  # numbers in the cuts of the small problems solved at a time


def follow(
    adversaries: Panel,
    objective: Objective,
    C: Tensor,
    start: Tensor,
    settings: Settings,
    progress: Progress | None = None,
    what: str = "α",
) -> Points:
    """Return the weights of every target for every C (M, G), from `start` (M, J) on.

    It ends after `steps` rounds, or when a panel that has looked hard leaves every gap within `tol`
    of F.
    """
    (M, G), rounds, tol = C.shape, settings.steps, settings.tol
    alpha = start[:, None].expand(-1, G, -1).contiguous()
    running = torch.arange(M, device=C.device)
    zero = torch.zeros_like(C)
    best = everyone = Points(C, alpha, torch.full_like(C, torch.inf), zero, zero)
    cuts = start.new_zeros(M, 0, start.shape[-1])
    course: list[Points] = []
    keep = 8 * rounds * alpha.numel() <= COURSE
    for t in range(rounds):
        z, error = adversaries.answer(alpha, t)
        cuts = torch.cat([cuts, cut_problem.rows(objective, _finite(z))], 1)
        best = _better(objective, best, alpha, cuts)
        best = replace(best, noise=_noise(best.alpha, error))
        alpha, lower = _solve(objective, best, cuts, alpha, ~best.converged(SOLVED * tol))
        best = replace(best, lower=torch.maximum(best.lower, lower))
        everyone = everyone.put(running, best)
        if keep:
            course.append(everyone)
        if progress:
            progress(what, t + 1, rounds)
        if adversaries.settled(t):  # targets that are done leave
            stay = (~best.converged(tol)).any(-1).nonzero()[:, 0]
            if len(stay) == 0:
                if progress:
                    progress(what, rounds, rounds)
                break
            if len(stay) < len(running):
                adversaries, objective = adversaries.narrow(stay), objective.narrow(stay)
                best = best.of(stay)
                cuts, alpha, running = cuts[stay], alpha[stay], running[stay]
    return replace(everyone, course=tuple(course))


def _finite(z: Tensor) -> Tensor:
    """Return cuts (M, K, N) with those of adversaries that overflowed replaced by others' or 0."""
    good = z.isfinite().all(-1)
    if bool(good.all()):
        return z
    first = good.to(torch.int8).argmax(-1)  # an adversary that did not, if there is one
    spare = z.gather(1, first[:, None, None].expand(-1, 1, z.shape[-1])).nan_to_num(0.0, 0.0, 0.0)
    return torch.where(good[..., None], z, spare)


def _noise(alpha: Tensor, error: Tensor) -> Tensor:
    """Return twice the standard error (M, G) of Σ_j α_j z_j, for errors (M, N) of the z_j."""
    own = alpha[..., : error.shape[-1]] * error[:, None]
    return 2.0 * torch.linalg.vector_norm(own, dim=-1)


def largest(objective: Objective, C: Tensor, alpha: Tensor, cuts: Tensor) -> Tensor:
    """Return the largest F of each α (M, G, J) over cuts (M, K, J): (M, G)."""
    penalty = (C[..., None] * objective.inverse_counts[:, None] * alpha.square()).sum(-1)
    return cut_problem.phi((alpha @ cuts.mT).amax(-1), objective.smoothing) + penalty


def _solve(
    objective: Objective, best: Points, cuts: Tensor, alpha: Tensor, points: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the best weights for these cuts, and the lower bounds (M, G) that they prove.

    Only the marked points (M, G) are solved; the others keep their α (M, G, J) and have bound 0.
    """
    target = points.nonzero()[:, 0]
    inverse = objective.inverse_counts.expand(len(alpha), -1)
    C, start = best.C[points], alpha[points]
    accuracy = (CAREFUL * (best.gap / best.objective)[points]).clamp(*ACCURACY)

    def of(part: slice) -> tuple[Tensor, Tensor]:
        i = target[part]
        a, d = _working(start[part], cuts[i]), C[part, None] * inverse[i]
        problem = cut_problem.CutProblem(a, d, objective.smoothing)
        return cut_problem.solve(problem, start[part], accuracy[part, None])

    K, J = cuts.shape[1:]
    cost = cut_problem.ITERATIONS * K * J * min(K, J)  # of one problem, in multiplications
    parts = slices(len(target), cost, most=max(1, CHUNK // (K * J)))
    solved = each(of, parts, C.device, cost=len(target) * cost)
    if len(target) == 0:
        return alpha, torch.zeros_like(best.lower)
    weights, bounds = (torch.cat(part) for part in zip(*solved, strict=True))
    where = (points,)
    return alpha.index_put(where, weights), torch.zeros_like(best.lower).index_put(where, bounds)


def _working(alpha: Tensor, cuts: Tensor) -> Tensor:
    """Return the cuts that are largest at α (B, J), as many as a small problem may have."""
    most = max(LEAST, WORKING // cuts.shape[-1])
    if cuts.shape[1] <= most:
        return cuts
    chosen = (cuts @ alpha[..., None])[..., 0].topk(most, dim=-1).indices
    return cuts.gather(1, chosen[..., None].expand(-1, -1, cuts.shape[-1]))


def estimate(request: Request) -> Estimate:
    """Return the α that minimises the largest F for the caller's C, with its proven gap."""
    components, settings = request.components, request.settings
    objective = request.objective()
    C = objective.inverse_counts.new_full((len(components.own_counts), 1), settings.C)
    every_row = pooled_own.weights(components) if settings.own else pooled.weights(components)
    start = torch.as_tensor(request.allowed(every_row)).to(C)
    adversaries = panel.of(components, objective, settings.run)
    points = follow(adversaries, objective, C, start, settings.run, request.progress)
    everything = np.ones((len(C), 1))
    objective_value, gap, alpha = points.averaged(everything)
    status = points.status(settings.run.tol)
    alpha = request.allowed(alpha)
    return Estimate(alpha, gap, objective_value, status, points.trace(everything))


METHOD = AlphaMethod(
    "cuts",
    estimate,
    "Cutting planes for a given C: the weights with the least largest F, and a lower bound that "
    "proves how close they are.",
    steps=30,
    excludes=True,
    takes=(*SEARCH, "C", "batch_size"),
)


def _better(objective: Objective, best: Points, alpha: Tensor, cuts: Tensor) -> Points:
    """Return the better of the best weights so far and α (M, G, J), both judged by all cuts."""
    before, now = (largest(objective, best.C, a, cuts) for a in (best.alpha, alpha))
    better = now <= before
    return replace(
        best,
        alpha=torch.where(better[..., None], alpha, best.alpha),
        objective=torch.where(better, now, before),
    )
