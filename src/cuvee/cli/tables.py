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
from cuvee.data.targets import EACH, choose, suggest
from cuvee.data.task import Inferred, Task, check, check_known, infer
from cuvee.errors import CuveeWarning, DomainError
from cuvee.hypothesis import Hypothesis
from cuvee.problem import Domain, Problem, as_problem
from cuvee.run.options import LEAST_LABELLED, Options, hypothesis_of

LEAST_ROWS = 2  # of a source


@dataclass(frozen=True, eq=False)
class Data:
    """The labelled rows of every domain, encoded alike whoever is a target: so maps fit what is solved later."""

    options: Options
    encoder: Encoder  # fitted on all of them
    inferred: Inferred
    domains: dict[str, Domain]  # those with a labelled row, in the order of the table
    names: tuple[str, ...]  # of all domains
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
        rows = table.frame[table.frame[table.label].notna()]
        labels = rows[table.label]
        encoder = Encoder.fit(rows, table.features, impute=options.impute)
        labelled = {name: table.labelled(name) for name in table.names}
        with located(path, options.encoding):
            chosen = options.task != "auto"
            inferred = check(labels, options.task, table.label) if chosen else infer(labels, table.label)
            domains = {name: _domain(name, some, table, encoder) for name, some in labelled.items() if len(some)}
        few = [name for name, some in labelled.items() if len(some) < LEAST_ROWS]
        notes = [inferred.why, *table.notes, *encoder.notes]
        notes += [f"domain {name!r} has fewer than {LEAST_ROWS} labelled rows and is no source" for name in few]
        labels = rows[[table.label, table.domain]]
        return cls(options, encoder, inferred, domains, table.names, tuple(notes), labels, path)

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
            rows = self.domains[name].n_rows if name in self.domains else 0
            if rows < least:
                raise DomainError(
                    f"domain {name!r} has {count(rows, 'labelled row')}, and needs {least}: label more, or leave it out"
                )
        return [self.domains[name] for name in wanted]

    def problems(self, wanted: str) -> list[Problem]:
        """One problem for all targets; with "each" one for every domain, the others being its sources."""
        targets = choose(self.names, wanted)
        groups = [[t] for t in targets] if len(targets) == len(self.names) else [targets]
        return [Problem(self.sources(some), self.named(some, LEAST_LABELLED)) for some in groups]

    def without(self, targets: str | None) -> list[Domain]:
        """The sources, where targets may be named or not."""
        if targets == EACH and EACH not in self.names:
            raise DomainError("every domain in turn cannot be a target here: leave --targets out, or name some")
        return self.sources(choose(self.names, targets) if targets is not None else ())

    def hypothesis(self, problem: Problem | Sequence[Domain]) -> Hypothesis:
        """What was asked for, with as many outputs as the sources have classes; one that fits the labels."""
        sources = problem.sources if isinstance(problem, Problem) else problem
        regression = self.inferred.task is Task.regression
        classes = None if regression else np.unique(np.concatenate([np.unique(s.y) for s in sources]))
        if classes is not None and isinstance(problem, Problem):
            own = self.labels[self.labels.iloc[:, 1].isin([t.name for t in problem.targets])]
            with located(self.path, self.options.encoding):
                check_known(own.iloc[:, 0], own.iloc[:, 1], classes)
        outputs = 1 if classes is None else len(classes)
        found = hypothesis_of(self.options, self.inferred.task, len(self.encoder.names), outputs)
        found.bind(as_problem(problem))
        return found


def joined(sources: Sequence[Domain], targets: Sequence[Domain]) -> Problem:
    """A problem whose targets may be among its sources, whose weight there an α says: nothing to warn of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CuveeWarning)
        return Problem(sources, targets)


def _domain(name: str, rows: Any, table: Table, encoder: Encoder) -> Domain:
    return Domain(name, encoder(rows, where=name), rows[table.label].to_numpy(), features=encoder.names)
