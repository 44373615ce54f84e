"""Draw horizontal bars, and the two pictures that explain a target's α."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, sqrt

import numpy as np

from cuvee.report import svg
from cuvee.report.findings import Findings, Tried
from cuvee.report.formatting import alike, ems, number, short, weight
from cuvee.results import Floats

VALUES, ROW = 62, 21  # pixels: right of a bar, from one to the next
COLOURED = 5  # sources with a colour of their own
_POINT = re.compile(r"path (\d+)/(\d+)")


@dataclass(frozen=True)
class Bar:
    """Hold the name, value, words and colour of one bar."""

    name: str
    value: float
    says: str
    colour: str = "bar"


def bars(
    items: Sequence[Bar], label: str, most: float | None = None, letters: int = 16
) -> svg.Drawing:
    """Draw horizontal bars from 0 to `most`, or to the longest; names get `letters` letters."""
    finite = [b.value for b in items if np.isfinite(b.value)]
    end = most or max([*finite, 0.0]) or 1.0
    names = [short(bar.name, letters) for bar in items]
    start = room(names)
    scale = svg.Scale(0.0, end, start, svg.WIDTH - VALUES)
    parts = [svg.line(start, 2, start, 6 + ROW * len(items), "axis")]
    for i, (bar, name) in enumerate(zip(items, names, strict=True)):
        y = 4 + i * ROW
        parts.append(
            svg.text(
                start - 8, y + 14, name, "", "end", hint=bar.name[:200] if name != bar.name else ""
            )
        )
        length = scale(min(bar.value, end)) - start if np.isfinite(bar.value) else 0.0
        parts.append(
            svg.rect(
                start, y + 3, length, ROW - 6, bar.colour, f"{short(bar.name, 60)}: {bar.says}"
            )
        )
        parts.append(svg.text(start + length + 6, y + 14, bar.says, "number"))
    return svg.drawing(svg.WIDTH, 8 + ROW * len(items), label, parts)


def room(names: Sequence[str]) -> float:
    """Return the pixels that the names on the left need."""
    return max([ems(name) for name in names], default=0.0) * 12 + 10


def grid(x: svg.Scale, bottom: float, zero: float | None = None) -> list[str]:
    """Draw rules at round numbers, with the numbers below, as many as do not touch."""
    marks = svg.ticks(x.low, x.high)
    says = alike(marks)
    step = marks[1] - marks[0] if len(marks) > 1 else 0.0
    every = ceil((max(map(ems, says)) * 11 + 8) / (x(step) - x(0.0))) if step > 0 else 1
    parts = []
    for mark, words in zip(marks, says, strict=True):
        if every == 1 or round(mark / step) % every == 0:
            parts.append(svg.line(x(mark), 4, x(mark), bottom, "axis" if mark == zero else "rule"))
            parts.append(svg.text(x(mark), bottom + 15, words, "small", "middle"))
    return parts


@dataclass(frozen=True, eq=False)
class Parts:
    """Group α's columns as a target's pictures show them.

    A few sources have their own colours; own rows and all others follow.
    """

    names: tuple[str, ...]
    colours: tuple[str, ...]
    groups: tuple[tuple[int, ...], ...]

    def summed(self, alpha: Floats) -> Floats:
        """Return the weights (…, columns) summed by part: (…, parts)."""
        return np.stack([np.nan_to_num(alpha[..., list(g)]).sum(-1) for g in self.groups], -1)


def parts_of(columns: Sequence[str], alpha: Floats, own: int | None) -> Parts:
    """Return the parts of one row of α: the own sample, the heaviest sources, all others."""
    sources = [
        int(j)
        for j in np.argsort(-np.nan_to_num(alpha), kind="stable")
        if j != own and not np.isnan(alpha[j])
    ]
    heavy, light = sources[:COLOURED], sources[COLOURED:]
    if len(light) == 1:
        heavy, light = sources, []
    names = [columns[j] for j in heavy]
    colours = [f"c{k + 1}" if k < COLOURED else "rest" for k in range(len(heavy))]
    groups: list[tuple[int, ...]] = [(j,) for j in heavy]
    if own is not None:
        names, colours, groups = ["own rows", *names], ["own", *colours], [(own,), *groups]
    if light:
        names, colours, groups = (
            [*names, f"{len(light)} others"],
            [*colours, "rest"],
            [*groups, tuple(light)],
        )
    return Parts(tuple(names), tuple(colours), tuple(groups))


def weights(parts: Parts, alpha: Floats, target: str) -> svg.Drawing:
    """Draw α of one target."""
    finite = [np.isfinite(alpha[list(g)]).any() for g in parts.groups]
    values = np.where(finite, parts.summed(alpha), np.nan)
    items = [
        Bar(n, float(v), weight(v), c)
        for n, v, c in zip(parts.names, values, parts.colours, strict=True)
    ]
    return bars(
        items,
        f"Weights of {short(target, 60)}: " + ", ".join(f"{b.name} {b.says}" for b in items),
        1.0,
    )


def along_path(parts: Parts, tried: Tried) -> svg.Drawing | None:
    """Draw α stacked along the path of C, in the colours of the bars; None without a path."""
    on_path = sorted(
        (int(m[1]), g) for g, name in enumerate(tried.names) if (m := _POINT.fullmatch(name))
    )
    points = [g for _, g in on_path if np.isfinite(tried.alpha[g]).any()]
    if len(points) < 2:
        return None
    values = parts.summed(tried.alpha[points])  # (points, parts)
    x = svg.Scale(0, len(points) - 1, 34, svg.WIDTH - 12)
    y = svg.Scale(0, 1, 140, 10)
    top = np.cumsum(np.concatenate([np.zeros((len(points), 1)), values], 1), 1)
    drawn = []
    for k, (name, colour) in enumerate(zip(parts.names, parts.colours, strict=True)):
        upper = [(x(i), y(1 - top[i, k])) for i in range(len(points))]
        lower = [(x(i), y(1 - top[i, k + 1])) for i in range(len(points))]
        ends = f"{weight(values[0, k])} where C is large, {weight(values[-1, k])} where it is small"
        drawn.append(
            svg.polygon([*upper, *reversed(lower)], f"area {colour}", f"{short(name, 60)}: {ends}")
        )
    for tick in (0.0, 0.5, 1.0):
        drawn.append(svg.line(30, y(tick), 34, y(tick), "axis"))
        drawn.append(svg.text(26, y(tick) + 4, f"{tick:g}", "small", "end"))
    drawn += [svg.line(x(i), 140, x(i), 144, "axis") for i in range(len(points))]
    drawn.append(svg.text(34, 158, "large C", "small"))
    drawn.append(svg.text(svg.WIDTH - 12, 158, "small C", "small", "end"))
    return svg.drawing(
        svg.WIDTH, 164, "Weights along the path of C: " + ", ".join(parts.names), drawn
    )


def candidates(tried: Tried) -> svg.Drawing:
    """Draw the cross-validated loss of every mixture tried; a dot's area is its share in α."""
    finite = tried.cv_loss[np.isfinite(tried.cv_loss)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (np.nan, np.nan)
    row, bottom = 18, 8 + 18 * len(tried.names)
    names = [short(name, 16) for name in tried.names]
    start = room(names)
    x = svg.Scale(low, high, start + 12, svg.WIDTH - VALUES)
    parts = grid(x, bottom)
    for g, name in enumerate(names):
        y = 12 + g * row
        loss, share = float(tried.cv_loss[g]), float(np.nan_to_num(tried.share[g]))
        parts.append(svg.text(start - 8, y + 4, name, "", "end"))
        if np.isfinite(loss):
            hint = f"{name}: loss {number(loss, 4)}, share {share:.0%}"
            parts.append(
                svg.dot(
                    x(loss), y, 2.5 + 7.5 * sqrt(share), "mark" if share >= 0.005 else "faint", hint
                )
            )
        says = "failed" if not np.isfinite(loss) else f"{share:.0%}"
        parts.append(svg.text(svg.WIDTH - 4, y + 4, says, "number", "end"))
    return svg.drawing(
        svg.WIDTH,
        bottom + 20,
        "Cross-validated loss of every mixture tried, and its share in α",
        parts,
    )


def moves(findings: Findings, n_sources: int, most: int = 12) -> list[Bar]:
    """Return bars of how far each source moves the models, mean over targets, furthest first."""
    assert findings.sensitivity is not None
    finite = np.isfinite(findings.sensitivity).any(0)
    mean = np.full(findings.sensitivity.shape[1], np.nan)
    mean[finite] = np.nanmean(
        np.where(np.isfinite(findings.sensitivity), findings.sensitivity, np.nan)[:, finite], 0
    )
    order = [
        int(j)
        for j in np.argsort(-np.nan_to_num(mean[:n_sources]), kind="stable")
        if np.isfinite(mean[j])
    ]
    return [
        Bar(findings.columns[j], float(mean[j]), number(float(mean[j]), 2), "warm")
        for j in order[:most]
    ]
