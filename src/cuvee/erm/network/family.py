"""Answer as the oracle of networks: they are trained together, and nothing is certified."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from cuvee.components import ALL, Components, bind
from cuvee.erm import certificate
from cuvee.erm.network import training as network
from cuvee.erm.shared import statuses
from cuvee.errors import OptionError
from cuvee.hypothesis.base import Space
from cuvee.oracle import Outcome, Progress
from cuvee.problem import Problem
from cuvee.results import Status

_ALONE = (
    "this map needs derivatives of w*, which a network does not have: choose another map, or use a "
    "convex hypothesis such as Ridge or Logistic"
)


class NetworkFamily:
    rests_on = "not certified: the risk of a network is not convex"

    def __init__(
        self,
        problem: Problem,
        space: Space,
        *,
        own: bool,
        device: str,
        memory: int,
        seed: int = 0,
        steps: int | None = None,
    ) -> None:
        data = problem if own else problem.without_targets()
        self.space = space
        self._components: Components = bind(data, space, seed=seed, device=device)
        self._memory, self._seed, self._steps = memory, seed, steps

    def solve(
        self,
        alpha: Tensor,
        *,
        tol: float,
        start: Tensor | None = None,
        progress: Progress | None = None,
    ) -> Outcome:
        trained = network.train(
            self._components,
            alpha,
            seed=self._seed,
            max_steps=self._steps or network.MAX_STEPS,
            memory=self._memory,
            progress=progress,
        )
        status = statuses(
            len(trained.w),
            (trained.stopped, Status.TRAINED),
            (~trained.stopped, Status.STEP_LIMIT),
            (trained.diverged, Status.DIVERGED),
        )
        g = trained.gradient
        return Outcome(
            trained.w,
            g,
            trained.w[:, :0],
            certificate.unknown(g),
            status,
            trained.steps,
            trained.curves,
        )

    def certify(self, alpha: Tensor, w: Tensor, *, tol: float) -> Outcome:
        """Return the gradient on all rows, which says how stationary w is; no bounds."""
        w = w.to(self.space.dtype)
        gradient = torch.cat([g.abs().amax(-1) for g in self._gradients(alpha, w)])
        limit = torch.ones_like(
            gradient, dtype=torch.bool
        )  # no network is ever proven to be solved
        status = statuses(
            len(w), (limit, Status.STEP_LIMIT), (~gradient.isfinite(), Status.DIVERGED)
        )
        passes = torch.ones_like(gradient, dtype=torch.int64)
        return Outcome(w, gradient, w[:, :0], certificate.unknown(gradient), status, passes)

    def gradient(self, alpha: Tensor, w: Tensor) -> Tensor:
        return torch.cat(list(self._gradients(alpha, w.to(self.space.dtype))))

    def _gradients(self, alpha: Tensor, w: Tensor) -> Iterator[Tensor]:
        """Yield ∇f_α(w) (m, P) of successive models, as many at a time as memory holds."""
        components, penalty = self._components, self.space.l2 * self.space.penalised.to(w)
        size = max(1, self._memory // (32 * (components.n_rows + self.space.n_params)))
        if len(w) == 0:
            yield w
        for low in range(0, len(w), size):
            chunk = slice(low, low + size)
            part = components.narrow(torch.arange(len(w), device=w.device)[chunk])
            risk = part.pull(w[chunk, None], alpha[chunk, None].to(w), ALL)
            yield risk[:, 0] + penalty * w[chunk]

    def sensitivity(self, alpha: Tensor, w: Tensor) -> Tensor:
        raise OptionError(
            "sensitivities need a convex risk: use Ridge or Logistic, or train again with "
            "a shifted alpha"
        )

    @property
    def flat(self) -> Tensor:
        return torch.zeros(())

    def hessian_solve(self, alpha: Tensor, w: Tensor, stack: Tensor) -> Tensor:
        raise OptionError(_ALONE)

    def without_minimiser(self, alpha: Tensor) -> Tensor:
        return torch.zeros(len(alpha), dtype=torch.bool, device=alpha.device)

    def component_gradients(self, w: Tensor, *, rough: bool = False) -> Tensor:
        raise OptionError(_ALONE)

    def component_hessians(self, w: Tensor, *, rough: bool = False) -> Tensor:
        raise OptionError(_ALONE)
