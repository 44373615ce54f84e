"""Find one initialisation that is K gradient steps from every mixture (meta-learning).

The paper names it as future work. The update

    w_0 ← w_0 − (1/n) Σ_i (GD(w_0, α_i, K) − w*(α_i))

is the first-order step on (1/n) Σ_i ½‖GD(w_0, α_i, K) − w*(α_i)‖²: it ignores how the result of GD
depends on w_0, which for strongly convex risks only shortens the step.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch
from torch import Tensor

from cuvee.learn.base import Labels, Predictor
from cuvee.learn.choose import Chosen, untried
from cuvee.learn.material import Material
from cuvee.learn.method import Map
from cuvee.learn.options import Options
from cuvee.learn.subspace import Subspace
from cuvee.oracle import Descend

ROUNDS = 20
STEPS = 5


@dataclass(frozen=True)
class Initialisation:
    """Hold where every descent starts; `passes` are its K steps."""

    w: Tensor  # (P,)
    passes: int

    def by(self, descend: Descend) -> Predictor:
        """Return the predictor that descends from this start to every mixture."""
        return lambda alpha: descend(self.w.expand(len(alpha), -1), alpha, self.passes)


def initialise(
    labels: Labels, descend: Descend, passes: int, rounds: int = ROUNDS
) -> Initialisation:
    """Return the best start of all rounds, which begin at the mean of the labels."""
    w, best, least = labels.w.mean(0), labels.w.mean(0), float("inf")
    for _ in range(rounds):
        away = descend(w.expand_as(labels.w), labels.alpha, passes) - labels.w
        error = float(away.square().sum(-1).mean())
        if error < least:
            best, least = w, error
        if not torch.isfinite(away).all() or error > 10.0 * least:
            break
        w = w - away.mean(0)
    return Initialisation(best, passes)


def fit(material: Material, options: Options) -> Chosen:
    """Return one start that is `steps` gradient steps from every mixture."""
    steps = options.steps or STEPS
    began = time.perf_counter()
    start = initialise(material.labels, material.descend, steps)
    name = f"one start, {steps} gradient steps"
    trial = untried(name, time.perf_counter() - began)
    return Chosen(start, Subspace.none(material.labels.w), name, (trial,))


MAP = Map(
    name="meta",
    summary="One start from which every mixture is a few gradient steps away.",
    fit=fit,
    predictors=(Initialisation,),
    options=("steps",),
)
