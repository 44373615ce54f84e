"""Compute the objective of the paper in its two forms, and its gradients (§2).

Notation: α (M, J) one row per target, J = N sources, or N+1 when the target's own sample joins as a
last column with discrepancy 0; z (M, K, N) with z_j = f_T(w) − f_j(w) for K adversaries w per
target; q (M, K) on the simplex: how the panel of adversaries is weighed (K = 1 is the paper, and
then q = 1).

    "sum":      F(α, w) = Σ_j α_j g(z_j) + C Σ_j α_j²/m_j        equation (2) of the paper
    "mixture":  F(α, w) = g(Σ_j α_j z_j) + C Σ_j α_j²/m_j        the absolute value outside the sum

Both are convex in α. The second does not punish a mixture for sources that differ from the target
one by one when together they make it up: with f_T = p f_1 + (1−p) f_2 it is 0 at α = (p, 1−p),
where the first is not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from cuvee.components import Components

Discrepancy = Literal["sum", "mixture"]
DISCREPANCIES: tuple[Discrepancy, ...] = ("sum", "mixture")


@dataclass(frozen=True)
class Objective:
    """Compute F(α, w) as a function of α and z; `C` is a number or one per target (M, 1)."""

    discrepancy: Discrepancy
    c: float
    C: float | Tensor
    inverse_counts: Tensor  # (M, J) or (1, J): 1/m_j, and 1/m_T in the own column

    @property
    def smoothing(self) -> float | None:
        """Return c where g is taken of the whole, None where it is taken source by source."""
        return self.c if self.discrepancy == "mixture" else None

    def g(self, x: Tensor) -> Tensor:
        """Return g(x) = √(x² + c), the smooth absolute value."""
        return (x.square() + self.c).sqrt()

    def g_prime(self, x: Tensor) -> Tensor:
        return x / self.g(x)

    def penalty(self, alpha: Tensor) -> Tensor:
        """Return C αᵀ diag(1/m) α: (M,)."""
        return (self.C * self.inverse_counts * alpha.square()).sum(-1)

    def value(self, alpha: Tensor, z: Tensor) -> Tensor:
        """Return F for every adversary: (M, K)."""
        return self.distance(alpha, z) + self.penalty(alpha)[:, None]

    def distance(self, alpha: Tensor, z: Tensor) -> Tensor:
        """Return F without its penalty for every adversary: (M, K).

        It says how far each adversary can tell the mixture from the target.
        """
        a = alpha[:, None, : z.shape[-1]]
        if self.discrepancy == "sum":
            of_sources = (a * self.g(z)).sum(-1)
            return (
                of_sources
                if alpha.shape[-1] == z.shape[-1]
                else of_sources + self.c**0.5 * alpha[:, -1:]
            )
        return self.g((a * z).sum(-1))

    def gradient_alpha(self, alpha: Tensor, z: Tensor, q: Tensor) -> Tensor:
        """Return ∇_α of Σ_k q_k F(α, w_k), the paper's v + 2CMα: (M, J)."""
        return self.v(alpha, z, q) + self.penalty_gradient(alpha)

    def v(self, alpha: Tensor, z: Tensor, q: Tensor) -> Tensor:
        """Return the paper's v, ∇_α of Σ_k q_k times the distance: (M, J).

        In the paper's form, "sum", v_j = g(z_j).
        """
        n = z.shape[-1]
        if self.discrepancy == "sum":
            v, own = self.g(z), self.c**0.5
        else:
            v, own = self.g_prime((alpha[:, None, :n] * z).sum(-1, keepdim=True)) * z, 0.0
        gradient = (q[..., None] * v).sum(-2)
        if alpha.shape[-1] > n:
            gradient = torch.cat([gradient, torch.full_like(gradient[:, :1], own)], -1)
        return gradient

    def penalty_gradient(self, alpha: Tensor) -> Tensor:
        """Return 2CMα with M = diag(1/m): (M, J)."""
        return 2.0 * self.C * self.inverse_counts * alpha

    def coefficients(self, alpha: Tensor, z: Tensor) -> Tensor:
        """Return the coefficients whose pullback is ∇_w F: (M, K, N+1).

        They are −α_j g'_j on source j and Σ_j α_j g'_j on the target.
        """
        a = alpha[:, None, : z.shape[-1]]
        slope = (
            self.g_prime(z)
            if self.discrepancy == "sum"
            else self.g_prime((a * z).sum(-1, keepdim=True))
        )
        return _pull(a * slope)

    def ascent(self, alpha: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return what each adversary climbs: coefficients (M, K or 1, N+1), sides (K or 1, 1).

        The coefficients are pulled back and multiplied by the side, +1 or −1. The result is ∇_w F,
        except that a panel for "mixture" takes both sides: |x| = max(x, −x), so even adversaries
        climb Σ_j α_j z_j and odd ones descend it. Then none stays at a small local maximum of one
        side while the global maximum lies on the other. All of them climb or descend the same
        function, so one pullback serves them.
        """
        K = z.shape[1]
        if self.discrepancy == "sum" or K == 1:
            return self.coefficients(alpha, z), z.new_ones(1, 1)
        side = 1.0 - 2.0 * (torch.arange(K, device=z.device) % 2).to(z.dtype)
        return _pull(alpha[:, None, : z.shape[-1]]), side[:, None]

    def narrow(self, targets: Tensor) -> Objective:
        """Return the objective of the given targets only."""
        C = self.C[targets] if isinstance(self.C, Tensor) else self.C
        inverse = (
            self.inverse_counts if len(self.inverse_counts) == 1 else self.inverse_counts[targets]
        )
        return replace(self, C=C, inverse_counts=inverse)


def _pull(u: Tensor) -> Tensor:
    return torch.cat([-u, u.sum(-1, keepdim=True)], -1)


def differences(losses: Tensor) -> Tensor:
    """Return z_j = f_T − f_j in float64, (..., N), from component losses (..., N+1).

    The last column of the losses is the target's. A network may use float32, but α, q and
    everything that decides them are float64.
    """
    losses = losses.double()
    return losses[..., -1:] - losses[..., :-1]


def inverse_counts(components: Components) -> Tensor:
    """Return 1/m_j and, in the last column, 1/m_T: (M, N+1), the diagonal of the paper's M."""
    counts = components.counts.expand(len(components.own_counts), -1)
    return 1.0 / torch.cat([counts, components.own_counts[:, None]], -1).double()
