"""Fit surfaces over the simplex: polynomials in α and Taylor pieces around solved mixtures.

Polynomials are fitted with and without dw*/dα.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from cuvee.errors import OptionError
from cuvee.hypothesis.base import Space
from cuvee.learn import taylor
from cuvee.learn.base import Predictor
from cuvee.learn.choose import HELD_OUT, Candidate, Chosen, best
from cuvee.learn.material import Material
from cuvee.learn.method import Map
from cuvee.learn.options import Options
from cuvee.numerics import polynomial
from cuvee.numerics.polynomial import Polynomial

MAX_FEATURES = 1_500  # of a polynomial
MAX_DEGREE = 12
PER_FEATURE = 1.5  # equations that a polynomial needs per monomial


def fit(material: Material, options: Options) -> Chosen:
    """Return the most accurate of the surfaces that degree= or order= do not rule out."""
    check_degree(material, options)
    return best(material, _candidates(material, options))


def _candidates(material: Material, options: Options) -> Iterator[Candidate]:
    if options.order is None:
        yield from polynomials(material, options)
        if material.space.convex:
            yield from polynomials(material, options, slopes=True)
    if options.degree is None and material.space.convex:
        if options.order != 2:
            yield Candidate(
                "Taylor pieces of order 1", lambda rows: taylor.fit(material.sloped[rows])
            )
        if options.order != 1 and _has_bends(material, options):
            yield Candidate(
                "Taylor pieces of order 2",
                lambda rows: taylor.fit(material.sloped[rows], material.bends[rows]),
            )


def polynomials(
    material: Material, options: Options, *, slopes: bool = False, single: bool = False
) -> Iterator[Candidate]:
    """Yield polynomials of growing degree, fitted to `slopes` too if asked.

    With `single` they are rounded to float32.
    """
    n, N = material.labels.alpha.shape
    equations = (1.0 - HELD_OUT) * n * (N if slopes else 1)

    def fitted(degree: int, rows: slice) -> Predictor:
        labels = (material.sloped if slopes else material.inside)[rows]
        exact = polynomial.fit(labels.alpha, labels.w, labels.slopes, degree)
        return replace(exact, coefficients=exact.coefficients.float()) if single else exact

    for degree in [options.degree] if options.degree else range(1, MAX_DEGREE + 1):
        monomials = polynomial.n_features(N, degree)
        if (
            not options.degree
            and degree > 1
            and (monomials > MAX_FEATURES or PER_FEATURE * monomials > equations)
        ):
            break
        yield Candidate(
            f"polynomial of degree {degree}{' with slopes' if slopes else ''}",
            partial(fitted, degree),
        )


def check_degree(material: Material, options: Options) -> None:
    """Raise `OptionError` if a polynomial of the degree asked for has too many monomials.

    There may be no more than equations from the labels, nor more than MAX_FEATURES.
    """
    if options.degree is None:
        return
    n, N = material.labels.alpha.shape
    degree, monomials = options.degree, polynomial.n_features(N, options.degree)
    per_label = N if material.space.convex else 1  # equations
    if n * per_label < monomials:
        least = -(-monomials // per_label)
        raise OptionError(
            f"degree={degree} with {N} sources needs n_labels of at least {least}; there are {n}"
        )
    if monomials > MAX_FEATURES:
        raise OptionError(
            f"degree={degree} with {N} sources has {monomials} monomials, more than "
            f"{MAX_FEATURES}: choose a smaller degree"
        )


def _has_bends(material: Material, options: Options) -> bool:
    """Return whether there are second derivatives: no radius, no subspace, few enough sources."""
    possible = (
        material.space.radius is None
        and material.subspace.whole
        and taylor.n_bends(*material.labels.alpha.shape) > 0
    )
    if options.order == 2 and not possible:
        raise OptionError("order=2 needs fewer sources or parameters, and no radius: use order=1")
    return possible


def _check_order(space: Space, options: Options) -> None:
    if options.order is not None and not space.convex:
        raise OptionError(
            "order= asks for Taylor pieces, whose derivatives a network does not have: leave it out"
        )


MAP = Map(
    name="surface",
    summary="The most accurate of polynomials in α and of Taylor pieces around solved mixtures.",
    fit=fit,
    predictors=(Polynomial, taylor.Taylor),
    options=("degree", "order"),
    check=_check_order,
)
