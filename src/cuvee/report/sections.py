"""Write what the page's sections say and show; scores are in scoring.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from cuvee.report import bars, courses, svg
from cuvee.report.findings import Findings
from cuvee.report.formatting import count, named, number, short, weight
from cuvee.report.heatmap import Look, heat_map
from cuvee.report.layout import Layout
from cuvee.report.summary import is_bad, n_sources, settled
from cuvee.results import Floats

SHOWN, OPEN = 30, 4  # targets with their own pictures, and how many of them are not folded
LISTED = 20  # columns of the table
PROVEN = 100  # rows of the table of certificates


def weights(f: Findings, drawn: Layout) -> dict[str, Any]:
    """Return the section on α: a heat map."""
    values, columns = _cells(f.alpha, f, drawn)
    rows = [f.targets[i] for i in drawn.rows]
    apart = (0, int(drawn.own is not None))
    if len(rows) > 1:
        values, rows, apart = (
            np.concatenate([values, _mean(values)]),
            [*rows, "mean"],
            (1, apart[1]),
        )
    sentences = [
        "Each row is a target, each column a source, and a cell the weight α that the target gives "
        "to the source; rows add up to 1, and similar rows and columns are side by side."
        if len(f.targets) > 1
        else "Each column is a source, the heaviest first, "
        "and a cell the weight α that the target gives to it."
    ]
    if drawn.own is not None:
        sentences.append("The separate column is the target's own labelled rows.")
    if np.isnan(values).any():
        in_turn = set(f.targets) <= set(f.columns)
        sentences.append(
            "A stroke marks "
            f"{'a target, which is not its own source' if in_turn else 'what is not known'}."
        )
    if len(drawn.rows) < len(f.targets):
        sentences.append(
            f"{len(drawn.rows)} of {len(f.targets):,} targets are drawn, evenly chosen along that "
            "order; "
            "all are in alpha.csv in the run folder."
        )
    if len(drawn.others):
        sentences.append(
            f"The {len(drawn.columns)} sources with most weight have a column each, "
            f"the other {len(drawn.others):,} are summed."
        )
    sentences.append(
        "With few rows small weights are uncertain: read their order, not their digits."
    )
    label = f"α, {count(len(drawn.rows), 'target')} by {count(len(columns), 'column')}"
    return {
        "text": " ".join(sentences),
        "label": label,
        "map": heat_map(rows, columns, values, label, apart=apart, look=Look(says=weight)),
    }


def targets(f: Findings, drawn: Layout) -> dict[str, Any]:
    """Return the section with each target's weights, their path along C, and mixtures tried."""
    shown = [_target(f, i, drawn.own) for i in range(min(SHOWN, len(f.targets)))]
    text = "The weights that were returned."
    if any(t is not None for t in f.tried):
        text = (
            "First, the weights that were returned. Then the path, in the same colours: from left "
            "to right C becomes smaller. On the left every row counts equally. On the right a "
            "source counts only if it resembles the target. Every mixture tried was "
            "cross-validated on the target's own rows; the weights are their average, with the "
            "share written beside each."
        )
    if len(f.targets) > SHOWN:
        text += (
            f" These are the first {SHOWN} of {len(f.targets):,} targets; "
            "the others are in alpha.csv and candidates.parquet in the run folder."
        )
    return {"text": text, "first": shown[:OPEN], "more": shown[OPEN:]}


def _target(f: Findings, i: int, own: int | None) -> dict[str, Any]:
    parts = bars.parts_of(f.columns, f.alpha[i], own)
    figures = [
        {
            "name": "Weights.",
            "caption": "",
            "drawing": bars.weights(parts, f.alpha[i], f.targets[i]),
        }
    ]
    tried = f.tried[i] if i < len(f.tried) else None
    if tried is not None:
        path = bars.along_path(parts, tried)
        if path is not None:
            figures.append({"name": "Along the path.", "caption": "α at each C.", "drawing": path})
        if len(tried.names):
            caption = "Cross-validated loss, and share in α."
            figures.append(
                {"name": "Tried.", "caption": caption, "drawing": bars.candidates(tried)}
            )
    rows = (
        f"{count(f.learn_rows[i], 'row')} to learn from, {count(f.test_rows[i], 'row')} for scores"
        if f.learn_rows[i]
        else "no labels, so that weights come from inputs alone"
    )
    return {
        "name": f.targets[i],
        "said": f"{rows}; {_found(f, i)}",
        "figures": figures,
    }


