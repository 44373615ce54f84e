"""Define what every α method is asked and what it answers.

A new method is a new file that fills in an `AlphaMethod`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from cuvee.components import ALL, Batch, Components, InputMeans
from cuvee.mixture.objective import Discrepancy, Objective, inverse_counts
from cuvee.mixture.players import Settings
from cuvee.problem import Array
from cuvee.results import Candidate, Floats, Status, Trace

Progress = Callable[[str, int, int], None]
"""Called with (what, done, total) now and then."""

Solver = Callable[[Components, Batch, Tensor], Tensor]
"""(components, rows with folds left out, α (M, Q, N+1)) -> w (M, Q, P)."""

SEARCH = ("discrepancy", "c", "loss", "adversaries", "steps", "tol")
MINIMAX = (*SEARCH, "C", "eta", "gamma", "average")
"""Options of `cuvee.estimate` that methods take which send adversaries up; which play a game."""

HARDLY_ANY = 1e6  # 1/m_j of an excluded source, in units of the largest one
SMOOTHING = 0.01  # √c as a share of the sources' mean loss


@dataclass(frozen=True)
class AlphaSettings:
    """Hold the settings of a method.

    `cuvee.estimate` has checked them and filled in what the caller left open.
    """

    discrepancy: Discrepancy = "mixture"
    C: float = 10.0
    c: float | None = None  # None: a share of the mean loss, which needs the components
    own: bool = False  # whether the target's own sample joins as a last column
    folds: int = 5
    fitting: int | None = None  # passes that cross-validated models may take, where they are few
    run: Settings = field(default_factory=Settings)


@dataclass(frozen=True)
class Request:
    """Ask for the weights of M targets.

    It holds the losses to compare, the settings, and what only some methods need.
    """

    components: Components  # f_1..f_N and f_T as the discrepancy compares them
    settings: AlphaSettings
    # makes the same components with the loss that models are trained on
    risk: Callable[[], Components]
    solver: Solver  # trains models on them
    inputs: Callable[[], InputMeans]  # makes the kernel means of inputs, for which no label counts
    excluded: Array | None = None  # (M, N) sources that a target may not learn from
    unlabelled: bool = False  # whether any target of the problem has unlabelled rows
    progress: Progress | None = None

    def smoothing(self, share: float = SMOOTHING) -> float:
        """Return c: the caller's, or (share of the sources' mean loss)².

        It does not depend on the targets, so a batch of targets gives the same as its rows one by
        one.
        """
        if self.settings.c is not None:
            return self.settings.c
        components, run = self.components, self.settings.run
        w = components.space.start(run.adversaries, run.seed).to(components.counts.device)
        M = len(components.own_counts)
        losses = components.values(w[:1].expand(M, 1, -1), ALL)[0, :, :-1]
        return float((share * losses.mean().clamp(min=1e-12)) ** 2)

    def objective(self) -> Objective:
        """Return F with the caller's C, over the sources and, where it joins, the own sample."""
        settings, N = self.settings, len(self.components.counts)
        inverse = self.inverse_counts()[:, : N + int(settings.own)]
        return Objective(settings.discrepancy, self.smoothing(), settings.C, inverse)

    def inverse_counts(self) -> Tensor:
        """Return 1/m_j of the sources and, last, of the own sample: (M, N+1).

        An excluded source counts as one with hardly any rows. Its weight is then next to nothing,
        and no α without it has a larger F than before: lower bounds hold.
        """
        inverse = inverse_counts(self.components)
        if self.excluded is None:
            return inverse
        last = inverse.new_zeros(len(inverse), 1, dtype=torch.bool)
        closed = torch.cat([torch.as_tensor(self.excluded).to(last), last], 1)
        return torch.where(closed, HARDLY_ANY * inverse.amax(), inverse)

    def allowed(self, alpha: Floats) -> Floats:
        """Return weights (M, …, J) with 0 for excluded sources, on the simplex again."""
        if self.excluded is None:
            return alpha
        shape = (len(alpha), *[1] * (alpha.ndim - 2), -1)
        open_ = np.ones((len(alpha), alpha.shape[-1]))
        open_[:, : self.excluded.shape[1]] = ~self.excluded
        kept = alpha * open_.reshape(shape)
        return np.asarray(kept / kept.sum(-1, keepdims=True))


@dataclass(frozen=True)
class Estimate:
    """Hold the result of a method; one row per target."""

    alpha: Floats  # (M, J) on the simplex: J = N sources, and the own sample where it joined
    gap: Floats  # (M,)
    objective: Floats  # (M,)
    status: tuple[Status, ...]
    trace: Trace | None = None
    candidates: tuple[Candidate, ...] = ()


@dataclass(frozen=True)
class AlphaMethod:
    """Describe an α method: its name, the function that answers a request, and its defaults."""

    name: str
    estimate: Callable[[Request], Estimate]
    summary: str
    steps: int = 0
    """Number of steps by default; 0 for a method that does not search."""
    network_steps: int | None = None
    """Number of steps for a network, whose steps are expensive; None means the same as `steps`."""
    own: bool = False
    """Whether the target's own sample always joins; else it does where the caller asks for it."""
    excludes: bool = False
    """Whether it can leave out sources that a target may not learn from."""
    label_free: bool = False
    """Whether it can weigh sources for a target without any labelled row."""
    takes: tuple[str, ...] | None = None
    """The options of `cuvee.estimate` that change what it returns; None: not known, so any may be
    given.
    """
    tol: float = 0.02
    checks: int = 20
    """How often a run checks whether it has converged."""
    models: Callable[[int, int], int] = field(default=lambda adversaries, sources: adversaries)
    """(adversaries, N) -> models that one target holds in memory at a time."""


def closed_form(alpha: Floats) -> Estimate:
    """Return an estimate for weights (M, J) that follow directly from the data.

    There is no gap and no objective: both are NaN.
    """
    unknown = np.full(len(alpha), np.nan)
    return Estimate(alpha, unknown, unknown, (Status.CLOSED_FORM,) * len(alpha))


def with_own(alpha: Floats, weight: float) -> Floats:
    """Return weights of the sources (M, N) with the own sample's as a last column: (M, N+1)."""
    return np.column_stack([alpha, np.full(len(alpha), weight)])
