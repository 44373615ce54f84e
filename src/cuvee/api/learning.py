"""How a map is learnt, in one screen: mixtures → labels → a predictor → errors on held-out mixtures → bounds."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from math import ceil
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from cuvee import erm, polynomial
from cuvee.alpha import ordered_alpha, read
from cuvee.api.model_map import Bound, ModelMap, Selection
from cuvee.errors import OptionError
from cuvee.hypothesis.base import Hypothesis
from cuvee.learn import calibrate, meta
from cuvee.learn.base import Labels
from cuvee.learn.calibrate import Calibration, Errors, Shape
from cuvee.learn.choose import HELD_OUT, QUANTILE, Chosen, Material, Options, Trial, choose, untried
from cuvee.learn.meta import Initialisation
from cuvee.learn.mixtures import Mixes
from cuvee.learn.subspace import Subspace
from cuvee.problem import Domain, Problem
from cuvee.results import Floats, Status
from cuvee.simplex import check_alpha

Method = Literal["auto", "network", "ntf", "kernel", "surface", "meta"]
Progress = Callable[[str, int, int], None]

LABEL_TOL = 1e-3  # of the tolerance, within LABEL_TOLS: what labels are off by must not be seen
LABEL_TOLS = (1e-9, 1e-5)
META_STEPS = 5
OWN_OUTPUTS = 2_048  # hidden layers, one per output, that are practical
SHAPE = 0.25  # of the calibration's mixtures: they say how errors grow, the others how large they are
COLD = 32  # labels that are also solved from nothing, to say what a warm start saved


def label_tol(tol: float) -> float:
    """On ‖∇‖∞ of labels, for a map that is to be within `tol`."""
    return float(np.clip(LABEL_TOL * tol, *LABEL_TOLS))


@dataclass(frozen=True)
class Settings:
    """What a map is learnt with; the same again when a source comes or goes."""

    method: Method
    n_labels: int
    n_calibration: int
    concentration: float | None  # of the Dirichlet law; None for a sample that was given
    level: float
    K: int
    options: Options
    device: str
    memory: int

    @property
    def label_tol(self) -> float:
        return label_tol(self.options.tol)

    @classmethod
    def restored(cls, said: dict[str, Any], device: str, memory: int) -> Settings:
        return cls(**{**said, "options": Options(**said["options"]), "device": device, "memory": memory})

    def noted(self) -> dict[str, Any]:
        """For a file: not what belongs to a machine."""
        return {name: value for name, value in asdict(self).items() if name not in ("device", "memory")}


def check_sources(problem: Problem) -> None:
    if problem.n_sources == 1:
        raise OptionError(
            f"with the one source {problem.sources[0].name!r} (N=1) every mixture is the same: solve it once"
        )


def sources_part(mixtures: Any, problem: Problem) -> Floats:
    """Return a user's sample of mixtures (K, N); a column that is named as the own samples' is left out."""
    N, names = problem.n_sources, problem.source_names
    given = read(mixtures, names)
    if given is None or not given.own:
        return check_alpha(ordered_alpha(mixtures, names), N)
    alpha = check_alpha(ordered_alpha(given, names), N + 1)[:, :N]
    total = alpha.sum(1, keepdims=True)
    some = total[:, 0] > 0
    return alpha[some] / total[some]


def bind(problem: Problem, hypothesis: Hypothesis, settings: Settings) -> Bound:
    """The data, ready to be asked."""
    options = settings.options
    bound = Bound.of(problem, hypothesis, settings.device, settings.memory, options.seed)
    if settings.method != "meta":
        return bound
    return replace(bound, descend=descent(bound, options.steps or META_STEPS))


def check_order(bound: Bound, settings: Settings) -> None:
    if settings.options.order is not None and not bound.space.convex:
        raise OptionError("order= asks for Taylor pieces, whose derivatives a network does not have: leave it out")


def learn_map(
    bound: Bound,
    mixes: Mixes,
    settings: Settings,
    progress: Progress,
    start: Tensor | None = None,
    kept: Labels | None = None,
) -> ModelMap:
    """The pipeline; `start` (n, P) is where labels are thought to be, `kept` are labels solved before."""
    check_order(bound, settings)
    clock = [time.perf_counter()]
    labels, passes = solved(bound, mixes.labels, settings, start, partial(progress, "solving labels"))
    labels = labels if kept is None else _around(kept, labels)
    _check_labels(labels, bound, settings)
    clock.append(time.perf_counter())
    progress("fitting", 0, 1)
    chosen = _fitted(bound, labels, mixes, settings)
    clock.append(time.perf_counter())
    progress("fitting", 1, 1)
    foretold = _foretold(bound, chosen, labels, mixes.calibration)
    held_out, more = solved(bound, mixes.calibration, settings, foretold, partial(progress, "solving to calibrate"))
    atlas = assembled(bound, chosen, labels, held_out, mixes.law, settings)
    clock.append(time.perf_counter())
    seconds = dict(zip(("labels", "fit", "calibration"), np.diff(clock).round(4).tolist(), strict=True))
    return replace(atlas, plan=replace(atlas.plan, seconds=seconds, passes=passes + more))


def _foretold(bound: Bound, chosen: Chosen, labels: Labels, alpha: Any) -> Tensor | None:
    """Where a map that was just learnt says that mixtures (k, N) end, so that they need not be solved from nothing."""
    predictor = chosen.predictor
    if isinstance(predictor, Initialisation) or not bound.space.convex or bound.space.quadratic:
        return None
    w = chosen.subspace.decode(predictor(torch.as_tensor(alpha, device=bound.device)))
    return bound.space.project(torch.where(w.isfinite().all(1, keepdim=True), w, labels.w.mean(0)))


def assembled(bound: Bound, chosen: Chosen, labels: Labels, held_out: Labels, law: str, settings: Settings) -> ModelMap:
    """A map of what was chosen, calibrated on solved mixtures that had no part in it."""
    plan = Selection(chosen.name, len(labels), len(held_out), chosen.trials, {}, 0, law, "")
    atlas = ModelMap(
        bound=bound,
        predictor=chosen.predictor,
        subspace=chosen.subspace,
        calibration=_uncalibrated(labels, settings.level),
        labels=labels,
        plan=plan,
        settings=settings,
        status=Status.DIVERGED if chosen.diverged else Status.TRAINED,
        relearn=relearn,
    )
    if len(held_out):
        errors = _errors(atlas, held_out)
        atlas = replace(atlas, calibration=_calibrated(atlas, held_out, errors, settings.level))
        if len(plan.trials) == 1:  # nothing was held out to choose with, so this is the first that it has not seen
            plan = replace(plan, trials=(_tried(plan.trials[0], held_out, errors),))
    return replace(atlas, plan=replace(plan, why=_why(atlas)))


def _tried(trial: Trial, held_out: Labels, errors: Errors) -> Trial:
    relative = errors.distance / torch.linalg.vector_norm(held_out.w, dim=-1).clamp(min=1e-300)
    largest = errors.gradient.sort().values[round(QUANTILE * (len(held_out) - 1))]
    return replace(trial, error=float(relative.median()), gradient=float(largest))


def relearn(
    atlas: ModelMap,
    sources: list[Domain],
    alpha: Tensor,
    changed: Callable[[Tensor], Tensor],
    start: Tensor | None = None,
    kept: Labels | None = None,
) -> ModelMap:
    """The map for other sources: mixtures α solved from `start` (n, P), others `kept` as solved.

    `changed` turns mixtures of the old sources, which it was calibrated on, into mixtures of the new ones.
    """
    bound, settings = atlas.bound, atlas.settings
    problem = Problem(sources, bound.problem.targets)
    check_sources(problem)
    new = bind(problem, bound.hypothesis, settings)
    if new.space.n_params != bound.space.n_params:
        raise OptionError("the classes are others than before, so that models change their shape: learn a new map")
    calibration = changed(atlas.calibration.alpha).cpu().numpy()
    mixes = Mixes(alpha.cpu().numpy(), calibration, atlas.plan.law, settings.concentration, settings.options.seed)
    found = learn_map(new, mixes, settings, lambda what, done, total: None, start, kept)
    said = _saved(found, alpha, 0 if kept is None else len(kept))
    return replace(found, plan=replace(found.plan, saved=said))


def _saved(found: ModelMap, alpha: Tensor, kept: int) -> str:
    """The passes that labels and calibration took, beside those that a new map would take from nothing."""
    settings, oracle = found.settings, found.bound.oracle
    keeping = f"{kept} labels were kept as solved" if kept else "Labels started where the old map ends"
    if not found.bound.space.convex:
        return f"{keeping}; {len(alpha)} were trained." if kept else "Nothing: networks are trained again."
    cold = float(oracle.solve(alpha[:COLD], tol=settings.label_tol).passes.double().mean())
    new = cold * (settings.n_labels + found.plan.n_calibration)
    return (
        f"{keeping}: {found.plan.passes:,} passes over the data for labels and calibration, a new map takes "
        f"{new:,.0f} ({1.0 - found.plan.passes / new:.0%} saved)."
    )


def _around(kept: Labels, new: Labels) -> Labels:
    """New labels before and behind the kept ones: candidates are compared on the last, which are to be new."""
    behind = min(len(new), round(HELD_OUT * (len(kept) + len(new))))
    cut = len(new) - behind
    return Labels(
        torch.cat([new.alpha[:cut], kept.alpha, new.alpha[cut:]]), torch.cat([new.w[:cut], kept.w, new.w[cut:]])
    )


def solved(
    bound: Bound,
    alpha: Any,
    settings: Settings,
    start: Tensor | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Labels, int]:
    """Labels for mixtures (n, N), and the passes they took; mixtures without a good model are left out."""
    mixtures = torch.as_tensor(alpha, device=settings.device)
    if progress is not None:
        progress(0, len(mixtures))
    found = bound.oracle.solve(mixtures, tol=settings.label_tol, start=start, progress=progress)
    if progress is not None:
        progress(len(mixtures), len(mixtures))
    # A label at the limit of rounding is a label; one that diverged or lacks a class is none.
    bad = {Status.DIVERGED, Status.ABSENT_CLASS}
    good = torch.as_tensor([s not in bad for s in found.status], dtype=torch.bool, device=settings.device)
    good = good & found.w.isfinite().all(1)
    return Labels(mixtures[good], found.w[good].double()), int(found.passes.sum())


def _check_labels(labels: Labels, bound: Bound, settings: Settings) -> None:
    n, N, degree = len(labels), bound.problem.n_sources, settings.options.degree
    if n < 4:
        raise OptionError(f"only {n} of the mixtures to learn from have a model: give more of them")
    if degree is not None and settings.method in ("surface", "auto"):
        wanted = polynomial.n_features(N, degree)
        told = n * N if bound.space.convex else n
        if told < wanted:
            least = -(-wanted // (N if bound.space.convex else 1))
            raise OptionError(f"degree={degree} with {N} sources needs n_labels of at least {least}; there are {n}")
    if settings.method in ("network", "ntf") and settings.options.trunk == "own":
        P = bound.space.n_params
        if P > OWN_OUTPUTS:
            raise OptionError(f"a hidden layer for each of {P} parameters is not practical: take trunk='shared'")


def _fitted(bound: Bound, labels: Labels, mixes: Mixes, settings: Settings) -> Chosen:
    space, options = bound.space, settings.options
    if settings.method == "meta":
        assert bound.descend is not None
        steps = options.steps or META_STEPS
        began = time.perf_counter()
        found = meta.fit(labels, bound.descend, steps)
        name = f"one start, {steps} gradient steps"
        return Chosen(found, Subspace.none(labels.w), name, (untried(name, time.perf_counter() - began),))
    refine = _refine(bound, labels.alpha, settings.K) if space.convex and settings.method == "network" else None
    return choose(material(bound, labels, mixes, settings, refine), settings.method, options)


def material(
    bound: Bound, labels: Labels, mixes: Mixes, settings: Settings, refine: Callable[[Tensor], Tensor] | None = None
) -> Material:
    """What predictors are made from."""
    return Material(
        oracle=bound.oracle,
        labels=labels,
        space=bound.space,
        draw=lambda k: torch.as_tensor(mixes.more(k), device=settings.device),
        refine=refine,
    )


def _refine(bound: Bound, alpha: Tensor, K: int) -> Callable[[Tensor], Tensor]:
    descend = descent(bound, K)
    return lambda w: descend(w, alpha)


def descent(bound: Bound, K: int) -> meta.Descend:
    """GD(v, α, K) with γ = 1/L_f, where L_f = Σ_j α_j L_j is at least the mixture's: each source is asked once."""
    space, N = bound.space, bound.problem.n_sources
    components = erm.components(bound.problem.without_targets(), space, device=bound.device)
    start = torch.zeros(N, space.n_params, dtype=space.dtype) if space.convex else space.start(1, 0).expand(N, -1)
    L = erm.descent.smoothness(components, start.to(bound.device), torch.eye(N, device=bound.device))
    size = max(1, bound.memory // (32 * (components.n_rows + (N + 2) * space.n_params)))

    def descend(v: Tensor, alpha: Tensor) -> Tensor:
        gamma, w = 1.0 / (alpha @ L.to(alpha)), v.clone()
        if space.convex:  # the same steps with a family's own gradients, which take less time and room
            for _ in range(K if len(v) else 0):
                w = space.project(w - gamma[:, None] * bound.oracle.certify(alpha, w, tol=1.0).vector)
            return w
        for some in (slice(low, low + size) for low in range(0, len(v), size)):
            w[some] = erm.descent.gd(components, v[some].to(space.dtype), alpha[some], K, gamma[some])[0].to(v)
        return w

    return descend


def _uncalibrated(labels: Labels, level: float) -> Calibration:
    nothing = labels.w[:0, 0]
    shape = Shape.of(labels.alpha, labels.alpha[:0], nothing)
    return calibrate.calibrate(shape, labels.alpha[:0], Errors(nothing, nothing, nothing), level)


def _calibrated(atlas: ModelMap, held_out: Labels, errors: Errors, level: float) -> Calibration:
    """Errors on held-out mixtures: some say how they grow, the others bound them."""
    some = round(SHAPE * len(held_out))
    shape = Shape.of(
        torch.cat([atlas.labels.alpha, held_out.alpha[:some]]), held_out.alpha[:some], errors.gradient[:some]
    )
    rest = Errors(*(error[some:] for error in vars(errors).values()))
    return replace(calibrate.calibrate(shape, held_out.alpha[some:], rest, level), alpha=held_out.alpha)


def _errors(atlas: ModelMap, labels: Labels) -> Errors:
    """Of the map's predictions for solved mixtures."""
    w = atlas.predict(labels.alpha).double()
    safe = torch.where(w.isfinite().all(1, keepdim=True), w, labels.w)
    found = atlas.bound.oracle.certify(labels.alpha, safe, tol=1.0)
    away = w - labels.w
    distance = torch.linalg.vector_norm(away, dim=-1)
    if atlas.bound.space.convex:  # a convex risk lies above its tangent at ŵ
        excess = (found.vector * away).sum(-1).clamp(min=0.0)
    else:
        excess = torch.full_like(distance, torch.inf)
    if atlas.bound.space.l2 == 0 and atlas.bound.space.radius is None:  # there may be no w*, or many
        distance, excess = (torch.full_like(distance, torch.inf) for _ in range(2))
    unknown = ~away.isfinite().all(1)
    gradient = torch.where(unknown, torch.inf, found.gradient.to(distance))
    return Errors(distance.nan_to_num(torch.inf, torch.inf), excess.nan_to_num(torch.inf, torch.inf), gradient)


def _why(atlas: ModelMap) -> str:
    plan = atlas.plan
    tol, calibration = atlas.settings.options.tol, atlas.calibration
    alpha = calibration.alpha
    share = float(calibration.within(alpha, calibration.bounds(alpha).gradient, tol).double().mean())
    if atlas.settings.method == "auto":
        met = any(t.gradient <= tol for t in plan.trials)
        reason = f"the cheapest to ask within ‖∇‖∞ ≤ {tol:g}" if met else f"the most accurate; none reached {tol:g}"
    else:
        reason = f"method={atlas.settings.method!r}" + (", best of those tried" if len(plan.trials) > 1 else "")
    calibrated = f"{share:.0%} of mixtures like these are predicted within {tol:g}, the others need the data."
    least = calibrate.least_mixtures(atlas.calibration.level)
    if atlas.calibration.n < least:
        few = f"{plan.n_calibration} mixtures are too few to calibrate on, {ceil(least / (1.0 - SHAPE))} are needed"
        calibrated = f"No prediction is trusted without a look at the data: {few}."
    return f"{plan.method} from {plan.n_labels} labels ({plan.law}): {reason}. {calibrated}"