def _found(f: Findings, i: int) -> str:
    """Return in words how a target's weights were found: averaged, or by one search."""
    tried = f.tried[i] if i < len(f.tried) else None
    if tried is not None and settled(f)[i]:
        return f"weights averaged over the {count(len(tried.names), 'mixture')} tried"
    gap = float(f.gap[i])
    return f"{f.alpha_status[i]}; gap {number(gap, 2)}" if np.isfinite(gap) else f.alpha_status[i]


def columns(f: Findings) -> dict[str, Any]:
    """Return the section on coefficients, and on how much scores need each column."""
    tables, text = [], []
    if f.coefficients:
        text.append(
            "A coefficient is that of a column as the model sees it: numbers in standard "
            "deviations from their mean (unless they were left as they are), categories as 0 or 1."
            + (
                " Of two classes it moves the log-odds of the second; of more, it is the root mean "
                "square of those of all classes."
                if f.task == "classification"
                else ""
            )
        )
        tables.append(_by_target("Coefficients", f.coefficients, f))
    if f.importance:
        text.append(
            f"The importance of a column is how much worse the {f.metric} becomes where the column "
            "is permuted among the test rows."
        )
        tables.append(_by_target("Importance", f.importance, f))
    else:
        text.append(
            "How much the scores need each column was not worked out: cuvee adapt --importance "
            "does it."
        )
    if tables:
        text.append("All columns of all targets: cuvee explain.")
    return {"text": " ".join(text), "tables": tables}


def _by_target(label: str, values: dict[str, Floats], f: Findings) -> dict[str, Any]:
    """Return a table with a row per column, the largest on average first."""
    size = {name: float(np.nan_to_num(abs(v)).mean()) for name, v in values.items()}
    order = sorted(values, key=lambda name: -size[name])
    rows = [(short(name, 40), *(number(float(v)) for v in values[name])) for name in order[:LISTED]]
    targets = f.targets[: len(rows[0]) - 1]
    note = f"The {LISTED} largest of {len(order):,} columns. " if len(order) > LISTED else ""
    if len(targets) < len(f.targets):
        note += f"The first {len(targets)} of {len(f.targets):,} targets."
    return {"label": label, "head": ("column", *targets), "rows": rows, "note": note.strip()}


def sensitivity(f: Findings, drawn: Layout) -> dict[str, Any]:
    """Return the section on which source moves which model."""
    if f.sensitivity is None or not np.isfinite(f.sensitivity).any():
        return {
            "text": "How far each source moves each model was not computed for this hypothesis.",
            "map": None,
        }
    finite = np.where(np.isfinite(f.sensitivity), f.sensitivity, np.nan)
    values = finite[np.ix_(drawn.rows, np.array(_columns(drawn), dtype=np.intp))]
    columns = [_name(f, j, drawn) for j in _columns(drawn)]
    label = "Sensitivity of models to sources"
    rows = [f.targets[i] for i in drawn.rows]
    unit = svg.rounded(float(np.nanmax(finite)) or 1.0)
    look = Look(unit, means="", hue="h", says=lambda v: number(v, 2))
    apart = (0, int(drawn.own is not None))
    ranked = bars.moves(f, n_sources(f))
    ranking = ", ".join(f"{b.name} {b.says}" for b in ranked)
    return {
        "text": "How far a target's model would move, relative to its own length, "
        "for each unit of α moved to a "
        "source. A dark cell for a source with a small weight means: more weight for this source "
        "would change the model a lot.",
        "label": label,
        "map": heat_map(rows, columns, values, label, apart=apart, look=look),
        "bars": {
            "name": "Who moves most.",
            "caption": "Mean over targets." if len(f.targets) > 1 else "",
            "drawing": bars.bars(ranked, f"How far each source moves models: {ranking}"),
        },
    }


