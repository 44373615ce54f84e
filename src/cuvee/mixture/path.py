"""Estimate α along a path of C and average the candidates by their cross-validated loss.

This is the default. C is the user's hardest choice, so it is not asked for. The path goes towards
C = 0, from C = ∞, where α ∝ m_j is known; cuts give its points together (`cuvee.mixture.cuts`). The
target's own labelled sample joins as one more source with discrepancy 0, so the path ends at the
target alone.

There are two paths. On the first, adversaries climb on all rows and take their cuts there. With few
rows and many columns such an adversary tells two samples of one law apart by learning them by
heart. On the second, *honest* path it climbs on one half of every domain's rows and takes its cut
on the other.

Uniform and pooled weights are further candidates. Every candidate is fitted once per fold of the
target's labelled rows: all targets, candidates and folds in one batch. The α returned is the
candidates' average, weighed by how well each predicts the held-out rows and, before any row is
seen, by how many rows it rests on: with 20 rows, averaging is more reliable than picking one.

Where targets have unlabelled rows, the blend that matches their inputs is one more candidate
(`cuvee.mixture.matching`), and how well each candidate matches them counts before any label does.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from cuvee.components import Batch, Components, Folds, Half
from cuvee.mixture import cuts, matching, panel, pooled, pooled_own, target_only, uniform
from cuvee.mixture import players as play
from cuvee.mixture.method import SEARCH, AlphaMethod, Estimate, Request, Solver
from cuvee.mixture.objective import Objective, inverse_counts
from cuvee.mixture.players import Settings
from cuvee.mixture.points import Points
from cuvee.problem import Array
from cuvee.results import Candidate, Floats, Status

POINTS = 5  # values of C on a path
ENDS = (3.0, 1.0)  # C/D at the two ends, in units of all rows and of the own rows
FIRST = 3 / 7  # of the way between the ends: larger C gives little but the pooled weights
SMOOTHING = 0.1  # √c as a share of the mean loss; small C needs more smoothing
# Shares are ∝ (held-out likelihood)^¾, because folds share most of their rows.
TEMPERATURE = 0.75
PRIOR = 0.5  # a mixture that rests on as few rows as the own sample weighs e^−PRIOR beforehand
HEAVY = 0.05  # a path point with at least this share counts for the status
# models that a target holds during cross-validation: 15 for each of 5 folds
FITTED = 75
HONEST = (Half(0, 0), Half(0, 1))  # the halves of every domain on which adversaries climb
# Where passes are few:
FITTING = 10  # passes of all cross-validated models
CLIMBS = 4  # steps of adversaries between two cuts
WIDER = 2  # times as many adversaries


def fewest_passes() -> int:
    """Return the least number of passes that leaves adversaries a season."""
    return 2 + panel.SEASON + FITTING


def within(passes: int, run: Settings) -> Settings:
    """Return how adversaries climb in so many passes, one after the other.

    One pass is at the start, one for each step of the adversaries, FITTING and one to score the
    cross-validated models. Passes that do not wait for one another count once, and what costs no
    pass makes up for fewer of them: there are more adversaries, and they climb on all rows, so that
    the pass for a step gives cuts too.
    """
    climbs = min(passes - 2 - FITTING, METHOD.steps * run.climbs)
    steps, adversaries = climbs // CLIMBS, WIDER * run.adversaries
    return replace(run, climbs=CLIMBS, steps=steps, adversaries=adversaries, whole=True)


def estimate(request: Request) -> Estimate:
    """Return α (M, N+1): follow the paths, cross-validate every candidate, average."""
    settings = request.settings
    paths = follow(request)
    risk = request.risk()
    seen = matching.Seen.of(request) if request.unlabelled else None
    matched = None if seen is None else seen.alpha
    named = [(name, request.allowed(a)) for name, a in candidates(risk, paths, matched)]
    alpha = np.stack([a for _, a in named], 1)  # (M, G, N+1)
    if request.progress:
        request.progress("cross-validating candidates", 0, 1)
    # (M, G), NaN where a model failed
    cv_loss = held_out_loss(risk, request.solver, alpha, settings.folds)
    rows = risk.own_counts.cpu().numpy()
    before = prior(risk, alpha)
    if seen is not None:
        before = before + seen.log_prior(alpha, [name for name, _ in named], cv_loss)
    share = shares(cv_loss, before, rows, risk.space.likelihood)
    if request.progress:
        request.progress("cross-validating candidates", 1, 1)
    points = Points.joined(list(paths.values()))
    on_path = share[:, -points.C.shape[1] :] + 1e-12
    weight = on_path / on_path.sum(1, keepdims=True)
    objective, gap, _ = points.averaged(weight)
    heavy = (on_path >= HEAVY) | (on_path == on_path.max(1, keepdims=True))
    status = points.status(settings.run.tol, torch.as_tensor(heavy, device=points.C.device))
    failed = np.logical_and.reduce(np.isnan(cv_loss), 1)
    return Estimate(
        alpha=np.einsum("mg,mgj->mj", share, alpha),
        gap=gap,
        objective=objective,
        status=tuple(Status.DIVERGED if bad else s for bad, s in zip(failed, status, strict=True)),
        trace=points.trace(weight),
        candidates=tuple(
            Candidate(name, a, cv_loss[:, g], share[:, g]) for g, (name, a) in enumerate(named)
        ),
    )


METHOD = AlphaMethod(
    "path",
    estimate,
    "Needs no C: tries a path of them and the simple mixtures, and averages by cross-validated "
    "loss.",
    steps=12,
    own=True,
    excludes=True,
    tol=0.02,
    label_free=True,
    models=lambda adversaries, sources: FITTED,
    takes=(*SEARCH, "batch_size", "folds", "passes"),
)


def follow(request: Request) -> dict[str, Points]:
    """Return the points of the plain path and of the honest one, by name."""
    components, settings = request.components, request.settings
    objective = Objective(
        settings.discrepancy, request.smoothing(SMOOTHING), 0.0, request.inverse_counts()
    )
    unit = play.start(components, objective, settings.run).unit
    C = path_of_C(objective, unit)
    start = torch.as_tensor(request.allowed(pooled_own.weights(components))).to(C)
    plain = panel.of(components, objective, settings.run)
    honest = panel.Several(
        components,
        tuple(
            panel.of(components, objective, settings.run, climb, judge)
            for climb, judge in (HONEST, HONEST[::-1])
        ),
    )

    def along(name: str, adversaries: panel.Panel) -> Points:
        return cuts.follow(
            adversaries, objective, C, start, settings.run, request.progress, f"α along the {name}"
        )

    followed = components.together(
        [partial(along, "path", plain), partial(along, "honest path", honest)]
    )
    return dict(zip(("path", "honest path"), followed, strict=True))


def path_of_C(objective: Objective, D: Tensor) -> Tensor:
    """Return POINTS values of C (M, POINTS) in geometric steps, in each target's own units.

    With D (M,) the discrepancy that adversaries start with: at C = 3·D·(all rows) the penalty keeps
    α within a few per cent of ∝ m_j, which is a candidate of its own; at C = D·(own rows) it is too
    weak to keep more than a per cent of α off the own sample.
    """
    counts = 1.0 / objective.inverse_counts
    high, low = (
        ENDS[0] * D[:, None] * counts.sum(-1, keepdim=True),
        ENDS[1] * D[:, None] * counts[:, -1:],
    )
    return high * (low / high) ** torch.linspace(FIRST, 1.0, POINTS, dtype=D.dtype, device=D.device)


def candidates(
    components: Components, paths: dict[str, Points], matched: Floats | None = None
) -> list[tuple[str, Floats]]:
    """Return the simple mixtures, then the paths' points, each as (name, α (M, N+1)).

    The average can always fall back on any of them. `matched` (M, N+1) is one more, where targets
    have unlabelled rows.
    """
    simple = [
        ("pooled_own", pooled_own.weights(components)),
        ("pooled", pooled.weights(components, own=True)),
        ("uniform", uniform.weights(components, own=True)),
        ("target_only", target_only.weights(components)),
    ]
    # With sources of equal size, uniform and pooled are the same: one of them is enough.
    if np.allclose(simple[1][1], simple[2][1]):
        del simple[1]
    if matched is not None:
        simple.append((matching.MATCHED, matched))
    return simple + [
        (f"{name} {i + 1}/{POINTS}", points.alpha[:, i].cpu().numpy())
        for name, points in paths.items()
        for i in range(POINTS)
    ]


def held_out_loss(components: Components, solver: Solver, alpha: Floats, folds: int) -> Floats:
    """Return each candidate's mean loss on its target's labelled rows: (M, G).

    Each row's loss comes from a model that was not trained on that row.
    """
    M, G, _ = alpha.shape
    if M == 0:
        return np.zeros((0, G))
    weight = components.fold_weights(folds)  # (M, F)
    F = int((weight > 0).any(0).sum())  # a target with fewer rows has fewer folds
    # (M, G, F, …) flattened to (M, G·F, …): one model per candidate and fold.
    number = torch.arange(F, device=weight.device).repeat(G)
    each_alpha = (
        torch.as_tensor(alpha).to(weight)[:, :, None].expand(-1, -1, F, -1).reshape(M, G * F, -1)
    )
    w = solver(components, Batch(folds=Folds(folds, number)), each_alpha)
    held_out = components.own_values(w, Batch(folds=Folds(folds, number, only=True))).view(M, G, F)
    weight = weight[:, None, :F]
    loss = torch.where(weight > 0, weight * held_out, 0.0).sum(-1).double().cpu().numpy()
    # NaN excludes a candidate whose model failed
    return np.where(np.isfinite(loss), loss, np.nan)


def prior(components: Components, alpha: Floats) -> Floats:
    """Return the logarithm of what candidates (M, G, N+1) weigh before any row is seen: (M, G)."""
    return log_prior(alpha, inverse_counts(components).cpu().numpy())


def log_prior(alpha: Floats, inverse: Floats) -> Floats:
    """Return −PRIOR · (own rows)/(rows that a mixture rests on): (M, G) of α (M, G, N+1).

    `inverse` (M, N+1) is 1/m_j. Σ_j α_j²/m_j, the paper's variance term, is 1/(rows that the
    mixture rests on).
    """
    rows = np.einsum("mgj,mj->mg", alpha**2, inverse) / inverse[:, -1:]  # 1 for the own sample
    return np.asarray(-PRIOR * rows)


def shares(cv_loss: Floats, log_prior: Floats, rows: Array, likelihood: bool) -> Floats:
    """Return shares (M, G) ∝ prior · (likelihood of k = rows (M,) held-out rows)^TEMPERATURE.

    They lie on the simplex; a candidate whose loss is NaN gets 0.

    Cross-entropy is a negative log-likelihood as it stands. For other losses the noise level is
    unknown; with it at each candidate's own best value, k rows have likelihood ∝ (mean
    loss)^(−k/2), which has no unit.
    """
    k = np.asarray(rows)[:, None]
    evidence = -k * cv_loss if likelihood else -0.5 * k * np.log(np.maximum(cv_loss, 1e-300))
    evidence = TEMPERATURE * evidence
    evidence = np.where(np.isfinite(evidence), evidence + log_prior, -np.inf)
    # without any finite loss, the first candidate (pooled_own) gets all the weight
    evidence[~np.isfinite(evidence).any(1), 0] = 0.0
    weight = np.exp(evidence - evidence.max(1, keepdims=True))
    return np.asarray(weight / weight.sum(1, keepdims=True))
