"""`cuvee.estimate`: mixture weights for every target."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Any, Literal, get_args

import numpy as np

from cuvee import erm
from cuvee.api.checks import check_device, check_hypothesis, check_whole
from cuvee.components import ALL, LocalComponents
from cuvee.errors import OptionError, check_choice, check_number
from cuvee.hypothesis.base import Hypothesis, LossKind, Space
from cuvee.hypothesis.logistic import LogisticSpace
from cuvee.mixture import agp, baselines, konstantinov, loop, path, scgda
from cuvee.mixture.loop import Progress
from cuvee.mixture.objective import DISCREPANCIES, Discrepancy, Objective
from cuvee.mixture.play import Settings
from cuvee.parallel import apart
from cuvee.problem import Problem
from cuvee.results import OWN, Candidate, Floats, Mixtures, Status, Trace

Method = Literal["path", "scgda", "sgda", "agp", "konstantinov_lampert", "uniform", "proportional", "target_only"]
METHODS: tuple[Method, ...] = get_args(Method)

STEPS = {"scgda": 3000, "sgda": 3000, "agp": 1000, "konstantinov_lampert": 200, "path": 500}
NETWORK_PATH_STEPS = 200
ADVERSARIES, NETWORK_ADVERSARIES = 16, 4  # copies of a network are dear
BATCH, NETWORK_BATCH = 32, 16
RIDGE_FOLDS, FOLDS, NETWORK_FOLDS = 20, 5, 3
TOL, PATH_TOL = 0.02, 0.1
CHEAP = 2_000_000  # multiplications per target and full-batch step that no minibatch is worth avoiding
MEMORY = 2**30  # bytes one batch of targets may hold in row losses; more targets are done batch after batch
PARTS = 2  # batches that run side by side, however small, for
LARGE, LARGE_TARGETS = 2**20, 8  # so many numbers in the sources' rows and so many targets


@dataclass(frozen=True)
class _Job:
    """One batch of targets and how to treat it."""

    problem: Problem
    hypothesis: Hypothesis
    method: str
    discrepancy: Discrepancy
    own: bool
    loss: LossKind
    c: float | None
    C: float
    folds: int
    settings: Settings
    device: str
    progress: Progress | None


def estimate(
    problem: Problem,
    hypothesis: Hypothesis,
    *,
    method: Method = "path",
    discrepancy: Discrepancy = "mixture",
    C: float = 10.0,
    c: float | None = None,
    own: bool | None = None,
    loss: Literal["auto", "trained", "bounded"] = "auto",
    adversaries: int | None = None,
    steps: int | None = None,
    batch_size: int | None = None,
    beta: float = 0.1,
    eta: float | None = None,
    gamma: float | None = None,
    average: bool = True,
    tol: float | None = None,
    folds: int | None = None,
    seed: int = 0,
    device: str = "cpu",
    progress: Progress | None = None,
) -> Mixtures:
    """Mixture weights α for every target of the problem: how much each should learn from each source.

    The default, `method="path"`, needs no choice: it tries a path of C, the simple mixtures and the target's own
    sample, and averages them by cross-validated loss. `"scgda"` is Algorithm 1 of the paper, `"sgda"` the same
    without its correction, `"agp"` its full-batch companion; these take C.

    W, in which the adversary lives, is the hypothesis's `radius` if it has one, in the coordinates of X. Otherwise
    it is a ball in standardised coordinates, and for ridge C and c are in units of the labels' variance.

    Args:
        problem: N sources, M targets.
        hypothesis: `Ridge`, `Logistic` or `Network`.
        discrepancy: "sum" is the paper's Σ_j α_j g(f_T − f_j); "mixture" is g(f_T − Σ_j α_j f_j).
        C: weight of Σ_j α_j²/m_j; the path finds its own.
        c: smoothing of g(x) = √(x² + c); by default 1 % (path: 10 %) of the mean loss, squared.
        own: let the target's labelled sample join as a last column; by default the path does, others do not.
        loss: what the discrepancy compares; "auto" is bounded, except for ridge, whose W bounds it.
        adversaries: size of the panel; 1 is the paper, the default is 16 (4 for a network).
        steps: of the minimax method (per value of C for the path).
        batch_size: B of Algorithm 1; 32, for a network 16.
        beta: β of Algorithm 1.
        eta, gamma: constant step sizes for α and w; by default they adapt, whatever the scale of X and y.
        average: return the average of late iterates of α instead of the last one.
        tol: converged when neither player could change F by more than this share of it; 0.02, along the path 0.1.
        folds: of the path's cross-validation; 20 for ridge, where they cost nothing, 5 for logistic, 3 for a network.
        seed: the same seed gives the same bits on the same machine, with the same number of threads and the same
            versions of torch and NumPy.
        device: a torch device.
        progress: called with (what, done, total).

    Example:
        >>> import numpy as np, cuvee
        >>> rng = np.random.default_rng(0)
        >>> def domain(name, shift):
        ...     X = rng.normal(size=(60, 3))
        ...     return cuvee.Domain(name, X, X @ [1.0, -1.0, shift])
        >>> problem = cuvee.Problem([domain("near", 0.1), domain("far", 4.0)], [domain("target", 0.0)])
        >>> mix = cuvee.estimate(problem, cuvee.Ridge(l2=1e-3), method="agp")
        >>> mix.top("target", 1)[0][0]
        'near'
    """
    if not isinstance(problem, Problem):
        raise OptionError(f"problem must be a cuvee.Problem(sources, targets); got {type(problem).__name__}")
    check_hypothesis(hypothesis)
    if own not in (None, True, False):
        raise OptionError(f"own must be True, False or None; got {own!r}")
    check_device(device)
    check_choice("method", method, METHODS)
    check_choice("discrepancy", discrepancy, DISCREPANCIES)
    check_choice("loss", loss, ("auto", "trained", "bounded"))
    check_number("C", C, above=0.0)
    check_number("beta", beta, above=0.0, most=1.0)
    for name, value in (("c", c), ("eta", eta), ("gamma", gamma), ("tol", tol)):
        if value is not None:
            check_number(name, value, above=0.0)
    for name, whole, least in (
        ("adversaries", adversaries, 1),
        ("steps", steps, 1),
        ("batch_size", batch_size, 1),
        ("folds", folds, 2),
        ("seed", seed, 0),
    ):
        if whole is not None or name == "seed":
            check_whole(name, whole, least)
    joins = method in ("path", "target_only") if own is None else own
    if method in ("path", "target_only") and not joins:
        raise OptionError(f"method={method!r} needs the target's own sample: leave own=False out")
    if problem.n_targets == 0:
        raise OptionError("the problem has no targets (M=0): nothing to weigh; pass targets=[...]")
    if problem.n_sources == 1 and not joins:
        raise OptionError(
            f"with the one source {problem.sources[0].name!r} (N=1) its weight is 1 whatever the data: "
            "add sources, or let the own sample join with own=True"
        )
    space = hypothesis.bind(problem.facts, standardised=hypothesis.radius is None)  # every label is checked here
    kind: LossKind = ("trained" if space.quadratic else "bounded") if loss == "auto" else loss
    if any(s.name == OWN for s in problem.sources):
        raise OptionError(f"a source is named {OWN!r}, which is the own sample's column: rename it")
    settings = Settings(
        beta=1.0 if method == "sgda" else beta,
        batch_size=batch_size or (BATCH if space.convex else NETWORK_BATCH),
        eta=eta,
        gamma=gamma,
        adversaries=adversaries or (ADVERSARIES if space.convex else NETWORK_ADVERSARIES),
        steps=steps or _default_steps(method, space),
        tol=tol or (PATH_TOL if method == "path" else TOL),
        average=average,
        seed=seed,
        checks=5 if method == "path" else 20,
    )
    folds = folds or (RIDGE_FOLDS if space.quadratic else FOLDS if space.convex else NETWORK_FOLDS)
    job = _Job(problem, hypothesis, method, discrepancy, joins, kind, c, C, folds, settings, device, progress)
    batches = _batches(problem, space, kind, method, settings)
    # Batches run side by side; the first of them tells how far all are.
    told = [progress if i % PARTS == 0 else None for i in range(len(batches))]
    jobs = [replace(job, problem=batch, progress=tell) for batch, tell in zip(batches, told, strict=True)]
    done = apart(_estimate, jobs, device)
    return replace(_joined(done), notes=problem.notes)


def _default_steps(method: str, space: Space) -> int:
    return NETWORK_PATH_STEPS if method == "path" and not space.convex else STEPS.get(method, 1)


def _estimate(job: _Job) -> Mixtures:
    """One batch of targets."""
    problem = job.problem
    space = job.hypothesis.bind(problem.facts, standardised=job.hypothesis.radius is None)
    components = _components(problem, space, job.loss, job)
    result: dict[str, Any]
    if job.method in ("uniform", "proportional", "target_only"):
        result = _closed_form(_simple(job, components))
    elif job.method == "konstantinov_lampert":
        disc = konstantinov.discrepancies(components, job.settings).double().cpu().numpy()
        inverse = 1.0 / components.counts.double().cpu().numpy()
        if job.own:  # the own sample is one more source, with discrepancy 0
            disc = np.column_stack([disc, np.zeros(len(disc))])
            inverse = np.asarray(path.inverse_counts(components).double().cpu())
        result = _closed_form(konstantinov.weigh(disc, inverse, job.C))
    elif job.method == "path":
        risk = _components(problem, job.hypothesis.bind(problem.facts), "trained", job)
        found = path.estimate(
            agp if _full_batch_is_cheap(components, job.settings) else scgda,
            components,
            risk,
            partial(erm.solve, seed=job.settings.seed),
            discrepancy=job.discrepancy,
            c=_smoothing(job, components),
            settings=job.settings,
            folds=job.folds,
            progress=job.progress,
        )
        result = vars(found)
    else:
        inverse_t = path.inverse_counts(components)[:, : problem.n_sources + int(job.own)]
        objective = Objective(job.discrepancy, _smoothing(job, components), job.C, inverse_t)
        module = agp if job.method == "agp" else scgda
        outcome = loop.run(module, components, objective, job.settings, progress=job.progress)
        result = {k: v for k, v in vars(outcome).items() if k != "play"}
    columns = (*(s.name for s in problem.sources), *([OWN] if job.own else []))
    return Mixtures(columns=columns, targets=tuple(t.name for t in problem.targets), method=job.method, **result)


def _full_batch_is_cheap(components: LocalComponents, settings: Settings) -> bool:
    """Whether a pass over all rows costs about what a minibatch does. The number of targets has no say in it."""
    if components.space.quadratic and components.loss == "trained":
        return True
    rows, minibatch = int(components.counts.sum()), len(components.counts) * settings.batch_size
    return rows <= 3 * minibatch or rows * components.space.n_params * settings.adversaries <= CHEAP


def _components(problem: Problem, space: Space, loss: LossKind, job: _Job) -> LocalComponents:
    problem, space = erm.rows_space.narrowed(problem, space)
    return erm.components(problem, space, loss, seed=job.settings.seed, device=job.device)


def _smoothing(job: _Job, components: LocalComponents) -> float:
    """c: the caller's, or 1 % of the sources' mean loss, squared; 10 % along the path, whose small C end at a kink.

    Targets have no say in it, so a batch equals its rows.
    """
    if job.c is not None:
        return job.c
    w = components.space.start(job.settings.adversaries, job.settings.seed).to(components.counts.device)
    M = len(components.own_counts)
    losses = components.values(w[:1].expand(M, 1, -1), ALL)[0, :, :-1]
    share = 0.1 if job.method == "path" else 0.01
    return float((share * losses.mean().clamp(min=1e-12)) ** 2)


def _simple(job: _Job, components: LocalComponents) -> Floats:
    if job.method == "target_only":
        return baselines.target_only(components)
    simple = baselines.uniform if job.method == "uniform" else baselines.proportional
    return simple(components, own=job.own)


def _closed_form(alpha: Floats) -> dict[str, Any]:
    nothing = np.full(len(alpha), np.nan)
    return {
        "alpha": alpha,
        "gap": nothing,
        "objective": nothing,
        "status": (Status.CLOSED_FORM,) * len(alpha),
    }


def _batches(problem: Problem, space: Space, loss: LossKind, method: str, settings: Settings) -> list[Problem]:
    """The targets in batches whose row losses fit into MEMORY; results do not depend on the batching."""
    rows = sum(s.n_rows for s in problem.sources)
    table = rows * prod(problem.input_shape)
    together = erm.rows_space.targets_at_a_time(problem, space)
    params = space.n_params if together == 0 else min(space.n_params, 2 * rows)  # in the coordinates of the rows
    if space.quadratic:
        rows = problem.n_sources * params + params**2
    elif isinstance(space, LogisticSpace) and loss == "bounded":  # all rows are passed tile by tile
        rows = problem.n_sources * settings.batch_size * space.n_outputs
    width = settings.adversaries
    if method == "path":
        width = max(width, 16 * FOLDS)
    elif method == "konstantinov_lampert":
        width = 2 * problem.n_sources * max(1, settings.adversaries // 8)
    size = max(1, int(MEMORY // (8 * 4 * max(rows, params) * width)))
    size = min(size, together or size)
    if space.convex and problem.n_targets >= LARGE_TARGETS and table >= LARGE:
        size = min(size, -(-problem.n_targets // PARTS))
    if size >= problem.n_targets:
        return [problem]
    targets = list(problem.targets)
    return [problem.with_targets(targets[i : i + size]) for i in range(0, len(targets), size)]


def _joined(parts: list[Mixtures]) -> Mixtures:
    """Batches of targets as one result; traces that ended early are carried on at their last record."""
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    return replace(
        first,
        alpha=np.concatenate([p.alpha for p in parts]),
        gap=np.concatenate([p.gap for p in parts]),
        objective=np.concatenate([p.objective for p in parts]),
        targets=tuple(t for p in parts for t in p.targets),
        status=tuple(s for p in parts for s in p.status),
        trace=_joined_traces([p.trace for p in parts if p.trace is not None]),
        candidates=tuple(
            Candidate(
                c.name,
                *(np.concatenate([getattr(p.candidates[i], f) for p in parts]) for f in ("alpha", "cv_loss", "share")),
            )
            for i, c in enumerate(first.candidates)
        ),
    )


def _joined_traces(traces: list[Trace]) -> Trace | None:
    if not traces:
        return None
    step = np.unique(np.concatenate([t.step for t in traces]))
    # The last record at or before each step; before the first record, the first.
    at = [np.maximum(np.searchsorted(t.step, step, side="right") - 1, 0) for t in traces]
    merged = (
        np.concatenate([getattr(t, f)[i] for t, i in zip(traces, at, strict=True)], 1)
        for f in ("objective", "gap", "alpha")
    )
    return Trace(step, *merged)
