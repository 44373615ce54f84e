"""Predict models from reduced components: learn the N sources' gradients, then minimise.

All M problems share f_1..f_N, and w*(α) moves through a thin part of R^P. Around the centre w_c of
the solved models

    0 = ∇f_α(w*) + λw* = ∇f_α(w_c) + λw_c + H̄(α)(w* − w_c),    H̄(α) the mean Hessian between w_c
    and w*(α),

so a surface for H̄ alone predicts w*. Every ∇f_j, as a polynomial in the few directions that solved
models span, then gives the gradient that is left there, and a surface for the Hessian at w*(α)
turns it into one Newton step that needs no data. For ridge the Hessians are constant: the
prediction is exact.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

import torch
from torch import Tensor

from cuvee.hypothesis.base import Space
from cuvee.learn.base import Labels
from cuvee.learn.choose import Candidate
from cuvee.learn.material import Material
from cuvee.numerics.polynomial import chunks, least_squares, monomials, n_features, raised
from cuvee.oracle import Oracle

HESSIANS = 1.8  # labels per fitted monomial at which Hessians are taken
MANY_HESSIANS = 48  # Hessians are taken at no fewer labels than this
MAX_SURFACE = 1_000_000  # numbers in a surface of Hessians
POINTS = 2  # gradients per fitted monomial
MAX_MONOMIALS = 1_800
MAX_P = 128  # with more parameters, Hessians of every source are too large
DEGREE = 3
SPANNED = 1e-6  # of the longest: directions shorter than this are left out


@dataclass(frozen=True)
class Reduced:
    """Predict from ∇f̃_j(w) = gradients_j + hessians_j δ + terms_j · φ(directions δ).

    Here δ = w − centre.
    """

    centre: Tensor  # (P,)
    gradients: Tensor  # (N, P) at the centre
    hessians: Tensor  # (N, P, P) at the centre
    penalty: Tensor  # (P,)
    ridge: Tensor  # (P, P): the penalty, and curvature 1 in directions that no risk feels
    average: Tensor  # (F, P·P): H̄ − λ over monomials of α; float32 will do for what only divides
    final: Tensor  # (F, P·P): the Hessian at w*(α), less λ
    bend: int  # degree of those monomials
    directions: Tensor  # (r, P), scaled so that coordinates are about 1
    terms: Tensor  # (monomials, N·P), none where there is nothing to add
    degree: int

    def __call__(self, alpha: Tensor) -> Tensor:
        w = torch.empty_like(self.centre.expand(len(alpha), -1))
        for chunk in chunks(len(alpha), self._width):
            a = alpha[chunk]
            g = a @ self.gradients + self.penalty * self.centre
            away = -self._divide(self.average, a, g)
            if len(self.terms):
                away = away - self._divide(self.final, a, self._gradient(a, away))
            w[chunk] = self.centre + away
        return w

    def newton(self, alpha: Tensor, w: Tensor, gradient: Tensor) -> Tensor:
        """Return w − H⁻¹∇ for exact gradients ∇ (M, P), computed from the data."""
        stepped = torch.empty_like(w)
        for chunk in chunks(len(w), self._width):
            stepped[chunk] = w[chunk] - self._divide(self.final, alpha[chunk], gradient[chunk])
        return stepped

    @property
    def _width(self) -> int:
        """Return how many numbers are held per mixture."""
        return (
            3 * self.average.shape[1]
            + len(self.average)
            + len(self.terms)
            + 2 * self.gradients.numel()
        )

    def _divide(self, surface: Tensor, alpha: Tensor, g: Tensor) -> Tensor:
        """Return (surface(α) + λ)⁻¹ g.

        Where the surface is not positive definite, far out, the Hessians at the centre are used.
        """
        N, P = self.gradients.shape
        H = (monomials(alpha.to(surface), self.bend).T @ surface).view(-1, P, P)
        H += self.ridge.to(surface)
        L, info = torch.linalg.cholesky_ex(H)
        bad = (info != 0).nonzero()[:, 0]
        if len(bad):
            H = (alpha[bad] @ self.hessians.reshape(N, -1)).view(-1, P, P) + self.ridge
            central, info = torch.linalg.cholesky_ex(H)
            L[bad] = torch.where((info == 0)[:, None, None], central, torch.nan).to(L)
        return torch.cholesky_solve(g.to(surface)[..., None], L)[..., 0].to(g)

    def _gradient(self, alpha: Tensor, away: Tensor) -> Tensor:
        """Return Σ_j α_j ∇f̃_j + λw at centre + away, (M, P)."""
        N, P = self.gradients.shape
        by_source = torch.addmm(
            self.gradients.flatten(), away, self.hessians.transpose(0, 1).reshape(P, N * P)
        )
        by_source += features((away @ self.directions.T).to(self.terms), self.degree) @ self.terms
        return (alpha[:, None] @ by_source.view(-1, N, P))[:, 0] + self.penalty * (
            self.centre + away
        )


def fit(
    oracle: Oracle,
    labels: Labels,
    mixtures: Tensor,
    penalty: Tensor,
    flat: Tensor,
    *,
    degree: int,
    quadratic: bool,
) -> Reduced:
    """Fit to Hessians at some labels and to gradients at predictions for `mixtures` (K, N).

    `penalty` (P,) is λ where it counts, `flat` (P, P) has curvature 1 in directions that do not
    change any risk. `quadratic` components need neither Hessians nor gradients; with `degree` 1 the
    gradients get no polynomials.
    """
    centre = labels.w.mean(0)
    gradients = oracle.component_gradients(centre[None])[0]
    N, P = gradients.shape
    hessians = oracle.component_hessians(centre)
    constant = hessians.flatten(1)
    reduced = Reduced(
        centre=centre,
        gradients=gradients,
        hessians=hessians,
        penalty=penalty,
        ridge=torch.diag(penalty) + flat,
        average=constant,
        final=constant,
        bend=1,
        directions=labels.w.new_zeros(0, P),
        terms=labels.w.new_zeros(0, N * P),
        degree=degree,
    )
    if quadratic:
        return reduced
    bend = bends(N, P, len(labels))
    if bend > 1:
        near = labels[: max(n_hessians(N, bend), MANY_HESSIANS)]
        average, final = _surfaces(oracle, near, centre, hessians, bend)
        reduced = replace(reduced, average=average.float(), final=final.float(), bend=bend)
    if degree == 1:
        return reduced
    _, size, rows = torch.linalg.svd(labels.w - centre, full_matrices=False)
    scale = (size[0] / len(labels) ** 0.5).clamp(min=1e-300)
    spanned = int((size > SPANNED * size[0]).sum())
    reduced = replace(reduced, directions=rows[: min(n_directions(P, degree), spanned)] / scale)
    w = torch.cat([labels.w, reduced(mixtures)])
    w = w[w.isfinite().all(1)]
    away = w - centre
    linear = gradients + torch.einsum("npq,kq->knp", hessians, away)
    residual = (oracle.component_gradients(w, rough=True) - linear).flatten(1)  # (K, N·P)
    terms = least_squares(features(away @ reduced.directions.T, degree), residual)
    return replace(reduced, terms=terms.float())


def _surfaces(
    oracle: Oracle, labels: Labels, centre: Tensor, at_centre: Tensor, bend: int
) -> tuple[Tensor, Tensor]:
    """Return H̄(α) and H(w*(α)) over the monomials of degree `bend`.

    Every source's Hessian has one degree less, then α mixes them.
    """
    n, N = labels.alpha.shape
    average, final = (labels.w.new_empty(n, at_centre.numel()) for _ in range(2))
    for i, w in enumerate(labels.w):  # one at a time: all sources' Hessians are large
        final[i] = oracle.component_hessians(w, rough=True).flatten()
        middle = oracle.component_hessians(0.5 * (w + centre), rough=True).flatten()
        average[i] = (at_centre.flatten() + 4.0 * middle + final[i]) / 6.0  # Simpson's rule
    basis = monomials(labels.alpha, bend - 1).T
    # (F, N): the index of each monomial times α_j
    index = raised(N, bend - 1).to(centre.device).flatten()

    def mixed(hessians: Tensor) -> Tensor:
        C = least_squares(basis, hessians).reshape(len(index), -1)
        return C.new_zeros(n_features(N, bend), C.shape[1]).index_add_(0, index, C)

    return mixed(average), mixed(final)


def features(c: Tensor, degree: int) -> Tensor:
    """Return the monomials of degrees 2 to `degree` of coordinates (M, r): (M, F)."""
    return torch.cat([monomials(c, d) for d in range(2, degree + 1)]).T


def bends(n_sources: int, n_params: int, n_labels: int) -> int:
    """Return the degree of the Hessians' surfaces, at most 3, as labels and MAX_SURFACE allow."""
    return max(
        d
        for d in (1, 2, 3)
        if d == 1
        or (
            n_hessians(n_sources, d) <= n_labels
            and n_features(n_sources, d) * n_params**2 <= MAX_SURFACE
        )
    )


