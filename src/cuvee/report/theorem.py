"""Say what Theorem 1 says of each target, and how loose it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from cuvee.report.findings import Findings, LearningTerms
from cuvee.report.formatting import count, named, number

SHOWN = 100
HEAD = (
    "target",
    "discrepancy",
    "complexity",
    "sampling",
    "together",
    "held-out loss",
    "bound ÷ measured loss",
    "corrected",
)


def theorem(f: Findings) -> dict[str, Any] | None:
    """Return a line per target, with what its columns mean; None if nothing was computed."""
    terms = f.theorem
    if terms is None:
        return None
    computed = np.flatnonzero(~np.isnan(terms.together))
    if not len(computed):
        return None
    times = looseness(terms)
    added = (terms.discrepancy, terms.complexity, terms.sampling, terms.together)
    columns = (*added, terms.held_out, times, terms.mended)
    rows = [(f.targets[i], *(number(float(c[i])) for c in columns)) for i in computed[:SHOWN]]
    all_shown = len(rows) == len(f.targets)
    note = "" if all_shown else f"The first {len(rows)} of {count(len(f.targets), 'target')}."
    return {
        "text": " ".join([_meaning(terms), *_looseness(f, terms, times), _reserve(terms)]),
        "table": {"label": "Theorem 1", "head": HEAD, "rows": rows, "note": note},
    }


def looseness(terms: LearningTerms) -> Any:
    """Return how many times the held-out loss the three terms are, (M,); NaN without test rows."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return terms.together / terms.held_out


def _meaning(terms: LearningTerms) -> str:
    """Return in words what the terms are."""
    return (
        "Theorem 1 of the paper bounds how much more a target's model loses than the best model "
        "for that target would, which is not known. "
        f"The loss is {terms.loss}. "
        "Three terms are added up: the discrepancy (how well any model can tell the mixture from "
        "the target's own rows), the complexity (how well models of this kind can fit random "
        "labels) and sampling (how few rows the weights rest on)."
    )


def _looseness(f: Findings, terms: LearningTerms, times: Any) -> Iterator[str]:
    """Yield how far the bound is above the held-out loss, and for whom it says nothing."""
    ratios = times[np.isfinite(times)]
    if len(ratios):
        low, high = number(float(ratios.min())), number(float(ratios.max()))
        factor = low if low == high else f"{low} to {high}"
        yield (
            "“Bound ÷ measured loss” divides their sum by the held-out loss of the scored model: "
            f"the bound is far too large: {factor} times the measured loss."
        )
    with np.errstate(invalid="ignore"):
        empty = terms.together >= terms.largest_loss
    if empty.any():
        names = named([t for t, e in zip(f.targets, empty, strict=True) if e])
        yield f"For {names} the terms are above any loss that there can be, and so say nothing."


def _reserve(terms: LearningTerms) -> str:
    """Return in words what the numbers do not promise."""
    climbed = ", and the discrepancy was found by climbing, so that the true one may be larger"
    return (
        "As printed, the theorem ignores that the target's own rows may be unusual by chance: "
        "“corrected” is the bound that allows for it. Both are meant to hold for each target with "
        "a probability of 95 %, for models that minimise this very loss without a penalty, and for "
        f"rows no larger than those seen{'' if terms.exact else climbed}. "
        "Read them as sizes, not as guarantees."
    )
