"""Draw the Pareto front of two metrics, with the proposal, for the report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cuvee.mix.front import Front
from cuvee.mix.proposal import Proposal
from cuvee.mix.report_words import largest, shown
from cuvee.report import svg
from cuvee.report.bars import VALUES, grid
from cuvee.report.formatting import alike, number

HEIGHT, LEGEND = 220, 242  # pixels down to the names of the axis, and to the legend


def drawn_front(front: Front, best: Proposal, metrics: Sequence[str]) -> dict[str, Any]:
    """Return the picture and the table of the front of two metrics, the proposal among them."""
    places = [metrics.index(name) for name in front.metrics[:2]]
    points = front.prediction.mean[:, places]
    chosen = best.prediction.mean[0, places]
    names = [shown(name, 40) for name in front.metrics[:2]]
    everything = np.concatenate([points, chosen[None]])
    low, high = everything.min(0), everything.max(0)
    x = svg.Scale(float(low[0]), float(high[0]), 60, svg.WIDTH - VALUES / 2)
    y = svg.Scale(float(low[1]), float(high[1]), HEIGHT - 40, 16)
    parts = grid(x, HEIGHT - 28)
    marks = svg.ticks(y.low, y.high)
    for mark, words in zip(marks, alike(marks), strict=True):
        parts.append(svg.line(56, y(mark), svg.WIDTH - 20, y(mark)))
        parts.append(svg.text(52, y(mark) + 4, words, "small", "end"))
    parts.append(svg.text(svg.WIDTH - 20, HEIGHT + 2, names[0], "small", "end"))
    parts.append(svg.text(4, 10, names[1], "small"))
    for a, b in points:
        parts.append(svg.dot(x(a), y(b), 4, "mark", f"{number(a, 4)}, {number(b, 4)}"))
    hint = f"the proposal: {number(chosen[0], 4)}, {number(chosen[1], 4)}"
    parts.append(svg.dot(x(chosen[0]), y(chosen[1]), 5, "faint", hint))
    for i, (kind, words) in enumerate((("mark", "on the front"), ("faint", "the proposal"))):
        parts.append(svg.dot(66 + 110 * i, LEGEND - 4, 4 + i, kind))
        parts.append(svg.text(76 + 110 * i, LEGEND, words, "small"))
    label = f"The front of {names[0]} (across) and {names[1]} (up)"
    rows = [
        (*(number(float(v), 4) for v in point), largest(front.domains, alpha))
        for point, alpha in zip(points, front.alpha, strict=True)
    ]
    return {
        "text": "Each point is a best compromise: no allowed mixture is expected to be better in "
        f"both {names[0]} and {names[1]} than it. The proposal is for {shown(best.goal, 200)}.",
        "card": {
            "name": "The front.",
            "caption": f"{names[0]} across, {names[1]} up.",
            "drawing": svg.drawing(svg.WIDTH, LEGEND + 8, label, parts),
        },
        "table": {
            "label": "Mixtures of the front",
            "head": (*names, "largest shares"),
            "words": (len(names),),
            "rows": rows,
            "note": "",
        },
    }