def n_hessians(n_sources: int, bend: int) -> int:
    """Return at how many labels `fit` needs Hessians."""
    return ceil(HESSIANS * n_features(n_sources, bend - 1))


def n_directions(n_params: int, degree: int) -> int:
    """Return how many directions MAX_MONOMIALS allows."""
    r = 1
    while r < n_params and sum(n_features(r + 1, d) for d in range(2, degree + 1)) <= MAX_MONOMIALS:
        r += 1
    return r


def n_points(n_params: int, degree: int) -> int:
    """Return at how many mixtures `fit` needs gradients."""
    r = n_directions(n_params, degree)
    return POINTS * sum(n_features(r, d) for d in range(2, degree + 1))


def reducible(space: Space, n_labels: int) -> bool:
    """Return whether every source can have Hessians, and the labels span enough to use them."""
    return space.convex and space.radius is None and space.n_params < min(MAX_P, n_labels)


def reduce(oracle: Oracle, space: Space, labels: Labels, mixtures: Tensor, degree: int) -> Reduced:
    """Return `fit` with the penalty of a space, and whether it is quadratic."""
    penalty = (space.l2 * space.penalised).to(labels.w)
    flat = oracle.flat.to(penalty)
    return fit(oracle, labels, mixtures, penalty, flat, degree=degree, quadratic=space.quadratic)


def candidate(material: Material) -> Candidate:
    """Return reduced components as a candidate that is fitted once.

    Fitting it again would gain little: it learns mostly from mixtures that are not labels.
    """
    space = material.space

    def fitted(rows: slice) -> Reduced:
        mixtures = material.draw(0 if space.quadratic else n_points(space.n_params, DEGREE))
        return reduce(material.oracle, space, material.labels[rows], mixtures, DEGREE)

    return Candidate("reduced components", fitted, again=False)
