"""Write the report of a surface: one HTML file that loads nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cuvee.errors import OptionError, option
from cuvee.mix.constraints import Constraints
from cuvee.mix.design import Plan
from cuvee.mix.prediction import Sensitivity
from cuvee.mix.proposal import Proposal
from cuvee.mix.report_front import drawn_front
from cuvee.mix.report_words import asked_for, expected, largest, others, shown
from cuvee.mix.surface import Minimise, Surface
from cuvee.report import svg
from cuvee.report.bars import Bar, bars
from cuvee.report.formatting import count, number, weight
from cuvee.report.heatmap import Look, heat_map
from cuvee.report.page import filled
from cuvee.results import Floats

LETTERS, MOST = 20, 20  # of names beside bars, and how many bars
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
        "proposal": {
            **_proposal(best, usual, now, "uniform" if prior is None else "prior"),
            "asked": asked_for(
                best,
                None if prior is None else usual,
                keep=keep,
                constraints=constraints,
                maximised=surface.settings.maximise,
                pull=pull,
                risk=risk,
                scale=scale,
            ),
        },
        "fit": _fit(surface),
        "sensitivity": _sensitivity(effects, surface.spreads(scale), surface.directions()),
        "front": None if front is None else drawn_front(front, best, surface.metrics),
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
        title=shown(title),
        kicker="What to train on",
        contents=contents,
        summary=_summary(surface, best),
        worries=[shown(note, 400) for note in (*surface.notes, *best.notes)],
        version="",
        **parts,
    )


def _summary(surface: Surface, best: Proposal) -> list[str]:
    n, N = surface.runs.alpha.shape
    shares = largest(best.domains, best.alpha, 3)
    return [
        f"{count(n, 'run')} with {count(N, 'domain')} and {count(len(surface.metrics), 'metric')}.",
        f"The proposal gives most to {shares}.",
        f"{expected(best)}.",
    ]


def _traded(surface: Surface, trade: Sequence[str] | None) -> tuple[str, ...]:
    """Return the two metrics of the front; none where there is one metric alone."""
    if trade is None:
        return surface.metrics[:2] if len(surface.metrics) > 1 else ()
    known = not isinstance(trade, str) and all(name in surface.metrics for name in trade)
    if not known or len(trade) != 2 or trade[0] == trade[1]:
        given = trade if isinstance(trade, str) else ", ".join(map(str, trade))
        raise OptionError(
            f"{option('trade')} must name two metrics, of {', '.join(surface.metrics)}; "
            f"got {given!r}"
        )
    return tuple(trade)


def _proposal(best: Proposal, usual: Floats, now: Floats, name: str) -> dict[str, Any]:
    """Return the shares beside those of a usual mixture, and the metrics of both."""
    order = np.lexsort((-usual, -best.alpha))  # those without a share by that of the usual one
    most = float(max(best.alpha.max(), usual.max()))
    cards = [
        _card("Proposed.", "Shares, the largest first.", best.domains, best.alpha, order, most),
        _card(f"The {name} mixture.", "In the same order.", best.domains, usual, order, most),
    ]
    p = best.prediction
    rows = [
        (
            shown(metric),
            number(float(p.mean[0, k]), 4),
            f"{number(float(p.low[0, k]), 4)} to {number(float(p.high[0, k]), 4)}",
            number(float(now[k]), 4),
        )
        for k, metric in enumerate(p.metrics)
    ]
    luck = (
        f"Expect it to be about {number(best.disappointment, 2)} worse than predicted, because "
        "the mixture that looks best was chosen: this is how it went where surfaces of one half of "
        "the runs chose and those of the other half judged. "
    )
    text = f"{expected(best)}. {luck if best.disappoints else ''}Compared with {others(best)}."
    head = ("metric", "expected", "interval of a new run", f"at the {name} mixture")
    table = {"label": "Metrics of the proposal", "head": head, "rows": rows, "note": ""}
    return {"text": text, "cards": cards, "table": table}


def _card(
    name: str, caption: str, domains: Sequence[str], alpha: Floats, order: Any, most: float
) -> dict[str, Any]:
    some = [j for j in order if alpha[j] > 0]
    items = [Bar(shown(domains[j]), float(alpha[j]), weight(float(alpha[j]))) for j in some[:MOST]]
    unseen = len(domains) - len(items)
    if unseen:
        which = "smaller or none" if len(some) > MOST else "none"
        caption = f"{caption} {count(unseen, 'other domain')}: {which}."
    label = f"{name} " + ", ".join(f"{bar.name} {bar.says}" for bar in items)
    return {"name": name, "caption": caption, "drawing": bars(items, label, most, LETTERS)}


def _fit(surface: Surface) -> dict[str, Any]:
    fits = surface.fits[:MOST_METRICS]
    ranked = [Bar(shown(f.metric), max(f.rank, 0.0), number(f.rank, 2)) for f in fits if f.varies]
    names = surface.settings.candidates
    rows = [
        (
            shown(f.metric), number(f.error), *f.in_words(),
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
    domains = [shown(name) for name in s.domains]
    metrics = [shown(name) for name in s.metrics]
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
        "line through a cell means that the effect may help or hurt."
    )
    return {"text": text, "maps": maps}


def _next(plan: Plan) -> dict[str, Any]:
    runs = [
        (largest(plan.domains, alpha), shown(reason, 300))
        for alpha, reason in zip(plan.alpha, plan.reasons, strict=True)
    ]
    return {
        "text": " ".join(
            (
                "The mixtures whose runs tell most about which mixture is best, in order.",
                *plan.notes,
                "All shares are in what the command cuvee mix next writes.",
            )
        ),
        "runs": runs,
    }


def _scales(surface: Surface) -> dict[str, Any] | None:
    if not surface.transfers:
        return None
    rows = [
        (
            shown(surface.metrics[k]), shown(t.small), shown(t.large), str(t.mixtures),
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
