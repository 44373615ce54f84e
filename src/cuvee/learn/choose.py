"""Which predictor: every method is a list of candidates, fitted on some labels and judged on others.

The judge is ‖∇f_α(ŵ)‖∞, in which the tolerance is stated: one pass over the data for a few dozen mixtures.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial

import torch
from torch import Tensor

from cuvee import polynomial
from cuvee.errors import OptionError
from cuvee.hypothesis.base import Space
from cuvee.learn import kernel, network, reduced, taylor
from cuvee.learn.base import Labels, Oracle, Predictor, median_error
from cuvee.learn.meta import Initialisation
from cuvee.learn.network import Refine, Trunk
from cuvee.learn.subspace import Subspace

HELD_OUT = 0.2  # of the labels, while candidates are compared
MAX_FEATURES = 1_500  # of a polynomial
MAX_DEGREE = 12
PER_FEATURE = 1.5  # equations a polynomial of that many monomials wants
REDUCED_P = 128  # parameters of which every source can have Hessians
REDUCED_DEGREE = 3
FLOAT32_TOL = 1e-4  # from here on a polynomial may be rounded to float32 on the way
QUANTILE = 0.95
KERNEL_LABELS = 1_024  # it is cubic in them, and by then polynomials are better
MARGIN = 0.7  # of the tolerance: a bound that is to hold is a little larger than the errors it was seen on
NETWORK_STEPS = 2_000
SHARED_WIDTH, WIDTH = 4_096, 256


@dataclass(frozen=True)
class Trial:
    """A candidate, and how it did on labels it had not seen."""

    name: str
    error: float  # median ‖ŵ − w*‖/‖w*‖
    gradient: float  # ‖∇f_α(ŵ)‖∞, at the 95th percentile
    seconds: float  # to fit


@dataclass(frozen=True)
class Options:
    """What the caller chose; None leaves it to us."""

    tol: float
    degree: int | None = None
    order: int | None = None
    width: int | None = None
    steps: int | None = None
    eta: float | None = None
    trunk: Trunk = "own"
    solver: kernel.Solver = "exact"
    seed: int = 0
    shallow: bool = False  # "auto" without what costs more than the labels


@dataclass(frozen=True)
class Material:
    """What predictors are made from."""

    oracle: Oracle
    labels: Labels  # in all P parameters
    space: Space
    draw: Callable[[int], Tensor]  # more mixtures like the labels', unsolved
    refine: Refine | None = None  # K steps of GD from where the labels stood, for a network that learns as they do

    @cached_property
    def subspace(self) -> Subspace:
        return Subspace.of(self.labels.w)

    @cached_property
    def inside(self) -> Labels:
        """The labels in the coordinates of the subspace."""
        return self.subspace.encode(self.labels)

    @cached_property
    def sloped(self) -> Labels:
        """The same with dw*/dα."""
        slopes = self.oracle.sensitivity(self.labels.alpha, self.labels.w)
        return self.subspace.encode(replace(self.labels, slopes=slopes))

    @cached_property
    def bends(self) -> Tensor:
        """d²w*/dα² of the first labels, as many as are affordable."""
        return taylor.second_derivatives(self.oracle, self.sloped[: taylor.n_bends(*self.labels.alpha.shape)])


@dataclass(frozen=True)
class Chosen:
    predictor: Predictor | Initialisation
    subspace: Subspace
    name: str
    trials: tuple[Trial, ...]
    diverged: bool = False


Fit = Callable[[slice], Predictor]  # to some of the labels
Candidate = tuple[str, Fit]
KEPT = "reduced components"  # most of what it learns from are not labels, so it is not fitted twice


def choose(material: Material, method: str, options: Options) -> Chosen:
    """The most accurate candidate of a method; for "auto" the first, cheapest to ask, that is within the tolerance."""
    if method == "network":
        return _network(material, options)
    candidates = {"kernel": _kernel, "ntf": _ntf, "surface": _surface, "auto": _auto}[method]
    return _best(material, candidates(material, options), stop=MARGIN * options.tol if method == "auto" else 0.0)


def _best(material: Material, candidates: Iterable[Candidate], stop: float) -> Chosen:
    """Fit on some labels, compare on the others, fit the winner again on all."""
    n = len(material.labels)
    some = slice(0, n - max(1, round(HELD_OUT * n)))
    others = material.labels[some.stop :]
    trials: list[Trial] = []
    fits: dict[str, Fit] = {}
    for name, fit in candidates:
        began = time.perf_counter()
        predictor = fit(some)
        trials.append(_judge(material, name, predictor, others, time.perf_counter() - began))
        fits[name] = partial(_keep, predictor) if name == KEPT else fit
        if trials[-1].gradient <= stop:
            break
    best = min(trials, key=lambda t: (t.gradient, t.error))
    return Chosen(fits[best.name](slice(0, n)), material.subspace, best.name, tuple(trials))


def _keep(predictor: Predictor, some: slice) -> Predictor:
    return predictor


def _judge(material: Material, name: str, predictor: Predictor, labels: Labels, seconds: float) -> Trial:
    def whole(alpha: Tensor) -> Tensor:
        return material.subspace.decode(predictor(alpha))

    gradient = gradients(material.oracle, labels.alpha, whole(labels.alpha))
    largest = float(gradient.sort().values[round(QUANTILE * (len(labels) - 1))])
    return Trial(name, median_error(whole, labels), largest, seconds)


def gradients(oracle: Oracle, alpha: Tensor, w: Tensor) -> Tensor:
    """‖∇f_α(w)‖∞ (M,), infinite where w is not a number."""
    found = torch.full_like(alpha[:, 0], torch.inf)
    known = w.isfinite().all(1)
    if bool(known.any()):
        found[known] = oracle.certify(alpha[known], w[known], tol=1.0).gradient.to(found)
    return found.nan_to_num(torch.inf, torch.inf)


def _auto(material: Material, options: Options) -> Iterator[Candidate]:
    """Cheapest to ask first; quadratic components are their own exact map."""
    whole = not options.shallow and reducible(material.space, len(material.labels))
    if whole and material.space.quadratic:
        yield KEPT, partial(_reduced, material)
    yield from _polynomials(material, options, single=options.tol >= FLOAT32_TOL)
    if len(material.labels) <= KERNEL_LABELS:
        yield from _kernel(material, options)
    if whole and not material.space.quadratic:
        yield KEPT, partial(_reduced, material)
    elif material.space.convex and not options.shallow:
        yield from _polynomials(material, options, slopes=True)


def _surface(material: Material, options: Options) -> Iterator[Candidate]:
    if options.order is None:
        yield from _polynomials(material, options)
        if material.space.convex:
            yield from _polynomials(material, options, slopes=True)
    if options.degree is None and material.space.convex:
        if options.order != 2:
            yield "Taylor pieces of order 1", lambda some: taylor.fit(material.sloped[some])
        if options.order != 1 and _has_bends(material, options):
            yield "Taylor pieces of order 2", lambda some: taylor.fit(material.sloped[some], material.bends[some])


def _polynomials(
    material: Material, options: Options, *, slopes: bool = False, single: bool = False
) -> Iterator[Candidate]:
    n, N = material.labels.alpha.shape
    equations = (1.0 - HELD_OUT) * n * (N if slopes else 1)

    def fit(degree: int, some: slice) -> Predictor:
        labels = (material.sloped if slopes else material.inside)[some]
        found = polynomial.fit(labels.alpha, labels.w, labels.slopes, degree)
        return replace(found, coefficients=found.coefficients.float()) if single else found

    for degree in [options.degree] if options.degree else range(1, MAX_DEGREE + 1):
        monomials = polynomial.n_features(N, degree)
        if options.degree and monomials > MAX_FEATURES:
            raise OptionError(
                f"degree={degree} with {N} sources has {monomials} monomials, more than {MAX_FEATURES}: take less"
            )
        if not options.degree and degree > 1 and (monomials > MAX_FEATURES or PER_FEATURE * monomials > equations):
            break
        yield f"polynomial of degree {degree}{' with slopes' if slopes else ''}", partial(fit, degree)


def _has_bends(material: Material, options: Options) -> bool:
    """Second derivatives: inside W, in all P parameters, and not too many."""
    possible = (
        material.space.radius is None and material.subspace.whole and taylor.n_bends(*material.labels.alpha.shape) > 0
    )
    if options.order == 2 and not possible:
        raise OptionError("order=2 needs fewer sources or parameters, and no radius: take order=1")
    return possible


def _kernel(material: Material, options: Options) -> Iterator[Candidate]:
    yield f"kernel, {options.solver}", lambda some: kernel.fit_kernel(material.inside[some], solver=options.solver)


def _ntf(material: Material, options: Options) -> Iterator[Candidate]:
    width = options.width or (SHARED_WIDTH if options.trunk == "shared" else WIDTH)
    yield (
        f"linearised network of width {width}, {options.trunk} layers",
        lambda some: kernel.fit_ntf(
            material.inside[some], width=width, trunk=options.trunk, seed=options.seed, solver=options.solver
        ),
    )


def untried(name: str, seconds: float) -> Trial:
    """Of the one candidate of a method that holds no labels out: whoever calibrates it sees its errors first."""
    return Trial(name, float("nan"), float("nan"), seconds)


def reducible(space: Space, n_labels: int) -> bool:
    """Whether every source can have Hessians, and the labels span enough to use them."""
    return space.convex and space.radius is None and space.n_params < min(REDUCED_P, n_labels)


def reduce(oracle: Oracle, space: Space, labels: Labels, mixtures: Tensor, degree: int) -> reduced.Reduced:
    """`reduced.fit` with what a space knows: its penalty, and whether it is quadratic."""
    penalty = (space.l2 * space.penalised).to(labels.w)
    flat = oracle.flat.to(penalty)
    return reduced.fit(oracle, labels, mixtures, penalty, flat, degree=degree, quadratic=space.quadratic)


def _reduced(material: Material, some: slice) -> Predictor:
    space = material.space
    mixtures = material.draw(0 if space.quadratic else reduced.n_points(space.n_params, REDUCED_DEGREE))
    return reduce(material.oracle, space, material.labels[some], mixtures, REDUCED_DEGREE)


def _network(material: Material, options: Options) -> Chosen:
    """Algorithm 2: with a hidden layer per output the labels are refined from 0 as the network learns."""
    own = options.trunk == "own" and material.refine is not None
    subspace = Subspace.none(material.labels.w) if own else material.subspace
    labels = subspace.encode(material.labels)
    width = options.width or (SHARED_WIDTH if options.trunk == "shared" else WIDTH)
    began = time.perf_counter()
    found = network.train(
        labels.alpha,
        torch.zeros_like(labels.w) if own else labels.w,
        refine=material.refine if own else None,
        width=width,
        steps=options.steps or NETWORK_STEPS,
        eta=options.eta,
        trunk=options.trunk,
        seed=options.seed,
        dtype=torch.float32,
    )
    name = f"network of width {width}, {options.trunk} layers, {found.steps} steps"
    return Chosen(found.predictor, subspace, name, (untried(name, time.perf_counter() - began),), found.diverged)
