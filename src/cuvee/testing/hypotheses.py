"""What every hypothesis must keep, whatever it declares: shapes, losses, gradients, W."""

from __future__ import annotations

import numpy as np
import torch

from cuvee.errors import OptionError
from cuvee.hypothesis.base import Hypothesis, Space
from cuvee.problem import Problem
from cuvee.testing import structure, use
from cuvee.testing.subject import Subject, subjects

FAR = (1e2, 1e4)  # parameters at which a bounded loss must have stopped growing


def check_hypothesis(hypothesis: Hypothesis, problem: Problem | None = None) -> None:
    """Raise `AssertionError` if a hypothesis does not keep what solvers and maps rely on.

    Args:
        hypothesis: what is to be checked, such as `cuvee.Ridge()` or your own.
        problem: data it can be bound to, at least two sources with a few dozen rows. By default
            small tables of quantities, amounts, two and three classes are tried, and those that
            `bind` refuses with an error of `cuvee.errors` are passed over.

    Example:
        >>> import cuvee
        >>> from cuvee.testing import check_hypothesis
        >>> check_hypothesis(cuvee.Ridge(l2=0.1))
    """
    for subject in subjects(hypothesis, problem):
        subject.check(CHECKS)


def check_bind(s: Subject) -> None:
    """Check that binding gives a space with all that a `Space` must have."""
    for space in (s.space, s.standardised):
        absent = [
            name
            for name in sorted(Space.__abstractmethods__)
            if not callable(getattr(space, name, None))
        ]
        absent += [
            name
            for name in ("n_params", "input_shape", "dtype", "l2", "n_outputs", "radius")
            if not hasattr(space, name)
        ]
        s.require(
            not absent,
            f"bind returns a {type(space).__name__} without {', '.join(absent)}: derive it from "
            "cuvee.hypothesis.Space and fill these in",
        )
    space, shape = s.space, s.problem.facts.input_shape
    s.require(
        tuple(space.input_shape) == tuple(shape),
        f"input_shape is {space.input_shape}, rows have {shape}: take it from facts.input_shape",
    )
    s.require(space.l2 >= 0, f"l2 is {space.l2}: it must be 0 or more")
    s.require(
        space.radius is None or space.radius > 0,
        f"radius is {space.radius}: it must be above 0, or None where W is everything",
    )
    s.require(
        space.penalised.shape == (space.n_params,)
        and bool(((space.penalised == 0) | (space.penalised == 1)).all()),
        f"penalised must hold a 0 or a 1 for each of the {space.n_params} parameters",
    )


def check_encode(s: Subject) -> None:
    """Check that labels become finite numbers, and those of a class the number of that class."""
    for domain in (*s.problem.sources, *s.problem.targets):
        y = s.encoded(domain)
        s.require(
            y.shape == (domain.n_rows,),
            f"encode gives shape {tuple(y.shape)} for {domain.n_rows} labels: one number per row",
        )
        s.require(y.isfinite(), f"encode gives numbers that are not finite in {domain.name!r}")
        if s.space.classes is not None:
            s.require(
                not y.is_floating_point() and bool((s.space.classes[y.numpy()] == domain.y).all()),
                "encode must give the position of each label in `classes`, as a whole number",
            )


def check_scores(s: Subject) -> None:
    """Check that scores have their shape and that a stack of models is its models one by one."""
    w, outputs, rows = s.models(2, 3), s.space.n_outputs, len(s.X)
    stack = s.space.scores(w, s.X)
    s.require(
        stack.shape == (2, 3, outputs, rows),
        f"scores of w (2, 3, P) have shape {tuple(stack.shape)}; they must have (..., outputs, "
        f"rows) = (2, 3, {outputs}, {rows}), whatever stands before P",
    )
    s.require(stack.isfinite(), "scores of moderate parameters are not finite")
    single = torch.stack([torch.stack([s.space.scores(v, s.X) for v in row]) for row in w])
    s.require(
        s.close(stack, single),
        "scores of a stack of models differ from those of each model alone: no model may depend "
        "on its neighbours",
    )


