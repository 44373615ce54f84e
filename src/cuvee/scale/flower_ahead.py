"""Ask ahead: what an estimate will need whatever α turns out to be travels in its first rounds.

Nothing here changes a number. Where it asks for what is not needed after all, bytes are lost; where
it misses what is needed, that is asked for then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from cuvee import erm
from cuvee.api.estimate_settings import EstimateSettings
from cuvee.components import Batch, Folds, Part, bind
from cuvee.hypothesis.base import Hypothesis
from cuvee.mixture.panel import season
from cuvee.mixture.path import HONEST
from cuvee.problem import Problem


def ahead(
    problem: Problem, hypothesis: Hypothesis, folds: int, seed: int, passes: int
) -> list[Callable[[], Any]]:
    """Return jobs that run beside `estimate` and share its rounds; none for squared losses."""
    space = hypothesis.bind(problem.facts, standardised=hypothesis.radius is None)
    if space.quadratic:
        return []
    settings = EstimateSettings(method="path", folds=folds, seed=seed, passes=passes)
    complete = settings.complete(space)
    run = complete.run
    compared = bind(problem, space, settings.compared(space), seed=seed)
    risk = bind(problem, hypothesis.bind(problem.facts), "trained", seed=seed)

    def starts() -> None:
        """Ask about where adversaries start in every season."""
        rounds = range(0, run.steps, season(run))
        w = torch.cat([space.start(run.adversaries, run.seed + t) for t in rounds])
        parts: tuple[Part, ...] = ("all", HONEST[0])
        compared.ask_ahead(w, [Batch(part=part) for part in parts])

    def centre() -> None:
        """Solve for the centre that cross-validated models start from."""
        N, M = problem.n_sources, problem.n_targets
        alpha = torch.full((M, folds, N + 1), 1.0 / (N + 1), dtype=torch.float64)
        batch = Batch(folds=Folds(folds, torch.arange(folds)))
        erm.solve(risk, batch, alpha, seed=seed, tol=erm.ROUGH, passes=complete.fitting)

    return [starts, centre] if space.generalised else [starts]
