"""Write the section on scores: means, gains and targets, as pictures and as tables."""

from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np

from cuvee.data.metrics import (
    ACCURACY,
    AUC,
    BALANCED,
    DEVIANCE,
    LOG_LOSS,
    MAE,
    METRICS,
    R2,
    RMSE,
)
from cuvee.report import intervals
from cuvee.report.findings import (
    CUVEE,
    MAJORITY,
    OWN_MEAN,
    Findings,
)
from cuvee.report.formatting import UNKNOWN, count, number, score, signed
from cuvee.report.label_free import expectation
from cuvee.report.summary import best_baseline, means_also, n_scored, partly

DRAWN, LISTED = 60, 200  # targets
BEYOND = (
    "A triangle at the edge stands for baselines beyond it: their scores show when it is pointed at"
)
MEANINGS = {
    ACCURACY: "Accuracy is the share of right answers",
    BALANCED: "Balanced accuracy counts every class equally, however rare",
    AUC: "AUC is how often a row of the second class is ranked above one of the first",
    LOG_LOSS: "Log loss is a penalty that is large when the right class got a low probability, and "
    "lower is better",
    RMSE: "The root mean squared error is mostly that of the largest errors",
    MAE: "The mean absolute error counts every unit of error alike, and lower is better",
    R2: "R² is the share of the labels' variance that is explained: 0 is no better than their mean",
    DEVIANCE: "The deviance is that of Poisson counts, and lower is better",
}
CONSTANT_IS = {
    OWN_MEAN: "the mean of the target's labels",
    MAJORITY: "the most frequent class of the target's labels",
}
COLUMNS, LEAST = 3, 12  # drawings beside each other, and rows that one of them holds


def scores(f: Findings) -> dict[str, Any]:
    """Return everything about scores; cards are empty where there are none."""
    scored = np.flatnonzero(np.isfinite(f.scores[..., 0]).any(1)) if f.scores.size else np.arange(0)
    if not len(scored) or CUVEE not in f.methods:
        text = f"No target has test rows: there is nothing to compare. {expectation(f)}"
        return {"text": text.strip(), "cards": []}
    best, alone = best_baseline(f), len(scored) == 1
    ordered = _by_gain(f, scored, best)
    drawn = _ends(ordered)
    pictures = (
        []
        if alone
        else [
            intervals.by_target(f, p, -1 if best is None else best, drawn) for p in _pieces(drawn)
        ]
    )
    rival = "" if best is None else f.methods[best]
    sorted_by = f"Sorted by cuvee's gain over {rival}, the largest first." if rival else ""
    half = DRAWN // 2
    left_out = (
        f" The {half} largest and the {half} smallest of {len(ordered):,}."
        if len(ordered) > DRAWN
        else ""
    )
    return {
        "text": _introduction(f, scored),
        "cards": _cards(f, alone),
        "means": _means(f),
        "rival": rival,
        "targets": pictures,
        "targets_text": sorted_by
        + left_out
        + (f" {BEYOND}, and in the table." if _cut(*pictures) else ""),
        "table": _table(f, ordered),
    }


def _introduction(f: Findings, scored: Any) -> str:
    """Return what was measured on which rows, and what the scores beside the first mean."""
    alone = len(scored) == 1
    tested = count(float(f.test_rows[scored[0]]), "labelled row") if alone else "labelled rows"
    who = f.targets[scored[0]] if alone else count(len(scored), "target")
    better = "higher is better" if f.higher_is_better else "lower is better"
    text = (
        f"{_upper(f.metric)} on {tested} of {who} that no scored model has learnt from: {better}. "
    )
    text += "Intervals are of 95 %."
    for method in f.methods:
        if method in CONSTANT_IS:
            text += f" “{method}” always predicts {CONSTANT_IS[method]}."
    for name in means_also(f):
        text += f" {MEANINGS[name]}."
    if any(not np.isfinite(f.also[name][scored]).all() for name in means_also(f)):
        alike = "are of one class" if f.task == "classification" else "have one label"
        text += (
            f" Where all test rows {alike}, these scores are not given, and their means leave such "
            "targets out."
        )
    return f"{text} {expectation(f)}".strip()


def _cards(f: Findings, alone: bool) -> list[dict[str, Any]]:
    """Return the drawings of all targets together: scores, and gains where there is a baseline."""
    name, measured = (
        ("Score.", _upper(f.metric)) if alone else ("Mean score.", f"Mean {f.metric} over targets")
    )
    cards = [_card(name, f"{measured}, 95 % interval.", intervals.means(f))]
    if len(f.methods) > 1:
        caption = "cuvee over each baseline, paired; right of 0 cuvee is better."
        cards.append(_card("Gain.", caption, intervals.gains(f)))
    return cards


