"""Define what balls remember of their rounds T_s, one class per variant of Algorithm 4."""

from __future__ import annotations

from math import ceil
from typing import ClassVar

import numpy as np
import torch

from cuvee.numerics.polynomial import Polynomial, fit, n_features
from cuvee.online.growable import Rows
from cuvee.problem import Array
from cuvee.results import Floats

DEGREES = (4, 3, 2)  # of the shared polynomial g: the first with few enough monomials
# share of the first-order step that g may change: beyond it, g extrapolates too far
MOST_BEND = 0.5
PER_FEATURE = 2.0  # equations needed per monomial of g; a label gives N of them
MOST_FEATURES = 1_000
GROWTH = 1.1  # g is fitted again when labels have grown by this factor
# numbers in the equations; beyond it g is not fitted again
ROOM = 2**26


class Averages:
    """Implement `"paper"`: ŵ = (1/|T_s|) Σ_{t ∈ T_s} w_t as printed.

    A round without a label has w_t = 0.
    """

    slopes: ClassVar[bool] = False  # whether labels come with dw*/dα
    # whether balls open around labels, instead of around mixtures that no ball reaches
    around_labels: ClassVar[bool] = False
    keep_own: ClassVar[bool] = False  # whether the round that opens a ball is one of its T_s

    def __init__(self, n_sources: int, n_params: int) -> None:
        shape = (n_sources, n_params) if self.slopes else (n_params,)
        self.total = Rows(*shape)  # (n, …) sum of labels
        self.size = Rows(dtype=np.int64)  # (n,) |T_s|

    def open(self) -> None:
        """Open a ball: T_t ← ∅."""
        self.total.append(0.0)
        self.size.append(0)

    def join(self, s: int) -> None:
        """Add the round to a ball: T_s ← T_s ∪ {t}."""
        self.size.values[s] += 1

    def learn(self, s: int, alpha: Floats, w: Floats, slopes: Floats | None) -> None:
        """Learn from the label w_t of a round in T_s."""
        self.total.values[s] += w

    def known(self, s: Array) -> Array:
        """Return whether T_s ≠ ∅, (M,)."""
        return np.asarray(self.size.values[s] > 0)

    def say(self, s: Array, alpha: Floats) -> Floats:
        """Return ŵ (M, P) of balls s (M,) with T_s ≠ ∅ for mixtures (M, N)."""
        return np.asarray(self.total.values[s] / self.size.values[s, None])

    @property
    def lengths(self) -> tuple[int, ...]:
        """Return the number of balls in each array, for a check that they agree."""
        return len(self.total), len(self.size)

    def state(self) -> dict[str, Array]:
        return {"total": self.total.values, "size": self.size.values}

    def restore(self, state: dict[str, Array]) -> None:
        self.total, self.size = Rows.of(state["total"]), Rows.of(state["size"])


class LabelledAverages(Averages):
    """Implement `"paper_repaired"`: the average of labelled rounds only.

    T_s includes s, as in the proof of Theorem 4.
    """

    keep_own = True

    def join(self, s: int) -> None:
        """Do nothing: a round counts when its label comes."""

    def learn(self, s: int, alpha: Floats, w: Floats, slopes: Floats | None) -> None:
        super().learn(s, alpha, w, slopes)
        super().join(s)


class Affine(LabelledAverages):
    """Implement `"first_order"`: the average over labelled rounds of w_t + (α − α_t)·dw*/dα.

    On Σα = 1 each of them is linear, α·A_t with A_t = dw*/dα + 1 (w_t − α_t·dw*/dα), and so is
    their average.
    """

    slopes = True

    def learn(self, s: int, alpha: Floats, w: Floats, slopes: Floats | None) -> None:
        assert slopes is not None
        super().learn(s, alpha, slopes + (w - alpha @ slopes), None)

    def say(self, s: Array, alpha: Floats) -> Floats:
        return np.asarray((alpha[:, None] @ self.total.values[s])[:, 0] / self.size.values[s, None])


class Curved(Affine):
    """Implement `"curved"`: a ball around every label, and a polynomial g fitted to all of them.

    ŵ = w_s + (α − α_s)·dw*/dα + [g(α) − g(α_s) − (α − α_s)·dg/dα(α_s)]: exact to first order at
    every label, whatever g is, and as good as g elsewhere. The term in brackets is limited to half
    of the first-order step.
    """

    around_labels = True

    def __init__(self, n_sources: int, n_params: int) -> None:
        super().__init__(n_sources, n_params)
        self.alpha = Rows(n_sources)
        self.bends: Polynomial | None = None
        self.fitted = 0  # number of labels when g was last fitted

    def open(self) -> None:
        super().open()
        self.alpha.append(0.0)

    def learn(self, s: int, alpha: Floats, w: Floats, slopes: Floats | None) -> None:
        super().learn(s, alpha, w, slopes)
        self.alpha.values[s] = alpha
        n, N = self.alpha.shape
        if (
            n >= ceil(GROWTH * self.fitted)
            and n != self.fitted
            and self.total.values.size + n * w.size <= ROOM
        ):
            most = min(MOST_FEATURES, n * N / PER_FEATURE)
            degree = next((d for d in DEGREES if n_features(N, d) <= most), None)
            if degree is not None:
                self._fit(degree)

    def _fit(self, degree: int) -> None:
        alpha = self.alpha.values
        A = self.total.values / self.size.values[:, None, None]
        w = (alpha[:, None] @ A)[:, 0]
        self.bends = fit(torch.as_tensor(alpha), torch.as_tensor(w), torch.as_tensor(A), degree)
        self.fitted = len(alpha)

    def say(self, s: Array, alpha: Floats) -> Floats:
        w = super().say(s, alpha)
        if self.bends is None:
            return w
        at = self.alpha.values[s]
        bend = self.bends.bend(torch.as_tensor(alpha), torch.as_tensor(at)).numpy()
        step, size = (np.linalg.norm(x, axis=1) for x in (w - super().say(s, at), bend))
        return w + bend * np.minimum(1.0, MOST_BEND * step / np.maximum(size, 1e-300))[:, None]

    @property
    def lengths(self) -> tuple[int, ...]:
        return *super().lengths, len(self.alpha)

    def state(self) -> dict[str, Array]:
        state = {**super().state(), "alpha": self.alpha.values}
        if self.bends is not None:
            state["coefficients"] = self.bends.coefficients.numpy()
            state["degree_and_labels"] = np.array([self.bends.degree, self.fitted])
        return state

    def restore(self, state: dict[str, Array]) -> None:
        super().restore(state)
        self.alpha = Rows.of(state["alpha"])
        if "coefficients" in state:
            degree, self.fitted = (int(n) for n in state["degree_and_labels"])
            self.bends = Polynomial(torch.as_tensor(state["coefficients"]), degree)


VARIANTS: dict[str, type[Averages]] = {
    "paper": Averages,
    "paper_repaired": LabelledAverages,
    "first_order": Affine,
    "curved": Curved,
}
