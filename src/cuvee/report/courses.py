"""Draw how the search for α went: thin lines, the slowest few by name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from cuvee.report import svg
from cuvee.report.findings import Convergence
from cuvee.report.formatting import alike, count, number, power, short
from cuvee.report.layout import spread
from cuvee.results import Floats

LINES, POINTS = 40, 100  # drawn at most
NAMED = 3
HEIGHT, LEFT, RIGHT = 190, 46, 12


Line = tuple[str, Floats, Floats]  # a target's name, its steps and its values


def course(
    names: Sequence[str], runs: Sequence[Convergence], field: str, log: bool
) -> svg.Drawing | None:
    """Draw one quantity over steps, a line per target.

    The NAMED targets with the largest gap at the end are coloured.
    """
    lines = [(name, *_line(run, field, log)) for name, run in zip(names, runs, strict=True)]
    lines = [entry for entry in lines if len(entry[1])]
    if not lines:
        return None
    steps = np.concatenate([x for _, x, _ in lines])
    values = np.concatenate([y for _, _, y in lines])
    x = svg.Scale(float(steps.min()), float(steps.max()), LEFT, svg.WIDTH - RIGHT)
    low, high = float(values.min()), float(values.max())
    if log:
        low, high = np.floor(low), np.ceil(high)
    y = svg.Scale(low, high, HEIGHT - 26, 10)
    parts = [*_value_axis(y, log), *_step_axis(x), *_courses(lines, x, y)]
    return svg.drawing(
        svg.WIDTH, HEIGHT, f"{field} over steps for {count(len(lines), 'target')}", parts
    )


def _value_axis(y: svg.Scale, log: bool) -> Iterator[str]:
    """Yield a rule and a number at every tick, on a log scale only at whole powers of ten."""
    marks = svg.ticks(y.low, y.high, 4)
    for tick, plain in zip(marks, alike(marks), strict=True):
        if log and tick != int(tick):
            continue
        yield svg.line(LEFT, y(tick), svg.WIDTH - RIGHT, y(tick))
        yield svg.text(LEFT - 6, y(tick) + 4, power(int(tick)) if log else plain, "small", "end")


def _step_axis(x: svg.Scale) -> Iterator[str]:
    """Yield the numbers of steps, those near an edge placed so that they stay inside."""
    for k, tick in enumerate(svg.ticks(x.low, x.high, 3)):
        anchor = "middle" if k or x(tick) > LEFT + 20 else "start"
        anchor = anchor if x(tick) < svg.WIDTH - 40 else "end"
        yield svg.text(x(tick), HEIGHT - 10, "0" if tick == 0 else number(tick), "small", anchor)


def _courses(lines: Sequence[Line], x: svg.Scale, y: svg.Scale) -> Iterator[str]:
    """Yield the targets' lines, the named ones last, on top; a single step is a dot."""
    for k, (name, xs, ys) in reversed(list(enumerate(lines))):
        points = [(x(float(a)), y(float(b))) for a, b in zip(xs, ys, strict=True)]
        if len(points) == 1:
            yield svg.dot(*points[0], 2.5, f"l{k + 1}" if k < NAMED else "faint", short(name, 60))
        else:
            yield svg.polyline(
                points, f"course l{k + 1}" if k < NAMED else "course many", short(name, 60)
            )


def slowest(runs: Sequence[Convergence | None]) -> list[int]:
    """Return the targets that have a course, the largest gap at the end first.

    After the first NAMED, they are an even choice of the others.
    """
    ends = {i: _end(run.gap) for i, run in enumerate(runs) if run is not None and len(run.step)}
    order = np.array(sorted(ends, key=lambda i: (-ends[i], i)), dtype=np.intp)
    return [int(i) for i in (*order[:NAMED], *spread(order[NAMED:], LINES - NAMED))]


def _line(run: Convergence, field: str, log: bool) -> tuple[Floats, Floats]:
    values = np.asarray(getattr(run, field), dtype=np.float64)
    drawable = np.isfinite(values) & ((values > 0) if log else True)
    points = spread(np.flatnonzero(drawable), POINTS)
    return np.asarray(run.step, dtype=np.float64)[points], np.log10(
        values[points]
    ) if log else values[points]


def _end(gap: Floats) -> float:
    finite = gap[np.isfinite(gap)]
    return float(finite[-1]) if len(finite) else -1.0
