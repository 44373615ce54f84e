"""What the caller of `cuvee.estimate` chose, checked, and what is filled in where nothing was
chosen.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from cuvee.errors import OptionError, check_choice, check_number, check_whole
from cuvee.hypothesis.base import LossKind, Space
from cuvee.mixture import path, registry
from cuvee.mixture.method import AlphaMethod, AlphaSettings
from cuvee.mixture.objective import DISCREPANCIES, Discrepancy
from cuvee.mixture.players import Settings
from cuvee.names import AlphaMethod as Method
from cuvee.problem import Array, Problem
from cuvee.results import OWN

Loss = Literal["auto", "trained", "bounded"]

ADVERSARIES, NETWORK_ADVERSARIES = 16, 4  # copies of a network are dear
BATCH, NETWORK_BATCH = 32, 16
RIDGE_FOLDS, FOLDS, NETWORK_FOLDS = 20, 5, 3


@dataclass(frozen=True)
class EstimateSettings:
    """The options of `cuvee.estimate`, as described there; None leaves a choice to the method."""

    method: Method = "path"
    discrepancy: Discrepancy = "mixture"
    C: float = 10.0
    c: float | None = None
    own: bool | None = None
    loss: Loss = "auto"
    adversaries: int | None = None
    steps: int | None = None
    batch_size: int | None = None
    beta: float = 0.1
    eta: float | None = None
    gamma: float | None = None
    average: bool = True
    tol: float | None = None
    folds: int | None = None
    passes: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        registry.find(self.method)
        check_choice("discrepancy", self.discrepancy, DISCREPANCIES)
        check_choice("loss", self.loss, ("auto", "trained", "bounded"))
        check_number("C", self.C, above=0.0)
        check_number("beta", self.beta, above=0.0, most=1.0)
        check_whole("seed", self.seed, 0)
        for name in ("c", "eta", "gamma", "tol"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), above=0.0)
        for name, least in (("adversaries", 1), ("steps", 1), ("batch_size", 1), ("folds", 2)):
            if getattr(self, name) is not None:
                check_whole(name, getattr(self, name), least)
        for name in ("eta", "gamma"):
            if getattr(self, name) is not None and self.method in ("cuts", "path"):
                raise OptionError(
                    f"{name}= is a step of Algorithm 1 and its kin; method={self.method!r} takes "
                    "none, and its adversaries find their own: leave it out"
                )
        if self.passes is not None:
            self._check_passes(self.passes)
        if self.own not in (None, True, False):
            raise OptionError(f"own must be True, False or None; got {self.own!r}")
        if self.average not in (True, False):
            raise OptionError(f"average must be True or False; got {self.average!r}")
        if self.how.own and not self.joins:
            raise OptionError(
                f"method={self.method!r} needs the target's own sample: leave own=False out"
            )

    def _check_passes(self, passes: int) -> None:
        check_whole("passes", passes, path.fewest_passes())
        if self.method != "path":
            raise OptionError(f"passes= is for method='path'; {self.method!r} takes steps=")
        if self.steps is not None:
            raise OptionError("passes= and steps= both say how long to search: give one of them")

    @property
    def how(self) -> AlphaMethod:
        """Return the method itself."""
        return registry.find(self.method)

    @property
    def joins(self) -> bool:
        """Return whether the target's own sample joins as a last column."""
        return self.how.own if self.own is None else bool(self.own)

    def check_problem(self, problem: Problem) -> None:
        """Raise `OptionError` where the problem leaves nothing to weigh."""
        if problem.n_targets == 0:
            raise OptionError(
                "the problem has no targets (M=0): nothing to weigh; pass targets=[...]"
            )
        if problem.n_sources == 1 and not self.joins:
            raise OptionError(
                f"with the one source {problem.source_names[0]!r} (N=1) its weight is 1 whatever "
                "the data: "
                "add sources, or let the own sample join with own=True"
            )
        bare = next((t for t in problem.targets if t.n_rows == 0), None)
        if bare is not None and not self.how.label_free:
            able = ", ".join(m.name for m in map(registry.find, registry.names()) if m.label_free)
            raise OptionError(
                f"target {bare.name!r} has no labelled row, and method={self.method!r} needs some; "
                f"these do not: {able}"
            )
        if OWN in problem.source_names:
            raise OptionError(
                f"a source is named {OWN!r}, which is the own sample's column: rename it"
            )

    def excluded(
        self, problem: Problem, exclude: Mapping[str, Collection[str]] | None
    ) -> Array | None:
        """Return which sources (M, N) each target may not learn from; None where it is none."""
        if not exclude:
            return None
        if not self.how.excludes:
            able = ", ".join(m.name for m in map(registry.find, registry.names()) if m.excludes)
            raise OptionError(f"method={self.method!r} cannot exclude sources; these can: {able}")
        place = {name: j for j, name in enumerate(problem.source_names)}
        row = {name: i for i, name in enumerate(problem.target_names)}
        closed = np.zeros((problem.n_targets, problem.n_sources), dtype=bool)
        for target, sources in exclude.items():
            if target not in row:
                raise OptionError(f"exclude: there is no target {target!r}")
            names = [sources] if isinstance(sources, str) else list(sources)
            for name in names:
                if name not in place:
                    raise OptionError(f"exclude: target {target!r}: there is no source {name!r}")
            closed[row[target], [place[name] for name in names]] = True
        bare = closed.all(1)
        if bare.any():
            raise OptionError(
                f"exclude leaves target {problem.target_names[int(bare.argmax())]!r} without any "
                "source: exclude fewer"
            )
        return closed

    def compared(self, space: Space) -> LossKind:
        """Return which loss the discrepancy compares.

        It is the bounded one, except where W bounds the loss that is trained on.
        """
        if self.loss == "auto":
            return "trained" if space.quadratic else "bounded"
        return self.loss

    def complete(self, space: Space) -> AlphaSettings:
        """Return the settings of the method: the choices made, and defaults for the others.

        Defaults suit the method and the space.
        """
        how, network = self.how, not space.convex
        steps = how.network_steps if network and how.network_steps else how.steps
        limited = self.passes is not None and not space.quadratic  # whose sums are known at once
        if limited and not space.generalised:
            raise OptionError("passes= is for ridge, logistic and Poisson regression")
        run = Settings(
            beta=self.beta,
            batch_size=self.batch_size or (NETWORK_BATCH if network else BATCH),
            eta=self.eta,
            gamma=self.gamma,
            adversaries=self.adversaries or (NETWORK_ADVERSARIES if network else ADVERSARIES),
            steps=self.steps or max(1, steps),
            tol=self.tol or how.tol,
            average=self.average,
            seed=self.seed,
            checks=how.checks,
        )
        if self.passes is not None and limited:
            run = path.within(self.passes, run)
        return AlphaSettings(
            discrepancy=self.discrepancy,
            C=self.C,
            c=self.c,
            own=self.joins,
            fitting=path.FITTING if limited else None,
            folds=self.folds
            or (NETWORK_FOLDS if network else RIDGE_FOLDS if space.quadratic else FOLDS),
            run=run,
        )
