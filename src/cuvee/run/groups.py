"""Targets that learn from the same sources: who they are, and their rows as problems."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from cuvee.components import check_precision
from cuvee.data.encode import Encoder
from cuvee.data.levels import Levelled, take_out
from cuvee.data.roles import SMALL
from cuvee.data.task import Inferred
from cuvee.errors import CuveeWarning
from cuvee.hypothesis import Hypothesis
from cuvee.problem import Array, Domain, Problem
from cuvee.results import Floats
from cuvee.run.options import Options, hypothesis_of

BELIEVED = 0.5  # of a level, from which on it is worth a note
DIFFER = (
    "domains differ in level: each of cuvee's models has its own, and learns slopes from others; baselines take labels "
    "as they are"
)


@dataclass(frozen=True, eq=False)
class Group:
    """Targets that learn from the same sources; every domain in turn makes a group of each."""

    problem: Problem  # targets with the rows to learn from
    whole: Problem  # what delivered models learn from: targets with all their labelled rows, unless a number was asked
    plain: Problem  # `problem` with labels as they are: what baselines learn from
    test: tuple[Domain | None, ...]  # (M,) rows for scores, labels as they are; None where there are none
    offset: Floats  # (M,) to add to what models of `problem` predict: the targets' levels
    whole_offset: Floats  # (M,) the same for `whole`

    def part(self, some: slice) -> Group:
        """The same sources with some of the targets."""
        with warnings.catch_warnings():  # what had to be said of them has been said
            warnings.simplefilter("ignore", CuveeWarning)
            each = (self.problem, self.whole, self.plain)
            problem, whole, plain = (Problem(p.sources, p.targets[some]) for p in each)
        return Group(problem, whole, plain, self.test[some], self.offset[some], self.whole_offset[some])


@dataclass(frozen=True, eq=False)
class Members:
    """Who is in a group, and what makes numbers of its columns."""

    targets: tuple[str, ...]
    sources: tuple[str, ...]
    encoder: Encoder
    classes: Array | None = None  # that the sources have, sorted; None: a quantity


@dataclass(frozen=True, eq=False)
class Prepared:
    """Everything validated, nothing learnt yet; the rows of a group are made when it is asked for."""

    members: tuple[Members, ...]
    options: Options
    inferred: Inferred
    kind: str  # of the hypothesis
    classes: Array | None  # of a classification, sorted: those of all groups
    sizes: Mapping[str, int]  # labelled rows of every domain, of SMALL instead of those pooled in it
    pooled: tuple[str, ...]  # the domains that are pooled into SMALL
    divided: Mapping[str, tuple[Array, Array]]  # of every target: its rows to learn from, and for scores
    notes: tuple[str, ...]
    n_features: int
    domain: str  # the column
    fingerprint: str  # of the table
    rows: Callable[[Members], Mapping[str, tuple[Array, Array]]]  # name -> encoded X, y of the labelled rows

    @property
    def targets(self) -> tuple[str, ...]:
        return tuple(t for m in self.members for t in m.targets)

    @property
    def sources(self) -> tuple[str, ...]:
        """Of all groups, in the order of the table."""
        used = {s for m in self.members for s in m.sources}
        return tuple(name for name in self.sizes if name in used)

    @property
    def levels(self) -> bool:
        """Whether each domain's own level is taken out of its labels."""
        return self.options.levels and self.classes is None

    def hypothesis(self, i: int) -> Hypothesis:
        """Of a group: a network has as many inputs as its encoder has columns."""
        classes = self.members[i].classes
        n_outputs = 1 if classes is None else len(classes)
        return hypothesis_of(self.options, self.inferred.task, len(self.members[i].encoder.names), n_outputs)

    def group(self, i: int) -> Group:
        members = self.members[i]
        rows, names = self.rows(members), members.encoder.names

        def domain(name: str, which: Array | slice) -> Domain:
            X, y = rows[name]
            return Domain(name, X[which], y[which], features=names)

        sources = [domain(s, slice(None)) for s in members.sources]
        learnt, tests = zip(*(self.divided[t] for t in members.targets), strict=True)
        test = tuple(domain(t, at) if len(at) else None for t, at in zip(members.targets, tests, strict=True))
        problem = Problem(sources, [domain(t, at) for t, at in zip(members.targets, learnt, strict=True)])
        whole = problem
        if self.options.labelled is None:  # rows for scores are not to be wasted
            whole = Problem(sources, [domain(t, np.sort(np.concatenate(self.divided[t]))) for t in members.targets])
        if not self.levels:
            nothing = np.zeros(len(members.targets))
            return Group(problem, whole, problem, test, nothing, nothing)
        seen, delivered = self._at_one_level(problem), self._at_one_level(whole)
        return Group(seen.problem, delivered.problem, problem, test, seen.offset, delivered.offset)

    def _at_one_level(self, problem: Problem) -> Levelled:
        return take_out(problem, self.options.l2, pooled=(SMALL,) if self.pooled else ())

    def checked(self, i: int) -> Prepared:
        """The same with what is to be said of a group, which is made once, so that nothing is wrong later."""
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always", CuveeWarning)
            group = self.group(i)
            space = self.hypothesis(i).bind(group.whole.facts)
            check_precision((*group.whole.sources, *group.whole.targets), space)
        said = [str(w.message) for w in heard if isinstance(w.message, CuveeWarning)]
        if i == 0 and self.levels and self._at_one_level(group.plain).believed.max(initial=0.0) >= BELIEVED:
            said.append(DIFFER)
        return replace(self, notes=tuple(dict.fromkeys([*self.notes, *said])))
