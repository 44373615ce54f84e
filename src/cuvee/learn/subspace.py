"""Find the subspace spanned by solved models: n models span at most n directions of R^P."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from cuvee.learn.base import Labels


@dataclass(frozen=True)
class Subspace:
    """Represent w = mean + c·basis; an empty basis (0, P) means w = c, the whole space."""

    mean: Tensor  # (P,)
    basis: Tensor  # (r, P) orthonormal rows

    @classmethod
    def of(cls, w: Tensor) -> Subspace:
        """Return the span of models w (n, P) where it is smaller than the whole space."""
        if w.shape[0] >= w.shape[1]:
            return cls.none(w)
        mean = w.mean(0)
        Q, R = torch.linalg.qr((w - mean).T)  # thin: P may be a million
        vectors, size, _ = torch.linalg.svd(R)
        keep = size > max(w.shape) * torch.finfo(w.dtype).eps * size[0]
        if not bool(keep.any()):  # all models are equal
            return cls.none(w)
        basis = (Q @ vectors[:, keep]).T.contiguous()
        largest = basis.gather(1, basis.abs().argmax(1, keepdim=True))
        return cls(mean, basis * largest.sign())  # the same signs on every device

    @classmethod
    def none(cls, w: Tensor) -> Subspace:
        """Return all of R^P, for models w (n, P)."""
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
        """Return w (M, P) for coordinates c (M, r)."""
        return c if self.whole else torch.addmm(self.mean, c, self.basis)
