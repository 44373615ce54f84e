"""What cuvee does with a hypothesis must end well: standardised columns, weights, far labels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from cuvee import api
from cuvee.errors import InputError
from cuvee.problem import Domain, Problem
from cuvee.testing.subject import Subject

FEW = 12  # rows of a target that is made of a source
FAR = 100.0  # times as large as they were are labels that lie far out
STEPS = 3  # of a search for weights
POWER_STEPS, SLACK = 40, 1.05  # power iteration approaches the largest curvature from below


def check_standardised(s: Subject) -> None:
    """Check that scores and losses are finite in standardised coordinates as well."""
    space, w = s.standardised, s.models(2, 3)
    for domain in s.problem.sources:
        rows = space.prepare(torch.as_tensor(domain.X, dtype=space.dtype))
        y = torch.as_tensor(space.encode(domain.y, domain.name))
        scores = space.scores(w, rows)
        s.require(
            scores.shape == (2, 3, space.n_outputs, len(rows)) and bool(scores.isfinite().all()),
            "with standardised=True, scores of moderate parameters are not finite or have another "
            "shape: look at what `bind` does then",
        )
        for kind in ("trained", "bounded"):
            losses = space.loss(kind, scores, y)
            s.require(
                losses.shape == (2, 3, len(rows)) and bool(losses.isfinite().all()),
                f"with standardised=True, {kind} is not finite or has another shape: look at what "
                "`bind` does then",
            )


def check_estimate(s: Subject) -> None:
    """Check that cuvee.estimate finds weights with it."""
    problem = s.problem if s.problem.n_targets else _with_target(s.problem)
    for method in ("agp", "path") if s.space.convex else ("agp",):
        folds = 2 if method == "path" else None
        mixtures = api.estimate(problem, s.hypothesis, method=method, steps=STEPS, folds=folds)
        s.require(
            np.isfinite(mixtures.alpha) & (mixtures.alpha >= 0),
            f"cuvee.estimate(…, method={method!r}) gives weights that are below 0 or not finite: "
            "look at bounded, start and project",
        )


def _with_target(problem: Problem) -> Problem:
    """Return the problem with a target that is made of rows of the first source."""
    first = problem.sources[0]
    weight = None if first.weight is None else first.weight[:FEW]
    target = Domain("target", first.X[:FEW], first.y[:FEW], weight, first.features)
    return Problem(problem.sources, [target])


def check_far_labels(s: Subject) -> None:
    """Check that a convex risk is solved where labels lie far from where models start."""
    far = _far(s)
    if not s.space.convex or far is None:
        return
    alpha = np.eye(far.problem.n_sources)
    solution = api.solve(list(far.problem.sources), s.hypothesis, alpha, tol=1e-4)
    bad = [status.sentence for status in solution.status if not status.ok]
    s.require(
        not bad,
        f"with labels {FAR:g} times as large cuvee.solve does not end well ({bad[:1]}): trained "
        "and its gradient must stay exact far from the labels",
    )


def _far(s: Subject) -> Subject | None:
    """Return the same with labels far out, or None where labels are classes or do not fit then."""
    if s.space.classes is not None:
        return None
    sources = [Domain(d.name, d.X, FAR * d.y, d.weight, d.features) for d in s.problem.sources]
    try:
        problem = Problem(sources)
        s.hypothesis.bind(problem.facts)
    except InputError:
        return None
    return replace(s, problem=problem)


def check_steepening(s: Subject) -> None:
    """Check that no curvature is above what `steepening` declares."""
    if not s.space.convex or s.space.steepening is None:
        return
    for subject in filter(None, (s, _far(s))):
        source = [subject.problem.sources[0]]
        places = torch.cat([subject.models(30, seed=14, scale=scale) for scale in (0.3, 1.0, 5.0)])
        best = torch.as_tensor(api.solve(source, s.hypothesis, [[1.0]]).w).to(places)
        at_0 = _largest_curvature(subject, torch.zeros_like(best))
        most = _largest_curvature(subject, torch.cat([places, best])).max() / at_0
        s.require(
            most <= SLACK * s.space.steepening,
            f"steepening is {s.space.steepening:g}, but the risk bends {float(most):.3g} times as "
            "much as at w = 0 somewhere: descent would not converge; give the largest factor "
            "there is, or None where none is proven",
        )


def _largest_curvature(s: Subject, w: Tensor) -> Tensor:
    """Return the largest curvature (n,) of the first source's mean loss at w (n, P)."""
    leaf = w.clone().requires_grad_()
    risk = s.losses(leaf).mean(-1).sum()
    (gradient,) = torch.autograd.grad(risk, leaf, create_graph=True)
    u = torch.ones_like(w) + 0.1 * s.models(len(w), seed=15)
    for _ in range(POWER_STEPS):
        u = u / torch.linalg.vector_norm(u, dim=-1, keepdim=True).clamp(min=1e-30)
        (u,) = torch.autograd.grad(gradient, leaf, u, retain_graph=True)
    return torch.linalg.vector_norm(u, dim=-1)


CHECKS = (check_standardised, check_estimate, check_far_labels, check_steepening)
