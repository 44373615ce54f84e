"""Choose the default map: the cheapest to ask within the tolerance, or the most accurate."""

from __future__ import annotations

from collections.abc import Iterator

from cuvee.learn import kernel, reduced, surface
from cuvee.learn.choose import Candidate, Chosen, best
from cuvee.learn.material import Material
from cuvee.learn.method import Map
from cuvee.learn.options import Options
from cuvee.numerics.polynomial import Polynomial

FLOAT32_TOL = 1e-4  # from here on a polynomial may be rounded to float32 on the way
KERNEL_LABELS = 1_024  # a kernel costs their cube, and with more of them polynomials are better
# A share of the tolerance, because a calibrated bound is a little larger than the errors measured.
MARGIN = 0.7


def fit(material: Material, options: Options) -> Chosen:
    """Return the first candidate within the tolerance, cheapest to ask first, or else the best."""
    surface.check_degree(material, options)
    return best(material, _candidates(material, options), stop=MARGIN * options.tol)


def _candidates(material: Material, options: Options) -> Iterator[Candidate]:
    """Yield the candidates, cheapest to ask first; quadratic components have an exact map."""
    can_reduce = not options.shallow and reduced.reducible(material.space, len(material.labels))
    if can_reduce and material.space.quadratic:
        yield reduced.candidate(material)
    yield from surface.polynomials(material, options, single=options.tol >= FLOAT32_TOL)
    if len(material.labels) <= KERNEL_LABELS:
        yield kernel.candidate(material, options)
    if can_reduce and not material.space.quadratic:
        yield reduced.candidate(material)
    elif material.space.convex and not options.shallow:
        yield from surface.polynomials(material, options, slopes=True)


MAP = Map(
    name="auto",
    summary=(
        "The cheapest to ask of polynomials, kernel and reduced components within `tol`, else the "
        "most accurate."
    ),
    fit=fit,
    predictors=(Polynomial, kernel.KernelPredictor, reduced.Reduced),
    options=("degree",),
    cheapest=True,
)
