"""A table as the single steps need it: every domain as numbers, and problems made of them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cuvee.cli.voice import Voice
from cuvee.data.columns import count
from cuvee.data.encode import Encoder
from cuvee.data.frame import Table, located, read
from cuvee.data.roles import LEAST_LABELLED, SMALL, enough, excluded, pool, teachable, without
from cuvee.data.targets import EACH, choose, suggest
from cuvee.data.task import Inferred, Task, check, infer
from cuvee.errors import CuveeWarning, DomainError
from cuvee.hypothesis import Hypothesis
from cuvee.problem import LEAST_ROWS, Array, Domain, Problem, as_problem
from cuvee.run.options import Options, hypothesis_of


@dataclass(frozen=True, eq=False)
class Data:
    """The labelled rows of every domain, encoded alike whoever is a target: so maps fit what is solved later."""

    options: Options
    encoder: Encoder  # fitted on all of them
    inferred: Inferred
    domains: dict[str, Domain]  # those with a labelled row, in the order of the table; small ones as one, last
    sizes: dict[str, int]  # labelled rows of every domain
    excluded: tuple[str, ...]
    notes: tuple[str, ...]
    labels: Any  # a frame of the labelled rows: their label and their domain
    path: Path

    @classmethod
    def read(cls, path: Path, options: Options) -> Data:
        """Everything validated; nothing learnt yet."""
        table = read(
            path,
            domain=options.domain,
            label=options.label,
            features=options.features,
            drop=options.drop,
            text=options.text,
            encoding=options.encoding,
        )
        left_out = excluded(table.names, options.exclude)
        table = without(table, left_out)
        labelled = {name: table.labelled(name) for name in table.names}
        sizes = {name: len(some) for name, some in labelled.items()}
        small = pool(sizes, strict=options.strict)
        rows = table.frame[table.frame[table.label].notna()]
        labels = rows[table.label]
        encoder = Encoder.fit(rows, table.features, impute=options.impute)
        with located(path, options.encoding):
            chosen = options.task != "auto"
            inferred = check(labels, options.task, table.label) if chosen else infer(labels, table.label)
            domains = {name: _domain(name, some, table, encoder) for name, some in labelled.items() if len(some)}
        if small.names:
            domains[SMALL] = _joined(SMALL, [domains.pop(name) for name in small.names])
        notes = (inferred.why, *table.notes, *encoder.notes, *small.notes)
        labels = rows[[table.label, table.domain]]
        return cls(options, encoder, inferred, domains, sizes, tuple(left_out), notes, labels, path)

    @property
    def names(self) -> tuple[str, ...]:
        """Of everybody that can be named: the domains, and those that are pooled as one."""
        return (*self.sizes, *([SMALL] if SMALL in self.domains and SMALL not in self.sizes else []))

    def tell(self, voice: Voice, *more: str) -> None:
        """What was inferred, aloud."""
        for note in (*self.notes, *more):
            voice.note(note)

    def sources(self, targets: Sequence[str] = ()) -> list[Domain]:
        """All that can be sources but the targets."""
        found = [d for d in self.domains.values() if d.n_rows >= LEAST_ROWS and d.name not in targets]
        if not found:
            raise DomainError(f"no source is left: no other domain has {LEAST_ROWS} labelled rows; name fewer targets")
        return found

    def named(self, wanted: Sequence[str], least: int = LEAST_ROWS) -> list[Domain]:
        """The domains of these names, each with labelled rows enough."""
        for name in wanted:
            if name not in self.names:
                raise DomainError(f"there is no domain {name!r} in the table{suggest(name, self.names)}")
            rows = self.domains[name].n_rows if name in self.domains else self.sizes[name]
            if rows < least or name not in self.domains:
                pooled = f"; it is part of {SMALL!r}" if rows and SMALL in self.domains else ""
                raise DomainError(
                    f"domain {name!r} has {count(rows, 'labelled row')}, and needs {least}: label more, or leave it "
                    f"out{pooled}"
                )
        return [self.domains[name] for name in wanted]

    def problems(self, wanted: str) -> tuple[list[Problem], list[str]]:
        """Return one problem for all targets, with "each" one for every domain; and notes on what is left out."""
        targets = choose(list(self.sizes), wanted, self.excluded)
        in_turn = len(targets) == len(self.sizes)
        targets, notes = enough(self.sizes, targets, strict=self.options.strict)
        groups = [[t] for t in targets] if in_turn else [targets]
        problems = []
        for some in groups:
            sources = self.sources(some)
            kept, said = self.taught(sources, self.named(some, LEAST_LABELLED), in_turn)
            notes += said
            problems += [Problem(sources, kept)] if kept else []
        if not problems:
            raise DomainError(f"no target is left: {notes[-1]}")
        return problems, notes

    def owners(self, columns: Sequence[str], targets: Sequence[str]) -> tuple[list[Domain], list[str]]:
        """Return the targets whose own rows an α weighs, and notes on rows that are left out."""
        owners = self.named(targets, LEAST_LABELLED)
        kept, notes = self.taught(self.named(columns), owners)
        if len(kept) < len(owners):
            raise DomainError(f"alpha weighs own rows that cannot be used: {notes[-1]}")
        return kept, notes

    def taught(
        self, sources: Sequence[Domain], targets: Sequence[Domain], in_turn: bool = False
    ) -> tuple[list[Domain], list[str]]:
        """Return the targets, without rows that the sources cannot teach, and notes on these."""
        if self.inferred.task is Task.regression:
            return list(targets), []
        classes = np.unique(np.concatenate([np.unique(s.y) for s in sources]))
        if len(classes) < 2 and not in_turn:  # the hypothesis says so
            return list(targets), []
        kept, notes = [], []
        for target in targets:
            at = self.labels.index.to_numpy()[(self.labels.iloc[:, 1] == target.name).to_numpy()]
            with located(self.path, self.options.encoding):
                rows, said = teachable(target.name, target.y, classes, strict=self.options.strict, at=at)
            kept += [_part(target, rows)] if rows.any() else []
            notes += said
        return kept, notes

    def without(self, targets: str | None) -> list[Domain]:
        """The sources, where targets may be named or not."""
        if targets == EACH and EACH not in self.sizes:
            raise DomainError("every domain in turn cannot be a target here: leave --targets out, or name some")
        return self.sources(choose(list(self.sizes), targets, self.excluded) if targets is not None else ())

    def hypothesis(self, problem: Problem | Sequence[Domain]) -> Hypothesis:
        """What was asked for, with as many outputs as the sources have classes; one that fits the labels."""
        sources = problem.sources if isinstance(problem, Problem) else problem
        regression = self.inferred.task is Task.regression
        classes = None if regression else np.unique(np.concatenate([np.unique(s.y) for s in sources]))
        outputs = 1 if classes is None else len(classes)
        found = hypothesis_of(self.options, self.inferred.task, len(self.encoder.names), outputs)
        found.bind(as_problem(problem).facts)
        return found


def joined(sources: Sequence[Domain], targets: Sequence[Domain]) -> Problem:
    """A problem whose targets may be among its sources, whose weight there an α says: nothing to warn of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CuveeWarning)
        return Problem(sources, targets)


def _joined(name: str, domains: Sequence[Domain]) -> Domain:
    X, y = (np.concatenate([getattr(d, part) for d in domains]) for part in ("X", "y"))
    return Domain(name, X, y, features=domains[0].features)


def _part(domain: Domain, rows: Array) -> Domain:
    return domain if rows.all() else Domain(domain.name, domain.X[rows], domain.y[rows], features=domain.features)


def _domain(name: str, rows: Any, table: Table, encoder: Encoder) -> Domain:
    return Domain(name, encoder(rows, where=name), rows[table.label].to_numpy(), features=encoder.names)
