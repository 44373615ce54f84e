"""Hold a fitted surface from mixtures to metrics, and answer all questions about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cuvee.errors import OptionError, check_choice, check_number, check_whole
from cuvee.mix import design, front, proposal
from cuvee.mix.average import Average
from cuvee.mix.belief import Belief
from cuvee.mix.candidate import DTYPE
from cuvee.mix.conformal import Calibration
from cuvee.mix.constraints import Constraints, Polytope
from cuvee.mix.design import Plan
from cuvee.mix.fitted import Fit, Half, Settings, signs
from cuvee.mix.front import Front
from cuvee.mix.goal import Goal, read_goal
from cuvee.mix.prediction import Prediction, Sensitivity
from cuvee.mix.proposal import Proposal
from cuvee.mix.runs import Runs, read_runs
from cuvee.mix.scales import Levels, Transfer
from cuvee.mix.search import with_ideal
from cuvee.mix.shares import beyond_runs, read_shares, repeats, without_domains
from cuvee.numerics.parallel import workers
from cuvee.results import Floats

Minimise = str | Sequence[str] | Mapping[str, float] | None


@dataclass(frozen=True, eq=False)
class Surface:
    """Predict metrics of mixtures, propose the best mixture, and the runs to make next.

    Made by `cuvee.fit_surface`, or read from a file by `cuvee.load_surface`.
    """

    runs: Runs
    settings: Settings
    average: Average
    halves: tuple[Half, ...]  # a half and its complement, then others
    levels: Levels
    calibration: Calibration
    fits: tuple[Fit, ...]
    transfers: tuple[Transfer, ...]
    notes: tuple[str, ...]
    dropped: tuple[str, ...] = ()  # domains that are no longer offered

    def __repr__(self) -> str:
        n, N = len(self.runs), len(self.domains)
        known = ", ".join(
            f"{fit.metric} {fit.explained:.0%} explained, rank {fit.rank:.2f}"
            if fit.varies
            else f"{fit.metric} never varies"
            for fit in self.fits
        )
        return f"Surface of {n} runs and {N} domains, on runs that were held out: {known}"

    @property
    def domains(self) -> tuple[str, ...]:
        """Return the names of the domains, in the order of the columns of α."""
        return tuple(name for name in self.runs.domains if name not in self.dropped)

    @property
    def metrics(self) -> tuple[str, ...]:
        """Return the names of the metrics."""
        return self.runs.names

    @property
    def scales(self) -> tuple[str, ...]:
        """Return the names of the scales, smallest first; empty where runs had none."""
        return () if self.runs.scale is None else self.levels.scales

    def predict(self, alpha: Any, *, scale: str | float | None = None) -> Prediction:
        """Return the metrics of mixtures, with intervals.

        `low` to `high` is for one new, noisy run; `mean_low` to `mean_high` for the mean.

        Args:
            alpha: (m, N), one mixture (N,), a frame with a column per domain, or a dict of shares.
            scale: by default the largest.
        """
        with workers(), torch.no_grad():
            return self._predicted(self._read_alpha(alpha), self._belief(scale))

    def sensitivity(
        self, alpha: Any = None, *, step: float = 0.05, scale: str | float | None = None
    ) -> Sensitivity:
        """Return how each metric changes when each domain gets `step` more of the mixture.

        Args:
            alpha: one mixture; by default the mean of the runs.
            step: share that the domain gains; the others give it up in proportion to theirs.
            scale: by default the largest.
        """
        check_number("step", step, above=0.0, most=1.0)
        given = self._typical() if alpha is None else alpha
        start = self._read_alpha(given)
        if len(start) != 1:
            raise OptionError("sensitivity needs one mixture: call it once for each of several")
        places = [self.runs.domains.index(name) for name in self.domains]
        moved = (1.0 - step) * start + step * np.eye(start.shape[1])[places]
        with workers(), torch.no_grad():
            belief = self._belief(scale)
            mean, covariance = belief.joint(
                torch.as_tensor(np.concatenate([start, moved]), dtype=DTYPE)
            )
        variance = covariance.diagonal(dim1=1, dim2=2)  # (K, 1 + N)
        apart = variance[:, 1:] + variance[:, :1] - 2.0 * covariance[:, 0, 1:]
        half = belief.half_mean(apart.clamp(min=0.0).sqrt().T).numpy()
        change = (self._sign * (mean[1:] - mean[:1])).numpy()
        return Sensitivity(self.domains, self.metrics, step, change, change - half, change + half)

    def best(
        self,
        *,
        minimise: Minimise = None,
        worst: bool = False,
        keep: Mapping[str, float] | None = None,
        constraints: Constraints | None = None,
        prior: Any = None,
        pull: float = 0.0,
        risk: float = 0.25,
        scale: str | float | None = None,
        seed: int = 0,
    ) -> Proposal:
        """Return the mixture to train on.

        Args:
            minimise: metrics, or metrics with weights; by default all, equally. Metrics that the
                surface was told to maximise are maximised.
            worst: minimise the worst of them instead of their weighted mean: how far it is above
                the lowest that it can be alone, in units of its spread over the runs, times its
                weight.
            keep: guard rails: what a metric must stay below (above, if it is to be maximised).
            constraints: limits on shares, see `cuvee.Constraints`.
            prior: a mixture to compare with, and to be pulled to.
            pull: strength of the pull to it: the price of one unit of KL(α ‖ prior), in spreads of
                the goal over the runs.
            risk: 0 minimises the mean, 1 the upper end of its interval, numbers between in between.
            scale: by default the largest.
            seed: of the search's draws.
        """
        with workers():
            goal = self._goal(minimise, worst, keep, risk, prior, pull)
            polytope = self._polytope(constraints)
            belief = self._belief(scale)
            goal = with_ideal(goal, belief, polytope, self._starts(prior), seed)
            alpha = self._chosen(goal, belief, polytope, prior, seed)
            halves = [replace(belief, average=half.average) for half in self.halves]
            pairs = list(zip(halves[::2], halves[1::2], strict=True))
            curse = proposal.disappointment(goal, pairs, polytope, alpha, seed)
            value, high = proposal.worth(goal, belief, alpha)
            others = self._others(goal, belief, prior)
            compared = {name: proposal.worth(goal, belief, a)[0] for name, a in others.items()}
            forbidden = proposal.not_allowed(goal, belief, polytope, others)
            notes = beyond_runs(alpha, self.runs)
            if minimise is None:
                notes = (*notes, *proposal.mixed_units(goal, belief, self.fits))
            places = [self.runs.domains.index(name) for name in self.domains]
            with torch.no_grad():
                predicted = self._predicted(alpha[None], belief)
        shares = dict(zip(self.domains, alpha[places].tolist(), strict=True))
        return Proposal(
            self.domains, alpha[places], predicted, value, high, curse, compared,
            repeats(constraints, shares), notes, forbidden,
            *goal.in_words(self.metrics, self._sign), proposal.same_mixtures(others),
        )  # fmt: skip

    def front(
        self,
        metrics: Sequence[str],
        *,
        points: int = 15,
        constraints: Constraints | None = None,
        risk: float = 0.0,
        scale: str | float | None = None,
        seed: int = 0,
    ) -> Front:
        """Return mixtures of which no other is better in all of two or more metrics.

        Args:
            metrics: at least two names.
            points: how many mixtures are looked for; those that others beat are left out.
            constraints: limits on shares.
            risk: 0 trades off means, 1 the upper ends of their intervals.
            scale: by default the largest.
            seed: of the search's draws.
        """
        check_whole("points", points, 2)
        if isinstance(metrics, str) or len(set(metrics)) < 2:
            raise OptionError("a front needs two or more metrics")
        for name in metrics:
            check_choice("a metric of the front", name, self.metrics)
        with workers():
            goal = self._goal(list(metrics), True, None, risk, None, 0.0)
            belief = self._belief(scale)
            polytope = self._polytope(constraints)
            alpha = front.trace(goal, belief, polytope, self._starts(None), points, seed)
            with torch.no_grad():
                predicted = self._predicted(alpha, belief)
        places = [self.runs.domains.index(name) for name in self.domains]
        return Front(self.domains, tuple(metrics), alpha[:, places], predicted)

    def next_runs(
        self,
        k: int,
        *,
        minimise: Minimise = None,
        worst: bool = False,
        keep: Mapping[str, float] | None = None,
        constraints: Constraints | None = None,
        prior: Any = None,
        pull: float = 0.0,
        risk: float = 0.25,
        scale: str | float | None = None,
        seed: int = 0,
    ) -> Plan:
        """Return the k mixtures whose runs tell most about which mixture is best, with reasons.

        The first is the proposal itself: `best` with the same arguments.

        Args:
            k: how many.
            minimise: as for `best`, as are all that follow.
            worst: the worst of the metrics counts.
            keep: guard rails.
            constraints: limits on shares.
            prior: a mixture to be pulled to.
            pull: strength of the pull to it.
            risk: of the proposal; the other runs are chosen by what they tell.
            scale: by default the largest.
            seed: of the draws.
        """
        check_whole("k", k, 1)
        with workers():
            goal = self._goal(minimise, worst, keep, risk, prior, pull)
            belief, polytope = self._belief(scale), self._polytope(constraints)
            goal = with_ideal(goal, belief, polytope, self._starts(prior), seed)
            here = self._chosen(goal, belief, polytope, prior, seed)
            starts, known = self._starts(prior), self.runs.labels
            plan = design.next_runs(goal, belief, polytope, here, starts, k, seed, known)
        places = [self.runs.domains.index(name) for name in self.domains]
        return replace(plan, domains=self.domains, alpha=plan.alpha[:, places])

    def with_runs(self, alpha: Any, metrics: Any, scale: Any = None) -> Surface:
        """Return the surface fitted to its runs and these new ones; one run is enough.

        New runs have names of their own. A repeat of a mixture is a run like any other.
        """
        from cuvee.mix.fit import fit_runs

        new = read_runs(alpha, metrics, scale, known=self.runs, offered=self.domains)
        return replace(fit_runs(self.runs.and_more(new), self.settings), dropped=self.dropped)

    def with_domain(self, name: str) -> Surface:
        """Return the surface with one more domain, of which no run had any so far.

        What is said of it is wide until runs have it: see `with_runs`.
        """
        from cuvee.mix.fit import fit_runs

        if name in self.dropped:
            return replace(self, dropped=tuple(d for d in self.dropped if d != name))
        return replace(fit_runs(self.runs.with_domain(name), self.settings), dropped=self.dropped)

    def without(self, name: str) -> Surface:
        """Return the surface without a domain; runs that had it still tell of the others."""
        check_choice("name", name, self.domains)
        if len(self.domains) == 2:
            raise OptionError("a mixture needs two domains: none can be left out")
        return replace(self, dropped=(*self.dropped, name))

    def uniform(self) -> Floats:
        """Return the mixture (N,) of equal shares."""
        return np.full(len(self.domains), 1.0 / len(self.domains))

    def shares_of(self, alpha: Any) -> Floats:
        """Return one mixture (N,), however it is given, in the order of `domains`."""
        places = [self.runs.domains.index(name) for name in self.domains]
        return self._read_alpha(alpha)[0][places]

    def spreads(self, scale: str | float | None = None) -> Floats:
        """Return the spread (K,) of each metric over the runs, by default at the largest scale."""
        return self.levels.slope[self.levels.place(scale)].numpy()

    def directions(self) -> Floats:
        """Return 1 (K,) for metrics that are better when lower, −1 for the others."""
        return self._sign.numpy()

    def save(self, path: str | Path) -> None:
        """Write the surface to one file, without pickle; `cuvee.load_surface` reads it."""
        from cuvee.mix.files import save

        save(self, Path(path))

    @cached_property
    def _sign(self) -> Tensor:
        return signs(self.metrics, self.settings.maximise)

    def _belief(self, scale: str | float | None) -> Belief:
        few = len(self.runs) <= len(self.runs.domains)
        return Belief(self.average, self.levels, self.calibration, self.levels.place(scale), few)

    def _goal(
        self, minimise: Minimise, worst: bool, keep: Mapping[str, float] | None, risk: float,
        prior: Any, pull: float,
    ) -> Goal:  # fmt: skip
        centre = None
        if prior is not None:
            centre = torch.as_tensor(self._read_alpha(prior)[0], dtype=DTYPE)
        return read_goal(
            self.metrics, self._sign, minimise=minimise, worst=worst, keep=keep, risk=risk,
            prior=centre, pull=pull,
        )  # fmt: skip

    def _polytope(self, constraints: Constraints | None) -> Polytope:
        """Return what is allowed of all domains; those that were dropped have a share of 0."""
        wanted = constraints or Constraints()
        allowed = wanted.polytope(self.domains)
        if not self.dropped:
            return allowed
        return without_domains(wanted, self.domains, self.dropped).polytope(self.runs.domains)

    def _read_alpha(self, alpha: Any) -> Floats:
        return read_shares(alpha, self.domains, self.runs.domains)

    def _predicted(self, alpha: Floats, belief: Belief) -> Prediction:
        mean, spread = belief(torch.as_tensor(alpha, dtype=DTYPE))
        run, average = belief.half_run(spread).numpy(), belief.half_mean(spread).numpy()
        middle = (self._sign * mean).numpy()
        ends = (middle - run, middle + run, middle - average, middle + average)
        return Prediction(self.metrics, middle, *ends, self.settings.level)

    def _typical(self) -> Floats:
        places = [self.runs.domains.index(name) for name in self.domains]
        mean = self.runs.alpha[:, places].mean(0)
        return mean / mean.sum() if mean.sum() > 0 else np.full(len(places), 1.0 / len(places))

    def _chosen(
        self, goal: Goal, belief: Belief, polytope: Polytope, prior: Any, seed: int
    ) -> Floats:
        starts = self._starts(prior)
        return proposal.best_mixture(goal, belief, polytope, starts, self.metrics, seed)

    def _others(self, goal: Goal, belief: Belief, prior: Any) -> dict[str, Floats]:
        """Return mixtures (N,) of all domains that a proposal is compared with."""
        y = torch.as_tensor(self.runs.metrics, dtype=DTYPE) * self._sign
        run = proposal.best_run(goal, belief, self.runs, y, self.domains)
        others = {"prior": prior, "uniform": self.uniform()}
        given = {name: self._read_alpha(a)[0] for name, a in others.items() if a is not None}
        return given if run is None else {**given, "best run": run}

    def _starts(self, prior: Any) -> Floats:
        """Return mixtures (m, N) that a search looks at first: the runs, uniform, the prior."""
        others = [self.uniform()] if prior is None else [self.uniform(), self.shares_of(prior)]
        return np.concatenate([self.runs.alpha, self._read_alpha(np.array(others))])
