"""Solve or learn? The paper's phase transition, measured: two lines over the number of targets, and
where they cross.

Solving M models costs a little to start and then the same for each. Learning costs its labels,
once, and then next to nothing for each: how many labels are needed is read off the error that a map
from fewer makes on held-out mixtures.
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
    """Seconds for M targets."""

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
    """What to do for this many targets, what that rests on, and how it would look for other numbers
    of them.
    """

    choice: Literal["solve", "learn"]
    n_targets: int
    tol: float
    n_labels: int
    """To learn from, if it is to be learnt."""
    method: str
    solve: Line
    learn: Line
    curve: tuple[tuple[int, float], ...]
    """Labels, and ‖∇‖∞ on 95 % of held-out mixtures with the best map from so many."""
    at_best: bool
    """Learning was not tried, because its labels alone cost more than solving: it takes at least
    `learn`.
    """
    seconds: float
    """That planning took."""
    atlas: Answers | None = field(default=None, repr=False)
    """The map, where one had to be learnt to know; nothing of that is lost."""

    @property
    def crossing(self) -> float:
        """The number of targets from which on learning is faster."""
        return crossing(self.solve, self.learn)

    @property
    def labels_needed(self) -> float:
        """How many labels would bring 95 % of held-out mixtures within the tolerance, as far as the
        curve tells.
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
            (f"{M:,}", _seconds(self.solve(M)), said) for M, said in zip(counts, learn, strict=True)
        ]
        return html_table(
            ("targets", "solve", "learn, at best" if self.at_best else "learn"), rows, str(self)
        )

    def draw(
        self, path: str | Path, measured: Mapping[str, Sequence[tuple[int, float]]] | None = None
    ) -> None:
        """Total time against the number of targets, as planned; points that were `measured`, if
        any, on top.
        """
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
    """Time `run(n)` for growing n until it takes long enough to tell, or n is `most`: a line
    through the ends.
    """
    run(1)
    small = clocked(lambda: run(first))
    if small < ENOUGH:
        small = min(small, clocked(lambda: run(first)))  # the first of its kind may have been slow
    n, took = first, small
    while took < ENOUGH and n < most:
        n = min(4 * n, most)
        took = clocked(lambda: run(n))  # noqa: B023 - it runs here and now
    if n == first:
        return Line(0.0, took / n)
    each = max((took - small) / (n - first), 0.02 * took / n)
    return Line(max(took - n * each, 0.0), each)


def clocked(run: Callable[[], object]) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def labels_needed(curve: Sequence[tuple[int, float]], tol: float) -> float:
    """From errors at growing label counts: where they reach the tolerance, along the line through
    the last two.
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
