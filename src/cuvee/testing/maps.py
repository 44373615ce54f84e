"""What every map α -> w*(α) must keep, whoever wrote it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, is_dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from cuvee import api, simplex
from cuvee.errors import InputError, OptionError
from cuvee.hypothesis import Logistic
from cuvee.hypothesis.base import Hypothesis
from cuvee.learn import registry
from cuvee.learn.method import Map
from cuvee.learn.options import Options
from cuvee.problem import Problem
from cuvee.solution import Solution
from cuvee.testing.subject import Subject, problem_of

Learner = Callable[[Problem, Hypothesis], api.ModelMap]
SMALL = {"n_labels": 24, "n_calibration": 40, "tol": 1e-3}
COMPANY = 1e-5  # relative: a network in float32 rounds otherwise in another batch


def check_map(
    fit: Map | str | Learner,
    problem: Problem | None = None,
    hypothesis: Hypothesis | None = None,
) -> None:
    """Raise `AssertionError` if a map does not keep what callers of `cuvee.learn` rely on.

    Args:
        fit: a `cuvee.learn.method.Map`, registered or not; the name of a registered one; or a
            function (problem, hypothesis) -> `ModelMap`, such as a call of `cuvee.learn` with
            options.
        problem: the data to learn from, by default three small sources with two classes.
        hypothesis: by default `cuvee.Logistic(l2=0.1)`.

    Example:
        >>> from cuvee.testing import check_map
        >>> check_map("kernel")
    """
    if isinstance(fit, Map):
        check_record(fit)
    with _registered(fit) as (name, learner):
        MapSubject(
            hypothesis or Logistic(0.1), problem or problem_of("two classes"), name, learner
        ).check(CHECKS)


@contextmanager
def _registered(fit: Map | str | Learner) -> Iterator[tuple[str, Learner]]:
    """Give the map's name and a function that learns it; a new map is registered meanwhile."""
    if not isinstance(fit, Map | str):
        yield getattr(fit, "__name__", "this map"), fit
        return
    new = isinstance(fit, Map) and fit.name not in registry.names()
    if isinstance(fit, Map) and new:
        registry.register(fit)
    name = fit.name if isinstance(fit, Map) else registry.find(fit).name
    try:
        yield (
            name,
            lambda problem, hypothesis: api.learn(problem, hypothesis, method=name, **SMALL),  # type: ignore[arg-type]
        )
    finally:
        if new:
            registry.unregister(name)


def check_record(record: Map) -> None:
    """Check that a `Map` says in one sentence what it is, and names what a file may hold."""

    def require(holds: bool, sentence: str) -> None:
        if not holds:
            raise AssertionError(f"map {record.name!r}: {sentence}")

    require(record.summary.endswith("."), "summary must be one sentence, for the pages: end it")
    unknown = sorted(set(record.options) - set(vars(Options(1e-3))))
    require(not unknown, f"options names {unknown}, which cuvee.learn does not take")
    plain = [kind.__name__ for kind in record.predictors if not is_dataclass(kind)]
    require(not plain, f"predictors {plain} must be frozen dataclasses of tensors and numbers")


@dataclass(frozen=True)
class MapSubject(Subject):
    """Hold a map to check: `labels` is its name here."""

    learner: Learner

    @property
    def name(self) -> str:
        return f"map {self.labels!r}"

    @cached_property
    def learnt(self) -> api.ModelMap:
        return self.learner(self.problem, self.hypothesis)

    @cached_property
    def alpha(self) -> np.ndarray[Any, Any]:
        """Return mixtures (M, N) that it has not seen, the corners of the simplex among them."""
        N = self.problem.n_sources
        return np.concatenate([simplex.sample(12, N, 99), np.eye(N)])

    def ask(self, alpha: Any) -> Solution:
        """Return what the map itself says, without a look at the data."""
        return self.learnt(alpha, trust="predicted")


