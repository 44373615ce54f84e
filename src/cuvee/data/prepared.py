"""Targets that learn from the same sources: who they are, and their rows as problems."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from cuvee.components import check_precision
from cuvee.data.encode import Encoder
from cuvee.data.held_out import ByClass, Divided, classes_tested, scoring_notes
from cuvee.data.levels import Levelled, take_out
from cuvee.data.metrics import headline
from cuvee.data.options import Options, hypothesis_of, kind_of
from cuvee.data.roles import SMALL
from cuvee.data.task import Inferred, Task
from cuvee.errors import CuveeWarning, DomainError
from cuvee.hypothesis import Hypothesis
from cuvee.mixture import registry
from cuvee.problem import Array, Domain, Problem
from cuvee.results import Floats

BELIEVED = 0.5  # of a level, from which on it is worth a note
NEAR, FAR = 1e-100, 1e150
DIFFER = (
    "the domains' labels differ in their average: cuvee gives each target an average of its own "
    "and learns only slopes from others; the baselines do not (--no-levels switches it off)"
)


@dataclass(frozen=True, eq=False)
class Group:
    """Targets that learn from the same sources; every domain in turn makes a group of each."""

    problem: Problem  # targets with the rows to learn from
    # what delivered models learn from: targets with all their labelled rows, unless a number was
    # asked
    whole: Problem
    plain: Problem  # `problem` with labels as they are: what baselines learn from
    # (M,) rows for scores, labels as they are; None where there are none
    test: tuple[Domain | None, ...]
    offset: Floats  # (M,) to add to what models of `problem` predict: the targets' levels
    whole_offset: Floats  # (M,) the same for `whole`
    levels: Floats  # (N,) what was taken out of the sources' labels

    def part(self, chosen: slice) -> Group:
        """Return the same sources with some of the targets."""
        problem, whole, plain = (
            p.with_targets(p.targets[chosen]) for p in (self.problem, self.whole, self.plain)
        )
        offsets = self.offset[chosen], self.whole_offset[chosen]
        return Group(problem, whole, plain, self.test[chosen], *offsets, self.levels)


@dataclass(frozen=True, eq=False)
class Members:
    """Who is in a group, and what makes numbers of its columns."""

    targets: tuple[str, ...]
    sources: tuple[str, ...]
    encoder: Encoder
    classes: Array | None = None  # that the sources have, sorted; None: a quantity

    def part(self, chosen: slice) -> Members:
        """Return the same with some of the targets."""
        return replace(self, targets=self.targets[chosen])

    @property
    def excluded(self) -> dict[str, list[str]]:
        """Return the targets that are sources too, each with itself."""
        sources = {*self.sources}
        return {t: [t] for t in self.targets if t in sources}


@dataclass(frozen=True, eq=False)
class Prepared:
    """A problem that is validated, with nothing learnt yet.

    The rows of a group are made when it is asked for.
    """

    members: tuple[Members, ...]
    options: Options
    inferred: Inferred
    kind: str  # of the hypothesis
    metric: str  # that methods are compared by
    classes: Array | None  # of a classification, sorted: those of all groups
    # labelled rows of every domain, of SMALL instead of those pooled in it
    sizes: Mapping[str, int]
    pooled: tuple[str, ...]  # the domains that are pooled into SMALL
    divided: Divided  # of every target: its rows to learn from, and for scores
    notes: tuple[str, ...]
    n_features: int
    domain: str  # the column
    # name -> encoded X, y of the labelled rows; a source whose rows are elsewhere comes as it is
    rows: Callable[[Members], Mapping[str, tuple[Array, Array] | Domain]]
    fingerprint: str = ""  # of the table, where a run is to be resumed
    # every domain in turn, and all of them as sources, where their weights can be found together
    together: Members | None = None
    # name -> encoded X of the targets' rows without a label; of rows elsewhere none are kept
    unlabelled: Callable[[Members], Mapping[str, Array]] = field(default=lambda members: {})
    tested: ByClass = field(default_factory=dict)  # test rows of targets by class; {}: a quantity

    @classmethod
    def of(
        cls,
        options: Options,
        inferred: Inferred,
        members: tuple[Members, ...],
        labels: Any,
        *,
        notes: Sequence[str],
        of_targets: Mapping[str, Array] | None = None,
        **rest: Any,
    ) -> Prepared:
        """Return everything together, with its hypothesis and what is worth saying.

        `labels` are those of all rows, `of_targets` those of each target's where they are classes.
        """
        known = [m.classes for m in members if m.classes is not None]
        classes = np.unique(np.concatenate(known)) if known else None
        far = np.nan if classes is not None else float(np.abs(labels.to_numpy(np.float64)).max())
        if far > FAR or far < NEAR:
            raise DomainError(
                f"label {options.label!r} reaches {far:g}, whose square is too "
                f"{'far' if far > FAR else 'near to 0'} for a float: rescale it"
            )
        n_classes = 0 if classes is None else len(classes)
        metric, why = headline(options.metric, inferred.task, n_classes, of_targets or {})
        notes = (
            *notes,
            *members[0].encoder.notes,
            *scoring_notes(options, rest["sizes"], rest["divided"]),
            *(why if any(len(test) for _, test in rest["divided"].values()) else ()),
        )
        return cls(
            members,
            options,
            inferred,
            kind_of(options, inferred.task),
            metric,
            classes,
            notes=notes,
            tested=classes_tested(of_targets, rest["divided"]),
            **rest,
        )

    @property
    def targets(self) -> tuple[str, ...]:
        return tuple(t for m in self.members for t in m.targets)

    @property
    def label_free(self) -> tuple[str, ...]:
        """Return the targets whose weights come from their inputs alone."""
        return tuple(t for t in self.targets if not any(map(len, self.divided[t])))

    @property
    def sources(self) -> tuple[str, ...]:
        """Return the sources of all groups, in the order of the table."""
        used = {s for m in self.members for s in m.sources}
        return tuple(name for name in self.sizes if name in used)

    @property
    def levels(self) -> bool:
        """Return whether each domain's own level is taken out of its labels."""
        return self.options.levels and self.inferred.task is Task.regression

    def weighed(self, method: str) -> tuple[Members, ...]:
        """Return the groups whose weights are found together by this method.

        Where a target is among the sources of its group, `excluded` keeps it from itself.
        """
        one = self.together if registry.find(method).excludes else None
        return self.members if one is None else (one,)

    def hypothesis(self, members: Members) -> Hypothesis:
        """Return the hypothesis of a group.

        A network has as many inputs as the group's encoder has columns.
        """
        n_outputs = 1 if members.classes is None else len(members.classes)
        names = members.encoder.names
        return hypothesis_of(self.options, self.inferred.task, len(names), n_outputs)

    def group(self, members: Members) -> Group:
        """Return a group's rows as problems; `checked` has told what is to be said of them."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CuveeWarning)
            return self._group(members)

    def _group(self, members: Members) -> Group:
        rows, names = self.rows(members), members.encoder.names
        more = self.unlabelled(members)

        def domain(name: str, which: Array | slice) -> Domain:
            given = rows[name]
            if isinstance(given, Domain):
                return given
            X, y = given
            return Domain(name, X[which], y[which], features=names)

        def target(name: str, which: Array) -> Domain:
            if not len(which):  # it is label-free
                return Domain(name, None, None, features=names, unlabelled=more[name])  # type: ignore[arg-type]
            return replace(domain(name, which), unlabelled=more.get(name))

        sources = [domain(s, slice(None)) for s in members.sources]
        parts = {t: self.divided[t] for t in members.targets}
        test = tuple(domain(t, at) if len(at) else None for t, (_, at) in parts.items())
        problem = whole = Problem(sources, [target(t, at) for t, (at, _) in parts.items()])
        if self.options.labelled is None and any(test):  # rows for scores are not to be wasted
            whole = Problem(
                sources, [target(t, np.sort(np.concatenate(both))) for t, both in parts.items()]
            )
        if not self.levels:
            nothing = np.zeros(len(parts))
            return Group(problem, whole, problem, test, nothing, nothing, np.zeros(len(sources)))
        seen = self._at_one_level(problem)
        delivered = seen if whole is problem else self._at_one_level(whole)
        offsets = seen.offset, delivered.offset
        return Group(seen.problem, delivered.problem, problem, test, *offsets, delivered.levels)

    def _at_one_level(self, problem: Problem) -> Levelled:
        return take_out(problem, self.options.l2, pooled=(SMALL,) if self.pooled else ())

    def checked(self, tell: Callable[[str, int, int], None]) -> Prepared:
        """Return the same with notes on its groups.

        Each group is made once, so that nothing is found wrong later.
        """
        notes = list(self.notes)
        for i, members in enumerate(self.members):
            tell("preparing", i, len(self.members))
            notes += self._said_of(members)
        return replace(self, notes=tuple(dict.fromkeys(notes)))

    def _said_of(self, members: Members) -> list[str]:
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always", CuveeWarning)
            group = self._group(members)
            space = self.hypothesis(members).bind(group.whole.facts)
            check_precision((*group.whole.sources, *group.whole.targets), space)
            differ = (
                members is self.members[0]
                and self.levels
                and bool((self._at_one_level(group.plain).believed >= BELIEVED).any())
            )
        warned = [str(w.message) for w in heard if isinstance(w.message, CuveeWarning)]
        # as an α says that somebody gave
        if {*members.targets} & {*members.sources}:
            warned = [
                one for one in warned if one not in {*group.plain.notes, *group.problem.notes}
            ]
        return [*warned, DIFFER] if differ else warned
