"""Agree with all sites on columns, categories and the kind of labels, without a pooled row."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cuvee.data.column_fit import ColumnFit
from cuvee.data.encode import Encoder, hides_variation
from cuvee.data.label_summary import LabelKind, Summary, together
from cuvee.data.refused import say_missing
from cuvee.data.task import Inferred, Task, are_counts, check_of, infer_of
from cuvee.errors import DomainError
from cuvee.scale.flower_introduction import Greeting, Introduction


@dataclass(frozen=True, eq=False)
class Agreement:
    """Hold what all sites do alike."""

    encoder: Encoder
    kind: LabelKind
    inferred: Inferred
    told: str | None = None  # the task that sites were told when they introduced themselves

    def as_sent(self) -> dict[str, object]:
        """Return what sites are told."""
        return {
            "encoder": json.dumps(self.encoder.as_dict()), "kind": self.kind,
            "text": tuple(self.encoder.text), "task": self.told,
        }  # fmt: skip


def text_somewhere(greetings: Sequence[Greeting]) -> tuple[str, ...]:
    """Return the columns that are text at one site and numbers at another."""
    kinds: dict[str, set[str]] = {}
    for site in greetings:
        for name, kind in site.columns.items():
            kinds.setdefault(name, set()).add(kind)
    return tuple(name for name, of in kinds.items() if of >= {"text", "number"})


def task_to_tell(greetings: Sequence[Greeting]) -> str | None:
    """Return the task where labels look like classes at one site and not at all sites.

    They are classes then if no site has labels that clearly are none.
    """
    looks = {site.looks for site in greetings}
    others = looks - {"text", "classification"}
    if not others or others == looks:
        return None
    if "text" in looks or others == {"unclear"}:
        return Task.classification.value
    return (Task.counts if others <= {"counts", "unclear"} else Task.regression).value


def agree(
    introductions: Sequence[Introduction], *, task: str | None = None, told: str | None = None,
    impute: bool = False,
) -> Agreement:  # fmt: skip
    """Return what the sites have agreed on, from counts, moments and categories.

    With `impute`, missing numbers become the column's mean: a median over all sites would be one
    of their cells.
    """
    first = introductions[0]
    fits = _joined(introductions)
    gaps = {fit.name: fit.gaps for fit in fits.values() if fit.gaps}
    if gaps and not impute:
        rows = sum(site.rows for site in introductions)
        say_missing(gaps, max(gaps.values()), rows, "all sites")
    rules = []
    for fit in fits.values():
        if fit.gaps == fit.rows:
            raise DomainError(f"column {fit.name!r} is missing at every site; drop it")
        if fit.scaler is not None and hides_variation(fit.scaler, fit.low, fit.high):
            raise DomainError(
                f"column {fit.name!r} varies too little beside its mean: take a constant off it "
                "at every site"
            )
        numeric = fit.scaler is not None
        fill = float(fit.scaler.mean_[0]) if impute and numeric else None
        rules.append(fit.rule(fill, impute, "all sites"))
    labels = together([site.labels for site in introductions])
    if task:
        inferred = check_of(labels, task, first.label)
    else:
        classes = all(bool(site.labels.values) for site in introductions)
        inferred = _settled(labels, first.label, told, classes)
    return Agreement(Encoder(tuple(rules)), labels.kind, inferred, told)


def _settled(labels: Summary, name: str, told: str | None, classes: bool) -> Inferred:
    """Return the task of all labels together; sites have settled whether they are `classes`."""
    if told is not None:
        task = Task.regression if told == Task.counts and labels.low < 0 else Task(told)
        why = f"label {name!r} looks like classes at some sites and not at others"
    else:
        inferred = infer_of(labels, name)
        if (inferred.task is Task.classification) == classes:
            return inferred
        numbers = Task.counts if are_counts(labels) else Task.regression
        task = Task.classification if classes else numbers
        why = f"label {name!r} looks like classes at {'every' if classes else 'no'} site"
    return Inferred(task, f"{why}: {task} (if that is wrong, choose the task)")


def _joined(introductions: Sequence[Introduction]) -> Mapping[str, ColumnFit]:
    """Return the fit of every column over all sites, in the order of the first site."""
    first = introductions[0]
    fits = {name: ColumnFit(name) for name in first.columns}
    for site in introductions:
        other = sorted(set(first.columns) ^ set(site.columns))
        if other:
            where = first.name if other[0] in first.columns else site.name
            raise DomainError(
                f"column {other[0]!r} is there at site {where!r} and not at "
                f"{site.name if where == first.name else first.name!r}; give all sites the same "
                "columns, or drop it in the node config"
            )
        for name, fit in site.fits().items():
            fits[name].join(fit, site.name)
    return fits