def check_shapes(s: MapSubject) -> None:
    """Check that a map gives a finite model and a status for each mixture."""
    P = s.space.n_params
    for alpha in (s.alpha, s.alpha[:0]):
        solution = s.ask(alpha)
        M = len(alpha)
        s.require(
            solution.w.shape == (M, P) and len(solution.status) == M,
            f"{M} mixtures get w of shape {solution.w.shape} and {len(solution.status)} statuses; "
            f"a predictor must map α (M, N) to w (M, P), here ({M}, {P})",
        )
        s.require(np.isfinite(solution.w), "a predicted parameter is not finite")


def check_batch(s: MapSubject) -> None:
    """Check that a mixture gets the same answer alone, in a batch and in another order."""
    whole = s.ask(s.alpha).w
    alone = np.concatenate([s.ask(row[None]).w for row in s.alpha])
    turned = s.ask(s.alpha[::-1]).w[::-1]
    for other in (alone, turned):
        s.require(
            np.abs(other - whole) <= COMPANY * np.abs(whole).max(),
            "a mixture gets another model alone than in a batch: no row may depend on the others, "
            "so take no means or norms over the batch",
        )


def check_reproducible(s: MapSubject) -> None:
    """Check that the same data and seed give the same map."""
    again = s.learner(s.problem, s.hypothesis)(s.alpha, trust="predicted").w
    s.require(
        np.abs(again - s.ask(s.alpha).w) <= COMPANY * np.abs(again).max(),
        "learning twice with the same seed gives different models: draw random numbers from a "
        "generator made of options.seed",
    )


def check_simplex(s: MapSubject) -> None:
    """Check that mixtures off the simplex are refused."""
    N = s.problem.n_sources
    wrong = {
        "a negative weight": [[1.5, -0.5] + [0.0] * (N - 2)],
        "weights that sum to 0.5": [[0.5] + [0.0] * (N - 1)],
        "a weight that is not a number": [[np.nan] + [1.0 / (N - 1)] * (N - 1)],
        "too few columns": [[1.0] + [0.0] * (N - 2)],
    }
    for what, alpha in wrong.items():
        try:
            s.learnt(alpha)
        except InputError:
            continue
        s.require(False, f"{what} is answered: refuse it, as cuvee.simplex.check_alpha does")


def check_labels(s: MapSubject) -> None:
    """Check that the map knows its own labels better than their mean does."""
    labels = s.learnt.labels
    w = labels.w.double().cpu().numpy()
    said = s.ask(labels.alpha.double().cpu().numpy()).w
    error = np.median(np.linalg.norm(said - w, axis=1))
    plain = np.median(np.linalg.norm(w.mean(0) - w, axis=1))
    s.require(
        error < 0.99 * plain,  # a model that is not finite is replaced by that mean
        f"at its own labels it is no nearer ({error:.3g}) than their mean is ({plain:.3g}): it "
        "has learnt nothing; look at fit, and at whether w is in the coordinates of the subspace",
    )


def check_trust(s: MapSubject) -> None:
    """Check that predictions of a convex risk can be certified and corrected."""
    if not s.space.convex:
        return
    bound = s.learnt(s.alpha, trust="certified").certificate
    s.require(~np.isnan(bound.gradient_norm), "a certificate of its predictions is not a number")
    corrected = s.learnt(s.alpha, trust="corrected")
    bad = [status.sentence for status in corrected.status if not status.ok]
    s.require(not bad, f"a prediction cannot be corrected: {bad[:1]}")


def check_file(s: MapSubject) -> None:
    """Check that the map is read from its file as it was, or refuses to be written."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "map.safetensors"
        try:
            s.learnt.save(path)
        except OptionError:
            s.require(not list(Path(folder).iterdir()), "save refuses, but leaves a file behind")
            return
        loaded = api.load_map(path, s.problem, s.hypothesis)
        s.require(
            np.array_equal(loaded(s.alpha, trust="predicted").w, s.ask(s.alpha).w),
            "read from its file it says something else: everything a predictor needs must be a "
            "field of its dataclass",
        )


CHECKS = (
    check_shapes,
    check_batch,
    check_reproducible,
    check_simplex,
    check_labels,
    check_trust,
    check_file,
)
