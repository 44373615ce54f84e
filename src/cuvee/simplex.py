"""The simplex Δ: exact projection, sampling, and the check every α from outside goes through."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cuvee.errors import MixtureError
from cuvee.inputs.arrays import as_array


def project(v: Tensor) -> Tensor:
    """Return the Euclidean projection of each row of v (..., N) onto Δ, exactly, by sorting.

    >>> project(torch.tensor([[0.5, 0.9, -1.0]])).tolist()
    [[0.30000001192092896, 0.699999988079071, 0.0]]
    """
    n = v.shape[-1]
    v = v - v.amax(-1, keepdim=True)  # the projection forgets a constant; rounding would not
    descending = v.sort(dim=-1, descending=True).values
    excess = descending.cumsum(-1) - 1.0
    position = torch.arange(1, n + 1, dtype=v.dtype, device=v.device)
    # The support is a prefix of the sorted row; at its last entry stands the threshold.
    support = (descending * position > excess).sum(-1, keepdim=True).clamp(min=1)
    threshold = excess.gather(-1, support - 1) / support
    return (v - threshold).clamp(min=0.0)


def sample(
    n_rows: int, n_sources: int, seed: int | Sequence[int] = 0, concentration: float = 1.0
) -> npt.NDArray[np.float64]:
    """Draw mixtures (n_rows, n_sources) from a symmetric Dirichlet.

    Concentration 1 is uniform on Δ.
    """
    return np.random.default_rng(seed).dirichlet(np.full(n_sources, concentration), size=n_rows)


def check_alpha(
    alpha: Any, n_columns: int | tuple[int, ...], *, atol: float = 1e-6
) -> npt.NDArray[np.float64]:
    """Return α (M, n_columns) as float64; raise `MixtureError` naming a row not on the simplex.

    Nothing is renormalised silently.
    """
    try:
        given = as_array(alpha)
        if np.iscomplexobj(given):
            raise TypeError
        # A copy, row after row in memory of its own: torch wants to be allowed to write to it, and
        # for a view such as row[None], whose strides differ, it would choose another product that
        # rounds otherwise.
        array = np.asarray(given, dtype=np.float64).copy(order="C")
    except (TypeError, ValueError):
        raise MixtureError("alpha must be a numeric array of shape (M, N)") from None
    allowed = n_columns if isinstance(n_columns, tuple) else (int(n_columns),)
    if array.ndim != 2 or array.shape[1] not in allowed:
        wanted = " or ".join(f"(M, {n})" for n in allowed)
        raise MixtureError(f"alpha must have shape {wanted}, a row per model; got {array.shape}")
    apart = ~(np.abs(array.sum(1) - 1) <= atol)
    for problem, bad, advice in (
        ("holds a value that is not finite", ~np.isfinite(array).all(1), "correct it"),
        ("has a negative entry", (array < 0).any(1), "weights are 0 or more"),
        (f"does not sum to 1 within {atol:g}", apart, "divide its weights by their sum"),
    ):
        if bad.any():
            row, many = int(np.argmax(bad)), int(bad.sum())
            raise MixtureError(
                f"row {row} of alpha {problem} ({many} such row{'s' if many > 1 else ''}): min "
                f"{array[row].min():.6g}, sum {array[row].sum():.9g}; {advice}"
            )
    return array
