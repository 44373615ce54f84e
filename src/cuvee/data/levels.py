"""Each domain's own level, taken out of the labels of a quantity, so that domains share slopes and
not means.

Patients, schools and machines differ in level before they differ in anything else. A mixture whose
models have one intercept cannot learn slopes from domains at other levels, so they are brought to
one level first. With y = u_j + x·w + noise, w as it is within the sources, levels u_j vary by τ²
and k rows show one up to σ²/k: of what is seen, τ²/(τ² + σ²/k) is believed and taken out. Added to
predictions again, it changes no model that has learnt from its own rows alone. Where sources share
one level nothing happens.

τ² and σ² are the sources': what becomes of one target does not depend on which others there are.

A source that is a pool of single rows of many domains has no level of its own, only the mean of
theirs, which varies by τ²/k: τ²/(τ² + σ²) of it is believed. Its rows still lie at levels of their
own, so that they have no say in τ², σ² and w.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from cuvee.errors import check_number
from cuvee.facts import DomainFacts, LocalFacts
from cuvee.hypothesis.labels import check_numeric
from cuvee.problem import Array, Problem
from cuvee.results import Floats


@dataclass(frozen=True, eq=False)
class Levelled:
    problem: Problem  # labels less the believed level of their domain
    offset: Floats  # (M,) to add to each target's predictions; 0 where it has no label
    believed: Floats  # (M,) share of the level seen in each target's rows, in [0, 1]
    levels: Floats  # (N,) what was taken out of each source's labels


def take_out(problem: Problem, l2: float, *, pooled: Collection[str] = ()) -> Levelled:
    """Return the problem with every domain at one level.

    `l2` is the hypothesis's, and `pooled` are sources each of whose rows counts as a domain of its
    own.

    >>> from cuvee.problem import Domain
    >>> X = [[0.0], [1.0], [2.0]]
    >>> low, high = Domain("low", X, [0.0, 1.1, 2.0]), Domain("high", X, [10.0, 11.0, 12.1])
    >>> problem = Problem([low, high], [Domain("t", X, [20.0, 21.0, 22.1])])
    >>> take_out(problem, 0.0).offset.round().tolist()
    [15.0]
    """
    check_number("l2", l2, least=0.0)
    facts, N = problem.facts, problem.n_sources
    check_numeric(facts)
    x = np.array([f.columns.mean.reshape(-1) for f in facts.domains])  # (N+M, d)
    y, rows = (
        np.array(part, float)
        for part in zip(*((f.quantity.mean, f.worth) for f in facts.domains), strict=True)
    )
    # (N,) who has a level of their own
    own = np.array([s.name not in pooled for s in problem.sources])
    own = own if own.any() else ~own
    each = [s for s, whole in zip(facts.sources, own, strict=True) if whole]
    slope, noise = _within(each, x.shape[1], l2)
    seen, error = y - x @ slope, noise / rows  # (N+M,)
    middle = seen[:N][own].mean()
    spread = max(0.0, seen[:N][own].var(ddof=1) - error[:N][own].mean()) if own.sum() > 1 else 0.0
    varies = np.where([*~own, *[False] * (len(rows) - N)], spread / rows, spread)  # (N+M,)
    believed = varies / np.maximum(varies + error, 1e-300)
    level = _rounded(believed * (seen - middle), noise)
    domains = (*problem.sources, *problem.targets)
    # no level is known of targets without labels
    at = np.flatnonzero([d.n_rows > 0 for d in domains])
    level, believed = (_placed(part, at, len(domains)) for part in (level, believed))
    moved = [d.lowered(u) for d, u in zip(domains, level, strict=True)]
    return Levelled(Problem(moved[:N], moved[N:]), level[N:], believed[N:], level[:N])


def _within(sources: Sequence[DomainFacts], d: int, l2: float) -> tuple[Floats, float]:
    """Return the slopes (d,) of all sources, each around its own means, and their noise σ².

    Of a table with fewer rows than columns no (d, d) matrix is made: with rows R = USVᵀ the same
    slopes (RᵀR + l2)⁻¹Rᵀy are Rᵀ(RRᵀ + l2)⁻¹y.
    """
    local = [s for s in sources if isinstance(s, LocalFacts)]
    if len(local) == len(sources) and sum(s.n_rows for s in local) < d:
        R, y = (
            np.concatenate(part) for part in zip(*(s.around_means() for s in local), strict=True)
        )
        R, y = R / np.sqrt(len(local)), y / np.sqrt(len(local))
        slope = R.T @ (np.linalg.pinv(R @ R.T + l2 * np.eye(len(R)), hermitian=True) @ y)
        return slope, float(np.sum((y - R @ slope) ** 2))
    each = [s.within for s in sources]
    gram, cross, square = (
        np.mean([getattr(w, name) for w in each], 0) for name in ("gram", "cross", "square")
    )
    slope = np.linalg.pinv(gram + l2 * np.eye(len(gram)), hermitian=True) @ cross
    return slope, max(0.0, float(square - 2.0 * cross @ slope + slope @ gram @ slope))


def _placed(values: Floats, at: Array, n: int) -> Floats:
    """Return n numbers: these values at some places, and 0 elsewhere."""
    placed = np.zeros(n)
    placed[at] = values
    return placed


def _rounded(levels: Floats, noise: float) -> Floats:
    """Return levels (N+M,) to about a millionth of the noise's standard deviation, a power of two.

    Sums in another order or by another number of threads then give the same labels to the last bit,
    and a map that was learnt from them on another machine knows its sources again.
    """
    with np.errstate(divide="ignore"):
        unit = 2.0 ** (np.floor(np.log2(noise) / 2.0) - 20.0)
    # labels without noise: there is nothing to round to
    if unit <= np.spacing(np.abs(levels).max()):
        return levels
    return np.asarray(np.round(levels / unit) * unit)
