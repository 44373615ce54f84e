"""What a hypothesis declares must be true: convex, linear, quadratic, generalised, chances."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from cuvee import api, simplex
from cuvee.components import ALL, bind
from cuvee.problem import Problem
from cuvee.testing.subject import Subject

DERIVATIVE = 1e-5  # relative, of a derivative beside finite differences with the step below
STEP = 1e-5


def check_convex(s: Subject) -> None:
    """Check that a risk which is declared convex lies below its chords."""
    if not s.space.convex:
        return
    for scale in (0.1, 1.0, 5.0):
        a, b = s.models(200, seed=3, scale=scale), s.models(200, seed=4, scale=scale)
        ends = (_risk(s, a) + _risk(s, b)) / 2
        s.require(
            _risk(s, (a + b) / 2) <= ends + s.rounding * (1 + ends.abs()),
            "convex is True, but the risk half-way between two models is above the mean of theirs: "
            "set convex = False, or correct the loss",
        )


def _risk(s: Subject, w: Tensor) -> Tensor:
    """Return the mean trained loss with its penalty (...,) of models w (..., P)."""
    penalty = s.space.l2 / 2 * (s.space.penalised * w.square()).sum(-1)
    return s.losses(w).double().mean(-1) + penalty.double()


def check_linear(s: Subject) -> None:
    """Check that scores which are declared linear in w are."""
    if not s.space.linear:
        return
    a, b = s.models(5, seed=5), s.models(5, seed=6)
    mixed = 0.3 * s.space.scores(a, s.X) - 2.0 * s.space.scores(b, s.X)
    s.require(
        s.close(s.space.scores(0.3 * a - 2.0 * b, s.X), mixed, slack=10),
        "linear is True, but scores(a·u + b·v) is not a·scores(u) + b·scores(v)",
    )


def check_quadratic(s: Subject) -> None:
    """Check that a loss which is declared quadratic bends alike everywhere."""
    if not s.space.quadratic:
        return
    v = s.models(1, seed=8)
    bends = []
    for scale in (0.0, 1.0, 5.0):
        w = s.models(1, seed=9, scale=scale)
        bends.append(s.losses(w + v) - 2 * s.losses(w) + s.losses(w - v))
    s.require(
        s.close(bends[0], bends[1], slack=100) and s.close(bends[0], bends[2], slack=100),
        "quadratic is True, but second differences of the trained loss change from place to "
        "place: leave quadratic out, and the general solver is taken",
    )


def check_components(s: Subject) -> None:
    """Check that the fast sums over rows, which the declarations allow, are the plain ones."""
    w, sources = s.models(1, 4, seed=10), Problem(s.problem.sources)
    for kind in ("trained", "bounded"):
        components = bind(sources, s.space, kind)
        losses, pullback = components.losses(w, ALL)
        parts = [(s.prepared(d.X), s.encoded(d), d.weight) for d in s.problem.sources]
        leaf = w.clone().requires_grad_()
        slow = torch.stack(
            [_mean(s.space.loss(kind, s.space.scores(leaf, X), y), p) for X, y, p in parts], -1
        )
        told = "quadratic, generalised and chances say which sums over rows are taken"
        s.require(
            s.close(losses, slow, slack=100),
            f"the {kind} losses of a whole source differ from the mean over its rows: {told}",
        )
        v = torch.rand(slow.shape, generator=torch.Generator().manual_seed(0)).to(slow)
        (gradient,) = torch.autograd.grad((slow * v).sum(), leaf)
        s.require(
            s.close(pullback(v), gradient, slack=100),
            f"the {kind} gradient of a whole source differs from that of its rows: {told}",
        )


def _mean(losses: Tensor, weight: np.ndarray | None) -> Tensor:
    if weight is None:
        return losses.mean(-1)
    p = torch.as_tensor(weight / weight.sum()).to(losses)
    return losses @ p


def check_chances(s: Subject) -> None:
    """Check that the bounded loss is 1 − p_y where `chances` declares it."""
    if not s.space.chances:
        return
    scores = s.space.scores(s.models(3), s.X)
    p = s.space.probabilities(scores)
    own = p.gather(-1, s.y.expand(3, -1)[..., None])[..., 0]
    s.require(
        s.close(s.space.bounded(scores, s.y), 1 - own),
        "chances is True, but bounded is not 1 − p_y of `probabilities`: leave chances out",
    )


def check_mean(s: Subject) -> None:
    """Check that mean − statistic is the gradient of the trained loss in the scores."""
    if not s.space.generalised:
        return
    scores = s.space.scores(s.models(4), s.X).detach().requires_grad_()
    (gradient,) = torch.autograd.grad(s.space.trained(scores, s.y).sum(), scores)
    residual = s.space.mean_(scores.detach().clone()) - s.space.statistic(s.y)
    s.require(
        s.close(residual, gradient, slack=100),
        "mean_(scores) − statistic(y) is not the gradient of trained in the scores: correct one "
        "of the three",
    )


def check_curvature(s: Subject) -> None:
    """Check that curvature, change and summed_curvature are derivatives of the mean."""
    if not s.space.generalised:
        return
    scores, K = s.space.scores(s.models(4), s.X).detach(), s.space.n_outputs
    mean = s.space.mean_(scores.clone())
    jacobian = torch.stack([_slope(s, scores, b) for b in range(K)], -2)  # (..., a, b, rows)
    told = torch.stack([s.space.curvature(mean, a) for a in range(K)], -3)
    s.require(
        torch.allclose(told, jacobian, rtol=DERIVATIVE, atol=DERIVATIVE),
        "curvature(mean, a) is not the derivative of mean a in the scores",
    )
    move = torch.randn(scores.shape, generator=torch.Generator().manual_seed(1)).to(scores)
    s.require(
        torch.allclose(
            s.space.change(mean, move), (jacobian * move[..., None, :, :]).sum(-2),
            rtol=DERIVATIVE, atol=DERIVATIVE,
        ),
        "change(mean, scores) is not the curvature applied to the scores",
    )  # fmt: skip
    weight = torch.linspace(0.1, 1.0, len(s.X)).to(mean)
    s.require(
        torch.allclose(
            s.space.summed_curvature(weight * mean, mean), (told * weight).sum(-1),
            rtol=1e-8, atol=1e-8,
        ),
        "summed_curvature(weight · mean, mean) is not Σ weight · curvature over the rows",
    )  # fmt: skip
    largest = torch.linalg.eigvalsh(told.movedim(-1, 0)).max()
    s.require(
        s.space.sharpness is None or float(largest) <= s.space.sharpness * (1 + 1e-9),
        f"sharpness is {s.space.sharpness}, but the curvature of a row reaches {float(largest):.3g}"
        ": give the largest there is, or None where there is none",
    )


def _slope(s: Subject, scores: Tensor, output: int) -> Tensor:
    """Return ∂mean/∂scores_b (..., outputs, rows) by central differences."""
    ends = []
    for sign in (1.0, -1.0):
        moved = scores.clone()
        moved[..., output, :] += sign * STEP
        ends.append(s.space.mean_(moved))
    return (ends[0] - ends[1]) / (2 * STEP)


def check_concordance(s: Subject) -> None:
    """Check that curvature fades no faster than `concordance` says, on random lines."""
    if not s.space.generalised:
        return
    scores = s.space.scores(s.models(50, seed=11), s.X).detach()
    shape, generator = scores.shape, torch.Generator().manual_seed(2)
    for length in (0.1, 1.0):
        line = length * torch.randn(shape, generator=generator).to(scores)
        before, after = (
            (line * s.space.change(s.space.mean_(at.clone()), line)).sum(-2).clamp(min=1e-300).log()
            for at in (scores, scores + line)
        )
        allowed = s.space.concordance * torch.linalg.vector_norm(line, dim=-2)
        s.require(
            (after - before).abs() <= allowed + 1e-6,
            f"the curvature changes faster along a line than concordance = {s.space.concordance:g} "
            "allows: certificates would be wrong; give the larger constant",
        )


def check_score_bounds(s: Subject) -> None:
    """Check that score_bounds bounds losses and slopes of every model in the ball."""
    if not s.space.bounds_known:
        return
    w, radius, length = _sphere(s)
    for kind in ("trained", "bounded"):
        slope, _, largest = s.space.score_bounds(kind, length, s.y, radius)
        scores = s.space.scores(w, s.X).detach().requires_grad_()
        losses = s.space.loss(kind, scores, s.y)
        (gradient,) = torch.autograd.grad(losses.sum(), scores)
        s.require(
            (losses <= largest * (1 + 1e-9) + 1e-12)
            & (torch.linalg.vector_norm(gradient, dim=-2) <= slope * (1 + 1e-9) + 1e-12),
            f"score_bounds({kind!r}, …) is exceeded by a model with ‖w‖ = {radius:g}",
        )


def check_curvature_range(s: Subject) -> None:
    """Check that curvature_range bounds how a row's trained loss bends in the ball."""
    if not s.space.bounds_known:
        return
    w, radius, length = _sphere(s)
    low, high = s.space.curvature_range(length * radius, s.y)
    scores = s.space.scores(w, s.X).detach().requires_grad_()
    losses = s.space.trained(scores, s.y)
    (slope,) = torch.autograd.grad(losses.sum(), scores, create_graph=True)
    for a in range(s.space.n_outputs):
        (bends,) = torch.autograd.grad(slope[..., a, :].sum(), scores, retain_graph=True)
        bend = bends[..., a, :]
        s.require(
            bend.isfinite(),
            "torch finds no finite second derivative of trained: write it without exponentials "
            "that overflow, such as softplus instead of logaddexp",
        )
        s.require(
            (bend >= low * (1 - 1e-9) - 1e-12) & (bend <= high * (1 + 1e-9) + 1e-12),
            f"curvature_range(reach, y) does not hold for a model with ‖w‖ = {radius:g}: give the "
            "least and the largest second derivative of trained for scores from −reach to reach",
        )


