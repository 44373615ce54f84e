"""Write the report of a surface: one HTML file that loads nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cuvee.errors import OptionError
from cuvee.mix.constraints import Constraints
from cuvee.mix.design import Plan
from cuvee.mix.front import Front
from cuvee.mix.prediction import Sensitivity
from cuvee.mix.proposal import Proposal
from cuvee.mix.surface import Minimise, Surface
from cuvee.outputs.visible import visible
from cuvee.report import svg
from cuvee.report.bars import VALUES, Bar, bars, grid
from cuvee.report.formatting import alike, count, number, short, weight
from cuvee.report.heatmap import Look, heat_map
from cuvee.report.page import filled
from cuvee.results import Floats

LETTERS = 20  # of names beside bars
HEIGHT = 220  # pixels of the front
MOST_METRICS = 40  # rows of the table of fits


def render(
    surface: Surface,
    *,
    title: str = "A data mixture",
    minimise: Minimise = None,
    worst: bool = False,
    keep: Mapping[str, float] | None = None,
    constraints: Constraints | None = None,
    prior: Any = None,
    pull: float = 0.0,
    risk: float = 0.25,
    scale: str | float | None = None,
    seed: int = 0,
    trade: Sequence[str] | None = None,
    k: int = 5,
) -> str:
    """Return the page: fits, the proposal, sensitivities, the front, the next runs.

    Args:
        surface: what to report on.
        title: of the page.
        minimise: as for `Surface.best`, as are all up to `seed`.
        worst: the worst of the metrics counts.
        keep: guard rails.
        constraints: limits on shares.
        prior: the mixture that the proposal is drawn beside; by default uniform.
        pull: strength of the pull to it.
        risk: 0 minimises the mean, 1 the upper end of its interval.
        scale: by default the largest.
        seed: of the search's draws.
        trade: two metrics for the front; by default the first two.
        k: how many next runs.
    """
    traded = _traded(surface, trade)
    usual = surface.uniform() if prior is None else surface.shares_of(prior)
    wanted: dict[str, Any] = {
        "minimise": minimise, "worst": worst, "keep": keep, "constraints": constraints,
        "prior": prior, "pull": pull, "risk": risk, "scale": scale, "seed": seed,
    }  # fmt: skip
    best = surface.best(**wanted)
    front = None
    if traded:
        front = surface.front(traded, constraints=constraints, scale=scale, seed=seed)
    plan = surface.next_runs(k, **wanted)
    now = surface.predict(usual, scale=scale).mean[0]
    effects = surface.sensitivity(best.alpha, scale=scale)
    parts = {
        "proposal": _proposal(best, usual, now, "uniform" if prior is None else "prior"),
        "fit": _fit(surface),
        "sensitivity": _sensitivity(effects, surface.spreads(scale), surface.directions()),
        "front": None if front is None else _front(front, best, surface),
        "next": _next(plan),
        "scales": _scales(surface),
    }
    contents = [
        ("proposal", "The mixture"),
        ("fit", "Fit"),
        ("sensitivity", "Sensitivity"),
        *([("front", "Front")] if front is not None else []),
        ("next", "Next runs"),
        *([("scales", "Scales")] if parts["scales"] else []),
        ("worries", "What to worry about"),
    ]
    return filled(
        "mix.html.j2",
        title=_shown(title),
        kicker="What to train on",
        contents=contents,
        summary=_summary(surface, best),
        worries=[_shown(note, 400) for note in (*surface.notes, *best.notes)],
        version="",
        **parts,
    )


def _shown(text: str, most: int = 100) -> str:
    """Return a name or a sentence of somebody's as the page may show it."""
    return short(visible(" ".join(text.split())), most)


def _largest(domains: Sequence[str], alpha: Floats, most: int = 4) -> str:
    """Return the largest shares of a mixture in words; domains without any are left out."""
    order = [j for j in np.argsort(-alpha, kind="stable")[:most] if alpha[j] > 0]
    return ", ".join(f"{_shown(domains[j], 24)} {weight(alpha[j])}" for j in order)


def _summary(surface: Surface, best: Proposal) -> list[str]:
    n, N = surface.runs.alpha.shape
    shares = _largest(best.domains, best.alpha, 3)
    return [
        f"{count(n, 'run')} with {count(N, 'domain')} and {count(len(surface.metrics), 'metric')}.",
        f"The proposal gives most to {shares}.",
        f"{_expected(best)} of {surface.settings.level:.0%}.",
    ]


