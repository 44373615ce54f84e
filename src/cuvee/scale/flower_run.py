"""Run the whole of cuvee with sites that keep their rows: agree, weigh, solve, hand over."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any

import numpy as np

import cuvee
from cuvee.api import estimate, solve
from cuvee.data.levels import take_out
from cuvee.data.task import Task
from cuvee.errors import CuveeError, DomainError
from cuvee.hypothesis import Hypothesis, Logistic, Poisson, Ridge
from cuvee.problem import Problem
from cuvee.results import Floats, Mixtures
from cuvee.scale.flower_agree import Agreement, agree, task_to_tell, text_somewhere
from cuvee.scale.flower_ahead import ahead
from cuvee.scale.flower_answers import Call, Round, SiteLost
from cuvee.scale.flower_components import FederatedDomain
from cuvee.scale.flower_guard import halved
from cuvee.scale.flower_introduction import Greeting, Introduction
from cuvee.scale.flower_rounds import Rounds, Transport
from cuvee.scale.flower_wire import fingerprint
from cuvee.solution import Solution

MODELS: Mapping[Task, Callable[[float], Hypothesis]] = {
    Task.regression: Ridge, Task.classification: Logistic, Task.counts: Poisson,
}  # fmt: skip
FOLDS = {Task.regression: 20, Task.classification: 5, Task.counts: 5}


@dataclass(frozen=True)
class FederatedOptions:
    """Hold what the coordinator chooses."""

    task: str | None = None  # by default what the labels look like
    l2: float = 1e-2
    impute: bool = False
    seed: int = 0
    tol: float = 1e-6
    rounds: int = 60  # of messages for α, at most; ridge needs 4
    wait: float = 600.0  # seconds for a site to answer, or to come back
    pause: float = 3.0  # seconds before a site that is not there is looked for again


@dataclass(frozen=True, eq=False)
class Federation:
    """Hold the result: weights and models, and what became of every site."""

    mixtures: Mixtures
    solution: Solution
    agreement: Agreement
    offset: Floats  # (M,) to add to each target's predictions
    sites: Mapping[str, Introduction]
    left_out: Mapping[str, tuple[str, str]]  # site -> status and why
    rounds: Sequence[Round] = field(repr=False)
    models: Mapping[str, Mapping[str, Any]] = field(repr=False)

    @property
    def rounds_by_stage(self) -> dict[str, int]:
        """Return how many rounds each stage took."""
        counted: dict[str, int] = {}
        for one in self.rounds:
            counted[one.stage] = counted.get(one.stage, 0) + 1
        return counted


def federate(
    transport: Transport,
    options: FederatedOptions | None = None,
    say: Callable[[str], None] = lambda sentence: None,
) -> Federation:
    """Return weights and models of all targets, with every row at its own site.

    A site that is silent for longer than `wait`, that refuses, or whose answers cannot be true is
    left out, and the others begin again without it.
    """
    options = options or FederatedOptions()
    rounds = Rounds(transport, options.wait, options.pause)
    sites, left_out, told = _met(rounds, options.task, say)
    while True:
        try:
            return _Attempt(rounds, options, sites, told, say).result(left_out)
        except SiteLost as lost:
            say(str(lost))
            left_out[lost.site] = lost.status, lost.why
            sites = {name: site for name, site in sites.items() if name != lost.site}


def _met(
    rounds: Rounds, task: str | None, say: Callable[[str], None]
) -> tuple[dict[str, Introduction], dict[str, tuple[str, str]], str | None]:
    """Return the sites by name, those that could not introduce themselves, and the task told.

    What is text at one site is text at all, and labels are classes at all sites or at none. This is
    settled from names and kinds, before any site says something that depends on it.
    """
    told, left_out = rounds.meet(), dict[str, tuple[str, str]]()
    greeted = _greetings(told, left_out)
    rounds.address = {site.name: node for node, site in greeted.items()}
    rounds.digests = {site.name: site.digest for site in greeted.values()}
    good = list(greeted.values())
    task = task or task_to_tell(good)
    sites = _introduced(rounds, good, (text_somewhere(good), task), left_out)
    for name, (status, why) in left_out.items():
        say(f"site {name!r} is left out ({status}): {why}")
    return dict(sorted(sites.items())), left_out, task


def _greetings(told: Mapping[str, Any], left_out: dict[str, tuple[str, str]]) -> dict[str, Any]:
    """Return the greetings by node; `left_out` gets those that are none."""
    good: dict[str, Greeting] = {}
    for node, said in told.items():
        if isinstance(said, str):
            left_out[node] = "failed", said
            continue
        try:
            site = Greeting(**{f.name: said[f.name] for f in fields(Greeting)})
        except (KeyError, TypeError) as error:
            left_out[node] = "untrue", f"its greeting cannot be right ({error})"
            continue
        if site.version != cuvee.__version__:
            left_out[node] = "failed", f"it has cuvee {site.version}; use {cuvee.__version__}"
        elif site.name in [other.name for other in good.values()]:
            raise DomainError(f"two sites are named {site.name!r}; give each its own name")
        else:
            good[node] = site
    return good


def _introduced(
    rounds: Rounds, greeted: Sequence[Greeting], settled: tuple[tuple[str, ...], str | None],
    left_out: dict[str, tuple[str, str]],
) -> dict[str, Introduction]:  # fmt: skip
    """Return what the sites say of their rows, by name; `left_out` gets those that do not."""
    rounds.stage, names = "introducing", {site.name: site for site in greeted}
    while names:
        calls = [
            Call(name, "introduce", settled, partial(_wrong_introduction, site))
            for name, site in names.items()
        ]
        try:
            answers = rounds.ask(calls)
        except SiteLost as lost:
            left_out[lost.site] = lost.status, lost.why
            del names[lost.site]
        else:
            return {name: _introduction(said) for name, said in zip(names, answers, strict=True)}
    return {}


def _introduction(said: Mapping[str, Any]) -> Introduction:
    return Introduction(**{f.name: said[f.name] for f in fields(Introduction)})


def _wrong_introduction(site: Greeting, answer: Any) -> str | None:
    """Return what is wrong with the introduction of a site that has met the others."""
    try:
        said = _introduction(answer)
        columns = set(said.fits())
    except (CuveeError, KeyError, TypeError, ValueError) as error:
        return f"cannot be right ({error})"
    if (said.name, said.digest, columns) != (site.name, site.digest, set(site.columns)):
        return "is about another table than that of the meeting"
    return None


class _Attempt:
    """Run with the sites that are there, from agreeing on."""

    def __init__(
        self, rounds: Rounds, options: FederatedOptions, sites: Mapping[str, Introduction],
        told: str | None, say: Callable[[str], None],
    ) -> None:  # fmt: skip
        self.rounds, self.options, self.sites, self.say = rounds, options, sites, say
        self.told = told
        self.sources = [s.name for s in sites.values() if s.role in ("source", "both")]
        self.targets = [s.name for s in sites.values() if s.role in ("target", "both")]
        if not self.sources or not self.targets:
            raise DomainError(
                f"{len(self.sources)} sources and {len(self.targets)} targets are left; at least "
                "one of each is needed"
            )

    def result(self, left_out: Mapping[str, tuple[str, str]]) -> Federation:
        """Return the weights and models; `left_out` are the sites that are not with us."""
        options, rounds = self.options, self.rounds
        rounds.bindings.clear()
        rounds.totals.clear()
        rounds.memories.clear()
        agreement = agree(
            list(self.sites.values()), task=options.task, told=self.told, impute=options.impute
        )
        self.say(agreement.inferred.why)
        task = agreement.inferred.task
        hypothesis: Any = MODELS[task](options.l2)
        problem = self._problem(agreement)
        offset = np.zeros(len(self.targets))
        if task is Task.regression:
            levelled = take_out(problem, options.l2)
            problem, offset = levelled.problem, levelled.offset
        rounds.stage = "α"
        both = {name: [name] for name in self.targets if name in self.sources}
        folds = self._folds(task)
        weigh = partial(
            estimate, problem, hypothesis, folds=folds, exclude=both or None, seed=options.seed,
            passes=options.rounds,
        )  # fmt: skip
        # what does not depend on α is asked in the same rounds
        early = ahead(problem, hypothesis, folds, options.seed, options.rounds)
        mixtures, *_ = rounds.together([weigh, *early])
        rounds.stage = "models"
        solution = solve(problem, hypothesis, mixtures, tol=options.tol)
        rounds.stage = "handing over"
        models = self._models(agreement, mixtures, solution, offset)
        rounds.ask([Call(name, "keep", (model,), _kept) for name, model in models.items()])
        return Federation(
            mixtures, solution, agreement, offset, self.sites, dict(left_out), list(rounds.log),
            models,
        )  # fmt: skip

    def _problem(self, agreement: Agreement) -> Problem:
        """Return sources and targets, known by their facts."""
        rounds = self.rounds
        rounds.stage, rounds.agreed = "agreeing", agreement.as_sent()
        names = agreement.encoder.names
        digest = fingerprint(rounds.agreed)

        def check(name: str) -> Callable[[Any], str | None]:
            return lambda answer: _wrong_facts(answer, self.sites[name], names, digest)

        answers = rounds.ask([Call(name, "facts", (), check(name)) for name in self.sites])
        facts = {name: answer["facts"] for name, answer in zip(self.sites, answers, strict=True)}
        domains = {
            name: FederatedDomain(rounds, known, names, halved=self._halved(name))
            for name, known in facts.items()
        }
        sources = [domains[name] for name in self.sources]
        return Problem(sources).with_targets([domains[name] for name in self.targets])

    def _halved(self, name: str) -> bool:
        site = self.sites[name]
        return halved(site.rows, site.min_rows, site.role)

    def _folds(self, task: Task) -> int:
        """Return how many folds every target can be cut into without giving a row away."""
        most = min(self.sites[t].rows // self.sites[t].min_rows for t in self.targets)
        if most < 2:
            few = min(self.targets, key=lambda t: self.sites[t].rows // self.sites[t].min_rows)
            raise DomainError(
                f"target {few!r} has {self.sites[few].rows} labelled rows and min-rows "
                f"{self.sites[few].min_rows}; it needs twice as many to be cross-validated"
            )
        return min(FOLDS[task], most)

    def _models(
        self, agreement: Agreement, mixtures: Mixtures, solution: Solution, offset: Floats
    ) -> dict[str, dict[str, Any]]:
        """Return every target's own model, as plain JSON."""
        classes = solution.space.classes
        bounds = solution.certificate
        return {
            name: {
                "format": 1, "target": name, "task": str(agreement.inferred.task),
                "encoder": agreement.encoder.as_dict(),
                "classes": None if classes is None else [str(c) for c in classes.tolist()],
                "w": solution.w[i].tolist(), "offset": float(offset[i]),
                "alpha": dict(zip(mixtures.columns, mixtures.alpha[i].tolist(), strict=True)),
                "status": str(solution.status[i]),
                "distance": float(bounds.distance[i]), "rests_on": bounds.rests_on,
            }
            for i, name in enumerate(mixtures.targets)
        }  # fmt: skip


def _wrong_facts(
    answer: Any, site: Introduction, names: tuple[str, ...], digest: str
) -> str | None:
    """Return what is wrong with the facts of a site."""
    if not isinstance(answer, dict) or answer.get("agreed") != digest:
        return "rests on another agreement"
    if tuple(answer["features"]) != names:
        return "has other columns, or has them in another order"
    facts = answer["facts"]
    if facts.name != site.name or facts.n_rows != site.rows:
        return f"is about {facts.n_rows} rows of {facts.name!r}"
    moments = [facts.columns.mean, facts.columns.deviation]
    if any(part.shape != (len(names),) or not np.isfinite(part).all() for part in moments):
        return "has means or deviations that cannot be"
    return None


def _kept(answer: Any) -> str | None:
    return None if answer == "kept" else "does not say that the model was kept"
