"""Read mixtures as they are given, and say what their shares mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cuvee.errors import InputError
from cuvee.inputs.alpha import ordered_alpha
from cuvee.inputs.arrays import as_array
from cuvee.mix.constraints import Constraints
from cuvee.mix.runs import Runs
from cuvee.results import Floats
from cuvee.simplex import check_alpha

ROUNDED = 1e-4  # how far shares may be from sum 1
MARGIN = 0.02  # above the largest share of a run


def repeats(constraints: Constraints | None, shares: Mapping[str, float]) -> dict[str, float]:
    """Return how often the tokens of every domain are seen, where they are known."""
    if constraints is None or constraints.budget is None:
        return {}
    return {
        name: share * constraints.budget / constraints.tokens[name]
        for name, share in shares.items()
        if constraints.tokens.get(name)
    }


def without_domains(
    wanted: Constraints, domains: Sequence[str], dropped: Sequence[str]
) -> Constraints:
    """Return the same limits on all domains, the dropped ones with a share of 0."""
    none = dict.fromkeys(dropped, 0.0)

    def named(given: float | Mapping[str, float]) -> dict[str, float]:
        return dict(given) if isinstance(given, Mapping) else dict.fromkeys(domains, given)

    return replace(
        wanted,
        minimum=named(wanted.minimum),
        maximum={**named(wanted.maximum), **none},
        repeat=named(wanted.repeat),
    )


def read_shares(alpha: Any, offered: Sequence[str], domains: Sequence[str]) -> Floats:
    """Return mixtures (m, N) of all `domains`, however given, with 0 for those not `offered`."""
    given = alpha
    if isinstance(given, Mapping):
        unknown = [name for name in given if name not in offered]
        if unknown:
            raise InputError(
                f"the mixture names the domain {unknown[0]!r}, which is not one of "
                f"{', '.join(offered)}"
            )
        given = np.array([[float(given.get(name, 0.0)) for name in offered]])
    array = as_array(ordered_alpha(given, offered, own=False))
    checked = check_alpha(array[None] if array.ndim == 1 else array, len(offered), atol=ROUNDED)
    wide = np.zeros((len(checked), len(domains)))
    wide[:, [list(domains).index(name) for name in offered]] = checked
    return wide / wide.sum(1, keepdims=True)


def beyond_runs(alpha: Floats, runs: Runs) -> tuple[str, ...]:
    """Return sentences on shares (N,) beyond those that any run had."""
    largest = runs.alpha.max(0)
    return tuple(
        f"The share {alpha[j]:.2f} of {runs.domains[j]!r} is beyond the largest that a run had, "
        f"{largest[j]:.2f}: run it before you rely on it."
        for j in np.flatnonzero(alpha > largest + MARGIN)
    )
