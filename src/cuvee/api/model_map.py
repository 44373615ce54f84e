"""`ModelMap`: α (M, N) -> `Solution`, learnt; and how it is asked, written to a file and read again."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor

from cuvee import erm
from cuvee.alpha import ordered_alpha
from cuvee.errors import MixtureError, OptionError, check_choice, check_number
from cuvee.hypothesis.base import Hypothesis, Space
from cuvee.learn import correct, reduced, store
from cuvee.learn.base import Labels, Oracle
from cuvee.learn.calibrate import Calibration
from cuvee.learn.choose import Trial, reduce, reducible
from cuvee.learn.correct import Answer, Trust
from cuvee.learn.meta import Descend, Initialisation
from cuvee.learn.subspace import Subspace
from cuvee.notebook import html_table
from cuvee.problem import Domain, Problem, digest
from cuvee.results import Floats, Status
from cuvee.simplex import check_alpha
from cuvee.solution import Certificate, Solution

MANY = 1_000  # rows to correct that are worth taking Hessians for
CHUNK = 2**22  # numbers of models that are predicted and looked at together


@dataclass(frozen=True, repr=False)
class Selection:
    """What was measured while a map was learnt, and why it is the one it is."""

    method: str
    n_labels: int
    n_calibration: int
    trials: tuple[Trial, ...]
    seconds: dict[str, float]  # labels, fit, calibration
    passes: int  # over the data, for all labels together
    law: str  # the mixtures' that it was learnt from
    why: str
    saved: str = ""
    """What a warm start saved, for a map that grew out of another."""

    @classmethod
    def restored(cls, said: dict[str, Any]) -> Selection:
        return cls(**{**said, "trials": tuple(Trial(**t) for t in said["trials"])})

    def __str__(self) -> str:
        tried = [
            f"  {t.name}: median error {t.error:.1e}, ‖∇‖∞ ≤ {t.gradient:.1e} on 95 % of held-out mixtures"
            for t in self.trials
            if np.isfinite(t.error)
        ]
        return "\n".join([self.why, *tried, *([self.saved] if self.saved else [])])

    __repr__ = __str__


@dataclass(frozen=True)
class Bound:
    """The data a map was learnt from, and what can be asked of them."""

    problem: Problem
    hypothesis: Hypothesis
    space: Space
    oracle: Oracle
    device: str
    memory: int
    training: dict[str, Any]  # what training a network needs to know
    descend: Descend | None = None  # K steps of GD, for the one map that predicts by descending

    @classmethod
    def of(cls, problem: Problem, hypothesis: Hypothesis, device: str, memory: int, seed: int) -> Bound:
        """The sources of a problem, ready to be asked; `seed` is of a network's training."""
        sources = problem.without_targets()
        space = hypothesis.bind(sources.facts)
        training = {} if space.convex else {"seed": seed}
        oracle = erm.family(sources, space, own=False, device=device, memory=memory, **training)
        return cls(problem, hypothesis, space, oracle, device, memory, training)

    def with_targets(self, targets: Sequence[Domain]) -> Oracle:
        """The same with each target's own sample as a last component."""
        problem = Problem(self.problem.sources, targets)
        space = self.hypothesis.bind(problem.facts)
        return erm.family(problem, space, own=True, device=self.device, memory=self.memory, **self.training)

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the columns, where the sources had some."""
        return next((d.features for d in self.problem.sources if d.features), ())

    @functools.cached_property
    def fingerprint(self) -> str:
        """Of everything that w*(α) depends on."""
        found = hashlib.sha256(type(self.hypothesis).__name__.encode())
        for name, value in vars(self.hypothesis).items():
            found.update(f"{name}={_described(value)}".encode())
        for domain in self.problem.sources:
            found.update(repr((domain.name, domain.features, digest(domain))).encode())
        return found.hexdigest()


@dataclass(frozen=True, eq=False, repr=False)
class ModelMap:
    """A learnt map α -> w*(α), made by `cuvee.learn`.

    Called with mixtures (M, N) it answers with a `Solution` whose rows are predicted, certified, corrected or solved.
    """

    bound: Bound = field(repr=False)
    predictor: Any = field(repr=False)
    subspace: Subspace = field(repr=False)
    calibration: Calibration = field(repr=False)
    labels: Labels = field(repr=False)
    plan: Selection
    settings: Any = field(repr=False)
    status: Status
    """How the fit ended: "diverged" is kept with the best finite parameters."""
    relearn: Callable[..., ModelMap] = field(repr=False)

    def __repr__(self) -> str:
        return f"ModelMap of {self.n_sources} sources, ‖∇‖∞ ≤ {self.tol:g}, {self.status}\n{self.plan}"

    def _repr_html_(self) -> str:
        rows = [(t.name, f"{t.error:.1e}", f"{t.gradient:.1e}") for t in self.plan.trials if np.isfinite(t.error)]
        head, why = repr(self).splitlines()[0], self.plan.why
        return html_table(("map", "median error", "‖∇‖∞ on 95 %") if rows else (), rows, f"{head}\n{why}")

    @property
    def n_sources(self) -> int:
        return self.bound.problem.n_sources

    @property
    def method(self) -> str:
        return self.plan.method

    @property
    def tol(self) -> float:
        return float(self.settings.options.tol)

    def predict(self, alpha: Tensor) -> Tensor:
        """ŵ (M, P) for checked mixtures, with nothing said about it."""
        if isinstance(self.predictor, Initialisation):
            assert self.bound.descend is not None
            w = self.bound.descend(self.predictor.w.expand(len(alpha), -1), alpha)
        else:
            w = self.subspace.decode(self.predictor(alpha))
        return self.bound.space.project(w)

    def __call__(
        self,
        alpha: Any,
        *,
        trust: Trust | None = None,
        tol: float | None = None,
        targets: Sequence[Domain] | None = None,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> Solution:
        """Models for mixtures (M, N), as far to be trusted as is asked for.

        Args:
            alpha: (M, N), or (M, N+1) where the last column weighs each target's own sample: those start from the
                shared map and are corrected. `Mixtures` and data frames are matched by the names of their columns, as
                in `cuvee.solve`; rows are answered as they come, and matched to targets only with own samples.
            trust: "predicted" looks at no data, its bounds are calibrated; "certified" is one pass over the data per
                row, its bounds are proven; "corrected" also takes Newton steps until rows are within the tolerance.
                By default rows whose calibrated bound is within the tolerance stay predicted, others are corrected.
            tol: on ‖∇‖∞, as in `cuvee.solve`; by default the one the map was learnt for.
            targets: whose own samples the last column weighs, by default those of the problem learnt from.
            progress: called with (what, done, total).
        """
        if trust is not None:
            check_choice("trust", trust, get_args(Trust))
        if tol is not None:
            check_number("tol", tol, above=0.0)
        tol = self.tol if tol is None else tol
        convex = self.bound.space.convex
        if trust in ("certified", "corrected") and not convex:
            raise OptionError("nothing can be proven of a network: ask for trust='predicted', or cuvee.solve")
        N, problem = self.n_sources, self.bound.problem
        owners = problem if targets is None else Problem(problem.sources, targets)
        named = ordered_alpha(alpha, problem.source_names, owners.target_names, always=False)
        a = check_alpha(named, (N, N + 1))
        device = self.bound.device
        if a.shape[1] > N:
            if trust in ("predicted", "certified"):
                raise OptionError(
                    f"rows that weigh an own sample are corrected on the data: trust={trust!r} cannot be had"
                )
            return self._with_own(a, tol, owners.targets)
        if targets is not None:
            raise OptionError(f"targets= is for alpha of {N + 1} columns, the last for own samples; this one has {N}")
        answers, oracle = [], self.bound.oracle
        size = max(1, CHUNK // self.bound.space.n_params)
        for low in range(0, max(len(a), 1), size):
            if progress is not None:
                progress("predicting", low, len(a))
            mixtures = torch.as_tensor(a[low : low + size], device=device)
            answers.append(self._answer(mixtures, oracle, trust if convex else "predicted", tol))
        if progress is not None:
            progress("predicting", len(a), len(a))
        return self._solution(a, answers)

    def _answer(self, alpha: Tensor, oracle: Oracle, trust: Trust | None, tol: float) -> Answer:
        passes = self.predictor.passes if isinstance(self.predictor, Initialisation) else 0
        hopeless = oracle.without_minimiser(alpha)
        middle = self.labels.w.mean(0)
        answer = correct.predicted(self.predict(alpha), alpha, self.calibration, hopeless, tol, passes, middle)
        if trust == "predicted":
            return answer
        rows = answer.rows(Status.OFF_TOLERANCE) if trust is None else torch.arange(len(alpha), device=alpha.device)
        if len(rows) == 0:
            return answer
        if trust == "certified":
            correct.look(answer, rows, oracle, alpha, tol)
        else:
            correct.correct(answer, rows, oracle, alpha, self._newton(len(rows)), tol)
        return answer

    def _newton(self, n_rows: int) -> correct.Newton | None:
        """Who takes Newton steps: the predictor, or for many rows a surface for the Hessian, made when first needed."""
        own: correct.Newton | None = getattr(self.predictor, "newton", None)
        if own is not None or n_rows < MANY or not reducible(self.bound.space, len(self.labels)):
            return own
        return self._hessians.newton

    @functools.cached_property
    def _hessians(self) -> reduced.Reduced:
        return reduce(self.bound.oracle, self.bound.space, self.labels, self.labels.alpha[:0], degree=1)

    def _with_own(self, a: Floats, tol: float, owners: Sequence[Domain]) -> Solution:
        """The exact solver, started where the map says the sources' part of the mixture ends."""
        if len(owners) != len(a):
            raise MixtureError(
                f"alpha has {len(a)} rows of {a.shape[1]} weights, the last for a target's own sample, but there are "
                f"{len(owners)} targets: pass targets=[...]"
            )
        alpha = torch.as_tensor(a, device=self.bound.device)
        shared = alpha[:, :-1].sum(1, keepdim=True)
        start = self.predict(torch.where(shared > 0, alpha[:, :-1] / shared.clamp(min=1e-300), 1.0 / self.n_sources))
        start = torch.where(start.isfinite().all(1, keepdim=True), start, self.labels.w.mean(0))
        found = self.bound.with_targets(owners).solve(alpha, tol=tol, start=start)
        rows = torch.arange(len(a), device=alpha.device)
        answer = correct.nothing(start)
        answer.put(rows, found, Status.CORRECTED, tol)
        return self._solution(a, [answer])

    def _solution(self, a: Floats, answers: list[Answer]) -> Solution:
        return as_solution(self.bound, a, answers, self.calibration.sentence)

    def add_source(self, source: Domain) -> ModelMap:
        """The map for one source more; `plan.saved` says what was saved.

        Solved mixtures stay solved, with weight 0 on the new source: half as many again are solved in which it takes
        part. They give it a share of their weight, such that a Dirichlet law stays one.
        """
        N, c, rng = self.n_sources, self.settings.concentration or 1.0, np.random.default_rng([self.n_sources])

        def extended(alpha: Tensor) -> Tensor:
            share = torch.as_tensor(rng.beta(c, c * N, size=(len(alpha), 1))).to(alpha)
            return torch.cat([(1.0 - share) * alpha, share], 1)

        n = self.settings.n_labels
        old = self.labels[-n:]
        kept = Labels(torch.cat([old.alpha, torch.zeros_like(old.alpha[:, :1])], 1), old.w)
        new = extended(old.alpha[: max(n // 2, 4)])
        return self.relearn(self, [*self.bound.problem.sources, source], new, extended, kept=kept)

    def drop_source(self, name: str) -> ModelMap:
        """The map without one source: its labels start where this map says that mixtures without it end."""
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
        start = self.predict(face)
        start = torch.where(start.isfinite().all(1, keepdim=True), start, self.labels.w)
        return self.relearn(self, [self.bound.problem.sources[i] for i in others], alpha, narrowed, start)

    def save(self, path: str | Path) -> None:
        """Write the map to a safetensors file; `cuvee.load_map` reads it, given the same data."""
        path = Path(path)
        notes = {
            "fingerprint": self.bound.fingerprint,
            "settings": self.settings.noted(),
            "status": self.status.name,
            "plan": asdict(self.plan),
        }
        parts = {"predictor": self.predictor, "subspace": self.subspace, "calibration": self.calibration}
        store.write(path, {**parts, "labels": Labels(self.labels.alpha, self.labels.w)}, notes)


def as_solution(bound: Bound, a: Floats, answers: list[Answer], calibration: str) -> Solution:
    """Chunks of answers for mixtures (M, N) as one result; `calibration` is what calibrated bounds rest on."""

    def joined(name: str) -> Any:
        parts = [np.asarray(getattr(answer, name).cpu()) for answer in answers]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    calibrated = joined("calibrated")
    said = [calibration] if calibration and (calibrated.any() or not len(a)) else []
    said += [bound.oracle.rests_on] if not calibrated.all() else []
    certificate = Certificate(
        distance=joined("distance"),
        excess_risk=joined("excess"),
        gradient_norm=joined("gradient"),
        rests_on="; where proven: ".join(said),
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


def _described(value: Any) -> str:
    """The same in every process: a module with its parameters, a function by its name."""
    if isinstance(value, torch.nn.Module):
        state = {name: np.asarray(t.detach().cpu()).tobytes().hex() for name, t in value.state_dict().items()}
        return f"{value!r} {state}"
    if isinstance(value, functools.partial):
        return f"partial of {_described(value.func)} {value.args} {value.keywords}"
    if hasattr(value, "__code__"):
        return f"{value.__module__}.{value.__qualname__} {value.__code__.co_code.hex()} {value.__code__.co_consts}"
    return f"{type(value).__module__}.{type(value).__qualname__}" if callable(value) else repr(value)