def certificates(f: Findings) -> dict[str, Any]:
    """Return the section of bounds per target, those to worry about first."""
    bad = np.array([is_bad(s) for s in f.model_status], dtype=bool)
    order = np.lexsort((-np.nan_to_num(f.distance, nan=np.inf), ~bad))
    rows = [
        (
            f.targets[i],
            f.model_status[i],
            *(number(float(v[i]), 2) for v in (f.distance, f.excess_risk, f.gradient)),
        )
        for i in order[:PROVEN]
    ]
    note = f"The {PROVEN} loosest of {len(f.targets):,}." if len(f.targets) > PROVEN else ""
    if np.isfinite(f.distance).any():
        text = (
            "w* is the best model of its kind for the target's mixture, and w the one delivered: "
            "both bounds hold "
            f"whatever made w, and rest on {f.rests_on.rstrip('.')}."
        )
    else:
        text = f"{f.rests_on[:1].upper()}{f.rests_on[1:].rstrip('.')}."
    head = ("target", "status", "‖w − w*‖ ≤", "excess risk ≤", "‖∇‖∞")
    return {
        "text": text,
        "table": {"label": "Certificates", "head": head, "rows": rows, "note": note},
    }


def convergence(f: Findings) -> dict[str, Any]:
    """Return the section on the objective and the gap over steps."""
    chosen = courses.slowest(f.convergence)
    names = [f.targets[i] for i in chosen]
    runs = [run for i in chosen if (run := f.convergence[i]) is not None]
    pictures = (
        (
            "Objective.",
            "As the search itself estimates it.",
            courses.course(names, runs, "objective", log=False),
        ),
        (
            "Stationarity gap.",
            "How far F may be above its least value, or what either player could still gain.",
            courses.course(names, runs, "gap", log=True),
        ),
    )
    cards = [{"name": n, "caption": c, "drawing": d} for n, c, d in pictures if d is not None]
    if not cards:
        return {
            "text": "No course was recorded: the weights needed no search, or recording was off.",
            "cards": [],
        }
    text = (
        "A step is one round of adversaries for all values of C where a path was followed, else "
        "one update of both players."
    )
    total = sum(run is not None for run in f.convergence)
    if total > len(chosen):
        text += f" {len(chosen)} of {total:,} targets are drawn."
    others = (
        count(len(chosen) - courses.NAMED, "other target") if len(chosen) > courses.NAMED else ""
    )
    return {
        "text": text,
        "cards": cards,
        "named": [named([n]) for n in names[: courses.NAMED]],
        "many": others,
    }


def _columns(drawn: Layout) -> list[int]:
    return [*([drawn.own] if drawn.own is not None else []), *drawn.columns.tolist()]


def _name(f: Findings, j: int, drawn: Layout) -> str:
    return "own rows" if j == drawn.own else f.columns[j]


def _cells(values: Floats, f: Findings, drawn: Layout) -> tuple[Floats, list[str]]:
    """Return the cells that are drawn: own, columns, the sum of the others; and their names.

    The own rows come first, because a narrow screen shows only the first few columns.
    """
    columns = [_name(f, j, drawn) for j in _columns(drawn)]
    blocks = [values[np.ix_(drawn.rows, np.array(_columns(drawn), dtype=np.intp))]]
    if len(drawn.others):
        blocks.append(np.nan_to_num(values[np.ix_(drawn.rows, drawn.others)]).sum(1, keepdims=True))
        columns.append(f"{len(drawn.others)} others")
    return np.concatenate(blocks, 1), columns


def _mean(values: Floats) -> Floats:
    """Return the mean of finite values over rows, (1, columns)."""
    finite = np.isfinite(values)
    total = np.where(finite, values, 0.0).sum(0, keepdims=True)
    return np.where(finite.any(0), total / np.maximum(finite.sum(0, keepdims=True), 1), np.nan)
