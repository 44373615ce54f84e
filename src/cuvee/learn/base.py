"""What every learnt map is made of: labels to learn from, and a predictor that was fitted to them.

Nothing here solves anything: an `Oracle` with the data bound (a family of `cuvee.erm`) comes from the caller.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from cuvee.problem import Array


@dataclass(frozen=True)
class Labels:
    """Solved mixtures."""

    alpha: Tensor  # (n, N)
    w: Tensor  # (n, P), or in the coordinates of a `Subspace`
    slopes: Tensor | None = None  # (n, N, P) dw*/dα, where they are known

    def __len__(self) -> int:
        return len(self.alpha)

    def __getitem__(self, rows: slice | Tensor) -> Labels:
        return Labels(self.alpha[rows], self.w[rows], None if self.slopes is None else self.slopes[rows])


class Predictor(Protocol):
    """α (M, N) -> w (M, P): a frozen dataclass of tensors and plain numbers, so that it can be written to a file.

    One that knows the curvature of the risk also has `newton(alpha, w, gradient)`, w − H⁻¹∇ (M, P).
    """

    def __call__(self, alpha: Tensor) -> Tensor: ...


class Found(Protocol):
    """What an oracle says of M models; `cuvee.erm.family.Outcome`."""

    @property
    def w(self) -> Tensor: ...  # (M, P)
    @property
    def gradient(self) -> Tensor: ...  # (M,) ‖∇‖∞
    @property
    def vector(self) -> Tensor: ...  # (M, P) ∇
    @property
    def bounds(self) -> Any: ...  # .distance, .excess (M,)
    @property
    def status(self) -> Array: ...  # (M,) of Status
    @property
    def passes(self) -> Tensor: ...  # (M,)


class Oracle(Protocol):
    """The data, bound: whoever needs a label, a certificate or a derivative asks here."""

    @property
    def rests_on(self) -> str: ...

    @property
    def flat(self) -> Tensor:
        """(P, P) curvature 1 in directions that no risk feels, 0 elsewhere; a single 0 where there are none."""
        ...

    def solve(
        self,
        alpha: Tensor,
        *,
        tol: float,
        start: Tensor | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Found: ...

    def certify(self, alpha: Tensor, w: Tensor, *, tol: float) -> Found: ...

    def sensitivity(self, alpha: Tensor, w: Tensor) -> Tensor: ...

    def hessian_solve(self, alpha: Tensor, w: Tensor, stack: Tensor) -> Tensor:
        """(∇²f_α(w) + λ)⁻¹ applied to a stack (M, R, P) per model."""
        ...

    def without_minimiser(self, alpha: Tensor) -> Tensor:
        """(M,) mixtures of which nothing can be predicted."""
        ...

    def component_gradients(self, w: Tensor, *, rough: bool = False) -> Tensor:
        """∇f_j(w_k) (K, N, P) for w (K, P), without λ; `rough` allows float32 inside."""
        ...

    def component_hessians(self, w: Tensor, *, rough: bool = False) -> Tensor:
        """∇²f_j(w) (N, P, P) for one w (P,), without λ."""
        ...


def median_error(predictor: Predictor, labels: Labels) -> float:
    """Median of ‖ŵ − w*‖ / ‖w*‖."""
    if len(labels) == 0:
        return float("nan")
    norm = torch.linalg.vector_norm
    away = norm(predictor(labels.alpha) - labels.w, dim=-1) / norm(labels.w, dim=-1).clamp(min=1e-300)
    return float(away.median())