def _sphere(s: Subject) -> tuple[Tensor, float, Tensor]:
    """Return models (n, P) at the edge of W, or at norm 1, that norm, and the lengths of rows."""
    radius = s.space.radius or 1.0
    w = s.models(300, seed=12)
    w = w * (radius / torch.linalg.vector_norm(w, dim=-1, keepdim=True))
    return w, radius, torch.linalg.vector_norm(s.X, dim=-1)


def check_solve(s: Subject) -> None:
    """Check that a convex risk is solved and that its certificates hold beside a tighter solve."""
    if not s.space.convex or s.space.l2 == 0:  # without a penalty nothing is proven
        return
    sources, alpha = list(s.problem.sources), simplex.sample(3, s.problem.n_sources)
    solution = api.solve(sources, s.hypothesis, alpha, tol=1e-4)
    tight = api.solve(sources, s.hypothesis, alpha, tol=1e-9)
    for each in (solution, tight):
        bad = [status.sentence for status in each.status if not status.ok]
        s.require(not bad, f"cuvee.solve does not end well: {bad[:1]}")
    moved = tight.w + 0.01 * s.models(3, seed=13).double().numpy()
    if s.space.radius is not None:
        moved = s.space.project(torch.as_tensor(moved)).double().numpy()
    for w in (solution.w, moved):
        bound = api.certify(sources, s.hypothesis, alpha, w)
        s.require(
            np.linalg.norm(w - tight.w, axis=1)
            <= (bound.distance + tight.certificate.distance) * (1 + 1e-9) + 1e-12,
            "a certified distance does not hold beside a tighter solve: a declaration is not true "
            "(convex, concordance, penalised)",
        )
        risks = [_mixture_risk(s, alpha, each) for each in (w, tight.w)]
        s.require(
            risks[0] - risks[1] <= bound.excess_risk * (1 + 1e-6) + 1e-10,
            "a certified excess risk does not hold beside a tighter solve: a declaration is not "
            "true (convex, concordance, penalised)",
        )


def _mixture_risk(s: Subject, alpha: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Return f_α(w) (M,) with its penalty."""
    models = torch.as_tensor(w, dtype=s.space.dtype)
    losses = [
        _mean(s.space.trained(s.space.scores(models, s.prepared(d.X)), s.encoded(d)), d.weight)
        for d in s.problem.sources
    ]
    penalty = s.space.l2 / 2 * (s.space.penalised * models.square()).sum(-1)
    return (alpha * torch.stack(losses, -1).numpy()).sum(1) + penalty.numpy()


CHECKS = (
    check_convex,
    check_linear,
    check_quadratic,
    check_chances,
    check_mean,
    check_curvature,
    check_concordance,
    check_components,
    check_score_bounds,
    check_curvature_range,
    check_solve,
)
