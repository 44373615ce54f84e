"""Run Algorithm 2: a two-layer ReLU network learns the map while its labels are refined.

    h_θ(α) = [a_kᵀ (U^k α)_+]_{k=1..P}
    θ ← θ − η (1/n) Σ_i ∇h(α_i)(h(α_i) − w_i),  then  w_i ← GD(w_i, α_i, K) for every label

The box drops the sum over i, and the proof has 2/n for 1/n: its η is half of this one.
`trunk="own"` is the paper, a hidden layer per output; `"shared"` is one for all, and the signs a_k
tell the outputs apart. Both are T hidden layers with Q outputs each, T·Q = P: (T, Q) is (P, 1) or
(1, P), and nothing else differs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf, isfinite, nan

import torch
from torch import Tensor

from cuvee.errors import OptionError, check_choice
from cuvee.learn.base import Labels, Predictor
from cuvee.learn.choose import Chosen, untried
from cuvee.learn.material import Material
from cuvee.learn.method import Map
from cuvee.learn.options import Options, Trunk
from cuvee.learn.subspace import Subspace

Refine = Callable[[Tensor], Tensor]
"""w (n, P) -> w (n, P): K steps of GD(w_i, α_i, K) from where each label stood."""
STEPS = 2_000
WIDTH, SHARED_WIDTH = 256, 4_096  # hidden units of a layer per output, or of one for all
OWN_OUTPUTS = 2_048  # hidden layers, one per output, that are practical
BLOCK = 2**18  # hidden units of all rows taken at once: fits a cache, and far below 256 MB
CHECK = 25  # steps between two checks of the errors
# The first steps are checked one by one: with far too large an η, h explodes at once, then all
# units die and h is 0 again.
EARLY = 4
GAIN = 1e-3  # relative gain that is required within `patience` steps
# Times the risk of predicting 0: a run above it has diverged. Moving labels can explain a factor 4.
BLOW_UP = 5.0


@dataclass(frozen=True)
class State:
    """Hold where the run stands before step t."""

    U: Tensor  # (T, m, N) hidden layers: T = P, or 1 when it is shared
    a: Tensor  # (P, m) ±1/√m, fixed; the second half is minus the first
    w: Tensor  # (n, P) the labels as they stand, in their own dtype


@dataclass(frozen=True)
class NetworkPredictor:
    """Predict h_θ: α (M, N) -> w (M, P)."""

    U: Tensor  # (T, m, N)
    a: Tensor  # (P, m)

    def __call__(self, alpha: Tensor) -> Tensor:
        A = _signs(self.a, len(self.U))
        chunks = alpha.to(self.U).split(rows_at_once(self.U))
        return torch.cat(
            [by_output(_outputs(*_halves(self.U, rows), A)) for rows in chunks]
        ).double()


@dataclass(frozen=True)
class Trained:
    """Hold the result of `train`."""

    predictor: NetworkPredictor
    w: Tensor  # (n, P) the labels, as far as they were refined
    steps: int
    diverged: bool
    # (R, 3) step, risk on the labels as they stood, risk on held-out labels (NaN without any)
    trace: Tensor


def init(
    n_sources: int,
    w: Tensor,
    *,
    width: int,
    trunk: Trunk = "own",
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
) -> State:
    """Return the start for labels w (n, P) of mixtures of N sources.

    Half of the m = `width` (even) rows of each U^k are Gaussian; the other half are their copies,
    with opposite signs in a_k.
    """
    check_choice("trunk", trunk, ("own", "shared"))
    P = w.shape[1]
    generator, layers = torch.Generator().manual_seed(seed), P if trunk == "own" else 1
    U = torch.randn(layers, width // 2, n_sources, generator=generator, dtype=torch.float64).to(
        w.device, dtype
    )
    signs = torch.randint(0, 2, (P, width // 2), generator=generator) * 2 - 1
    a = signs.to(w.device, dtype) / width**0.5
    return State(U=torch.cat([U, U], dim=1), a=torch.cat([a, -a], dim=1), w=w)


def step(state: State, alpha: Tensor, eta: float, refine: Refine | None = None) -> State:
    """Return the state after one pass through the loop of Algorithm 2 for α (n, N).

    Without `refine` the labels stay as they are.
    """
    U = state.U - eta * gradient(state.U, state.a, alpha, state.w)
    return replace(state, U=U, w=state.w if refine is None else refine(state.w))


def gradient(U: Tensor, a: Tensor, alpha: Tensor, w: Tensor) -> Tensor:
    """Return (1/n) Σ_i ∇h(α_i)(h(α_i) − w_i), (T, m, N).

    It is the gradient of (1/2n) Σ_i ‖h(α_i) − w_i‖².
    """
    A, y, gated = _signs(a, len(U)), by_layer(w.to(U), len(U)), torch.ops.aten.threshold_backward
    g = torch.zeros_like(U)
    first, second = g.chunk(2, dim=1)
    size = rows_at_once(U)
    for rows, labels in zip(alpha.split(size), y.split(size, dim=1), strict=True):
        z, z_copy = _halves(U, rows)
        back = (_outputs(z, z_copy, A) - labels) @ A.mT / len(alpha)  # (T, rows, m/2)
        first += gated(back, z, 0).mT @ rows  # back · 1{z > 0} in one pass
        second -= gated(back, z_copy, 0).mT @ rows
    return g


def largest_rate(a: Tensor, alpha: Tensor, layers: int) -> float:
    """Return 0.95 · 2/L, a rate η at which descent is stable.

    L = ‖a‖² λ_max(αᵀα)/n is no less than λ_max of the NTK matrix /n, whichever units are on. As a
    is fixed, no θ makes the loss more curved than L: below 2/L descent is stable on every piece
    where it is quadratic. L is two to three times λ_max at the start, so this is about 0.7/λ_max of
    the NTK matrix /n there.
    """
    a_norm = torch.linalg.matrix_norm(a.view(layers, -1, a.shape[1]).double(), ord=2).amax()
    curvature = a_norm**2 * torch.linalg.matrix_norm(alpha.double(), ord=2) ** 2 / len(alpha)
    return 1.9 / float(curvature.clamp(min=1e-300))


@dataclass(frozen=True)
class Training:
    """Hold how a network is trained; η is `largest_rate` unless given."""

    width: int = WIDTH
    steps: int = STEPS
    eta: float | None = None
    trunk: Trunk = "own"
    seed: int = 0
    patience: int = 500  # steps without a gain of GAIN that end it
    tol: float = 1e-9  # refining ends when no label moves by more than this, relative
    dtype: torch.dtype = torch.float64


def train(
    alpha: Tensor,
    w0: Tensor,
    training: Training,
    *,
    refine: Refine | None = None,
    held_out: Labels | None = None,
) -> Trained:
    """Return the network after at most `steps` steps for α (n, N) from labels w0 (n, P).

    The predictor is the best on held-out labels, or else on the labels once they no longer move.
    That is checked every few dozen steps, and training ends after `patience` steps without a gain
    of 0.1 %. A run that diverges ends with the best finite predictor it had.
    """
    how, n_sources = training, alpha.shape[1]
    state = init(n_sources, w0, width=how.width, trunk=how.trunk, seed=how.seed, dtype=how.dtype)
    inputs = alpha.to(state.U)
    eta = largest_rate(state.a, inputs, len(state.U)) if how.eta is None else how.eta
    watch = _Watch(alpha, held_out, how.patience, state)
    for t in range(how.steps + 1):
        due = t % CHECK == 0 or t <= EARLY or t == how.steps
        if due and watch.ends(t, state, refining=refine is not None):
            break
        if t < how.steps:
            before, state = state.w, step(state, inputs, eta, refine)
            refine = None if refine is None or _at_rest(before, state.w, how.tol) else refine
    return Trained(
        predictor=NetworkPredictor(watch.kept.U, watch.kept.a),
        w=watch.latest.w,
        steps=watch.trace[-1][0],
        diverged=watch.diverged,
        trace=torch.tensor(watch.trace, dtype=torch.float64),
    )


class _Watch:
    """Check the errors now and then, keep the best state, and decide when to stop."""

    def __init__(self, alpha: Tensor, held_out: Labels | None, patience: int, state: State) -> None:
        self.alpha, self.held_out, self.patience = alpha, held_out, patience
        self.kept = self.latest = state
        self.trace: list[tuple[int, float, float]] = []
        self.diverged = False
        self._best, self._mark, self._since, self._scale = inf, inf, 0, 0.0

    def ends(self, t: int, state: State, *, refining: bool) -> bool:
        """Return whether step t is the last: the run diverged, or has gained too little."""
        predictor = NetworkPredictor(state.U, state.a)
        loss = risk(predictor, Labels(self.alpha, state.w))
        error = nan if self.held_out is None else risk(predictor, self.held_out)
        self.trace.append((t, loss, error))
        self._scale = max(self._scale, float(state.w.square().sum(-1).mean()))
        if not (isfinite(loss) and loss <= BLOW_UP * self._scale):
            self.diverged = True
            return True
        self.latest, score = state, loss if self.held_out is None else error
        moving = self.held_out is None and refining  # then losses are not comparable yet
        if moving or score < self._best:
            self._best, self.kept = score, state
        if moving or score < (1 - GAIN) * self._mark:
            self._mark, self._since = score, t
            return False
        return t - self._since >= self.patience


def risk(predictor: Predictor, labels: Labels) -> float:
    """Return (1/n) Σ_i ‖h(α_i) − w_i‖², the paper's R."""
    return float((predictor(labels.alpha) - labels.w).square().sum(-1).mean())


