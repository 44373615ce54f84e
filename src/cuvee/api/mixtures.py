"""`cuvee.estimate`: mixture weights for every target."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Literal

import numpy as np

from cuvee import erm
from cuvee.api.checks import check_device, check_hypothesis, check_problem
from cuvee.api.estimate_settings import EstimateSettings
from cuvee.components import Components, InputMeans, input_means, input_sums
from cuvee.components.sites import lives_elsewhere
from cuvee.hypothesis.base import Hypothesis, LossKind, Space
from cuvee.mixture import matching
from cuvee.mixture.method import Progress, Request
from cuvee.mixture.objective import Discrepancy
from cuvee.names import AlphaMethod as Method
from cuvee.numerics.parallel import FEW, count, each, workers
from cuvee.numerics.processes import apart, may_fork
from cuvee.problem import Array, Problem
from cuvee.results import OWN, Candidate, Mixtures, Status, Trace

# bytes one batch of targets may hold in row losses; more targets are done batch after batch
MEMORY = 2**30
# With so many numbers in the rows of all targets' problems together, every worker gets targets of
# its own: a process from FORK on; a thread, where no process can be started, from LARGE on.
FORK, LARGE, LARGE_TARGETS = 2**19, 2**23, 8


@dataclass(frozen=True)
class _Job:
    """One batch of targets and how to treat it."""

    problem: Problem
    hypothesis: Hypothesis
    settings: EstimateSettings
    excluded: Array | None  # (M, N)
    device: str
    unlabelled: bool  # whether any target, of this batch or another, has unlabelled rows


@workers()
def estimate(
    problem: Problem,
    hypothesis: Hypothesis,
    *,
    method: Method = "path",
    discrepancy: Discrepancy = "mixture",
    C: float | None = None,
    c: float | None = None,
    own: bool | None = None,
    loss: Literal["auto", "trained", "bounded"] = "auto",
    adversaries: int | None = None,
    steps: int | None = None,
    batch_size: int | None = None,
    beta: float | None = None,
    eta: float | None = None,
    gamma: float | None = None,
    average: bool = True,
    tol: float | None = None,
    folds: int | None = None,
    passes: int | None = None,
    seed: int = 0,
    exclude: Mapping[str, Collection[str]] | None = None,
    device: str = "cpu",
    progress: Progress | None = None,
) -> Mixtures:
    """Estimate mixture weights α: how much each target should learn from each source.

    The default, `method="path"`, needs no choice: it tries a path of C, the simple mixtures and the
    target's own sample, and averages them by cross-validated loss. `"scgda"` is Algorithm 1 of the
    paper, `"sgda"` the same without its correction, `"agp"` its full-batch companion; `"cuts"` does
    the same by cutting planes. These take C. An option that has no effect with the method is an
    error. A target's weights do not depend on which other targets are in the call.

    W, in which the adversary lives, is the hypothesis's `radius` if it has one, in the coordinates
    of X. Otherwise it is a ball in standardised coordinates, and for ridge C and c are in units of
    the labels' variance.

    Unlabelled rows of targets (`Domain.unlabelled`) count for "path" and "matching". A target that
    has nothing else gets weights from its inputs alone, with the status "label-free".

    Args:
        problem: N sources, M targets.
        hypothesis: `Ridge`, `Logistic`, `Poisson` or `Network`.
        discrepancy: "sum" is the paper's Σ_j α_j g(f_T − f_j); "mixture" is g(f_T − Σ_j α_j f_j).
        C: weight of Σ_j α_j²/m_j, by default 10; the path finds its own.
        c: smoothing of g(x) = √(x² + c); by default 1 % (path: 10 %) of the mean loss, squared.
        own: let the target's labelled sample join as a last column; by default the path does,
            others do not.
        loss: what the discrepancy compares; "auto" is bounded, except for ridge, whose W bounds it.
        adversaries: size of the panel; 1 is the paper, the default is 16 (4 for a network).
        steps: of the minimax method; rounds of adversaries for "path" and "cuts".
        batch_size: B of Algorithm 1; 32, for a network 16.
        beta: β of Algorithm 1, by default 0.1.
        eta, gamma: constant step sizes for α and w, of methods that take steps; by default they
            adapt, whatever the scale of X and y. The gap that is reported does not hang on them.
        average: return the average of late iterates of α instead of the last one.
        tol: converged when neither player could change F by more than this share of it, for "path"
            and "cuts" when F is proven to be at most this share above its least value; 0.02.
        folds: of the path's cross-validation; 20 for ridge, where they cost nothing, 5 for
            logistic, 3 for a network.
        passes: the most passes over the data, one after the other, that "path" may take; for rows
            behind a network, where each is a round of messages. By default there is no limit, and
            logistic regression takes 60 to 110. With 60, twice as many adversaries climb half as
            long, and the gap says what is not proven.
        seed: the same seed gives the same bits on the same machine, with the same number of threads
            and the same versions of torch and NumPy.
        exclude: target -> names of the sources that it may not learn from, such as itself; for
            "path", "cuts", "uniform", "pooled" and "pooled_own".
        device: a torch device.
        progress: called with (what, done, total).

    Example:
        >>> import numpy as np, cuvee
        >>> rng = np.random.default_rng(0)
        >>> def domain(name, shift):
        ...     X = rng.normal(size=(60, 3))
        ...     return cuvee.Domain(name, X, X @ [1.0, -1.0, shift])
        >>> sources = [domain("near", 0.1), domain("far", 4.0)]
        >>> problem = cuvee.Problem(sources, [domain("target", 0.0)])
        >>> mix = cuvee.estimate(problem, cuvee.Ridge(l2=1e-3), method="agp")
        >>> mix.top("target", 1)[0][0]
        'near'
    """
    check_problem(problem)
    check_hypothesis(hypothesis)
    check_device(device)
    settings = EstimateSettings(
        method=method,
        discrepancy=discrepancy,
        C=C,
        c=c,
        own=own,
        loss=loss,
        adversaries=adversaries,
        steps=steps,
        batch_size=batch_size,
        beta=beta,
        eta=eta,
        gamma=gamma,
        average=average,
        tol=tol,
        folds=folds,
        passes=passes,
        seed=seed,
    )
    settings.check_problem(problem)
    excluded = settings.excluded(problem, exclude)
    if any(t.n_rows == 0 for t in problem.targets):
        return _with_bare(problem, hypothesis, settings, excluded, device, progress)
    return _of_labelled(problem, hypothesis, settings, excluded, device, progress)


def _of_labelled(
    problem: Problem,
    hypothesis: Hypothesis,
    settings: EstimateSettings,
    excluded: Array | None,
    device: str,
    progress: Progress | None,
) -> Mixtures:
    """Return the weights of targets that all have labelled rows."""
    space = _space(problem, hypothesis)  # every label is checked here
    work = sum(s.n_rows for s in problem.sources) * prod(problem.input_shape) * problem.n_targets
    jobs = partial(_jobs, problem, hypothesis, space, settings, excluded, device)
    alone = may_fork(device) and not lives_elsewhere(problem)  # a fork cannot ask those elsewhere
    if space.convex and work >= FORK and alone:
        # Small problems and steps of adversaries are many short operations, of which Python runs
        # one at a time in a process.
        parts = apart(_estimate, jobs(count()), count(), progress)
    else:
        many = space.convex and work >= LARGE and problem.n_targets >= LARGE_TARGETS
        with workers(graph=not space.convex, most=FEW if space.convex else None):
            # They run side by side; the first of them tells how far all are.
            told = [
                (job, None if i % count() else progress)
                for i, job in enumerate(jobs(count() if many else 1))
            ]
            parts = each(lambda pair: _estimate(*pair), told, device, cost=None if many else 0.0)
    return replace(Mixtures.concat(parts), notes=problem.notes)


def _with_bare(
    problem: Problem,
    hypothesis: Hypothesis,
    settings: EstimateSettings,
    excluded: Array | None,
    device: str,
    progress: Progress | None,
) -> Mixtures:
    """Return the weights of targets some of which have no label: theirs are from inputs alone."""
    bare = np.array([t.n_rows == 0 for t in problem.targets])
    parts = []
    if not bare.all():
        labelled = problem.with_targets([t for t in problem.targets if t.n_rows])
        closed = None if excluded is None else excluded[~bare]
        parts.append(_of_labelled(labelled, hypothesis, settings, closed, device, progress))
    others = problem.with_targets([t for t in problem.targets if t.n_rows == 0])
    closed = None if excluded is None else excluded[bare]
    job = _Job(others, hypothesis, settings, closed, device, unlabelled=True)
    alpha = matching.weights(_inputs(job), closed, settings.joins)
    unknown = np.full(len(alpha), np.nan)
    tried = parts[0].candidates if parts else ()
    trace = parts[0].trace if parts else None
    parts.append(
        Mixtures(
            alpha=alpha,
            columns=(*problem.source_names, *([OWN] if settings.joins else [])),
            targets=others.target_names,
            gap=unknown,
            status=(Status.LABEL_FREE,) * len(alpha),
            method=settings.method,
            objective=unknown,
            trace=trace and _no_course(trace, alpha.shape),
            # only the matched blend was tried
            candidates=tuple(
                Candidate(
                    c.name,
                    alpha if c.name == matching.MATCHED else np.full_like(alpha, np.nan),
                    unknown,
                    np.full(len(alpha), float(c.name == matching.MATCHED)),
                )
                for c in tried
            ),
        )
    )
    return replace(Mixtures.concat(parts).in_order(problem.target_names), notes=problem.notes)


def _no_course(like: Trace, shape: tuple[int, ...]) -> Trace:
    """Return a trace with the steps of another one of targets for which nothing was sought."""
    R = len(like.step)
    nothing = np.full((R, shape[0]), np.nan)
    return Trace(like.step, nothing, nothing, np.full((R, *shape), np.nan))


def _space(problem: Problem, hypothesis: Hypothesis) -> Space:
    """Return the space the adversary lives in.

    It is W in the coordinates of X if it has a radius, else scale-free.
    """
    return hypothesis.bind(problem.facts, standardised=hypothesis.radius is None)


def _jobs(
    problem: Problem,
    hypothesis: Hypothesis,
    space: Space,
    settings: EstimateSettings,
    excluded: Array | None,
    device: str,
    n: int,
) -> list[_Job]:
    """Return the targets in at least n batches where they are as many; see `_size`."""
    size = min(_size(problem, space, settings, MEMORY / n), -(-problem.n_targets // n))
    return [
        _Job(
            problem.with_targets(problem.targets[low : low + size]),
            hypothesis,
            settings,
            None if excluded is None else excluded[low : low + size],
            device,
            any(t.n_inputs > t.n_rows for t in problem.targets),
        )
        for low in range(0, problem.n_targets, size)
    ]


def _estimate(job: _Job, progress: Progress | None) -> Mixtures:
    """Return the weights of one batch of targets."""
    problem, settings = job.problem, job.settings
    space = _space(problem, job.hypothesis)

    def components(space: Space, loss: LossKind) -> Components:
        narrow, coordinates = erm.rows_space.narrowed(problem, space)
        return erm.components(narrow, coordinates, loss, seed=settings.seed, device=job.device)

    complete = settings.complete(space)
    trained, unit = job.hypothesis.bind(problem.facts).at_any_scale()
    request = Request(
        components=components(space, settings.compared(space)),
        settings=complete,
        risk=lambda: components(trained, "trained"),
        solver=partial(erm.solve, seed=settings.seed, tol=erm.ROUGH, passes=complete.fitting),
        inputs=partial(_inputs, job),
        excluded=job.excluded,
        unlabelled=job.unlabelled,
        progress=progress,
    )
    estimate = settings.how.estimate(request)
    with np.errstate(over="ignore", under="ignore"):  # the unit's square may have no number
        candidates = tuple(replace(c, cv_loss=c.cv_loss * unit * unit) for c in estimate.candidates)
    return Mixtures(
        alpha=estimate.alpha,
        columns=(*problem.source_names, *([OWN] if settings.joins else [])),
        targets=problem.target_names,
        gap=estimate.gap,
        status=estimate.status,
        method=settings.method,
        objective=estimate.objective,
        trace=estimate.trace,
        candidates=candidates,
    )


def _inputs(job: _Job) -> InputMeans:
    """Return the kernel means of inputs, labelled or not."""
    space = job.hypothesis.bind(job.problem.without_targets().facts)
    return input_means(input_sums(job.problem, space), job.problem, job.settings.seed)


def _size(problem: Problem, space: Space, settings: EstimateSettings, memory: float) -> int:
    """Return how many targets have row losses that fit into so many bytes.

    Results do not depend on it.
    """
    run = settings.complete(space).run
    rows = sum(s.n_rows for s in problem.sources)
    together = erm.rows_space.targets_at_a_time(problem, space)
    # in the coordinates of the rows
    params = space.n_params if together == 0 else min(space.n_params, 2 * rows)
    if space.quadratic:
        rows = problem.n_sources * params + params**2
    elif space.chances and settings.compared(space) == "bounded":  # all rows pass tile by tile
        rows = problem.n_sources * run.batch_size * space.n_outputs
    models = settings.how.models(run.adversaries, problem.n_sources)
    size = max(1, int(memory // (8 * 4 * max(rows, params) * models)))
    return min(size, together or size)
