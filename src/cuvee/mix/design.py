"""Choose runs to make: the next ones of a surface, and the first ones when there is none yet."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cuvee.errors import OptionError, check_whole, option
from cuvee.mix import kernels
from cuvee.mix.belief import Belief
from cuvee.mix.candidate import DTYPE
from cuvee.mix.constraints import EXACT, Constraints, Polytope
from cuvee.mix.goal import Goal
from cuvee.mix.run_tables import OTHER_REASON, REASON
from cuvee.mix.runs import check_domains
from cuvee.results import Floats
from cuvee.simplex import check_alpha

POOL, KEPT, WIDE, DRAWS = 3000, 500, 400, 1024
DIFFERENT = 0.02  # of the mixture that two runs must differ in
WORTHWHILE = 0.01  # spreads of the goal that a run must tell, or it will hardly change the answer
LIKELY = 0.01  # chance to be the best mixture that is worth a word
COUNTS = 0.1  # least share of a domain that a mixture is said to be mostly of
LEAST_TOLD = 0.001  # spreads that are shown
FIRST_POOL, FIRST_NOISE = 800, 0.1


@dataclass(frozen=True, eq=False)
class Plan:
    """Hold mixtures to run, each with its reason in words."""

    domains: tuple[str, ...]
    alpha: Floats  # (k, N)
    reasons: tuple[str, ...]  # (k,)
    gains: Floats
    """(k,) how much of the uncertainty about the best mixture each run takes away, in units of the
    goal.
    """
    labels: tuple[str, ...]  # (k,) names of the runs
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.alpha)

    def to_frame(self) -> Any:
        """Return a pandas frame with a row per run: a column per domain, and the reason."""
        import pandas as pd

        frame = pd.DataFrame(self.alpha, columns=list(self.domains))
        frame.insert(0, "run", list(self.labels))
        # a domain may have that name
        column = OTHER_REASON if REASON in self.domains else REASON
        return frame.assign(**{column: list(self.reasons)})


def next_runs(
    goal: Goal,
    belief: Belief,
    polytope: Polytope,
    proposal: Floats,
    starts: Floats,
    k: int,
    seed: int,
    known: Sequence[str] = (),
) -> Plan:
    """Return the k mixtures whose runs are expected to tell most about which mixture is best.

    Surfaces are drawn from what is believed. How often a mixture is the best of a surface is its
    chance to be the best of all, and what matters is how those with a chance compare. One run after
    the other is added: the one after which this comparison is least uncertain, with its noise and
    with the runs before it counted in. Such a run need not be good itself. The first is the
    proposal, and the k differ as far as mixtures are allowed to. Their names follow those `known`.
    """
    check_whole("k", k, 1)
    near = _pool(goal, belief, polytope, proposal, starts, seed)
    wide = polytope.draws(WIDE, [seed, 4], polytope.centre)
    pool = _apart(_keeping(goal, belief, np.concatenate([proposal[None], near, wide])))
    unit = goal.unit(belief)
    drawn = _draws(goal, belief, pool, seed) / unit  # (DRAWS, m)
    chance = np.bincount(drawn.argmin(1), minlength=len(pool)) / DRAWS
    apart = drawn - drawn.mean(0)
    covariance, noise = apart.T @ apart / DRAWS, (goal.noise(belief) / unit) ** 2
    chosen, gains, reasons = list[int](), list[float](), list[str]()
    left = np.ones(len(pool), dtype=bool)
    while len(chosen) < k:
        if not left.any():  # all that is allowed is chosen: noisy runs may come again
            left[:] = True
        variance = covariance.diagonal().clip(min=0.0)
        # of the variance of the comparison, by chance, what a run of each would take away
        shared = chance @ covariance**2 - (chance @ covariance) ** 2
        told = shared / np.maximum(variance + noise, 1e-300)
        i = int(np.where(left, told, -1.0).argmax()) if chosen else 0
        again = i in chosen
        chosen.append(i)
        left &= np.abs(pool - pool[i]).sum(1) / 2 >= DIFFERENT
        told_of = float(max(told[i], 0.0) ** 0.5)
        gains.append(told_of * unit)
        reasons.append(
            _reason(polytope.domains, pool[i], proposal, chance[i], told_of, again)
            if len(chosen) > 1
            else "It is the proposal itself: its run tells what it is worth."
        )
        column = covariance[:, i].copy()
        covariance -= np.outer(column, column) / max(float(variance[i] + noise), 1e-300)
    labels = numbered("next", k, known)
    enough = (
        "More runs will hardly change the answer: none of these is expected to shift how the best "
        f"mixtures compare by more than {WORTHWHILE:g} spreads of the goal."
    )
    notes = (enough,) if max(gains) < WORTHWHILE * unit else ()
    return Plan(polytope.domains, pool[chosen], tuple(reasons), np.array(gains), labels, notes)


def numbered(word: str, k: int, known: Sequence[str] = ()) -> tuple[str, ...]:
    """Return k names, such as "next 3", with numbers above those of the names that are known."""
    taken = [int(m[1]) for m in (re.fullmatch(rf"{word} (\d{{1,9}})", name) for name in known) if m]
    first = max(taken, default=0) + 1
    return tuple(f"{word} {i}" for i in range(first, first + k))


def _keeping(goal: Goal, belief: Belief, pool: Floats) -> Floats:
    """Return the first mixture, the proposal, and the others that keep the guard rails."""
    if not goal.guards:
        return pool
    with torch.no_grad():
        beyond = goal.beyond(belief, belief.mean(torch.as_tensor(pool, dtype=DTYPE)), None)
    keeps = (beyond <= 0.0).all(1).numpy()
    keeps[0] = True
    return pool[keeps]


def _apart(pool: Floats) -> Floats:
    """Return the mixtures without those that stand there already, the first one first."""
    _, first = np.unique(pool.round(6), axis=0, return_index=True)
    return pool[np.sort(first)]


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


def _draws(goal: Goal, belief: Belief, pool: Floats, seed: int) -> Floats:
    """Return the goal on surfaces drawn from what is believed, (DRAWS, m)."""
    with torch.no_grad():
        x = torch.as_tensor(pool, dtype=DTYPE)
        mean, covariance = belief.joint(x)  # (m, K), (K, m, m)
        size = covariance.diagonal(dim1=1, dim2=2).mean(1).maximum(1e-20 * belief.unit.square())
        jitter = 1e-6 * size[:, None, None] * torch.eye(len(x), dtype=DTYPE)
        factor = torch.linalg.cholesky(covariance + jitter)
        K = len(factor)
        correlation = belief.calibration.correlation + 1e-6 * torch.eye(K, dtype=DTYPE)
        mix = torch.linalg.cholesky(correlation)
        random = torch.Generator().manual_seed(seed)
        noise = torch.randn(K, len(x), DRAWS, generator=random, dtype=DTYPE)
        together = torch.einsum("kl,lmd->kmd", mix, noise)
        surfaces = mean + (factor @ together).permute(2, 1, 0)  # (DRAWS, m, K)
        drawn = goal.value(belief, surfaces.reshape(-1, K), None).reshape(DRAWS, -1)
        return (drawn + goal.pulled(x, belief)).numpy()


def _reason(
    domains: Sequence[str], alpha: Floats, proposal: Floats, chance: float, told: float, again: bool
) -> str:
    """Return what sets a mixture apart and what its run tells, in a sentence."""
    if again:
        return "It was chosen before, and no other is allowed: a repeat tells how noisy a run is."
    apart = alpha - proposal
    more = [f"more {domains[j]}" for j in np.argsort(-apart)[:2] if apart[j] > 0.01]
    less = [f"less {domains[j]}" for j in np.argsort(apart)[:2] if apart[j] < -0.01]
    changed = " and ".join([*more, *less])
    how = f"{changed} than the proposal" if changed else "nearly the shares of the proposal"
    best = f"It may be the best one ({chance:.0%})" if chance >= LIKELY else "It is seldom the best"
    shift = f"{told:.2g}" if told >= LEAST_TOLD else f"less than {LEAST_TOLD:g}"
    return (
        f"{best}; with {how}, its run is expected to shift how the best ones compare by {shift} "
        "spreads of the goal."
    )


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
        unknown = [name for name in prior if name not in domains]
        if unknown:
            raise OptionError(
                f"{option('prior')} names the domain {unknown[0]!r}, which is not one of "
                f"{', '.join(domains)}"
            )
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
        reasons.append(
            "It is the prior mixture, or the middle of what is allowed: others are judged by it."
            if step == 0
            else f"{_mostly(polytope.domains, pool[i])}: of all mixtures it tells most that the "
            "runs before it do not."
        )
        column = covariance[:, i].copy()
        covariance = covariance - np.outer(column, column) / (variance[i] + FIRST_NOISE)
    nothing = np.full(k, np.nan)
    labels = numbered("first", k)
    return Plan(polytope.domains, pool[chosen], tuple(reasons), nothing, labels)


def _mostly(domains: Sequence[str], alpha: Floats) -> str:
    """Return which one or two domains a mixture (N,) is mostly made of, or that there are none."""
    heavy = [domains[j] for j in np.argsort(-alpha, kind="stable")[:2] if alpha[j] >= COUNTS]
    return f"Mostly {' and '.join(heavy)}" if heavy else "Small shares of many domains"


def _usual_gram(alpha: Tensor) -> Tensor:
    """Return the kernel (m, m) of a surface that nobody has seen yet."""
    N = alpha.shape[1]
    usual = {"constant": 1.0, "linear": -1.0, "root": -1.0, "saturating": -1.0, "pairs": -2.0}
    shared = [usual.get(name, -3.0) for name in kernels.SHARED]
    theta = torch.tensor([[-14.0] * N + shared + [-14.0]], dtype=DTYPE)
    seen = kernels.views(alpha)
    return kernels.gram(theta, seen, seen)[0]
