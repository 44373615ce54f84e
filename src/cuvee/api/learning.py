"""How a map is learnt, in one screen: mixtures → labels → a predictor → errors on held-out mixtures
→ bounds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cuvee.api.bound import Bound
from cuvee.api.learnt import Learnt, Selection
from cuvee.errors import OptionError
from cuvee.hypothesis.base import Hypothesis
from cuvee.inputs.alpha import ordered_alpha, read
from cuvee.learn import calibrate, registry
from cuvee.learn.base import Descending, Labels
from cuvee.learn.calibrate import Errors
from cuvee.learn.choose import HELD_OUT, QUANTILE, Chosen, Trial
from cuvee.learn.material import Material
from cuvee.learn.mixtures import Mixes
from cuvee.learn.settings import LEAST_LABELS, Settings
from cuvee.oracle import stationarity
from cuvee.problem import Domain, Problem
from cuvee.results import Floats, Status
from cuvee.simplex import check_alpha

Progress = Callable[[str, int, int], None]

SMALL, FINER, FINEST = 0.05, 0.1, 1e-12  # how small errors can be, and how well they are measured
COLD = 32  # labels that are also solved from nothing, to say what a warm start saved


def silent(what: str, done: int, total: int) -> None:
    """Report nothing: no progress is wanted."""


@dataclass(frozen=True)
class Warm:
    """Hold what is known before labels are solved."""

    start: Tensor | None = None  # (n, P) where labels are thought to be
    kept: Labels | None = None  # labels that were solved before


def check_sources(problem: Problem) -> None:
    """Raise `OptionError` if there is one source only."""
    if problem.n_sources == 1:
        raise OptionError(
            f"with the one source {problem.sources[0].name!r} (N=1) every mixture is the same: "
            "solve it once"
        )


def sources_part(mixtures: Any, problem: Problem) -> Floats:
    """Return a user's sample of mixtures (K, N) of the sources.

    A column that is named as the own samples' is left out.
    """
    N, names = problem.n_sources, problem.source_names
    given = read(mixtures, names)
    if given is None or not given.own:
        return check_alpha(ordered_alpha(mixtures, names), N)
    alpha = check_alpha(ordered_alpha(given, names), N + 1)[:, :N]
    total = alpha.sum(1, keepdims=True)
    has_sources = total[:, 0] > 0
    return alpha[has_sources] / total[has_sources]


def mixes_of(problem: Problem, mixtures: Any, settings: Settings, least: int) -> Mixes:
    """Return the mixtures to learn from: from the sample given, or else drawn from the law.

    A sample keeps at least `least` mixtures for labels.
    """
    n, k, seed = settings.n_labels, settings.n_calibration, settings.options.seed
    if mixtures is None:
        assert settings.concentration is not None
        return Mixes.drawn(n, k, problem.n_sources, settings.concentration, seed)
    return Mixes.given(sources_part(mixtures, problem), n, k, seed, least)


def bind(problem: Problem, hypothesis: Hypothesis, settings: Settings) -> Bound:
    """Return the data, ready to be asked."""
    return Bound.of(problem, hypothesis, settings.device, settings.memory, settings.options.seed)


def learn_map(
    bound: Bound, mixes: Mixes, settings: Settings, progress: Progress, warm: Warm | None = None
) -> Learnt:
    """Return the learnt map.

    Labels are solved, the map is fitted to them, and its errors are measured on other mixtures.
    """
    method, warm = registry.find(settings.method), warm or Warm()
    method.check(bound.space, settings.options)
    clock = [time.perf_counter()]
    labels, passes = solved(
        bound, mixes.labels, settings, warm.start, partial(progress, "solving labels")
    )
    labels = labels if warm.kept is None else _around(warm.kept, labels)
    if len(labels) < LEAST_LABELS:
        raise OptionError(
            f"only {len(labels)} of the mixtures to learn from have a model: give more of them"
        )
    clock.append(time.perf_counter())
    progress("fitting", 0, 1)
    chosen = method.fit(material(bound, labels, mixes), settings.options)
    clock.append(time.perf_counter())
    progress("fitting", 1, 1)
    foretold = _foretold(bound, chosen, labels, mixes.calibration)
    held_out, more = solved(
        bound,
        mixes.calibration,
        settings,
        foretold,
        partial(progress, "solving to calibrate"),
        tol=_finer(bound, mixes.calibration, foretold, settings),
    )
    learnt = assembled(bound, chosen, labels, held_out, mixes.law, settings)
    clock.append(time.perf_counter())
    seconds = dict(
        zip(("labels", "fit", "calibration"), np.diff(clock).round(4).tolist(), strict=True)
    )
    return replace(learnt, plan=replace(learnt.plan, seconds=seconds, passes=passes + more))


def material(bound: Bound, labels: Labels, mixes: Mixes) -> Material:
    """Return what maps are fitted from."""
    return Material(
        oracle=bound.oracle,
        labels=labels,
        space=bound.space,
        draw=lambda k: torch.as_tensor(mixes.more(k), device=bound.device),
        descend=bound.descend,
    )


def solved(
    bound: Bound,
    alpha: Any,
    settings: Settings,
    start: Tensor | None = None,
    progress: Callable[[int, int], None] | None = None,
    tol: float | None = None,
) -> tuple[Labels, int]:
    """Return labels for mixtures (n, N), and the passes they took.

    Mixtures without a good model are left out. `tol` is that of labels, unless another is given.
    """
    tol = settings.label_tol if tol is None else tol
    mixtures = torch.as_tensor(alpha, device=settings.device)
    if progress is not None:
        progress(0, len(mixtures))
    outcome = bound.oracle.solve(mixtures, tol=tol, start=start, progress=progress)
    if progress is not None:
        progress(len(mixtures), len(mixtures))
    # A label at the limit of rounding is a label; one that diverged or lacks a class is none.
    bad = {Status.DIVERGED, Status.ABSENT_CLASS}
    good = torch.as_tensor(
        [s not in bad for s in outcome.status], dtype=torch.bool, device=settings.device
    )
    good = good & outcome.w.isfinite().all(1)
    return Labels(mixtures[good], outcome.w[good].double()), int(outcome.passes.sum())


def _foretold(bound: Bound, chosen: Chosen, labels: Labels, alpha: Any) -> Tensor | None:
    """Return where a map that was just learnt says that mixtures (k, N) end, or None.

    So no solver starts from nothing.
    """
    predictor = chosen.predictor
    if isinstance(predictor, Descending) or not bound.space.convex or bound.space.quadratic:
        return None
    w = chosen.subspace.decode(predictor(torch.as_tensor(alpha, device=bound.device)))
    return bound.space.project(torch.where(w.isfinite().all(1, keepdim=True), w, labels.w.mean(0)))


def _finer(bound: Bound, alpha: Any, foretold: Tensor | None, settings: Settings) -> float:
    """Return the tolerance of labels that start where the map says, for its errors to show.

    A solver leaves a start that is within its tolerance where it is, as if it had no error.
    """
    if foretold is None or not len(foretold):
        return settings.label_tol
    gradient = bound.oracle.gradient(torch.as_tensor(alpha, device=bound.device), foretold)
    small = float(stationarity(bound.space, foretold, gradient.to(foretold)).quantile(SMALL))
    return float(np.clip(FINER * small, FINEST, settings.label_tol))


def assembled(
    bound: Bound, chosen: Chosen, labels: Labels, held_out: Labels, law: str, settings: Settings
) -> Learnt:
    """Return the map of what was chosen, calibrated on solved mixtures that had no part in it."""
    plan = Selection(chosen.name, len(labels), len(held_out), chosen.trials, {}, 0, law, "")
    learnt = Learnt(
        bound=bound,
        predictor=chosen.predictor,
        subspace=chosen.subspace,
        calibration=calibrate.uncalibrated(labels.alpha, settings.level),
        labels=labels,
        plan=plan,
        settings=settings,
        status=Status.DIVERGED if chosen.diverged else Status.TRAINED,
    )
    if len(held_out):
        errors = _errors(learnt, held_out)
        calibration = calibrate.calibrated(labels.alpha, held_out.alpha, errors, settings.level)
        learnt = replace(learnt, calibration=calibration)
        # nothing was held out to choose with, so this is the first that it has not seen
        if len(plan.trials) == 1:
            plan = replace(plan, trials=(_tried(plan.trials[0], held_out, errors),))
    return replace(learnt, plan=replace(plan, why=_why(learnt)))


def _errors(learnt: Learnt, labels: Labels) -> Errors:
    """Return the errors of the map's predictions for solved mixtures."""
    space = learnt.bound.space
    w = learnt.predicted(labels.alpha).double()
    unknown = ~w.isfinite().all(1)
    safe = torch.where(unknown[:, None], labels.w, w)
    gradient = learnt.bound.oracle.gradient(labels.alpha, safe).to(safe)
    away = w - labels.w
    distance = torch.linalg.vector_norm(away, dim=-1)
    nothing = torch.full_like(distance, torch.inf)
    # A convex risk lies above its tangent at ŵ.
    excess = (gradient * away).sum(-1).clamp(min=0.0) if space.convex else nothing
    if space.l2 == 0 and space.radius is None:  # there may be no w*, or many
        distance = excess = nothing
    norm = torch.where(unknown, torch.inf, stationarity(space, safe, gradient))
    return Errors(
        distance.nan_to_num(torch.inf, torch.inf), excess.nan_to_num(torch.inf, torch.inf), norm
    )


