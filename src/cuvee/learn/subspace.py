"""The subspace spanned by solved models: where P is large, n models span at most n directions of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from cuvee.learn.base import Labels

NEGLIGIBLE = 1e-9  # of the largest singular value


@dataclass(frozen=True)
class Subspace:
    """w = mean + c·basis; an empty basis (0, P) means w = c, the whole space."""

    mean: Tensor  # (P,)
    basis: Tensor  # (r, P) orthonormal rows

    @classmethod
    def of(cls, w: Tensor) -> Subspace:
        """Of models w (n, P): their span where it is smaller than the whole space."""
        if w.shape[0] >= w.shape[1]:
            return cls.none(w)
        mean = w.mean(0)
        # Through the n × n Gram matrix twice over: the second time the directions are orthonormal but for rounding.
        basis = w - mean
        for _ in range(2):
            values, vectors = torch.linalg.eigh(basis @ basis.T)
            keep = values > NEGLIGIBLE**2 * values[-1].clamp(min=torch.finfo(w.dtype).tiny)
            basis = (vectors[:, keep].T @ basis) / values[keep, None].sqrt()
        return cls(mean, basis)

    @classmethod
    def none(cls, w: Tensor) -> Subspace:
        """All of R^P, for models w (n, P)."""
        return cls(w.new_zeros(w.shape[1]), w.new_zeros(0, w.shape[1]))

    @property
    def whole(self) -> bool:
        return len(self.basis) == 0

    def encode(self, labels: Labels) -> Labels:
        if self.whole:
            return labels
        slopes = None if labels.slopes is None else labels.slopes @ self.basis.T
        return replace(labels, w=(labels.w - self.mean) @ self.basis.T, slopes=slopes)

    def decode(self, c: Tensor) -> Tensor:
        """(M, r) -> (M, P)."""
        return c if self.whole else torch.addmm(self.mean, c, self.basis)
