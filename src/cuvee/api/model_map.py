"""`ModelMap`: α (M, N) -> `Solution`, learnt; and how it is asked, grown and written to a file."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor

from cuvee.api.bound import Bound
from cuvee.api.learning import Progress, Warm, relearn, silent
from cuvee.api.learnt import Learnt
from cuvee.errors import MixtureError, OptionError, check_choice, check_number
from cuvee.inputs.alpha import ordered_alpha
from cuvee.learn import correct, reduced, registry, store
from cuvee.learn.base import Labels, Newton
from cuvee.learn.correct import Answer, Trust
from cuvee.numerics.parallel import workers
from cuvee.oracle import Oracle
from cuvee.outputs.notebook import html_table
from cuvee.problem import Domain
from cuvee.results import Floats, Status
from cuvee.simplex import check_alpha
from cuvee.solution import Certificate, Solution

MANY = 1_000  # rows to correct that are worth taking Hessians for
CHUNK = 2**22  # numbers of models that are predicted and looked at together


@dataclass(frozen=True, eq=False, repr=False)
class ModelMap(Learnt):
    """A learnt map α -> w*(α), made by `cuvee.learn`.

    Called with mixtures (M, N) it answers with a `Solution` whose rows are predicted, certified,
    corrected or solved.
    """

    def __repr__(self) -> str:
        return (
            f"ModelMap of {self.n_sources} sources, ‖∇‖∞ ≤ {self.tol:g}, {self.status}\n{self.plan}"
        )

    def _repr_html_(self) -> str:
        rows = [
            (t.name, f"{t.error:.1e}", f"{t.gradient:.1e}")
            for t in self.plan.trials
            if np.isfinite(t.error)
        ]
        head, why = repr(self).splitlines()[0], self.plan.why
        return html_table(
            ("map", "median error", "‖∇‖∞ on 95 %") if rows else (), rows, f"{head}\n{why}"
        )

    @property
    def n_sources(self) -> int:
        return self.bound.problem.n_sources

    @property
    def method(self) -> str:
        return self.plan.method

    @property
    def tol(self) -> float:
        return self.settings.options.tol

    @workers()
    def __call__(
        self,
        alpha: Any,
        *,
        trust: Trust | None = None,
        tol: float | None = None,
        targets: Sequence[Domain] | None = None,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> Solution:
        """Return models for mixtures (M, N), as far to be trusted as is asked for.

        Args:
            alpha: (M, N), or (M, N+1) where the last column weighs each target's own sample: those
                start from the shared map and are corrected. `Mixtures` and data frames are matched
                by the names of their columns, as in `cuvee.solve`; rows are answered as they come,
                and matched to targets only with own samples.
            trust: "predicted" looks at no data, its bounds are calibrated; "certified" is one pass
                over the data per row, its bounds are proven; "corrected" also takes Newton steps
                until rows are within the tolerance. By default rows whose calibrated bound is
                within the tolerance stay predicted, others are corrected.
            tol: on ‖∇‖∞, as in `cuvee.solve`; by default the one the map was learnt for.
            targets: whose own samples the last column weighs, by default those of the problem
                learnt from.
            progress: called with (what, done, total).
        """
        tol = self._checked(trust, tol)
        N, problem = self.n_sources, self.bound.problem
        owners = problem if targets is None else problem.with_targets(targets, warn=True)
        named = ordered_alpha(alpha, problem.source_names, owners.target_names, always=False)
        a = check_alpha(named, (N, N + 1))
        if a.shape[1] > N:
            if trust in ("predicted", "certified"):
                raise OptionError(
                    f"rows that weigh an own sample are corrected on the data: trust={trust!r} "
                    "cannot be had"
                )
            return self._with_own(a, tol, owners.targets)
        if targets is not None:
            raise OptionError(
                f"targets= is for alpha of {N + 1} columns, the last for own samples; this one has "
                f"{N}"
            )
        return self._solution(a, self._answers(a, trust, tol, progress or silent))

    def predict(self, alpha: Any) -> Floats:
        """Return what the map says of mixtures (M, N), without looking at data: w (M, P).

        α is given as to the map itself, which also says how far its models are to be trusted.
        """
        return self(alpha, trust="predicted").w

    def _checked(self, trust: Trust | None, tol: float | None) -> float:
        """Return the tolerance, once it is known that the question can be answered."""
        if trust is not None:
            check_choice("trust", trust, get_args(Trust))
        if tol is not None:
            check_number("tol", tol, above=0.0)
        if trust in ("certified", "corrected") and not self.bound.space.convex:
            raise OptionError(
                "nothing can be proven of a network: ask for trust='predicted', or cuvee.solve"
            )
        return self.tol if tol is None else tol

    def _answers(
        self, a: Floats, trust: Trust | None, tol: float, progress: Progress
    ) -> list[Answer]:
        """Return the answers to mixtures (M, N), as many rows in each as are looked at together."""
        answers, bound = [], self.bound
        trust = trust if bound.space.convex else "predicted"
        size = max(1, CHUNK // bound.space.n_params)
        for low in range(0, max(len(a), 1), size):
            progress("predicting", low, len(a))
            mixtures = torch.as_tensor(a[low : low + size], device=bound.device)
            answers.append(self._answer(mixtures, bound.oracle, trust, tol))
        progress("predicting", len(a), len(a))
        return answers

    def _answer(self, alpha: Tensor, oracle: Oracle, trust: Trust | None, tol: float) -> Answer:
        hopeless = oracle.without_minimiser(alpha)
        middle = self.labels.w.mean(0)
        answer = correct.predicted(
            self.predicted(alpha), alpha, self.calibration, hopeless, tol, self._passes, middle
        )
        if trust == "predicted":
            return answer
        rows = (
            answer.rows(Status.OFF_TOLERANCE)
            if trust is None
            else torch.arange(len(alpha), device=alpha.device)
        )
        if len(rows) == 0:
            return answer
        # rows are written over, and these may be the predictor's own
        answer = replace(answer, w=answer.w.clone())
        if trust == "certified":
            correct.look(answer, rows, oracle, alpha, tol)
        else:
            correct.correct(answer, rows, oracle, alpha, self._newton(len(rows)), tol)
        return answer

    def _newton(self, n_rows: int) -> correct.Newton | None:
        """Return what takes Newton steps, or None.

        It is the predictor, or for many rows a surface for the Hessian.
        """
        if isinstance(self.predictor, Newton):
            return self.predictor.newton
        if n_rows < MANY or not reduced.reducible(self.bound.space, len(self.labels)):
            return None
        return self._hessians.newton

    @functools.cached_property
    def _hessians(self) -> reduced.Reduced:
        return reduced.reduce(
            self.bound.oracle, self.bound.space, self.labels, self.labels.alpha[:0], degree=1
        )

    def _with_own(self, a: Floats, tol: float, owners: Sequence[Domain]) -> Solution:
        """Return what the exact solver finds for mixtures with own samples.

        It starts where the map says that the sources' part of the mixture ends.
        """
        if len(owners) != len(a):
            raise MixtureError(
                f"alpha has {len(a)} rows of {a.shape[1]} weights, the last for a target's own "
                "sample, but there are "
                f"{len(owners)} targets: pass targets=[...]"
            )
        alpha = torch.as_tensor(a, device=self.bound.device)
        shared = alpha[:, :-1].sum(1, keepdim=True)
        start = self.predicted(
            torch.where(shared > 0, alpha[:, :-1] / shared.clamp(min=1e-300), 1.0 / self.n_sources)
        )
        start = torch.where(start.isfinite().all(1, keepdim=True), start, self.labels.w.mean(0))
        outcome = self.bound.with_targets(owners).solve(alpha, tol=tol, start=start)
        rows = torch.arange(len(a), device=alpha.device)
        answer = correct.nothing(start)
        answer.put(rows, outcome, Status.CORRECTED, tol)
        return self._solution(a, [answer])

    def _solution(self, a: Floats, answers: list[Answer]) -> Solution:
        return as_solution(self.bound, a, answers, self.calibration.sentence)

    @workers()
    def add_source(self, source: Domain) -> ModelMap:
        """Return the map for one source more; `plan.saved` says what was saved.

        Solved mixtures stay solved, with weight 0 on the new source: half as many again are solved
            in which it takes
        part. They give it a share of their weight, such that a Dirichlet law stays one.
        """
        N, c, rng = (
            self.n_sources,
            self.settings.concentration or 1.0,
            np.random.default_rng([self.n_sources]),
        )

        def extended(alpha: Tensor) -> Tensor:
            share = torch.as_tensor(rng.beta(c, c * N, size=(len(alpha), 1))).to(alpha)
            return torch.cat([(1.0 - share) * alpha, share], 1)

        n = self.settings.n_labels
        old = self.labels[-n:]
        kept = Labels(torch.cat([old.alpha, torch.zeros_like(old.alpha[:, :1])], 1), old.w)
        new = extended(old.alpha[: max(n // 2, 4)])
        sources = [*self.bound.problem.sources, source]
        return as_map(relearn(self, sources, new, extended, Warm(kept=kept)))

    @workers()
    def drop_source(self, name: str) -> ModelMap:
        """Return the map without one source.

        Its labels start where this map says that mixtures without that source end.
        """
        names = [s.name for s in self.bound.problem.sources]
        if name not in names:
            raise OptionError(f"no source named {name!r}; there is {', '.join(names[:10])}")
        others = [i for i, other in enumerate(names) if other != name]

        def narrowed(alpha: Tensor) -> Tensor:
            rest = alpha[:, others]
            total = rest.sum(1, keepdim=True)
            return torch.where(total > 0, rest / total.clamp(min=1e-300), 1.0 / max(len(others), 1))

        alpha = narrowed(self.labels.alpha)
        face = torch.zeros_like(self.labels.alpha)
        face[:, others] = alpha
        start = self.predicted(face)
        start = torch.where(start.isfinite().all(1, keepdim=True), start, self.labels.w)
        sources = [self.bound.problem.sources[i] for i in others]
        return as_map(relearn(self, sources, alpha, narrowed, Warm(start=start)))

    def save(self, path: str | Path) -> None:
        """Write the map to a safetensors file; `cuvee.load_map` reads it, given the same data."""
        kinds = registry.find(self.settings.method).predictors
        if type(self.predictor) not in kinds:  # a file holds the name of the class
            raise OptionError(
                f"the map {self.settings.method!r} ends with a {type(self.predictor).__name__}, "
                "which it has not "
                "named among its predictors: no file can hold it"
            )
        notes = {
            "fingerprint": self.bound.fingerprint,
            "settings": self.settings.noted(),
            "status": self.status.name,
            "plan": asdict(self.plan),
        }
        parts = {
            "predictor": self.predictor,
            "subspace": self.subspace,
            "calibration": self.calibration,
        }
        store.write(
            Path(path), {**parts, "labels": Labels(self.labels.alpha, self.labels.w)}, notes
        )


def as_map(learnt: Learnt) -> ModelMap:
    """Return what was learnt as something that can be asked."""
    return ModelMap(**{f.name: getattr(learnt, f.name) for f in fields(learnt)})


def as_solution(bound: Bound, a: Floats, answers: list[Answer], calibration: str) -> Solution:
    """Return chunks of answers for mixtures (M, N) as one result.

    `calibration` is what calibrated bounds rest on.
    """

    def joined(name: str) -> Any:
        parts = [np.asarray(getattr(answer, name).cpu()) for answer in answers]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    calibrated = joined("calibrated")
    rests_on = [calibration] if calibration and (calibrated.any() or not len(a)) else []
    rests_on += [bound.oracle.rests_on] if not calibrated.all() else []
    certificate = Certificate(
        distance=joined("distance"),
        excess_risk=joined("excess"),
        gradient_norm=joined("gradient"),
        rests_on="; where proven: ".join(rests_on),
        calibrated=calibrated,
    )
    return Solution(
        w=joined("w"),
        alpha=a,
        status=tuple(np.concatenate([answer.status for answer in answers]).tolist()),
        certificate=certificate,
        passes=joined("passes"),
        space=bound.space,
        features=bound.features,
    )