def _tried(trial: Trial, held_out: Labels, errors: Errors) -> Trial:
    relative = errors.distance / torch.linalg.vector_norm(held_out.w, dim=-1).clamp(min=1e-300)
    largest = errors.gradient.sort().values[round(QUANTILE * (len(held_out) - 1))]
    return replace(trial, error=float(relative.median()), gradient=float(largest))


def _why(learnt: Learnt) -> str:
    """Return the reason for this map, and how many mixtures it is good for, in two sentences."""
    plan, calibration, method = learnt.plan, learnt.calibration, learnt.settings.method
    tol = learnt.settings.options.tol
    share = float((calibration.bounds(learnt.labels.alpha).gradient <= tol).double().mean())
    if registry.find(method).cheapest:
        met = any(t.gradient <= tol for t in plan.trials)
        reason = (
            f"the cheapest to ask within ‖∇‖∞ ≤ {tol:g}"
            if met
            else f"the most accurate; none reached {tol:g}"
        )
    else:
        reason = f"method={method!r}" + (", best of those tried" if len(plan.trials) > 1 else "")
    verdict = (
        f"{share:.0%} of mixtures like these are predicted within {tol:g}, the others need the "
        "data."
    )
    least = calibrate.least_mixtures(calibration.level)
    if calibration.n < least:
        few = f"{plan.n_calibration} mixtures are too few to calibrate on, {least} are needed"
        verdict = f"No prediction is trusted without a look at the data: {few}."
    return f"{plan.method} from {plan.n_labels} labels ({plan.law}): {reason}. {verdict}"