def _ends(ordered: list[int]) -> list[int]:
    """Return the targets to draw: all, or where they are many the first and the last."""
    return ordered if len(ordered) <= DRAWN else [*ordered[: DRAWN // 2], *ordered[-DRAWN // 2 :]]


def _pieces(drawn: list[int]) -> list[list[int]]:
    """Return the targets in pieces of about the same size, each for a drawing beside the others."""
    size = ceil(len(drawn) / min(COLUMNS, ceil(len(drawn) / LEAST)))
    return [drawn[k : k + size] for k in range(0, len(drawn), size)]


def _by_gain(f: Findings, scored: Any, best: int | None) -> list[int]:
    """Return targets with scores, the largest gain of cuvee first, those without one last."""
    if best is None:
        return [int(i) for i in scored]
    us, sign = f.methods.index(CUVEE), 1.0 if f.higher_is_better else -1.0
    gain = sign * (f.scores[scored, us, 0] - f.scores[scored, best, 0])
    return [
        int(i)
        for i in scored[np.argsort(np.where(np.isfinite(gain), -gain, np.inf), kind="stable")]
    ]


def _means(f: Findings) -> dict[str, Any]:
    best = _best(f.mean[:, 0], f.higher_is_better)
    extra = means_also(f)
    better = {name: _best(values, METRICS[name].higher_is_better) for name, values in extra.items()}
    rows = [
        (
            method,
            {
                "value": score(float(f.mean[k, 0]), f.metric),
                "span": _span(f.mean[k], f.metric),
                "best": k in best,
            },
            number(float(f.mean_rank[k])),
            {"value": UNKNOWN, "span": "", "best": False}
            if method == CUVEE
            else {
                "value": signed(float(f.gain[k, 0]), f.metric),
                "span": _span(f.gain[k], f.metric),
                "best": False,
            },
            *(
                {"value": score(float(v[k]), name), "span": "", "best": k in better[name]}
                for name, v in extra.items()
            ),
        )
        for k, method in enumerate(f.methods)
    ]
    mean = "mean " if n_scored(f) > 1 else ""
    head = (
        "method",
        f"{mean}{f.metric}",
        f"{mean}rank",
        "cuvee's gain over it",
        *(f"{mean}{name}{partly(f, name)}" for name in extra),
    )
    return {"label": f"{mean}scores".capitalize(), "head": head, "rows": rows, "note": ""}


def _table(f: Findings, ordered: list[int]) -> dict[str, Any]:
    rows, extra, us = [], list(means_also(f)), f.methods.index(CUVEE)
    for i in ordered[:LISTED]:
        best = _best(f.scores[i, :, 0], f.higher_is_better)
        cells = [
            {"value": score(float(v[0]), f.metric), "span": _span(v, f.metric), "best": k in best}
            for k, v in enumerate(f.scores[i])
        ]
        of_cuvee = [score(float(f.also[name][i, us]), name) for name in extra]
        rows.append((f.targets[i], number(float(f.test_rows[i])), *cells, *of_cuvee))
    note = f"The first {LISTED} of {len(ordered):,}." if len(ordered) > LISTED else ""
    head = ("target", "test rows", *f.methods, *(f"{name} of cuvee" for name in extra))
    return {"label": "Scores of targets", "head": head, "rows": rows, "note": note}


def _upper(metric: str) -> str:
    return metric[:1].upper() + metric[1:]


def _best(values: Any, higher: bool) -> set[int]:
    finite = values[np.isfinite(values)]
    if not len(finite):
        return set()
    return {int(k) for k in np.flatnonzero(values == (finite.max() if higher else finite.min()))}


def _span(value: Any, metric: str) -> str:
    low, high = float(value[1]), float(value[2])
    return (
        f"{score(low, metric)} to {score(high, metric)}"
        if np.isfinite(low) and np.isfinite(high)
        else ""
    )


def _card(name: str, caption: str, drawing: str) -> dict[str, Any]:
    if _cut(drawing):
        caption += " A triangle is beyond the scale."
    return {"name": name, "caption": caption, "drawing": drawing}


def _cut(*drawings: str) -> bool:
    """Return whether something lies beyond a scale."""
    return any(f'class="{intervals.EDGE} ' in drawing for drawing in drawings)
