"""Fit the companions of Algorithm 2: the network linearised at its start (NTF), and κ.

κ is the kernel of the network in the limit of infinite width.

Both are least squares in a kernel: κ for all outputs, or for each output the one of its own random
features,

    κ(α, α') = ⟨α, α'⟩ (π − arccos(cos ∠(α, α')))/(2π),   κ̂(α, α') = ⟨α, α'⟩ · mean_r 1{u_r·α > 0}
    1{u_r·α' > 0}

(the factor 1/2π is missing in the paper's closed form). Gradient descent, c ← c − (η/n)(Kc − w)
from 0, is what the network's own steps become; the paper's ∇_c R would have another K in front. One
eigendecomposition of K gives c after any number of steps. There are T kernels with Q outputs each,
as in network.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, pi

import torch
from torch import Tensor

from cuvee.errors import check_choice
from cuvee.learn.base import Labels
from cuvee.learn.choose import Candidate, Chosen, best
from cuvee.learn.material import Material
from cuvee.learn.method import Map
from cuvee.learn.network import by_layer, by_output, init
from cuvee.learn.options import Options, Solver, Trunk

Gram = Callable[[Tensor, Tensor], Tensor]
"""(n, N), (k, N) -> (T, n, k)"""

# steps to choose from: 1 … 10^6, or all the way
GRID = (inf, *sorted({round(2 ** (i / 2)) for i in range(41)}))
FOLD = 5
ENTRIES = 2**22  # of a kernel matrix at once: five such matrices stay below 256 MB


@dataclass(frozen=True)
class KernelPredictor:
    """Predict Σ_i κ(α, α_i) c_i."""

    alpha: Tensor  # (n, N)
    c: Tensor  # (n, P)
    steps: float = inf  # of gradient descent, inf: least squares

    def __call__(self, alpha: Tensor) -> Tensor:
        chunks = alpha.to(self.alpha).split(max(1, ENTRIES // len(self.alpha)))
        return torch.cat([kappa(rows, self.alpha) @ self.c for rows in chunks])


@dataclass(frozen=True)
class NTFPredictor:
    """Predict Σ_r a_r 1{u_r(0)·α > 0} θ_r·α per output.

    A unit and its copy share a gate, so one term stands for both.
    """

    U: Tensor  # (T, m/2, N) at the start
    theta: Tensor  # (T, m/2, Q·N) a_r(θ_r − θ_copy)
    steps: float = inf

    def __call__(self, alpha: Tensor) -> Tensor:
        per_row = max(self.U[..., 0].numel(), self.theta[:, 0].numel())
        return torch.cat(
            [self._few(rows) for rows in alpha.to(self.U).split(max(1, ENTRIES // per_row))]
        )

    def _few(self, alpha: Tensor) -> Tensor:
        # (T, M, Q, N)
        slopes = (gates(self.U, alpha) @ self.theta).unflatten(2, (-1, alpha.shape[1]))
        return by_output((slopes * alpha[:, None]).sum(-1))


@dataclass(frozen=True)
class Spectrum:
    """Hold T kernel matrices K = VΛVᵀ, and the labels in that basis."""

    values: Tensor  # (T, n)
    vectors: Tensor  # (T, n, n)
    y: Tensor  # (T, n, Q) Vᵀw

    def coefficients(self, t: float, eta: float | None = None) -> Tensor:
        """Return c (T, n, Q) after t ≥ 1 steps of descent from 0 with η ≤ n/λ_max.

        The default of η is n/λ_max; t = inf gives the least-norm solution. Directions that K knows
        only up to rounding are left out: duplicates then share what their labels have in common.
        """
        n, top = self.values.shape[1], self.values.amax()
        x = (self.values / top if eta is None else self.values * (eta / n)).clamp(max=1.0)
        resolved = self.values > n * torch.finfo(x.dtype).eps * top
        filter_ = -torch.expm1(t * torch.log1p(-x)) / self.values  # (1 − (1 − ηλ/n)^t)/λ
        return self.vectors @ (torch.where(resolved, filter_, 0.0)[..., None] * self.y)


def spectrum(K: Tensor, w: Tensor) -> Spectrum:
    """Return the spectrum of K (T, n, n) with labels w (n, P)."""
    values, vectors = torch.linalg.eigh(K)
    return Spectrum(values, vectors, vectors.mT @ by_layer(w, len(K)))


def kappa(a: Tensor, b: Tensor) -> Tensor:
    """Return κ (n, k) of a (n, N) and b (k, N).

    π − ∠ is 2·atan2(‖u + v‖, ‖u − v‖) for the unit vectors u and v: unlike arccos it loses no
    digits where they agree.
    """
    u, v = (x / torch.linalg.vector_norm(x, dim=1, keepdim=True).clamp(min=1e-300) for x in (a, b))
    apart, along = (torch.cdist(u, x, compute_mode="donot_use_mm_for_euclid_dist") for x in (v, -v))
    return (a @ b.T) * torch.atan2(along, apart) / pi


def gates(U: Tensor, alpha: Tensor) -> Tensor:
    """Return 1{u_r·α > 0}, (T, n, m/2), for U (T, m/2, N) and α (n, N)."""
    return (alpha @ U.mT > 0).to(U)


def tangent(U: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Return κ̂ (T, n, k), the kernel of the features at U (T, m/2, N): the paper's K̂ = Φ₀ᵀΦ₀."""
    return (gates(U, a) @ gates(U, b).mT) * (a @ b.T) / U.shape[1]