def relearn(
    old: Learnt,
    sources: list[Domain],
    alpha: Tensor,
    changed: Callable[[Tensor], Tensor],
    warm: Warm,
) -> Learnt:
    """Return the map for other sources, from mixtures α (n, N) and what is known of them already.

    `changed` turns mixtures of the old sources into mixtures of the new ones: those that it was
    calibrated on where they came from a sample.
    """
    settings = old.settings
    problem = Problem(sources, old.bound.problem.targets)
    check_sources(problem)
    bound = bind(problem, old.bound.hypothesis, settings)
    if bound.space.n_params != old.bound.space.n_params:
        raise OptionError(
            "the classes are others than before, so that models change their shape: learn a new map"
        )
    seed, law = settings.options.seed, settings.concentration
    if law is None:
        calibration = changed(old.calibration.alpha).cpu().numpy()
    else:
        drawn = Mixes.drawn(0, settings.n_calibration, problem.n_sources, law, seed)
        calibration = drawn.calibration
    mixes = Mixes(alpha.cpu().numpy(), calibration, old.plan.law, law, seed)
    new = learn_map(bound, mixes, settings, silent, warm)
    return replace(new, plan=replace(new.plan, saved=_saved(new, alpha, warm.kept)))


def _saved(new: Learnt, alpha: Tensor, kept: Labels | None) -> str:
    """Return in words how many passes were saved.

    They are the passes that labels and calibration took, beside those that a new map would take
    from nothing.
    """
    settings, oracle = new.settings, new.bound.oracle
    keeping = (
        f"{len(kept)} labels were kept as solved"
        if kept
        else "Labels started where the old map ends"
    )
    if not new.bound.space.convex:
        return (
            f"{keeping}; {len(alpha)} were trained."
            if kept
            else "Nothing: networks are trained again."
        )
    cold = float(oracle.solve(alpha[:COLD], tol=settings.label_tol).passes.double().mean())
    passes = cold * (settings.n_labels + new.plan.n_calibration)
    return (
        f"{keeping}: {new.plan.passes:,} passes over the data for labels and calibration, a new "
        "map takes "
        f"{passes:,.0f} ({1.0 - new.plan.passes / passes:.0%} saved)."
    )


def _around(kept: Labels, new: Labels) -> Labels:
    """Return new labels before and behind the kept ones.

    Candidates are compared on the last labels, which are to be new.
    """
    behind = min(len(new), round(HELD_OUT * (len(kept) + len(new))))
    cut = len(new) - behind
    return Labels(
        torch.cat([new.alpha[:cut], kept.alpha, new.alpha[cut:]]),
        torch.cat([new.w[:cut], kept.w, new.w[cut:]]),
    )