def _traded(surface: Surface, trade: Sequence[str] | None) -> tuple[str, ...]:
    """Return the two metrics of the front; none where there is one metric alone."""
    if trade is None:
        return surface.metrics[:2] if len(surface.metrics) > 1 else ()
    known = not isinstance(trade, str) and all(name in surface.metrics for name in trade)
    if not known or len(trade) != 2 or trade[0] == trade[1]:
        given = trade if isinstance(trade, str) else ", ".join(map(str, trade))
        raise OptionError(
            f"trade must name two metrics, of {', '.join(surface.metrics)}; got {given!r}"
        )
    return tuple(trade)


def _expected(best: Proposal) -> str:
    """Return what the goal is expected to be, and the other end of its interval."""
    end = "at most" if best.direction > 0 else "at least"
    return (
        f"Expected {number(best.direction * best.value, 4)} for {_shown(best.goal, 200)}, {end} "
        f"{number(best.direction * best.high, 4)} at the end of its interval"
    )


def _others(best: Proposal) -> str:
    """Return what the goal is for other mixtures, and which of them are not allowed."""
    return ", ".join(
        f"{name} {number(best.direction * value, 4)}"
        + (" (not allowed)" if name in best.forbidden else "")
        for name, value in best.compared.items()
    )


def _proposal(best: Proposal, usual: Floats, now: Floats, name: str) -> dict[str, Any]:
    """Return the shares beside those of a usual mixture, and the metrics of both."""
    order = np.argsort(-best.alpha, kind="stable")[:LETTERS]
    largest = float(max(best.alpha.max(), usual.max()))
    cards = [
        _card("Proposed.", "Shares, the largest first.", best.domains, best.alpha, order, largest),
        _card(f"The {name} mixture.", "In the same order.", best.domains, usual, order, largest),
    ]
    p = best.prediction
    rows = [
        (
            _shown(metric),
            number(float(p.mean[0, k]), 4),
            f"{number(float(p.low[0, k]), 4)} to {number(float(p.high[0, k]), 4)}",
            number(float(now[k]), 4),
        )
        for k, metric in enumerate(p.metrics)
    ]
    luck = (
        "Because this mixture was chosen for looking good, it is likely to be worse by about "
        f"{number(best.disappointment, 2)}, as surfaces of one half of the runs were when the "
        "other half judged them. "
    )
    text = f"{_expected(best)}. {luck if best.disappoints else ''}Compared with {_others(best)}."
    head = ("metric", "expected", "interval of a new run", f"at the {name} mixture")
    table = {"label": "Metrics of the proposal", "head": head, "rows": rows, "note": ""}
    return {"text": text, "cards": cards, "table": table}


def _card(
    name: str, caption: str, domains: Sequence[str], alpha: Floats, order: Any, most: float
) -> dict[str, Any]:
    items = [Bar(_shown(domains[j]), float(alpha[j]), weight(float(alpha[j]))) for j in order]
    label = f"{name} " + ", ".join(f"{bar.name} {bar.says}" for bar in items)
    return {"name": name, "caption": caption, "drawing": bars(items, label, most, LETTERS)}


def _fit(surface: Surface) -> dict[str, Any]:
    fits = surface.fits[:MOST_METRICS]
    ranked = [Bar(_shown(f.metric), max(f.rank, 0.0), number(f.rank, 2)) for f in fits if f.varies]
    names = surface.settings.candidates
    rows = [
        (
            _shown(f.metric), number(f.error), *f.in_words(),
            *(f"{f.shares[name]:.0%}" for name in names),
        )
        for f in fits
    ]  # fmt: skip
    head = ("metric", "error", "explained", "rank", *(name.replace("_", " ") for name in names))
    more = len(surface.fits) - len(fits)
    note = f"{more} more metrics are in the file of the surface." if more else ""
    text = (
        "Each run was predicted by candidates that had not seen its mixture. The error is a root "
        "mean square in units of the metric, and rank the rank correlation; the last columns are "
        "the shares of the candidates in the average."
    )
    label = "Rank correlation of held-out predictions: "
    drawing = bars(ranked, label + ", ".join(f"{b.name} {b.says}" for b in ranked), 1.0, LETTERS)
    card = {"name": "Order of mixtures.", "caption": "Rank correlation.", "drawing": drawing}
    table = {"label": "Fit per metric", "head": head, "rows": rows, "note": note}
    return {"text": text, "cards": [card], "table": table}