def fit_kernel(
    labels: Labels, held_out: Labels | None = None, solver: Solver = "exact"
) -> KernelPredictor:
    """Fit least squares in κ, exactly or by descent that stops early.

    Descent stops where the error is smallest on held-out labels, or else on every fifth label.
    """
    labels = _double(labels)
    c, steps = _fit(lambda a, b: kappa(a, b)[None], labels, held_out, solver)
    return KernelPredictor(labels.alpha, c[0], steps)


def fit_ntf(
    labels: Labels,
    held_out: Labels | None = None,
    *,
    width: int = 256,
    trunk: Trunk = "own",
    seed: int = 0,
    solver: Solver = "exact",
) -> NTFPredictor:
    """Fit least squares in the features of the network at its start.

    The network is the one that starts from the same width (even), trunk and seed.

    With a shared trunk the gates are shared and every output has a θ of its own, so that one kernel
    serves all; the network's outputs share θ too, which couples them by O(1/√m).
    """
    labels = _double(labels)
    start = init(labels.alpha.shape[1], labels.w, width=width, trunk=trunk, seed=seed)
    U = start.U[:, : width // 2].contiguous()
    c, steps = _fit(lambda a, b: tangent(U, a, b), labels, held_out, solver)
    weighted = (c[..., None] * labels.alpha[:, None]).flatten(2)  # (T, n, Q·N)
    return NTFPredictor(U, gates(U, labels.alpha).mT @ weighted / U.shape[1], steps)


def _fit(
    gram: Gram, labels: Labels, held_out: Labels | None, solver: Solver
) -> tuple[Tensor, float]:
    """Return c (T, n, Q), and after how many steps."""
    check_choice("solver", solver, ("exact", "descent"))
    kernel_spectrum = spectrum(gram(labels.alpha, labels.alpha), labels.w)
    if solver == "exact":
        t = inf
    elif held_out is None:
        tested = torch.arange(len(labels), device=labels.alpha.device) % FOLD == FOLD - 1
        _, t = _fit(gram, labels[~tested], labels[tested], solver)
    else:
        across = gram(held_out.alpha.to(labels.alpha), labels.alpha)
        w = by_layer(held_out.w.to(labels.w), len(across))
        # Without held-out labels every t is equally good, and min takes the first, inf.
        t = min(
            GRID, key=lambda t: float((across @ kernel_spectrum.coefficients(t) - w).square().sum())
        )
    return kernel_spectrum.coefficients(t), t


def _double(labels: Labels) -> Labels:
    return Labels(labels.alpha.double(), labels.w.double())


def candidate(material: Material, options: Options) -> Candidate:
    """Return least squares in κ as a candidate."""
    return Candidate(
        f"kernel, {options.solver}",
        lambda some: fit_kernel(material.inside[some], solver=options.solver),
    )


def fit(material: Material, options: Options) -> Chosen:
    """Return least squares in κ, judged on labels that were held out."""
    return best(material, [candidate(material, options)])


MAP = Map(
    name="kernel",
    summary="The limit of the network for infinite width.",
    fit=fit,
    predictors=(KernelPredictor,),
    options=("solver",),
)
