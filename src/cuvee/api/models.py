"""`cuvee.solve`, `cuvee.certify`, `cuvee.sensitivity`: models for mixtures, from wherever the
mixtures came.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np
import torch

from cuvee import erm
from cuvee.api.checks import MEMORY, check_device, check_hypothesis, check_memory, check_whole
from cuvee.errors import MixtureError, check_choice, check_number
from cuvee.hypothesis.base import Hypothesis, Space
from cuvee.inputs.alpha import ordered_alpha
from cuvee.numerics.parallel import workers
from cuvee.oracle import Oracle, Outcome
from cuvee.problem import Domain, Problem, as_problem
from cuvee.results import Floats
from cuvee.simplex import check_alpha
from cuvee.solution import Certificate, Solution, check_w

Method = Literal["auto", "descent"]
TOL = 1e-6
STEPS = 10_000
PINNED = 2**23


@workers()
def solve(
    data: Problem | Sequence[Domain],
    hypothesis: Hypothesis,
    alpha: Any,
    *,
    tol: float = TOL,
    method: Method = "auto",
    steps: int | None = None,
    seed: int = 0,
    device: str = "cpu",
    memory: int | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> Solution:
    """Minimise every mixture's risk Σ_j α_j f_j(w) + λ/2‖w‖² over W; return w*(α), certified.

    Ridge is solved directly; logistic and softmax by quasi-Newton steps over all models at once
    until ‖∇‖∞ ≤ tol; networks are trained together by Adam with early stopping, and nothing is
    proven of them.

    Args:
        data: sources, or a problem.
        hypothesis: `Ridge`, `Logistic`, `Poisson` or `Network`; its `radius` makes W a ball.
        alpha: (M, N) from anywhere, or (M, N+1) with a problem of M targets: the last column weighs
            each target's own sample. Rows lie on the simplex; nothing is renormalised. An array
            goes by position. `Mixtures` and data frames are matched by name: columns name the
            sources, `cuvee.OWN` the own sample; rows that name targets (`Mixtures.targets`, a
            column "target", an index) must name those of the problem, and the models come in the
            order of the problem's targets. Names that do not match are an error.
        tol: on ‖∇‖∞. Models that rounding keeps above it are "solved to rounding".
        method: "descent" is Algorithm 3 of the paper, projected gradient descent, `steps` of it:
            the reference.
        steps: of "descent", by default 10,000; for a network the most minibatches, by default
            5,000.
        seed: of a network's training.
        device: a torch device.
        memory: bytes that may be held at a time beside the data and the result; more models are
            done in chunks. By default 1 GiB, on a GPU a quarter of what is free.
        progress: called with (what, done, total).

    Example:
        >>> import numpy as np, cuvee
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(80, 2))
        >>> north = cuvee.Domain("north", X[:40], X[:40] @ [1.0, 0.0])
        >>> south = cuvee.Domain("south", X[40:], X[40:] @ [0.0, 1.0])
        >>> sol = cuvee.solve([north, south], cuvee.Ridge(l2=1e-3), [[1.0, 0.0], [0.5, 0.5]])
        >>> sol.w.shape, str(sol.status[0]), bool(sol.certificate.distance.max() < 1e-6)
        ((2, 3), 'solved', True)
        >>> sol.models[0].predict([[2.0, 5.0]]).round(2)
        array([2.])
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"south": [0.0, 0.5], "north": [1.0, 0.5]})  # by name
        >>> bool(np.allclose(cuvee.solve([north, south], cuvee.Ridge(l2=1e-3), frame).w, sol.w))
        True
    """
    check_choice("method", method, get_args(Method))
    check_number("tol", tol, above=0.0)
    if steps is not None:
        check_whole("steps", steps, 1)
    check_whole("seed", seed, 0)
    data = as_problem(data)
    names = data.target_names
    problem, space, family, a = _bound(
        data, hypothesis, alpha, device, memory, seed=seed, steps=steps
    )
    mixtures = torch.as_tensor(a, device=device)

    def report(done: int, total: int) -> None:
        if progress is not None:
            progress("solving", done, total)

    report(0, len(a))
    if method == "descent":
        components = erm.components(problem, space, device=device)
        w, taken = erm.descent.solve(
            components,
            mixtures,
            steps=steps or STEPS,
            tol=tol,
            memory=memory or MEMORY,
            seed=seed,
            progress=report,
        )
        outcome = replace(family.certify(mixtures, w.double(), tol=tol), passes=taken)
    else:
        outcome = family.solve(mixtures, tol=tol, progress=report)
    report(len(a), len(a))
    return Solution(
        w=_numpy(outcome.w),
        alpha=a,
        status=tuple(outcome.status.tolist()),
        certificate=_certificate(family, outcome),
        passes=outcome.passes.cpu().numpy(),
        space=space,
        features=next((d.features for d in problem.sources if d.features), ()),
        targets=names if len(names) == len(a) else (),
        curves=None if outcome.curves is None else _numpy(outcome.curves),
    )


@workers()
def certify(
    data: Problem | Sequence[Domain],
    hypothesis: Hypothesis,
    alpha: Any,
    w: Any,
    *,
    device: str = "cpu",
    memory: int | None = None,
) -> Certificate:
    """Return proven bounds on ‖w − w*(α)‖ and on the excess risk of w (M, P).

    They hold wherever w came from, and take one pass over the data.

    α is given as to `cuvee.solve`, and w as it returns it: a row per row of α, or, where these name
    targets, per target of the problem. Intercepts of softmax are compared after taking out the
    constant that all classes may share. Of a w outside W nothing is said about its risk.
    """
    _, space, family, a = _bound(data, hypothesis, alpha, device, memory)
    given = torch.as_tensor(check_w(w, len(a), space.n_params), device=device)
    return _certificate(family, family.certify(torch.as_tensor(a, device=device), given, tol=TOL))


@workers()
def sensitivity(
    data: Problem | Sequence[Domain],
    hypothesis: Hypothesis,
    alpha: Any,
    w: Any,
    *,
    device: str = "cpu",
    memory: int | None = None,
) -> Floats:
    """Return dw*/dα (M, N, P): which source moves each model, and how far.

    N is N+1 with the own samples' column.

    By the implicit function theorem −H⁻¹∇f_j at w, which should be w*(α); along the simplex, where
    what one source gains others lose, the change is Σ_j δ_j dw*/dα_j with Σ_j δ_j = 0. Where W
    binds, the models stay on the sphere. α and w are given as to `cuvee.certify`; dw*/dα has the
    columns in the order of the sources, the own sample's last.
    """
    _, space, family, a = _bound(data, hypothesis, alpha, device, memory)
    given = torch.as_tensor(check_w(w, len(a), space.n_params), device=device)
    return _numpy(family.sensitivity(torch.as_tensor(a, device=device), given))


def _bound(
    data: Problem | Sequence[Domain],
    hypothesis: Hypothesis,
    alpha: Any,
    device: str,
    memory: int | None,
    **training: Any,
) -> tuple[Problem, Space, Oracle, Floats]:
    """Return the problem as α needs it, the space, the oracle, and α, all of them checked.

    α is in the order of the problem's names.
    """
    check_hypothesis(hypothesis)
    check_device(device)
    memory = check_memory(memory, device)
    problem = as_problem(data)
    N, M = problem.n_sources, problem.n_targets
    named = ordered_alpha(
        alpha, problem.source_names, problem.target_names if M else None, own=M > 0
    )
    a = check_alpha(named, (N, N + 1) if M else N)
    own = a.shape[1] > N
    if own and len(a) != M:
        raise MixtureError(
            f"alpha has {len(a)} rows of {N + 1} weights, the last for a target's own sample, but "
            f"there are {M} targets"
        )
    if own:
        bare = np.array([t.n_rows == 0 for t in problem.targets])
        weighed = bare & (a[:, N] > 0)
        if weighed.any():
            raise MixtureError(
                f"target {problem.target_names[int(weighed.argmax())]!r} has no labelled row, so "
                "that its own sample can have no weight: give it 0"
            )
        if bare.all():  # nobody has an own sample
            a, own = np.ascontiguousarray(a[:, :N]), False
    if not own:
        problem = problem.without_targets()
    space = hypothesis.bind(problem.facts)
    family = erm.family(
        problem, space, own=own, device=device, memory=memory, models=len(a), **training
    )
    return problem, space, family, a


def _certificate(family: Oracle, outcome: Outcome) -> Certificate:
    return Certificate(
        distance=_numpy(outcome.bounds.distance),
        excess_risk=_numpy(outcome.bounds.excess),
        gradient_norm=_numpy(outcome.gradient),
        rests_on=family.rests_on,
    )


def _numpy(x: torch.Tensor) -> Floats:
    x = x.double()
    # an ordinary copy of a million models would take longer than a pass over them
    if x.is_cuda and x.numel() > PINNED:
        x = torch.empty(x.shape, dtype=x.dtype, pin_memory=True).copy_(x)
    return np.asarray(x.cpu())
