"""The maps of the trial of Theorem 3: how each is learnt, and the power of n that its smoothness
predicts.

Mixtures of N sources lie on a simplex of D = N − 1 dimensions, and n random ones are about n^(−1/D)
apart. Labels have no noise here (each is a minimiser, solved), so that what is left is how well a
function of D variables is interpolated.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log
from typing import Any

import torch

import cuvee
from cuvee.hypothesis.base import Hypothesis
from cuvee.learn.kernel import kappa
from cuvee.learn.taylor import n_bends
from cuvee.problem import Domain
from cuvee.results import Floats
from cuvee.simplex import sample
from cuvee.theory import offline_exponent

NETWORK, LINEARISED, KERNEL = "network", "linearised network", "kernel"
NEAREST, FIRST, SECOND = "nearest label", "Taylor, order 1", "Taylor, order 2"
QUADRATIC, SURFACE = "polynomial, degree 2", "polynomial, free degree"
_LEARN: dict[str, dict[str, Any]] = {
    NETWORK: {"method": "network"},
    LINEARISED: {"method": "ntf"},
    KERNEL: {"method": "kernel"},
    FIRST: {"method": "surface", "order": 1},
    SECOND: {"method": "surface", "order": 2},
    QUADRATIC: {"method": "surface", "degree": 2},
    # the best on held-out labels, of all degrees and of Taylor pieces
    SURFACE: {"method": "surface"},
}
TOL = 1e-6  # of a map; its labels are then solved to ‖∇‖∞ ≤ 1e-9
LABEL_TOL = 1e-9


def claimed(N: int) -> float:
    """Theorem 3's, for whatever is Lipschitz."""
    return offline_exponent(N)


def with_noise(H: float, N: int) -> float:
    """The paper's for H-times differentiable maps, minimax where labels are noisy: never better
    than −1.

    >>> with_noise(1, 3), with_noise(2, 4)
    (-0.4, -0.5)
    """
    return offline_exponent(N, H)


def smoothness(way: str, N: int) -> float | None:
    """H, the derivatives of w* that a map makes use of; None where there is no such number.

    A Taylor piece of order k is off by the (k+1)-th power of the way to the nearest label. The
    kernel's native space is the Sobolev space of order s = N/2 = (D + 1)/2, as that of |x| in D
    dimensions: it is as smooth as a cone. A map in it has H = s, a smooth one s + ½, and no more
    unless it meets conditions at the boundary of the simplex.
    """
    used = {NEAREST: 1.0, FIRST: 2.0, SECOND: 3.0, KERNEL: (N + 1) / 2, LINEARISED: (N + 1) / 2}
    return used.get(base(way))


def predicted(way: str, N: int) -> float | None:
    """Without noise: n^(−2H/D). None where it is faster than every power (degrees that grow, of an
    analytic map).

    T steps of descent leave, of a smooth map, what has eigenvalues below 1/T: T^(−(2s+1)/2s) =
    T^(−(N+1)/N) in the kernel. For T ∝ n this falls more slowly than what n labels leave, and is
    the network's. The linearised one is solved. A fixed degree has a floor.
    """
    if base(way) == NETWORK:
        return -(N + 1.0) / N
    H = smoothness(way, N)
    return -2.0 * H / (N - 1) if H is not None else 0.0 if way == QUADRATIC else None


def base(way: str) -> str:
    """Without the number of gradient steps per label.

    >>> base("network, K = 1"), base("Taylor, order 1")
    ('network', 'Taylor, order 1')
    """
    return way.split(", K = ")[0]


def with_steps(K: int) -> str:
    return f"{NETWORK}, K = {K}"


def steps(n: int, per_label: float) -> int:
    """T of Algorithm 2: the theorem wants Ω(n log n).

    >>> steps(128, 2)
    1242
    """
    return round(per_label * n * log(n))


def possible(way: str, n: int, N: int) -> bool:
    """Second derivatives are not computed at any number of labels."""
    return base(way) != SECOND or n_bends(n, N) == n


def learnt(
    way: str,
    sources: list[Domain],
    hypothesis: Hypothesis,
    n: int,
    seed: int,
    width: int,
    per_label: float,
) -> tuple[Callable[[Floats], Floats], Floats, Floats, str]:
    """A map from n labels: α -> ŵ, and the labels α (n, N), w* (n, P) with what it calls itself."""
    name = base(way)
    if name == NEAREST:
        alpha = sample(n, len(sources), seed=seed)
        w = cuvee.solve(sources, hypothesis, alpha, tol=LABEL_TOL).w
        return lambda fresh: w[nearest(fresh, alpha)], alpha, w, NEAREST
    options: dict[str, Any] = {
        "n_labels": n,
        "n_calibration": 0,
        "tol": TOL,
        "seed": seed,
        **_LEARN[name],
    }
    if name in (NETWORK, LINEARISED):
        options["width"] = width
    if name == NETWORK:
        options["steps"] = steps(n, per_label)
    if way != name:
        options["K"] = int(way.removeprefix(with_steps(0)[:-1]))
    atlas = cuvee.learn(sources, hypothesis, **options)
    alpha, w = atlas.labels.alpha.numpy(), atlas.labels.w.numpy()
    return lambda fresh: atlas(fresh, trust="predicted").w, alpha, w, atlas.plan.method


def nearest(fresh: Floats, alpha: Floats) -> Any:
    """(M,) which of α (n, N) is nearest to each of fresh (M, N)."""
    return ((alpha**2).sum(1) - 2.0 * fresh @ alpha.T).argmin(1)


def least_eigenvalue(alpha: Floats) -> float:
    """λ₀ of the theorem: of the kernel matrix of mixtures (n, N).

    It is no more than the least κ(α, α) = ‖α‖²/2, and no more than what the closest pair of
    mixtures leaves: κ is as smooth as a cone, so that it is of the order of their distance, and
    that of n random mixtures is n^(−2/(N−1)).
    """
    rows = torch.as_tensor(alpha)
    return float(torch.linalg.eigvalsh(kappa(rows, rows))[0])