def _sensitivity(s: Sensitivity, unit: Floats, directions: Floats) -> dict[str, Any]:
    """Return two maps, of help and of harm, in units of the metric's spread over the runs."""
    better = -s.change * directions / unit  # (N, K) above 0 is an improvement
    sure = (s.low > 0) | (s.high < 0)
    domains = [_shown(name) for name in s.domains]
    metrics = [_shown(name) for name in s.metrics]
    top = svg.rounded(max(float(np.abs(better).max()), 1e-6))
    maps = []
    for name, sign, hue in (("It helps", 1.0, "q"), ("It hurts", -1.0, "h")):
        values = np.where(sign * better > 0, sign * better, 0.0)
        values = np.where((values > 0) & ~sure, np.nan, values)
        look = Look(top, means="spreads", hue=hue, says=lambda v: number(v, 2))
        drawn = heat_map(metrics, domains, values.T, f"{name}: metrics by domains", look=look)
        maps.append({"name": name, "label": name, "map": drawn})
    text = (
        f"How each metric (rows) changes where a domain (columns) gets {s.step:.0%} more of the "
        "proposal and the others give it up, in units of the metric's spread over the runs. A "
        "stroke marks an effect whose interval holds 0: its direction is not known."
    )
    return {"text": text, "maps": maps}


def _front(front: Front, best: Proposal, surface: Surface) -> dict[str, Any]:
    places = [surface.metrics.index(name) for name in front.metrics[:2]]
    points = front.prediction.mean[:, places]
    chosen = best.prediction.mean[0, places]
    names = [_shown(name, 40) for name in front.metrics[:2]]
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
    label = f"The front of {names[0]} (across) and {names[1]} (up)"
    rows = [
        (*(number(float(v), 4) for v in point), _largest(front.domains, alpha))
        for point, alpha in zip(points, front.alpha, strict=True)
    ]
    return {
        "text": f"No mixture that is allowed is expected to be better in both {names[0]} and "
        f"{names[1]} than one of these. The faint dot is the proposal, which minds all metrics.",
        "card": {
            "name": "The front.",
            "caption": f"{names[0]} across, {names[1]} up.",
            "drawing": svg.drawing(svg.WIDTH, HEIGHT + 8, label, parts),
        },
        "table": {
            "label": "Mixtures of the front",
            "head": (*names, "largest shares"),
            "words": (len(names),),
            "rows": rows,
            "note": "",
        },
    }


def _next(plan: Plan) -> dict[str, Any]:
    rows = []
    for i, (alpha, reason) in enumerate(zip(plan.alpha, plan.reasons, strict=True)):
        rows.append((str(i + 1), _largest(plan.domains, alpha), _shown(reason, 300)))
    return {
        "text": " ".join(
            (
                "The mixtures whose runs tell most about which mixture is best, in order.",
                *plan.notes,
                "All shares are in what the command cuvee mix next writes.",
            )
        ),
        "table": {
            "label": "Next runs",
            "head": ("run", "largest shares", "why"),
            "words": (1, 2),
            "rows": rows,
            "note": "",
        },
    }


def _scales(surface: Surface) -> dict[str, Any] | None:
    if not surface.transfers:
        return None
    rows = [
        (
            _shown(surface.metrics[k]), _shown(t.small), _shown(t.large), str(t.mixtures),
            number(float(t.rank[k]), 2), number(float(t.level[k])),
        )
        for t in surface.transfers
        for k in range(len(surface.metrics))
    ]  # fmt: skip
    head = ("metric", "from scale", "to scale", "mixtures run at both", "rank", "level")
    return {
        "text": "Mixtures that were run at a smaller and at the largest scale: the rank "
        "correlation of the metric between the two, and the root mean square by which the smaller "
        "run, moved to the level and slope of the larger scale, misses the larger one.",
        "table": {"label": "Transfer between scales", "head": head, "rows": rows, "note": ""},
    }
