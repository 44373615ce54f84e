"""Search a polytope of mixtures for the best one: many draws, then SLSQP from the best of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch

from cuvee.errors import option
from cuvee.mix.belief import Belief
from cuvee.mix.candidate import DTYPE
from cuvee.mix.constraints import InfeasibleError, Polytope
from cuvee.mix.goal import Goal
from cuvee.results import Floats

FINALISTS = 96  # draws that are looked at with their intervals
PENALTY = 10.0  # per unit of spread above a guard rail, among draws
BELOW_BEST = 0.05  # of a metric's spread: how far its ideal is below the lowest that was found
TOLERANCE = 1e-3  # of guard rails, in units of a metric's spread


def values(goal: Goal, belief: Belief, alpha: Floats, *, risky: bool = True) -> Floats:
    """Return what mixtures (m, N) are worth, guard rails as penalties; `risky`: with intervals."""
    with torch.no_grad():
        x = torch.as_tensor(alpha, dtype=DTYPE)
        mean, spread = belief(x) if risky and goal.risk > 0 else (belief.mean(x), None)
        value = goal.value(belief, mean, spread) + goal.pulled(x, belief)
        if goal.guards:
            above = goal.beyond(belief, mean, spread).clamp(min=0.0).sum(1)
            value = value + PENALTY * goal.unit(belief) * above
        return value.numpy()


@dataclass(frozen=True)
class Effort:
    """Say how long to search."""

    draws: int = 2000
    starts: int = 2  # of SLSQP
    steps: int = 50  # of each


QUICK = Effort(draws=300, starts=1, steps=25)


def minimise(
    goal: Goal,
    belief: Belief,
    polytope: Polytope,
    starts: Floats,
    seed: int,
    effort: Effort = Effort(),  # it is frozen
) -> Floats:
    """Return the best mixture (N,) that is found; `starts` (m, N) are looked at beside draws."""
    drawn = polytope.draws(effort.draws, seed, polytope.centre)
    pool = np.concatenate([polytope.repaired(starts), drawn])
    by_mean = np.argsort(values(goal, belief, pool, risky=False), kind="stable")
    finalists = pool[by_mean[:FINALISTS]]
    if goal.risk > 0:
        # the best by the mean alone is cheap to find, and often near the best
        centre = _descend(goal, belief, polytope, finalists[0], effort.steps, risky=False)
        finalists = np.concatenate([centre[None], finalists])
    order = np.argsort(values(goal, belief, finalists), kind="stable")
    beginnings = finalists[order[: effort.starts]]
    ends = [_descend(goal, belief, polytope, x, effort.steps, risky=True) for x in beginnings]
    candidates = np.array([*ends, *beginnings])
    return candidates[int(np.argmin(values(goal, belief, candidates)))]


def each_alone(
    goal: Goal,
    belief: Belief,
    polytope: Polytope,
    starts: Floats,
    seed: int,
    effort: Effort = Effort(),  # it is frozen
) -> Floats:
    """Return the best mixture (n, N) for each of the metrics that count, as if it were alone."""
    alone = replace(goal, worst=False, pull=0.0, ideal=None)
    places = torch.nonzero(goal.weights > 0)[:, 0]
    single = torch.eye(len(goal.weights), dtype=DTYPE)[places]
    goals = [replace(alone, weights=weights) for weights in single]
    return np.array([minimise(g, belief, polytope, starts, seed, effort) for g in goals])


def with_ideal(goal: Goal, belief: Belief, polytope: Polytope, starts: Floats, seed: int) -> Goal:
    """Return the goal; where the worst metric counts, with the ideal that it is measured from.

    The ideal of a metric is a little below the lowest mean of any mixture that is allowed.
    """
    if not goal.worst:
        return goal
    means = replace(goal, risk=0.0)  # what keeps a guard rail with its interval keeps it without
    return measured_from(goal, belief, each_alone(means, belief, polytope, starts, seed, QUICK))


def measured_from(goal: Goal, belief: Belief, best: Floats) -> Goal:
    """Return the goal with the ideal point a little below the lowest means of mixtures (n, N)."""
    with torch.no_grad():
        lowest = belief.mean(torch.as_tensor(best, dtype=DTYPE)).amin(0)
    return replace(goal, ideal=lowest - BELOW_BEST * belief.unit)


def broken_guards(goal: Goal, belief: Belief, alpha: Floats) -> list[int]:
    """Return the metrics whose guard rail a mixture (N,) does not keep."""
    if not goal.guards:
        return []
    with torch.no_grad():
        mean, spread = belief(torch.as_tensor(alpha, dtype=DTYPE)[None])
        above = goal.beyond(belief, mean, spread)[0].numpy()
    return [k for k, b in zip(goal.guards, above, strict=True) if b > TOLERANCE]


def check_guards(goal: Goal, belief: Belief, alpha: Floats, names: tuple[str, ...]) -> None:
    """Raise `InfeasibleError` that names the guard rails that the best mixture does not keep."""
    broken = [names[k] for k in broken_guards(goal, belief, alpha)]
    if broken:
        end = "the end of its interval" if goal.risk > 0 else "the mean"
        lower = f"lower {option('risk')}, " if goal.risk > 0 else ""
        raise InfeasibleError(
            f"no mixture was found that keeps {', '.join(map(repr, broken))} within "
            f"{'its bound' if len(broken) == 1 else 'their bounds'} ({end} counts): loosen "
            f"{option('keep')}, {lower}or loosen the constraints",
            tuple(f"bound of {name!r}" for name in broken),
        )


def _descend(
    goal: Goal, belief: Belief, polytope: Polytope, start: Floats, steps: int, *, risky: bool
) -> Floats:
    """Return the mixture where SLSQP ends, moved inside all limits."""
    from scipy.optimize import minimize as scipy_minimize

    unit = goal.unit(belief)
    guards = len(goal.guards)

    def both(x: Floats) -> tuple[Floats, Floats]:
        """Return the goal and the guard rails (1 + g,), and their slopes (1 + g, N)."""
        # a copy, as x may not be written to where all shares are fixed, of which PyTorch warns
        alpha = torch.tensor(x, dtype=DTYPE)[None].clamp(min=0.0).requires_grad_()
        mean, spread = belief(alpha) if risky and goal.risk > 0 else (belief.mean(alpha), None)
        value = (goal.value(belief, mean, spread) + goal.pulled(alpha, belief)) / unit
        parts = torch.cat([value[:, None], goal.beyond(belief, mean, spread)], 1)[0]
        slopes = [
            torch.autograd.grad(part, alpha, retain_graph=True)[0][0] for part in parts.unbind()
        ]
        return parts.detach().numpy(), torch.stack(slopes).numpy()

    memory: dict[bytes, tuple[Floats, Floats]] = {}

    def at(x: Floats) -> tuple[Floats, Floats]:
        key = x.tobytes()
        if key not in memory:
            memory.clear()
            memory[key] = both(x)
        return memory[key]

    A, b = polytope.rows
    limits = [{"type": "eq", "fun": lambda x: x.sum() - 1.0, "jac": lambda x: np.ones_like(x)}]
    if len(b):
        limits.append({"type": "ineq", "fun": lambda x: b - A @ x, "jac": lambda x: -A})
    if guards:
        limits.append(
            {"type": "ineq", "fun": lambda x: -at(x)[0][1:], "jac": lambda x: -at(x)[1][1:]}
        )
    found = scipy_minimize(
        lambda x: (float(at(x)[0][0]), at(x)[1][0]), start, jac=True, method="SLSQP",
        bounds=list(zip(polytope.lower, polytope.upper, strict=True)), constraints=limits,
        options={"maxiter": steps, "ftol": 1e-7},
    )  # fmt: skip
    end = found.x if np.isfinite(found.x).all() else start
    return polytope.repaired(end[None])[0]
