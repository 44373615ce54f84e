"""Find the multiplier ν where the constraint ‖w‖ ≤ radius binds.

The constrained minimiser of f is the minimiser of f + ν/2‖w‖² for the one ν that puts it on the
sphere.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

ROUNDS = 60


def multiplier(
    norm_at: Callable[[Tensor], Tensor],
    radius: float,
    most: Tensor,
    norm_at_0: Tensor,
    rtol: float = 1e-12,
) -> Tensor:
    """Return ν (M,) in [0, `most`] with ‖w(ν)‖ = radius, where ‖w(0)‖ = `norm_at_0` > radius.

    1/‖w(ν)‖ grows with ν and is nearly straight: chords find the crossing, and every fourth round
    halves the bracket to be safe.
    """
    low, high = torch.zeros_like(most), most.clone()
    at_low, at_high = 1.0 / norm_at_0, 1.0 / norm_at(high)
    wanted = 1.0 / radius
    nu, done = high, torch.zeros_like(high, dtype=torch.bool)
    for turn in range(ROUNDS):
        share = ((wanted - at_low) / (at_high - at_low)).nan_to_num(0.5)
        share = share.clamp(0.0, 1.0) if turn % 4 < 3 else torch.full_like(share, 0.5)
        nu = torch.where(done, nu, low + share * (high - low))
        value = 1.0 / norm_at(nu)
        done = done | ((value - wanted).abs() <= rtol * wanted) | (high - low <= 1e-15 * high)
        if bool(done.all()):
            break
        inside = value >= wanted
        high, at_high = torch.where(inside, nu, high), torch.where(inside, value, at_high)
        low, at_low = torch.where(inside, low, nu), torch.where(inside, at_low, value)
    return nu