def check_own_scores(s: Subject) -> None:
    """Check that own_scores is `scores` of each target's models on that target's rows."""
    w, half = s.models(2, 3), len(s.X) // 2
    X = torch.stack([s.X[:half], s.X[half : 2 * half]])
    own = s.space.own_scores(w, X)
    s.require(
        own.shape == (2, 3, s.space.n_outputs, half),
        f"own_scores of w (2, 3, P) on X (2, {half}, …) has shape {tuple(own.shape)}; it must "
        f"have (2, 3, {s.space.n_outputs}, {half})",
    )
    slow = torch.stack([s.space.scores(w[i], X[i]) for i in range(2)])
    s.require(
        s.close(own, slow),
        "own_scores differs from scores of each target's models on its own rows",
    )


def check_losses(s: Subject) -> None:
    """Check that both losses have one number per row that is finite and not below 0."""
    half = len(s.X) // 2
    for kind in ("trained", "bounded"):
        scores = s.space.scores(s.models(2, 3), s.X)
        losses = s.space.loss(kind, scores, s.y)
        s.require(
            losses.shape == (2, 3, len(s.X)),
            f"{kind} gives shape {tuple(losses.shape)} for scores {tuple(scores.shape)}; it must "
            "give one loss per model and row, (..., rows)",
        )
        s.require(losses.isfinite(), f"{kind} is not finite at moderate parameters")
        s.require(
            losses >= -s.rounding,
            f"{kind} is below 0 ({float(losses.min()):.3g}): add what makes its least value 0, or "
            "let bind refuse labels that do not fit",
        )
        own = s.space.own_scores(s.models(2, 3), torch.stack([s.X[:half], s.X[half : 2 * half]]))
        y = torch.stack([s.y[:half], s.y[half : 2 * half]])
        together = s.space.loss(kind, own, y[:, None])
        alone = torch.stack([s.space.loss(kind, own[i], y[i]) for i in range(2)])
        s.require(
            together.shape == alone.shape and s.close(together, alone),
            f"{kind} must take labels of each target's own, y (M, 1, rows) for scores "
            "(M, Q, outputs, rows)",
        )


def check_bounded(s: Subject) -> None:
    """Check that the bounded loss stops growing far from 0."""
    near, far = (
        s.space.bounded(s.space.scores(s.models(20, scale=scale), s.X), s.y).double()
        for scale in FAR
    )
    s.require(far.isfinite(), "bounded is not finite at large parameters: clamp before dividing")
    s.require(
        far.max() <= 2 * near.max() + s.rounding,
        f"bounded grows from {float(near.max()):.3g} to {float(far.max()):.3g} as parameters grow "
        "a hundredfold: it must have a bound, such as ℓ/(1 + ℓ) has",
    )


def check_gradients(s: Subject) -> None:
    """Check that torch differentiates both losses as finite differences do."""
    step = 1e-5 if s.space.dtype == torch.float64 else 1e-2
    for kind in ("trained", "bounded"):
        w, v = s.models(24), s.models(24, seed=1)

        def risk(w: torch.Tensor, kind: str = kind) -> torch.Tensor:
            return s.space.loss(kind, s.space.scores(w, s.X), s.y).double().mean(-1)

        leaf = w.clone().requires_grad_()
        total = risk(leaf).sum()
        s.require(
            total.requires_grad,
            f"torch finds no gradient of {kind}: use torch operations alone, without detach, "
            "item or NumPy",
        )
        (gradient,) = torch.autograd.grad(total, leaf)
        slope = (gradient * v).sum(-1).double()
        measured = (risk(w + step * v) - risk(w - step * v)) / (2 * step)
        # the median, as a network's loss may have kinks here and there
        away = ((slope - measured).abs() / (measured.abs() + measured.abs().mean())).median()
        s.require(
            away <= 10 * step**0.5,
            f"the gradient of {kind} is not its slope (off by {float(away):.1%} beside finite "
            "differences): look for detach, NumPy or a backward of your own",
        )


