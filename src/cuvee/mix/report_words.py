"""Say in words what a report is about: what was asked for, what is expected, and by how much."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cuvee.mix.constraints import Constraints
from cuvee.mix.proposal import Proposal
from cuvee.outputs.visible import visible
from cuvee.report.formatting import number, short, weight
from cuvee.results import Floats


def shown(text: str, most: int = 100) -> str:
    """Return a name or a sentence of somebody's as the page may show it."""
    return short(visible(" ".join(text.split())), most)


def largest(domains: Sequence[str], alpha: Floats, most: int = 4) -> str:
    """Return the largest shares of a mixture in words; domains without any are left out."""
    order = [j for j in np.argsort(-alpha, kind="stable")[:most] if alpha[j] > 0]
    return ", ".join(f"{shown(domains[j], 24)} {weight(alpha[j])}" for j in order)


def expected(best: Proposal) -> str:
    """Return what the goal is expected to be, and the other end of the interval of its mean."""
    return (
        f"Expected {number(best.direction * best.value, 4)} for {shown(best.goal, 200)}; "
        f"{best.interval} {best.end} at {number(best.direction * best.high, 4)}"
    )


def others(best: Proposal) -> str:
    """Return what the goal is for other mixtures, and which of them are not allowed."""
    return best.compared_in_words(lambda value: number(value, 4))


def asked_for(
    best: Proposal,
    prior: Floats | None,
    *,
    keep: Mapping[str, float] | None,
    maximised: Sequence[str],
    constraints: Constraints | None,
    pull: float,
    risk: float,
    scale: Any,
) -> str:
    """Return a sentence on all that the proposal had to heed, and how."""
    said = [f"{'minimise' if best.direction > 0 else 'maximise'} {shown(best.goal, 200)}"]
    for name, bound in (keep or {}).items():
        side = "above" if name in maximised else "below"
        said.append(f"keep {shown(name)} {side} {bound:g}")
    said.extend(_limits(constraints or Constraints()))
    if prior is not None:
        drawn = f", and a pull of {pull:g} to it" if pull > 0 else ""
        said.append(f"the prior {largest(best.domains, prior)} as a comparison{drawn}")
    said.append(f"a risk of {risk:g} (0 counts means, 1 the ends of their intervals)")
    if scale is not None:
        said.append(f"scale {shown(str(scale))}")
    return f"Asked for: {'; '.join(said)}."


def _limits(wanted: Constraints) -> list[str]:
    """Return what the constraints say of shares."""
    said = []
    if wanted.budget is not None:
        said.append(f"a budget of {wanted.budget:g} tokens")
    if wanted.tokens:
        said.append(f"tokens {_by_name(wanted.tokens)}")
        said.append(f"seen at most {_by_name(wanted.repeat)} times")
    for words, given in (
        ("fixed shares", wanted.fixed),
        ("shares of at least", wanted.minimum),
        ("shares of at most", wanted.maximum),
    ):
        if not isinstance(given, Mapping) or given:
            said.append(f"{words} {_by_name(given)}")
    for name, (_, least, most) in wanted.groups.items():
        said.append(f"{shown(name)} between {least:g} and {most:g}")
    return said


def _by_name(given: float | Mapping[str, float]) -> str:
    """Return the value of each domain, or the one of all."""
    if not isinstance(given, Mapping):
        return f"{given:g}"
    return ", ".join(f"{shown(name, 24)} {value:g}" for name, value in given.items())
