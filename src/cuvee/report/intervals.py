"""Draw dots with intervals: scores of methods, cuvee's gains, and targets one by one.

A method that is far worse would set the scale for all. So scales fit cuvee and its best rival, and
scores beyond them are drawn as a triangle at the edge.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cuvee.report import svg
from cuvee.report.bars import grid, room
from cuvee.report.findings import CUVEE, Findings
from cuvee.report.formatting import score, short, signed
from cuvee.report.summary import best_baseline, n_scored
from cuvee.results import Floats

ROW, TARGET_ROW = 26, 20
VALUES = 62  # right of the plot
REACH = 2.0  # how far a scale goes beyond cuvee and its rival, in units of their range
SAME = 1e-6  # smaller relative differences count as equal
EDGE = "edge"  # class of the triangles: the page's words look for it


def means(findings: Findings) -> svg.Drawing:
    """Draw the score of every method, the mean over the targets that could be scored."""
    rows = [(m, findings.mean[k], m == CUVEE) for k, m in enumerate(findings.methods)]
    says = [score(float(v[0]), findings.metric) for _, v, _ in rows]
    label = (
        f"{'Mean ' if n_scored(findings) > 1 else ''}{findings.metric} of each method with a 95 % "
        "interval"
    )
    return _plot(rows, says, label, _rivals(findings, findings.mean), None)


def gains(findings: Findings) -> svg.Drawing:
    """Draw what cuvee gains over every other method, paired over targets."""
    rows = [(m, findings.gain[k], True) for k, m in enumerate(findings.methods) if m != CUVEE]
    says = [signed(float(v[0]), findings.metric) for _, v, _ in rows]
    label = (
        f"{'Mean gain' if n_scored(findings) > 1 else 'Gain'} of cuvee over each method with a 95 "
        "% interval"
    )
    return _plot(rows, says, label, np.append(_rivals(findings, findings.gain), 0.0), 0.0)


def _rivals(findings: Findings, values: Floats) -> Floats:
    """Return the values of cuvee and of the best baseline from (…, methods, 3), flat."""
    best = best_baseline(findings)
    chosen = [findings.methods.index(CUVEE), *([] if best is None else [best])]
    return np.asarray(values[..., chosen, :]).reshape(-1)


def _plot(
    rows: Sequence[tuple[str, Floats, bool]],
    says: Sequence[str],
    label: str,
    focus: Floats,
    zero: float | None,
) -> svg.Drawing:
    start = room([short(name, 15) for name, _, _ in rows])
    x = _scale(
        np.array([v for _, v, _ in rows]).reshape(-1), focus, start + 4, svg.WIDTH - VALUES - 8
    )
    bottom = 8 + ROW * len(rows)
    parts = grid(x, bottom, zero)
    for i, (name, value, strong) in enumerate(rows):
        y = 6 + ROW * (i + 0.5)
        parts.append(
            svg.text(start - 6, y + 4, short(name, 15), "strong" if name == CUVEE else "", "end")
        )
        class_, hint = "strong" if strong else "weak", f"{name}: {says[i]}"
        parts += _interval(x, y, value, class_, 5.0, hint)
        parts += _beyond(x, y, [(float(value[0]), hint)], class_)
        parts.append(svg.text(svg.WIDTH - 2, y + 4, says[i], "number", "end"))
    summary = "; ".join(f"{name} {words}" for (name, _, _), words in zip(rows, says, strict=True))
    return svg.drawing(svg.WIDTH, bottom + 22, f"{label}: {summary}", parts)


def by_target(
    findings: Findings, targets: Sequence[int], best: int, everyone: Sequence[int]
) -> svg.Drawing:
    """Draw cuvee with its interval per target, other methods as ticks, `best` stronger."""
    us = findings.methods.index(CUVEE)
    scores = findings.scores[list(everyone)]
    drawn = np.concatenate([scores[..., 0].reshape(-1), scores[:, us].reshape(-1)])
    start = room([short(findings.targets[i], 16) for i in everyone])
    x = _scale(drawn, _rivals(findings, scores), start + 4, svg.WIDTH - 8)
    bottom = 8 + TARGET_ROW * len(targets)
    parts = grid(x, bottom)
    for k, i in enumerate(targets):
        y = 6 + TARGET_ROW * (k + 0.5)
        name = findings.targets[i]
        parts.append(svg.text(start - 6, y + 4, short(name, 16), "", "end", hint=name[:200]))
        baselines = [
            (float(findings.scores[i, m, 0]), m) for m in range(len(findings.methods)) if m != us
        ]
        for at, m in sorted(baselines, key=lambda b: b[1] == best):  # the best on top of its equals
            if x.low <= at <= x.high:
                class_ = "rival" if m == best else "other"
                parts.append(svg.rect(x(at) - 1.25, y - 6, 2.5, 12, class_, _spelt(findings, i, m)))
        parts += _beyond(x, y, [(at, _spelt(findings, i, m)) for at, m in baselines], "other")
        parts += _interval(x, y, findings.scores[i, us], "strong", 4.0, _spelt(findings, i, us))
    first, last = (short(findings.targets[i], 40) for i in (targets[0], targets[-1]))
    return svg.drawing(
        svg.WIDTH, bottom + 22, f"{findings.metric} of targets, {first} to {last}", parts
    )


def _spelt(findings: Findings, i: int, m: int) -> str:
    value, low, high = (score(float(v), findings.metric) for v in findings.scores[i, m])
    return f"{short(findings.targets[i], 40)}, {findings.methods[m]}: {value} ({low} to {high})"


def _interval(
    x: svg.Scale, y: float, value: Floats, class_: str, radius: float, hint: str
) -> list[str]:
    """Draw an interval and its dot, as far as the scale reaches."""
    middle, low, high = (float(v) for v in value)
    drawn = []
    if np.isfinite(low) and np.isfinite(high) and low <= x.high and high >= x.low:
        drawn.append(svg.line(x(max(low, x.low)), y, x(min(high, x.high)), y, f"span {class_}"))
    if x.low <= middle <= x.high:
        drawn.append(svg.dot(x(middle), y, radius, f"dot {class_}", hint))
    return drawn


def _beyond(x: svg.Scale, y: float, values: Sequence[tuple[float, str]], class_: str) -> list[str]:
    """Draw a triangle at either edge for values beyond it; its hint names them all."""
    drawn = []
    for at, way, hints in (
        (x.start, -1, [hint for value, hint in values if value < x.low]),
        (x.end, 1, [hint for value, hint in values if value > x.high]),
    ):
        if hints:
            points = [(at, y - 5), (at + 7 * way, y), (at, y + 5)]
            drawn.append(svg.polygon(points, f"{EDGE} {class_}", "; ".join(hints)))
    return drawn


def _scale(values: Floats, focus: Floats, start: float, end: float) -> svg.Scale:
    """Return a scale over the values that lie within reach of `focus`."""
    focused = focus[np.isfinite(focus)]
    finite = np.concatenate([values[np.isfinite(values)], focused])
    if not len(finite):
        return svg.Scale(0.0, 1.0, start, end)
    reach = REACH * np.ptp(focused) if len(focused) else 0.0
    if reach > SAME * np.abs(finite).max():
        finite = finite[(finite >= focused.min() - reach) & (finite <= focused.max() + reach)]
    low, high = float(finite.min()), float(finite.max())
    margin = 0.04 * (high - low) or 0.5 * abs(high) or 1.0
    return svg.Scale(low - margin, high + margin, start, end)