def check_start(s: Subject) -> None:
    """Check that starting points are reproducible, apart from each other and inside W."""
    for space in (s.space, s.standardised):
        w = space.start(4, 3)
        s.require(
            w.shape == (4, space.n_params) and w.dtype == space.dtype and space.start(0, 3).shape
            == (0, space.n_params),
            f"start(4, seed) must give (4, {space.n_params}) in the space's dtype, and start(0, "
            f"seed) no rows; got {tuple(w.shape)}, {w.dtype}",
        )  # fmt: skip
        s.require(w.isfinite(), "start gives parameters that are not finite")
        s.require(
            torch.equal(space.start(4, 3), w),
            "start gives other parameters for the same seed: make a generator from the seed",
        )
        s.require(
            s.close(space.start(6, 3)[:4], w),
            "row k of start must depend on seed and k alone: start(6, seed) begins otherwise than "
            "start(4, seed); np.random.default_rng([seed, k]) does it",
        )
        s.require(torch.pdist(w.double()) > 0, "start gives the same parameters twice")
        s.require(
            s.close(space.project(w), w), "start lies outside W: call self.project at its end"
        )


def check_project(s: Subject) -> None:
    """Check that project gives the nearest point of W."""
    for space in (s.space, s.standardised):
        w = torch.cat([s.models(8, scale=scale, seed=2) for scale in (0.0, 0.01, 1.0, 1e3)])
        p = space.project(w)
        if space.radius is None:
            s.require(torch.equal(p, w), "project moves parameters although radius is None")
            continue
        norm, reach = torch.linalg.vector_norm(w.double(), dim=-1), space.radius
        nearest = w.double() * (reach / norm.clamp(min=reach))[:, None]
        s.require(
            s.close(p, nearest),
            f"project does not give the nearest point of the ball of radius {reach:g}: leave it "
            "to Space.project",
        )


def check_predictions(s: Subject) -> None:
    """Check that predictions come in the user's labels and agree with the probabilities."""
    X, w, space = s.problem.sources[0].X, s.models(2, 3).numpy(), s.space
    predictions = space.predict(w, X)
    shapes: list[tuple[int, ...]] = [(2, 3, len(X))]
    if space.classes is None and space.n_outputs > 1:  # a loss of one's own may have several
        shapes.append((2, 3, space.n_outputs, len(X)))
    s.require(
        np.shape(predictions) in shapes,
        f"decide gives shape {np.shape(predictions)}; it must give (..., rows) = (2, 3, {len(X)})",
    )
    if space.classes is None:
        s.require(np.isfinite(predictions), "decide gives numbers that are not finite")
        try:
            space.predict_proba(w, X)
        except OptionError:
            return
        s.require(False, "there are probabilities, but `classes` is None: set it in bind")
    s.require(
        np.isin(predictions, space.classes), "decide gives labels that are not among `classes`"
    )
    chances = space.predict_proba(w, X)
    s.require(
        chances.shape == (2, 3, len(X), len(space.classes)),
        f"probabilities give shape {chances.shape}; they must give (..., rows, classes)",
    )
    s.require(
        (chances >= 0) & (np.abs(chances.sum(-1, keepdims=True) - 1) <= s.rounding),
        "the probabilities of a row are below 0 or do not sum to 1",
    )
    top = np.sort(chances, -1)
    sure = top[..., -1] - top[..., -2] > 1e-6
    s.require(
        (space.classes[chances.argmax(-1)] == predictions) | ~sure,
        "decide must give the likeliest class; it differs from the largest probability",
    )


CHECKS = (
    check_bind,
    check_encode,
    check_scores,
    check_own_scores,
    check_losses,
    check_bounded,
    check_gradients,
    check_start,
    check_project,
    check_predictions,
    *structure.CHECKS,
    *use.CHECKS,
)
