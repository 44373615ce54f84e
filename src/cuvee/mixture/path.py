"""Estimate α along a path of C and average the candidates by their cross-validated loss.

This is the default. C is the user's hardest choice, so it is not asked for. From C = ∞, where α ∝
m_j is known, the path descends towards C = 0, each point warm-started from the last. The target's
own labelled sample joins as one more source with discrepancy 0, so the path ends at the target
alone; uniform and pooled weights are further candidates. Every candidate is fitted once per fold of
the target's labelled rows: all targets, candidates and folds in one batch. The α returned is the
candidates' average, weighed by how well each predicts the held-out rows: with 20 rows, averaging is
more reliable than picking one.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from cuvee.components import Batch, Components, Folds
from cuvee.mixture import agp, driver, proportional, scgda, target_only, uniform
from cuvee.mixture import players as play
from cuvee.mixture.method import AlphaMethod, Estimate, Progress, Request, Solver
from cuvee.mixture.objective import Discrepancy, Objective, inverse_counts
from cuvee.mixture.players import Settings
from cuvee.problem import Array
from cuvee.results import Candidate, Floats, Status, Trace

POINTS = 8  # values of C between the two ends
ENDS = (3.0, 1.0)  # C/D at the two ends, in units of all rows and of the own rows
SMOOTHING = 0.1  # √c as a share of the mean loss; small C needs more smoothing
# Shares are ∝ (held-out likelihood)^½, because folds share most of their rows.
TEMPERATURE = 0.5
HEAVY = 0.05  # a path point with at least this share counts for the status
# multiplications per target: up to this, a step on all rows is cheap
CHEAP = 2_000_000
# models that a target holds during cross-validation: 16 for each of 5 folds
FITTED = 80


def estimate(request: Request) -> Estimate:
    """Return α (M, N+1): follow the path, cross-validate every candidate, average."""
    components, settings = request.components, request.settings
    algorithm = agp if _full_batch_is_cheap(components, settings.run) else scgda
    c = request.smoothing(SMOOTHING)
    points = follow(algorithm, components, settings.discrepancy, c, settings.run, request.progress)
    risk = request.risk()
    named = candidates(risk, points)
    alpha = np.stack([a for _, a in named], 1)  # (M, G, N+1)
    if request.progress:
        request.progress("cross-validating candidates", 0, 1)
    # (M, G), NaN where a model failed
    cv_loss = held_out_loss(risk, request.solver, alpha, settings.folds)
    share = shares(cv_loss, risk.own_counts.cpu().numpy(), risk.space.likelihood)
    if request.progress:
        request.progress("cross-validating candidates", 1, 1)
    on_path = share[:, -len(points) :]
    return Estimate(
        alpha=np.einsum("mg,mgj->mj", share, alpha),
        gap=_weighed([p.gap for p in points], on_path),
        objective=_weighed([p.objective for p in points], on_path),
        status=tuple(
            Status.DIVERGED if failed else s
            for failed, s in zip(
                np.logical_and.reduce(np.isnan(cv_loss), 1), _status(points, on_path), strict=True
            )
        ),
        trace=_joined([p.trace for p in points], settings.run.steps),
        candidates=tuple(
            Candidate(name, a, cv_loss[:, g], share[:, g]) for g, (name, a) in enumerate(named)
        ),
    )


METHOD = AlphaMethod(
    "path",
    estimate,
    "Needs no C: tries a path of them and the simple mixtures, and averages by cross-validated "
    "loss.",
    steps=500,
    network_steps=200,
    own=True,
    tol=0.1,
    checks=5,
    models=lambda adversaries, sources: max(adversaries, FITTED),
)


def _full_batch_is_cheap(components: Components, settings: Settings) -> bool:
    """Return whether a pass over all rows costs about as much as a minibatch.

    The answer does not depend on the number of targets.
    """
    if components.space.quadratic and components.loss == "trained":
        return True
    rows, minibatch = int(components.counts.sum()), len(components.counts) * settings.batch_size
    return rows <= 3 * minibatch or rows * components.space.n_params * settings.adversaries <= CHEAP


def follow(
    algorithm: driver.Algorithm,
    components: Components,
    discrepancy: Discrepancy,
    c: float,
    settings: Settings,
    progress: Progress | None = None,
) -> list[driver.Outcome]:
    """Return an outcome with α (M, N+1) for every C of the path, from large to small.

    Each run is warm-started from the one before.
    """
    objective = Objective(discrepancy, c, 0.0, inverse_counts(components))
    players = play.start(components, objective, settings)
    pooled = torch.as_tensor(proportional.weights(components, own=True)).to(players.alpha)
    players = replace(players, alpha=pooled, alpha_mean=pooled)
    outcomes = []
    for i, C in enumerate(path_of_C(objective, players.unit)):
        objective = replace(objective, C=C)
        players = play.again(players, objective, settings)
        outcomes.append(driver.run(algorithm, components, objective, settings, warm=players))
        players = outcomes[-1].play
        if progress:
            progress("α along the path of C", i + 1, POINTS)
    return outcomes


def path_of_C(objective: Objective, D: Tensor) -> list[Tensor]:
    """Return POINTS values of C (M, 1) in geometric steps, in each target's own units.

    With D (M,) the discrepancy the panel starts with: at C = 3·D·(all rows) the penalty keeps α
    within a few per cent of ∝ m_j; at C = D·(own rows) it is too weak to keep more than a per cent
    of α off the own sample.
    """
    counts = 1.0 / objective.inverse_counts
    high, low = (
        ENDS[0] * D[:, None] * counts.sum(-1, keepdim=True),
        ENDS[1] * D[:, None] * counts[:, -1:],
    )
    return [high * (low / high) ** (i / (POINTS - 1)) for i in range(POINTS)]


def candidates(components: Components, points: list[driver.Outcome]) -> list[tuple[str, Floats]]:
    """Return the simple mixtures, then the path's points, each as (name, α (M, N+1)).

    The average can always fall back on any of them.
    """
    simple = [
        ("pooled + own", proportional.weights(components, own=True)),
        ("pooled", proportional.of_sources(components)),
        ("uniform", uniform.weights(components, own=True)),
        ("target only", target_only.weights(components)),
    ]
    # With sources of equal size, uniform and pooled are the same: one of them is enough.
    if np.allclose(simple[1][1], simple[2][1]):
        del simple[1]
    return simple + [(f"path {i + 1}/{len(points)}", p.alpha) for i, p in enumerate(points)]


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


def shares(cv_loss: Floats, rows: Array, likelihood: bool) -> Floats:
    """Return shares (M, G) ∝ (held-out likelihood)^TEMPERATURE of k = rows (M,) labelled rows.

    They lie on the simplex; a candidate whose loss is NaN gets 0.

    Cross-entropy is a negative log-likelihood as it stands. For other losses the noise level is
    unknown; with it at each candidate's own best value, k rows have likelihood ∝ (mean
    loss)^(−k/2), which has no unit.
    """
    k = np.asarray(rows)[:, None]
    evidence = -k * cv_loss if likelihood else -0.5 * k * np.log(np.maximum(cv_loss, 1e-300))
    evidence = np.where(np.isfinite(evidence), evidence, -np.inf)
    # without any finite loss, the first candidate (pooled + own) gets all the weight
    evidence[~np.isfinite(evidence).any(1), 0] = 0.0
    weight = np.exp(TEMPERATURE * (evidence - evidence.max(1, keepdims=True)))
    return np.asarray(weight / weight.sum(1, keepdims=True))


def _weighed(by_point: list[Floats], share: Floats) -> Floats:
    """Return a quantity of the path's points averaged with their shares (M, points): (M,)."""
    weight = (share + 1e-12) / (share + 1e-12).sum(1, keepdims=True)
    return np.asarray(np.einsum("mg,gm->m", weight, np.stack(by_point)))


def _status(points: list[driver.Outcome], share: Floats) -> tuple[Status, ...]:
    """Return each target's worst status among its heaviest point and those with enough weight."""
    order = (Status.CONVERGED, Status.STEP_LIMIT, Status.DIVERGED)
    rank = np.array([[order.index(s) for s in p.status] for p in points]).T  # (M, points)
    heavy = (share >= HEAVY) | (share == share.max(1, keepdims=True))
    worst = np.where(heavy, rank, 0).max(1, initial=0)
    return tuple(order[i] for i in worst)


def _joined(traces: list[Trace], steps: int) -> Trace:
    """Return one trace of the path's points one after another.

    Point i begins at step i · steps, even where an earlier run ended early.
    """
    return Trace(
        step=np.concatenate([t.step + i * steps for i, t in enumerate(traces)]),
        objective=np.concatenate([t.objective for t in traces]),
        gap=np.concatenate([t.gap for t in traces]),
        alpha=np.concatenate([t.alpha for t in traces]),
    )