def rows_at_once(U: Tensor) -> int:
    """Return how many rows of α to take through the hidden layers U (T, m, N) together."""
    return max(1, BLOCK // U[..., 0].numel())


def by_layer(w: Tensor, layers: int) -> Tensor:
    """Return w (n, P) as (T, n, Q)."""
    return w.unflatten(1, (layers, -1)).transpose(0, 1)


def by_output(h: Tensor) -> Tensor:
    """Return h (T, n, Q) as (n, P)."""
    return h.transpose(0, 1).flatten(1)


def _halves(U: Tensor, alpha: Tensor) -> tuple[Tensor, Tensor]:
    """Return U α for each half of the units, (T, n, m/2) twice.

    The second half is computed as the first plus a difference: while the weights are equal, so are
    the results to the last bit, however a product is rounded.
    """
    first, second = U.chunk(2, dim=1)
    z = alpha @ first.mT
    return z, z + alpha @ (second - first).mT


def _outputs(z: Tensor, z_copy: Tensor, A: Tensor) -> Tensor:
    """Return h (T, n, Q).

    Each unit is paired with its copy before anything is summed, so that h = 0 exactly at the start.
    """
    return (z.relu() - z_copy.relu()) @ A


def _signs(a: Tensor, layers: int) -> Tensor:
    """Return the first half of a (P, m) as (T, m/2, Q)."""
    return a[:, : a.shape[1] // 2].reshape(layers, -1, a.shape[1] // 2).mT


def _at_rest(before: Tensor, after: Tensor, tol: float) -> bool:
    norm = torch.linalg.vector_norm
    return bool((norm(after - before, dim=-1) <= tol * norm(after, dim=-1)).all())


def fit(material: Material, options: Options) -> Chosen:
    """Return Algorithm 2's network as a map.

    With a hidden layer per output, labels are refined from 0 as the network learns.
    """
    check_layers(material, options)
    refines = options.trunk == "own" and material.space.convex
    subspace = Subspace.none(material.labels.w) if refines else material.subspace
    labels = subspace.encode(material.labels)
    began = time.perf_counter()
    training = Training(
        width_of(options),
        options.steps or STEPS,
        options.eta,
        options.trunk,
        options.seed,
        dtype=torch.float32,
    )
    trained = train(
        labels.alpha,
        torch.zeros_like(labels.w) if refines else labels.w,
        training,
        refine=(lambda w: material.descend(w, labels.alpha, options.K)) if refines else None,
    )
    name = f"network of width {width_of(options)}, {options.trunk} layers, {trained.steps} steps"
    trial = untried(name, time.perf_counter() - began)
    return Chosen(trained.predictor, subspace, name, (trial,), trained.diverged)


def width_of(options: Options) -> int:
    """Return m, the number of hidden units per layer."""
    return options.width or (SHARED_WIDTH if options.trunk == "shared" else WIDTH)


def check_layers(material: Material, options: Options) -> None:
    """Raise `OptionError` if a hidden layer per output would be too many."""
    P = material.space.n_params
    if options.trunk == "own" and P > OWN_OUTPUTS:
        raise OptionError(
            f"a hidden layer for each of {P} parameters is not practical: use trunk='shared'"
        )


MAP = Map(
    name="network",
    summary=(
        "Algorithm 2 of the paper: a two-layer network that learns while its labels are refined."
    ),
    fit=fit,
    predictors=(NetworkPredictor,),
    options=("width", "steps", "eta", "K", "trunk"),
)
