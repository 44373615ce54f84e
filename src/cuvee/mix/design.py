"""Choose runs to make: the next ones of a surface, and the first ones when there is none yet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cuvee.errors import OptionError, check_whole
from cuvee.mix import kernels
from cuvee.mix.belief import Belief
from cuvee.mix.candidate import DTYPE
from cuvee.mix.constraints import EXACT, Constraints, Polytope
from cuvee.mix.goal import Goal
from cuvee.mix.runs import check_domains
from cuvee.results import Floats
from cuvee.simplex import check_alpha

POOL, KEPT, DRAWS = 3000, 500, 256
FIRST_POOL, FIRST_NOISE = 800, 0.1


@dataclass(frozen=True, eq=False)
class Plan:
    """Hold mixtures to run, each with its reason in words."""

    domains: tuple[str, ...]
    alpha: Floats  # (k, N)
    reasons: tuple[str, ...]  # (k,)
    gains: Floats  # (k,) expected improvement of the proposal by this run and those before it

    def __len__(self) -> int:
        return len(self.alpha)

    def to_frame(self) -> Any:
        """Return a pandas frame with a row per run: a column per domain, and the reason."""
        import pandas as pd

        frame = pd.DataFrame(self.alpha, columns=list(self.domains))
        frame.insert(0, "run", [f"next {i + 1}" for i in range(len(self.alpha))])
        # a domain may have that name
        column = "reason (in words)" if "reason" in self.domains else "reason"
        return frame.assign(**{column: list(self.reasons)})


def next_runs(
    goal: Goal,
    belief: Belief,
    polytope: Polytope,
    proposal: Floats,
    starts: Floats,
    k: int,
    seed: int,
) -> Plan:
    """Return the k mixtures whose best is expected to be furthest below the proposal.

    Surfaces are drawn from what is believed. One mixture after the other is added: the one that
    improves the best of the chosen ones most, on average over the draws. A mixture like one that
    was chosen already improves nothing more, so the k differ.
    """
    check_whole("k", k, 1)
    pool = np.concatenate([proposal[None], _pool(goal, belief, polytope, proposal, starts, seed)])
    drawn, spread = _draws(goal, belief, pool, seed)  # (DRAWS, m), (m,)
    best = drawn[:, 0].copy()
    chosen, gains, reasons = (
        [0],
        [0.0],
        ["It is the proposal itself: its run tells what it is worth."],
    )
    while len(chosen) < k:
        gain = np.maximum(best[:, None] - drawn, 0.0).mean(0)
        gain[chosen] = -1.0
        i = int(gain.argmax())
        if gain[i] <= 0.0:  # nothing can be better: learn where least is known
            left = np.where(np.isin(np.arange(len(pool)), chosen), -1.0, spread)
            i = int(left.argmax())
        chosen.append(i)
        gains.append(max(float(gain[i]), 0.0))
        reasons.append(
            _reason(polytope.domains, pool[i], proposal, gains[-1], spread[i], goal.unit(belief))
        )
        best = np.minimum(best, drawn[:, i])
    return Plan(polytope.domains, pool[chosen], tuple(reasons), np.array(gains))


def _pool(
    goal: Goal, belief: Belief, polytope: Polytope, proposal: Floats, starts: Floats, seed: int
) -> Floats:
    """Return mixtures (KEPT, N) that may beat the proposal: those with the lowest lower ends."""
    third = POOL // 3
    drawn = np.concatenate(
        [
            polytope.draws(third, [seed, 1], proposal),
            polytope.draws(third, [seed, 2], polytope.centre),
            polytope.repaired(starts),
        ]
    )
    # mixtures between the proposal and others, as improvements are often near
    share = np.random.default_rng([seed, 3]).uniform(0.05, 0.6, (len(drawn), 1))
    drawn = np.concatenate([drawn, polytope.repaired(proposal + share * (drawn - proposal))])
    with torch.no_grad():
        x = torch.as_tensor(drawn, dtype=DTYPE)
        mean, spread = belief(x)
        low = goal.value(belief, mean - belief.half_mean(spread), None).numpy()
    return drawn[np.argsort(low, kind="stable")[:KEPT]]


def _draws(goal: Goal, belief: Belief, pool: Floats, seed: int) -> tuple[Floats, Floats]:
    """Return the goal on surfaces drawn from what is believed (DRAWS, m), and its spread (m,)."""
    with torch.no_grad():
        x = torch.as_tensor(pool, dtype=DTYPE)
        mean, covariance = belief.joint(x)  # (m, K), (K, m, m)
        size = covariance.diagonal(dim1=1, dim2=2).mean(1)[:, None, None].clamp(min=1e-20)
        factor = torch.linalg.cholesky(covariance + 1e-6 * size * torch.eye(len(x), dtype=DTYPE))
        K = len(factor)
        correlation = belief.calibration.correlation + 1e-6 * torch.eye(K, dtype=DTYPE)
        mix = torch.linalg.cholesky(correlation)
        random = torch.Generator().manual_seed(seed)
        noise = torch.randn(K, len(x), DRAWS, generator=random, dtype=DTYPE)
        together = torch.einsum("kl,lmd->kmd", mix, noise)
        surfaces = mean + (factor @ together).permute(2, 1, 0)  # (DRAWS, m, K)
        drawn = goal.value(belief, surfaces.reshape(-1, K), None).reshape(DRAWS, -1)
        pulled = goal.pulled(x, belief)
        return (drawn + pulled).numpy(), drawn.std(0).numpy()


def _reason(
    domains: Sequence[str], alpha: Floats, proposal: Floats, gain: float, spread: float, unit: float
) -> str:
    apart = alpha - proposal
    more = [f"more {domains[j]}" for j in np.argsort(-apart)[:2] if apart[j] > 0.01]
    less = [f"less {domains[j]}" for j in np.argsort(apart)[:2] if apart[j] < -0.01]
    changed = " and ".join([*more, *less])
    how = f"{changed} than the proposal" if changed else "nearly the shares of the proposal"
    if gain > 0:
        sure = f"expected gain {gain / unit:.2g} spreads, uncertain by {spread / unit:.2g}"
        return f"With {how} it may be better: {sure}."
    return f"With {how}: little is known there (uncertain by {spread / unit:.2g} spreads)."


def first_runs(
    domains: int | Sequence[str],
    k: int,
    *,
    constraints: Constraints | None = None,
    prior: Sequence[float] | Mapping[str, float] | None = None,
    seed: int = 0,
) -> Plan:
    """Return k mixtures to run first, when nothing is known yet.

    A Gaussian process with usual variances stands for the surface. One mixture after the other is
    added: the one that leaves least uncertain on average over the mixtures that are allowed. The
    first is the prior mixture, or the middle of what is allowed.

    Args:
        domains: their names, or how many there are.
        k: how many runs.
        constraints: limits on shares.
        prior: a usual mixture, such as shares in proportion to tokens; others are drawn around it.
        seed: of the draws.

    Example:
        >>> import cuvee
        >>> plan = cuvee.first_runs(["web", "code", "books"], 8)
        >>> plan.alpha.shape
        (8, 3)
    """
    check_whole("k", k, 1)
    domains = _names(domains)
    polytope = (constraints or Constraints()).polytope(domains)
    if isinstance(prior, Mapping):
        prior = [float(prior.get(name, 0.0)) for name in domains]
    usual = None if prior is None else check_alpha([prior], len(domains), atol=1e-4)[0]
    return _first(polytope, k, usual, seed)


def _names(domains: Any) -> list[str]:
    """Return the names of domains, given as such or as their number."""
    if isinstance(domains, Integral):
        check_whole("domains", domains, 2)
        return [f"domain {j + 1}" for j in range(int(domains))]
    if isinstance(domains, str) or not isinstance(domains, Iterable):
        raise OptionError(f"domains must be a list of names, or how many; got {domains!r}")
    names = list(domains)
    if len(names) < 2:
        raise OptionError(f"a mixture needs at least two domains; got {len(names)}")
    check_domains(names)
    return names


def _first(polytope: Polytope, k: int, prior: Floats | None, seed: int) -> Plan:
    centre = polytope.repaired(
        (np.full(len(polytope.domains), 1.0) if prior is None else prior)[None]
    )[0]
    pool = np.concatenate([centre[None], polytope.draws(FIRST_POOL, seed, centre)])
    if k > 1 and np.abs(pool - centre).max() < EXACT:
        raise OptionError(
            "the constraints allow one mixture alone, so there are no others to run: loosen them, "
            "or ask for one run"
        )
    covariance = _usual_gram(torch.as_tensor(pool, dtype=DTYPE)).numpy()
    chosen, reasons = [], []
    for step in range(k):
        variance = covariance.diagonal().clip(min=1e-12)
        told = (covariance**2).sum(1) / (variance + FIRST_NOISE)
        i = 0 if step == 0 else int(told.argmax())
        chosen.append(i)
        heavy = [polytope.domains[j] for j in np.argsort(-pool[i])[:2] if pool[i, j] > 0]
        reasons.append(
            "It is the prior mixture, or the middle of what is allowed: others are judged by it."
            if step == 0
            else f"Mostly {' and '.join(heavy)}: of all mixtures it tells most that the runs "
            "before it do not."
        )
        column = covariance[:, i].copy()
        covariance = covariance - np.outer(column, column) / (variance[i] + FIRST_NOISE)
    nothing = np.full(k, np.nan)
    return Plan(polytope.domains, pool[chosen], tuple(reasons), nothing)


def _usual_gram(alpha: Tensor) -> Tensor:
    """Return the kernel (m, m) of a surface that nobody has seen yet."""
    N = alpha.shape[1]
    usual = {"constant": 1.0, "linear": -1.0, "root": -1.0, "saturating": -1.0, "pairs": -2.0}
    shared = [usual.get(name, -3.0) for name in kernels.SHARED]
    theta = torch.tensor([[-14.0] * N + shared + [-14.0]], dtype=DTYPE)
    seen = kernels.views(alpha)
    return kernels.gram(theta, seen, seen)[0]
