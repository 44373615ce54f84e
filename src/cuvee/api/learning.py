"""How a map is learnt, in one screen: mixtures → labels → a predictor → errors on held-out mixtures → bounds."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from cuvee import erm
from cuvee.api.model_map import Bound, ModelMap, Selection
from cuvee.errors import OptionError
from cuvee.hypothesis.base import Hypothesis
from cuvee.learn import calibrate, meta, polynomial
from cuvee.learn.base import Labels
from cuvee.learn.calibrate import Calibration, Errors, Shape
from cuvee.learn.choose import HELD_OUT, Chosen, Material, Options, Trial, choose
from cuvee.learn.mixtures import DRAWN, Mixes
from cuvee.learn.subspace import Subspace
from cuvee.problem import Domain, Problem
from cuvee.results import Status

Method = Literal["auto", "network", "ntf", "kernel", "surface", "meta"]
Progress = Callable[[str, int, int], None]

LABEL_TOL = 1e-3  # of the tolerance, within LABEL_TOLS: what labels are off by must not be seen
LABEL_TOLS = (1e-9, 1e-5)
META_STEPS = 5
OWN_OUTPUTS = 2_048  # hidden layers, one per output, that are practical
SHAPE = 0.25  # of the calibration's mixtures: they say how errors grow, the others how large they are
COLD = 32  # labels that are also solved from nothing, to say what a warm start saved


@dataclass(frozen=True)
class Settings:
    """What a map is learnt with; the same again when a source comes or goes."""

    method: Method
    n_labels: int
    n_calibration: int
    concentration: float
    level: float
    K: int
    options: Options
    device: str
    memory: int

    @property
    def label_tol(self) -> float:
        return float(np.clip(LABEL_TOL * self.options.tol, *LABEL_TOLS))

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


def bind(problem: Problem, hypothesis: Hypothesis, settings: Settings) -> Bound:
    """The data, ready to be asked."""
    sources = problem.without_targets()
    space = hypothesis.bind(sources)
    options = settings.options
    training: dict[str, Any] = {} if space.convex else {"seed": options.seed}
    oracle = erm.family(sources, space, own=False, device=settings.device, memory=settings.memory, **training)
    bound = Bound(problem, hypothesis, space, oracle, settings.device, settings.memory, training)
    if settings.method != "meta":
        return bound
    return replace(bound, descend=_descent(bound, options.steps or META_STEPS))


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
    progress("labels", 0, 3)
    labels, passes = solved(bound, mixes.labels, settings, start)
    labels = labels if kept is None else _around(kept, labels)
    _check_labels(labels, bound, settings)
    clock.append(time.perf_counter())
    progress("fit", 1, 3)
    chosen = _fitted(bound, labels, mixes, settings)
    clock.append(time.perf_counter())
    progress("calibration", 2, 3)
    held_out, more = solved(bound, mixes.calibration, settings)
    atlas = assembled(bound, chosen, labels, held_out, mixes.law, settings)
    clock.append(time.perf_counter())
    progress("learnt", 3, 3)
    seconds = dict(zip(("labels", "fit", "calibration"), np.diff(clock).round(4).tolist(), strict=True))
    return replace(atlas, plan=replace(atlas.plan, seconds=seconds, passes=passes + more))


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
    atlas = replace(atlas, calibration=_calibrated(atlas, held_out, settings.level))
    return replace(atlas, plan=replace(plan, why=_why(atlas)))


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
    concentration = settings.concentration if atlas.plan.law.startswith(DRAWN) else None
    mixes = Mixes(alpha.cpu().numpy(), calibration, atlas.plan.law, concentration, settings.options.seed)
    found = learn_map(new, mixes, settings, lambda what, done, total: None, start, kept)
    return replace(found, plan=replace(found.plan, saved=_saved(new, settings, alpha, start, len(atlas.labels))))


def _saved(bound: Bound, settings: Settings, alpha: Tensor, start: Tensor | None, before: int) -> str:
    """What solving mixtures α took, beside as many as `before` solved from nothing; measured on a few of them."""
    cold = warm = float(bound.oracle.solve(alpha[:COLD], tol=settings.label_tol).passes.double().mean())
    if start is not None:
        found = bound.oracle.solve(alpha[:COLD], tol=settings.label_tol, start=start[:COLD])
        warm = float(found.passes.double().mean())
    share = 1.0 - len(alpha) * warm / (before * cold)
    took = f"{len(alpha)} labels were solved in {warm:.1f} passes over the data each"
    return f"{took}; a new map solves {before} in {cold:.1f} each: {share:.0%} of the passes saved."


def _around(kept: Labels, new: Labels) -> Labels:
    """New labels before and behind the kept ones: candidates are compared on the last, which are to be new."""
    behind = min(len(new), round(HELD_OUT * (len(kept) + len(new))))
    cut = len(new) - behind
    return Labels(
        torch.cat([new.alpha[:cut], kept.alpha, new.alpha[cut:]]), torch.cat([new.w[:cut], kept.w, new.w[cut:]])
    )


def solved(bound: Bound, alpha: Any, settings: Settings, start: Tensor | None = None) -> tuple[Labels, int]:
    """Labels for mixtures (n, N), and the passes they took; mixtures without a good model are left out."""
    mixtures = torch.as_tensor(alpha, device=settings.device)
    found = bound.oracle.solve(mixtures, tol=settings.label_tol, start=start)
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
        trial = Trial(name, float("nan"), float("nan"), time.perf_counter() - began)
        return Chosen(found, Subspace.none(labels.w), name, (trial,))
    refine = _refine(bound, labels.alpha, settings.K) if space.convex and settings.method == "network" else None
    return choose(material(bound, labels, mixes, settings, refine), settings.method, options)


def material(
    bound: Bound, labels: Labels, mixes: Mixes, settings: Settings, refine: Callable[[Tensor], Tensor] | None = None
) -> Material:
    """What predictors are made from."""
    space = bound.space
    return Material(
        oracle=bound.oracle,
        labels=labels,
        penalty=(space.l2 * space.penalised).to(labels.w),
        flat=lambda: bound.oracle.flat.to(labels.w),
        quadratic=space.quadratic,
        convex=space.convex,
        free=space.radius is None,
        draw=lambda k: torch.as_tensor(mixes.more(k), device=settings.device),
        refine=refine,
    )


def _refine(bound: Bound, alpha: Tensor, K: int) -> Callable[[Tensor], Tensor]:
    descend = _descent(bound, K)
    return lambda w: descend(w, alpha)


def _descent(bound: Bound, K: int) -> meta.Descend:
    """GD(v, α, K) with γ = 1/L_f, where L_f = Σ_j α_j L_j is at least the mixture's: each source is asked once."""
    space, N = bound.space, bound.problem.n_sources
    components = erm.components(bound.problem.without_targets(), space, device=bound.device)
    rows = components.everything
    start = torch.zeros(N, space.n_params, dtype=space.dtype) if space.convex else space.start(1, 0).expand(N, -1)
    L = erm.descent.smoothness(components, rows, start.to(bound.device), torch.eye(N, device=bound.device))
    size = max(1, bound.memory // (32 * (len(rows.X) + (N + 2) * space.n_params)))

    def descend(v: Tensor, alpha: Tensor) -> Tensor:
        gamma, w = 1.0 / (alpha @ L.to(alpha)), v.clone()
        if space.convex:  # the same steps with a family's own gradients, which take less time and room
            for _ in range(K if len(v) else 0):
                w = space.project(w - gamma[:, None] * bound.oracle.certify(alpha, w, tol=1.0).vector)
            return w
        for some in (slice(low, low + size) for low in range(0, len(v), size)):
            w[some] = erm.descent.gd(components, rows, v[some].to(space.dtype), alpha[some], K, gamma[some])[0].to(v)
        return w

    return descend


def _uncalibrated(labels: Labels, level: float) -> Calibration:
    nothing = labels.w[:0, 0]
    shape = Shape.of(labels.alpha, labels.alpha[:0], nothing)
    return calibrate.calibrate(shape, labels.alpha[:0], Errors(nothing, nothing, nothing), level)


def _calibrated(atlas: ModelMap, held_out: Labels, level: float) -> Calibration:
    """Errors on held-out mixtures: some say how they grow, the others bound them."""
    if len(held_out) == 0:
        return atlas.calibration
    errors = _errors(atlas, held_out)
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
    unknown = ~distance.isfinite()
    gradient = torch.where(unknown, torch.inf, found.gradient.to(distance))
    return Errors(distance.nan_to_num(torch.inf, torch.inf), excess.nan_to_num(torch.inf, torch.inf), gradient)


def _why(atlas: ModelMap) -> str:
    plan = atlas.plan
    tol, bound = atlas.settings.options.tol, atlas.calibration.bounds(atlas.labels.alpha).gradient
    share = float((bound <= tol).double().mean())
    if atlas.settings.method == "auto":
        met = any(t.gradient <= tol for t in plan.trials)
        reason = f"the cheapest to ask within ‖∇‖∞ ≤ {tol:g}" if met else f"the most accurate; none reached {tol:g}"
    else:
        reason = f"method={atlas.settings.method!r}" + (", best of those tried" if len(plan.trials) > 1 else "")
    calibrated = f"{share:.0%} of mixtures like these are predicted within {tol:g}, the others need the data."
    least = calibrate.least_mixtures(atlas.calibration.level)
    if atlas.calibration.n < least:
        few = f"{plan.n_calibration} mixtures are too few to calibrate on"
        calibrated = f"No prediction is trusted without a look at the data: {few}."
    return f"{plan.method} from {plan.n_labels} labels ({plan.law}): {reason}. {calibrated}"
