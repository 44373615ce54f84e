"""Plan whether to solve or to learn, from measured times: the paper's phase transition.

Both costs are lines over the number of targets, and the plan says where they cross.

Solving M models costs a little to start and then the same for each. Learning costs its labels
once and then very little for each. The number of labels needed is estimated from the error that a
map learnt from fewer labels makes on held-out mixtures.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, isfinite, log
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

from cuvee.outputs.notebook import html_table
from cuvee.solution import Solution

ENOUGH = 0.25  # seconds that a measurement should take


@dataclass(frozen=True)
class Line:
    """Give the seconds that M targets take: fixed + each · M."""

    fixed: float
    each: float

    def __call__(self, n_targets: float) -> float:
        return self.fixed + self.each * n_targets


class Answers(Protocol):
    """Answer mixtures (M, N) with models, as a `cuvee.ModelMap` does."""

    def __call__(self, alpha: Any) -> Solution: ...

    def save(self, path: str | Path) -> None: ...


@dataclass(frozen=True, repr=False)
class Plan:
    """Say whether to solve or to learn for a number of targets, and what that rests on."""

    choice: Literal["solve", "learn"]
    n_targets: int
    tol: float
    n_labels: int
    """Number of labels to learn from, if a map is to be learnt."""
    method: str
    solve: Line
    learn: Line
    curve: tuple[tuple[int, float], ...]
    """Pairs: a number of labels, and ‖∇‖∞ on 95 % of held-out mixtures with the best map."""
    at_best: bool
    """Whether `learn` is only a lower bound: labels alone cost more than solving, so learning was
    not tried.
    """
    seconds: float
    """Seconds that planning took."""
    atlas: Answers | None = field(default=None, repr=False)
    """The map, where one was learnt to make the plan."""

    @property
    def crossing(self) -> float:
        """Return the number of targets from which on learning is faster."""
        return crossing(self.solve, self.learn)

    @property
    def labels_needed(self) -> float:
        """Return how many labels would bring 95 % of held-out mixtures within `tol`.

        It is extrapolated from the curve.
        """
        return labels_needed(self.curve, self.tol)

    def __str__(self) -> str:
        M, least = self.n_targets, "at least" if self.at_best else "about"
        solving = f"about {_seconds(self.solve(M))}"
        learning = (
            f"{least} {_seconds(self.learn(M))}"
            if isfinite(self.learn.fixed)
            else "more labels than can be had"
        )
        if self.choice == "learn":
            first = (
                f"Learn a map from {self.n_labels} labels ({self.method}): {learning}, solving "
                f"takes {solving}"
            )
        else:
            first = f"Solve all {M:,} models: {solving}, learning takes {learning}"
        pays = f"learning pays from {least} {self.crossing:,.0f} targets on"
        if not isfinite(self.crossing):
            pays = "learning does not pay for any number of targets"
        return (
            f"{first} at ‖∇‖∞ ≤ {self.tol:g}. "
            f"A model costs {_seconds(self.solve.each)} to solve, or {_seconds(self.learn.each)} "
            f"from a map: {pays}."
        )

    __repr__ = __str__

    def _repr_html_(self) -> str:
        counts = sorted({1, 100, 10_000, 1_000_000, self.n_targets})
        learn = [_seconds(self.learn(M)) if isfinite(self.learn.fixed) else "–" for M in counts]
        rows = [
            (f"{M:,}", _seconds(self.solve(M)), seconds)
            for M, seconds in zip(counts, learn, strict=True)
        ]
        return html_table(
            ("targets", "solve", "learn, at best" if self.at_best else "learn"), rows, str(self)
        )

    def draw(
        self, path: str | Path, measured: Mapping[str, Sequence[tuple[int, float]]] | None = None
    ) -> None:
        """Draw the planned time against the number of targets, with `measured` points on top."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6.4, 4.4), layout="constrained")
        axes = figure.subplots()
        M = np.geomspace(10, 10 * max(self.n_targets, min(self.crossing, 1e6), 1e3), 200)
        for name, line, colour in (
            ("solve", self.solve, "#b3402a"),
            ("learn", self.learn, "#2a6fb3"),
        ):
            axes.plot(M, [line(m) for m in M], color=colour, label=f"{name}, planned")
            points = (measured or {}).get(name, ())
            if points:
                axes.plot(*zip(*points, strict=True), "o", color=colour, label=f"{name}, measured")
        if isfinite(self.crossing) and self.crossing >= 1:
            axes.axvline(self.crossing, color="0.6", linestyle=":", linewidth=1)
            axes.annotate(
                f" {self.crossing:,.0f} targets",
                (self.crossing, self.solve(self.crossing)),
                textcoords="offset points",
                xytext=(4, -14),
            )
        axes.set(xscale="log", yscale="log", xlabel="targets M", ylabel="seconds, all in")
        axes.set_title(f"Solve or learn at ‖∇‖∞ ≤ {self.tol:g}", loc="left", fontsize=11)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False)
        figure.savefig(path, dpi=150)


def crossing(solve: Line, learn: Line) -> float:
    if learn.each >= solve.each:
        return inf
    return max(0.0, (learn.fixed - solve.fixed) / (solve.each - learn.each))


def measured_line(run: Callable[[int], object], most: int, first: int = 16) -> Line:
    """Time `run(n)` for growing n and return the line through the ends.

    n grows until a run takes long enough to be measured, or n is `most`.
    """
    run(1)
    small = clocked(lambda: run(first))
    if small < ENOUGH:
        small = min(small, clocked(lambda: run(first)))  # the first run may have been slow
    n, took = first, small
    while took < ENOUGH and n < most:
        n = min(4 * n, most)
        took = clocked(lambda: run(n))  # noqa: B023 - it runs here and now
    if n == first:
        return Line(0.0, took / n)
    per_run = max((took - small) / (n - first), 0.02 * took / n)
    return Line(max(took - n * per_run, 0.0), per_run)


def clocked(run: Callable[[], object]) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def labels_needed(curve: Sequence[tuple[int, float]], tol: float) -> float:
    """Return where errors at growing label counts reach the tolerance.

    Beyond the counts measured, the line through the last two (in logarithms) is followed.
    """
    for n, error in curve:
        if error <= tol:
            return n
    if len(curve) < 2:
        return inf
    (n0, e0), (n1, e1) = curve[-2:]
    if not (0.0 < e1 < e0 and isfinite(e0)):
        return inf
    rate = log(e0 / e1) / log(n1 / n0)
    return float(n1 * (e1 / tol) ** (1.0 / rate))


def _seconds(s: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if s >= size:
            return f"{s / size:,.3g} {unit}"
    return f"{s * 1e6:.2g} µs"
