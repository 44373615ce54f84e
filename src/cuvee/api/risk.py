"""`cuvee.risk_bound`: the terms of Theorem 1 for mixtures from anywhere, measured."""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import Any, Literal

import numpy as np
import torch

from cuvee import erm
from cuvee.api.checks import check_device, check_hypothesis, check_problem, check_whole
from cuvee.errors import MixtureError, OptionError, check_choice, check_number
from cuvee.hypothesis.base import Hypothesis, LossKind
from cuvee.inputs.alpha import ordered_alpha
from cuvee.mixture.largest import largest_discrepancy
from cuvee.mixture.objective import DISCREPANCIES, Discrepancy
from cuvee.mixture.players import Settings
from cuvee.numerics.parallel import workers
from cuvee.problem import Problem
from cuvee.results import Floats
from cuvee.simplex import check_alpha
from cuvee.theory.multi_source import LearningBound, multi_source_bound, sample_bound
from cuvee.theory.row_constants import known_space, rademacher_of

ADVERSARIES, STEPS = 8, 100


@dataclass(frozen=True, eq=False)
class RiskBound:
    """Say how much more a model may lose than the target's best one (Theorem 1), M targets."""

    printed: LearningBound
    """As the paper has it, which leaves the luck of the target's own rows out."""
    proven: LearningBound
    """What can be proven between samples, for an α that was found on the same rows too."""
    loss: str  # what is lost, in words
    exact: bool  # whether the discrepancy is its maximum; else a panel climbed: it may be larger
    targets: tuple[str, ...]


@workers()
def risk_bound(
    problem: Problem,
    hypothesis: Hypothesis,
    alpha: Any,
    *,
    discrepancy: Discrepancy = "mixture",
    loss: Literal["auto", "trained", "bounded"] = "auto",
    delta: float = 0.05,
    adversaries: int = ADVERSARIES,
    steps: int = STEPS,
    seed: int = 0,
    device: str = "cpu",
) -> RiskBound:
    """Return the terms of Theorem 1 for each target's mixture, as printed and as proven.

    W and the loss are those of `cuvee.estimate`. The discrepancy is exact for ridge and "mixture";
    else a panel of adversaries climbs for it. All other terms follow from the rows' lengths and
    numbers.

    Args:
        problem: N sources, M targets with labelled rows.
        hypothesis: `Ridge`, `Logistic` or `Poisson`; nobody knows the complexity of a network.
        alpha: (M, N), or (M, N+1) with the own sample last; `Mixtures` will do too.
        discrepancy: "sum" is the theorem's Σ_j α_j |f_T − f_j|; "mixture", |f_T − Σ_j α_j f_j|, is
            never above it, and is all that the proof needs.
        loss: what the discrepancy compares; "auto" as in `cuvee.estimate`.
        delta: the bounds are meant to hold with probability 1 − δ, each target by itself.
        adversaries: size of the panel.
        steps: of its climb.
        seed: where it starts.
        device: a torch device.

    Example:
        >>> import numpy as np, cuvee
        >>> rng = np.random.default_rng(0)
        >>> def domain(name, shift, rows):
        ...     X = rng.normal(size=(rows, 2))
        ...     score = X @ [1.0, shift] + rng.normal(size=rows)
        ...     return cuvee.Domain(name, X, (score > 0).astype(int))
        >>> sources = [domain("near", 0.1, 500), domain("far", -4.0, 500)]
        >>> problem = cuvee.Problem(sources, [domain("target", 0.0, 60)])
        >>> near = cuvee.risk_bound(problem, cuvee.Logistic(), [[1.0, 0.0]]).printed
        >>> far = cuvee.risk_bound(problem, cuvee.Logistic(), [[0.0, 1.0]]).printed
        >>> bool(near.discrepancy[0] < far.discrepancy[0]), near.largest_loss
        (True, 1.0)
    """
    check_problem(problem)
    if problem.n_targets == 0:
        raise OptionError("the problem has no targets, and so no loss to bound: pass targets=[...]")
    check_hypothesis(hypothesis)
    check_choice("discrepancy", discrepancy, DISCREPANCIES)
    check_choice("loss", loss, ("auto", "trained", "bounded"))
    check_number("delta", delta, above=0.0, most=1.0)
    check_whole("adversaries", adversaries, 2)
    check_whole("steps", steps, 1)
    check_whole("seed", seed, 0)
    check_device(device)
    N = problem.n_sources
    named = ordered_alpha(alpha, problem.source_names, problem.target_names, own=True)
    a = check_alpha(named, (N, N + 1))
    if len(a) != problem.n_targets:
        M = problem.n_targets
        raise MixtureError(f"alpha has {len(a)} rows, but there are {M} targets: one row each")
    space = known_space(hypothesis.bind(problem.facts, standardised=hypothesis.radius is None))
    kind: LossKind = ("trained" if space.quadratic else "bounded") if loss == "auto" else loss
    components = erm.components(problem, space, kind, seed=seed, device=device)
    settings = Settings(adversaries=adversaries, steps=steps, seed=seed)
    mixtures = torch.as_tensor(a, device=device)
    size = erm.rows_space.targets_at_a_time(problem, space)
    # of a wide table the discrepancy is the same in the coordinates that few targets' rows span
    parts = [slice(low, low + size) for low in range(0, len(a), size)] if size else [slice(None)]
    found = []
    for part in parts:
        some = components
        if size:
            few = problem.with_targets(problem.targets[part])
            bound = *erm.rows_space.narrowed(few, space), kind
            some = erm.components(*bound, seed=seed, device=device)
        found.append(largest_discrepancy(some, mixtures[part], discrepancy, settings))
    largest, exact = torch.cat([values for values, _ in found]), found[0][1]
    apart = np.nan_to_num(largest.double().cpu().numpy(), nan=np.inf).clip(min=0.0)  # NaN: unknown
    complexity, own_complexity = rademacher_of(components)
    counts = components.counts.double().cpu().numpy()
    own_counts = components.own_counts.double().cpu().numpy()
    b = components.row_constants().largest_loss
    return RiskBound(
        printed=multi_source_bound(
            a,
            _columns(counts, own_counts, a),
            apart,
            _columns(complexity, own_complexity, a),
            largest_loss=b,
            nu=log(4.0 / delta),
        ),
        proven=sample_bound(
            apart,
            own_complexity,
            own_counts,
            largest_loss=b,
            nu=log(2.0 / delta),
        ),
        loss=space.loss_words[kind],
        exact=exact,
        targets=tuple(t.name for t in problem.targets),
    )


def _columns(of_sources: Floats, of_own: Floats, alpha: Floats) -> Floats:
    """Return what belongs to every column of α, (M, J): of sources, and own where it joined."""
    M, J = alpha.shape
    return np.column_stack([np.broadcast_to(of_sources, (M, len(of_sources))), of_own])[:, :J]
