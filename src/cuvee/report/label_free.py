"""Say what is known of targets without labels: how such targets do elsewhere, and what is not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cuvee.report.findings import Expected, Findings
from cuvee.report.formatting import article, count, named, score

OPEN = (
    "a target whose labels follow another rule than those of the sources looks the same without "
    "labels"
)


def bare(findings: Findings) -> list[str]:
    """Return the targets without labels."""
    return [t for t, n in zip(findings.targets, findings.learn_rows, strict=True) if n == 0]


def expectation(findings: Findings) -> str:
    """Return what to expect of targets without labels, in words; nothing where all have some."""
    found = findings.expected
    return "" if found is None or not bare(findings) else _expected(found, findings.metric)


def _expected(found: Expected, metric: str) -> str:
    if not found.judged_on:
        return (
            "How well models of targets without labels predict is not known, as no labelled target "
            "stands beside them that could tell."
        )
    value, low, high = (score(float(v), metric) for v in found.score)
    one = found.judged_on == 1
    where = "the one target" if one else f"{found.judged_on:,} targets"
    text = f"Without their labels, {where} that {'has' if one else 'have'} some would reach "
    text += f"{'' if one else 'about '}{article(metric)} {metric} of {value}"
    if one:
        return f"{text}: one target is too few to say what to expect of those without labels."
    text += (
        f": of a target without labels that is like them expect {low} to {high} (95 % interval)."
    )
    return f"{text} {_beside(found, metric)}".strip()


def _beside(found: Expected, metric: str) -> str:
    """Return what labels were worth where there are some."""
    if not found.tested_on:
        return ""
    hidden, seen = (score(v, metric) for v in (found.without_labels, found.with_labels))
    gain = found.gain_of_labels
    span = (
        f", a gain of {score(float(gain[0]), metric)} ({score(float(gain[1]), metric)} to "
        f"{score(float(gain[2]), metric)})"
        if np.isfinite(gain).all()
        else ""
    )
    rows = f"the test rows of {count(found.tested_on, 'target')}"
    return f"On {rows} it is {hidden} without labels and {seen} with them{span}."


def warning(findings: Findings, names: Sequence[str]) -> str:
    """Return the caution about targets without labels."""
    one = len(names) == 1
    who = f"Target {named(names)} has" if one else f"{len(names):,} targets ({named(names)}) have"
    known = expectation(findings)
    return (
        f"{who} no labels: weights come from inputs alone, there is no score, and {OPEN}. "
        f"{known + ' ' if known else ''}Label a few rows to find out."
    )
