"""Fit a surface to a swarm of runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cuvee.errors import OptionError, check_number, check_whole, option
from cuvee.mix import gaussian, registry
from cuvee.mix.average import Average, Judged, averaged, judge, shares
from cuvee.mix.candidate import DTYPE, Method, ShapedRuns
from cuvee.mix.conformal import calibrate, enough
from cuvee.mix.fitted import Fit, Half, Settings, signs
from cuvee.mix.runs import Runs, check_swarm, read_runs
from cuvee.mix.scales import ROUNDING, Levels, fit_levels, spearman, transfers, unknown, varying
from cuvee.mix.surface import Surface
from cuvee.numerics.parallel import each, workers

SPLITS = 2  # into halves, for the disappointment
SCORES = frozenset({"acc", "accuracy", "auc", "auroc", "f1", "score"})
Progress = Callable[[str, int, int], None]


def fit_surface(
    alpha: Any,
    metrics: Any,
    *,
    scale: Any = None,
    maximise: Sequence[str] = (),
    candidates: Sequence[str] | None = None,
    level: float = 0.9,
    seed: int = 0,
    progress: Progress | None = None,
) -> Surface:
    """Return the surface from mixtures to metrics, fitted to a swarm of small runs.

    Candidates are judged by cross-validation and averaged per metric; intervals are calibrated on
    runs that were held out. Runs with gaps are left out, which `notes` says.

    Args:
        alpha: (n, N), a row per run on the simplex; or a frame with a column per domain, and
            perhaps columns `run` and `scale`.
        metrics: (n, K), or a frame with a column per metric; joined on `run`, which both frames
            have, or neither.
        scale: the scale (n,) of each run, a row of `alpha`, such as its parameters or tokens, if
            there are several: numbers, or text such as "70M".
        maximise: metrics that are better when larger, such as accuracies.
        candidates: of "law", "root_law", "log_law", "quadratic", "gaussian", "bent_law" and
            "trees"; by default all but trees.
        level: of the intervals.
        seed: of the folds.
        progress: called with (what, done, total).

    Example:
        >>> import numpy as np
        >>> import cuvee
        >>> alpha = np.random.default_rng(0).dirichlet([1, 1, 1], 40)
        >>> loss = 2 + np.exp(-2 * alpha[:, :1] - alpha[:, 1:2])
        >>> surface = cuvee.fit_surface(alpha, loss)
        >>> bool(surface.best().alpha[0] > 0.95)
        True
    """
    check_number(option("level"), level, above=0.0, most=0.999)
    check_whole("seed", seed, 0)
    runs = read_runs(alpha, metrics, scale)
    wrong = [name for name in maximise if name not in runs.names]
    if isinstance(maximise, str) or wrong:
        named = maximise if isinstance(maximise, str) else wrong[0]
        raise OptionError(
            f"{option('maximise')} must be a list of metrics, of {', '.join(runs.names)}; "
            f"got {named!r}"
        )
    chosen = tuple(method.name for method in registry.chosen(candidates))
    return fit_runs(runs, Settings(chosen, level, seed, tuple(maximise)), progress)


def fit_runs(runs: Runs, settings: Settings, progress: Progress | None = None) -> Surface:
    """Return the surface of checked runs."""
    check_swarm(runs)
    methods = registry.chosen(settings.candidates)
    tell = progress or (lambda what, done, total: None)
    y = torch.as_tensor(runs.metrics, dtype=DTYPE) * signs(runs.names, settings.maximise)
    with workers(), torch.no_grad():
        levels, index = fit_levels(runs, y, _shape)
        shaped = shaped_runs(runs, y, levels, index)
        judged = judge(methods, shaped, settings.seed, lambda done: tell("folds", done, 0))
        share = shares(judged, shaped)
        mean, spread = averaged(share, judged.means, judged.spreads)
        calibration = calibrate(shaped, mean, spread, settings.level)
        halves = _halves(methods, shaped, judged, share, settings.seed)
    measured = transfers(runs, y, index, levels)
    fits = _fits(runs, methods, judged, share, mean, shaped, levels)
    notes = (*runs.notes, *unknown(runs, levels, measured), *_cautions(runs, settings, fits))
    average = Average(judged.fitted, share)
    return Surface(runs, settings, average, halves, levels, calibration, fits, measured, notes)


def shaped_runs(runs: Runs, y: Tensor, levels: Levels, index: Tensor) -> ShapedRuns:
    """Return the runs as candidates see them: in units of the shape, with their precision."""
    precision = levels.noise[index].square().reciprocal()
    alpha = torch.as_tensor(runs.alpha, dtype=DTYPE)
    return ShapedRuns(alpha, levels.shaped(y, index), precision)


def _shape(shaped: ShapedRuns) -> Tensor:
    """Return the shape at the runs, for the levels of scales: the bent law alone is enough."""
    return gaussian.fit_bent(shaped).mean(shaped.alpha)


def _halves(
    methods: Sequence[Method], shaped: ShapedRuns, judged: Judged, share: Tensor, seed: int
) -> tuple[Half, ...]:
    """Return surfaces of disjoint halves of the runs, with the shares that all runs gave."""
    n = len(shaped)
    if n < 8:
        return ()
    orders = [np.random.default_rng([seed, i]).permutation(n) for i in range(SPLITS)]
    parts = [
        torch.as_tensor(np.sort(o[h])) for o in orders for h in (slice(n // 2), slice(n // 2, n))
    ]

    def half(rows: Tensor) -> Half:
        pairs = zip(methods, judged.fitted, strict=True)
        return Half(Average(tuple(m.fit(shaped[rows], whole) for m, whole in pairs), share), rows)

    return tuple(each(half, parts, "cpu"))


def _fits(
    runs: Runs, methods: Sequence[Method], judged: Judged, share: Tensor, mean: Tensor,
    shaped: ShapedRuns, levels: Levels,
) -> tuple[Fit, ...]:  # fmt: skip
    """Return how well every metric is fitted, on runs that were held out."""
    squares = (mean - shaped.y).square().mean(0)
    alone = (judged.means - shaped.y).square().mean(1).sqrt()  # (C, K)
    total = shaped.y.var(0, correction=0).clamp(min=1e-24)
    rank, unit = spearman(mean, shaped.y), levels.slope[-1]
    names = [method.name for method in methods]
    varies = varying(torch.as_tensor(runs.metrics, dtype=DTYPE), levels.places(runs))
    return tuple(
        Fit(
            metric=name,
            error=float(squares[k].sqrt() * unit[k]),
            explained=float(1.0 - squares[k] / total[k]),
            rank=float(rank[k]),
            shares=dict(zip(names, share[:, k].tolist(), strict=True)),
            errors=dict(zip(names, (alone[:, k] * unit[k]).tolist(), strict=True)),
            varies=bool(varies[k]),
        )
        for k, name in enumerate(runs.names)
    )


def _cautions(runs: Runs, settings: Settings, fits: Sequence[Fit]) -> tuple[str, ...]:
    """Return sentences on what the surface cannot know."""
    said = []
    n, N = runs.alpha.shape
    if n <= N:
        said.append(
            f"There are {n} runs for {N} domains: most effects of single domains are not known, "
            "and intervals are wide. Make more runs before you rely on the proposal."
        )
    if not enough(n, settings.level):
        said.append(
            f"{n} runs are too few for intervals of {settings.level:.0%}: they may hold less often."
        )
    unused = [name for j, name in enumerate(runs.domains) if not (runs.alpha[:, j] > 0).any()]
    if unused:
        said.append(
            f"No run has any of {', '.join(unused)}: what is said of it is a guess from the others."
        )
    constant = [fit.metric for fit in fits if not fit.varies]
    if constant:
        said.append(
            f"All runs{' of a scale' if runs.scale else ''} have the same {', '.join(constant)}, "
            f"within {ROUNDING:g} of its size: nothing is known of what changes it. Take its level "
            "off if smaller differences count."
        )
    poor = [fit.metric for fit in fits if fit.varies and fit.explained < 0.2]
    if poor:
        said.append(
            f"The mixture hardly explains {', '.join(poor)} on runs that were held out: do not "
            "choose by it. Noise may hide its effect, or the runs are too few to show it."
        )
    larger = [name for name in runs.names if name not in settings.maximise and _is_a_score(name)]
    if larger:
        said.append(
            f"Lower counts as better for {', '.join(larger)}, though by the name larger may be: if "
            "it is, fit again and name it in maximise."
        )
    return tuple(said)


def _is_a_score(metric: str) -> bool:
    """Return whether the name of a metric has a word of those that are better when larger."""
    return not SCORES.isdisjoint(re.split("[^a-z0-9]+", metric.lower()))
