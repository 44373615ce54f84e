"""The report's findings, read from the files of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cuvee.data.columns import as_written
from cuvee.data.dates import made_of
from cuvee.data.metrics import METRICS
from cuvee.data.options import LINEAR, Options, in_words
from cuvee.report.findings import Convergence, Expected, Findings, Tried
from cuvee.results import Floats
from cuvee.run.added import Added
from cuvee.run.decided import decided, reasons
from cuvee.run.explained import INTERCEPT
from cuvee.run.folder import CANDIDATES, CHOSEN, JUDGED, SENSITIVITY, TRACE, WEIGHTS, RunFolder

NOTES = 5  # on mixtures that were judged, of each run
STEPS = {
    "alpha": "mixture weights",
    "model": "linear, trees or a forest?",
    "judged": "mixtures judged by folds",
    "models": "models, scores and certificates",
    "plan": "solve or learn?",
}


@dataclass(frozen=True, eq=False)
class Numbers:
    """What a run holds of all its targets, those added included."""

    prepared: dict[str, Any]
    metrics: dict[str, Any]
    columns: tuple[str, ...]
    alpha: Floats  # (M, columns)
    added: Sequence[Added]
    explained: Any = None  # what `Run.explain` says of the first targets


def findings(folder: RunFolder, options: Options, numbers: Numbers) -> Findings:
    """Return all that the report shows; raise an error where the run is not far enough."""
    about, prepared, metrics = folder.about, numbers.prepared, numbers.metrics
    columns, alpha, added = numbers.columns, numbers.alpha, numbers.added
    targets = tuple(t["name"] for t in prepared["targets"])
    weights = _table(folder, WEIGHTS)
    gap = [np.nan if one.about.gap is None else one.about.gap for one in added]
    certificate = metrics["certificate"]
    distance = _numbers(certificate["distance"])
    return Findings(
        title=Path(about["data"]["name"]).name,
        about=about,
        task=prepared["task"],
        hypothesis=_hypothesis(folder, options, prepared),
        domain=prepared["domain"],
        label=prepared["label"],
        n_features=prepared["n_features"],
        columns=columns,
        source_rows=np.array([s["rows"] for s in prepared["sources"]], dtype=float),
        targets=targets,
        learn_rows=np.array([t["learn"] for t in prepared["targets"]], dtype=float),
        test_rows=np.array([t["test"] for t in prepared["targets"]], dtype=float),
        alpha=alpha,
        alpha_status=(*weights["status"].to_pylist(), *(o.about.alpha_status for o in added)),
        gap=np.concatenate([_floats(weights["gap"]), gap]),
        model_status=tuple(metrics["status"]),
        distance=np.where(np.isnan(distance), np.inf, distance),
        excess_risk=_numbers(certificate["excess_risk"]),
        gradient=_numbers(certificate["gradient"]),
        rests_on=certificate["rests_on"],
        metric=metrics["metric"],
        higher_is_better=metrics["higher_is_better"],
        methods=tuple(metrics["methods"]),
        scores=_numbers(metrics["scores"]).reshape(len(targets), len(metrics["methods"]), 3),
        mean=_numbers(metrics["mean"]),
        mean_rank=_numbers(metrics["mean_rank"]),
        gain=_numbers(metrics["gain"]),
        sensitivity=_sensitivity(folder, targets, columns, added),
        tried=_tried(folder, targets),
        convergence=_convergence(folder, targets),
        seconds=_seconds(folder),
        notes=(prepared["why"], *prepared["notes"], *metrics["plan"], *judged_notes(folder)),
        also={
            name: _numbers(metrics["also"][name]["scores"])
            for name in METRICS
            if name in metrics.get("also", {})
        },
        expected=_expected(metrics.get("label_free")),
        tested=_tested(prepared),
        chance=_numbers(metrics["chance"]) if "chance" in metrics else None,
        **_columns(numbers.explained),
    )


def _columns(explained: Any) -> dict[str, dict[str, Floats]]:
    """Return coefficients and importances by column, each of the targets in their order."""
    if explained is None:
        return {}
    frame = explained.assign(name=explained["column"], raw=explained["column"].map(made_of))
    found = {}
    if "coefficient" in frame:
        there = frame["category"].notna()
        frame.loc[there, "name"] += "=" + frame.loc[there, "category"]
        several = frame["class"].nunique() > 1
        frame["coefficients"] = frame["coefficient"] ** 2 if several else frame["coefficient"]
        frame = frame[frame["column"] != INTERCEPT]
    for kind, by in (("coefficients", "name"), ("importance", "raw")):
        if kind in frame and frame[kind].notna().any():
            wide = frame.pivot_table(kind, by, "target", "mean", dropna=False, sort=False)
            values = wide[frame["target"].unique()].to_numpy(np.float64)
            values = np.sqrt(values) if kind == "coefficients" and several else values
            found[kind] = dict(zip(wide.index, values, strict=True))
    return found


def _hypothesis(folder: RunFolder, options: Options, prepared: dict[str, Any]) -> str:
    """Return the kind of model in words, which may be what "auto" chose."""
    if not folder.has(CHOSEN):
        return str(prepared["hypothesis"])
    options = decided(folder, options)
    kind = "linear models: " if options.model == LINEAR else ""
    return f"{kind}{in_words(options, prepared['kind'])} (the choice of --model auto)"


def _tested(prepared: dict[str, Any]) -> dict[str, int]:
    """Return the test rows of all targets by class; nothing of a quantity, or an older version."""
    each = [target["tested"] for target in prepared["targets"] if "tested" in target]
    if prepared["classes"] is None or not each:
        return {}
    names = [as_written(one) for one in prepared["classes"]]
    return {name: sum(rows.get(name, 0) for rows in each) for name in names}


def judged_notes(folder: RunFolder) -> tuple[str, ...]:
    """Return which model was chosen, and what was noticed while folds judged mixtures.

    Of the latter there are a few sentences.
    """
    chosen = reasons(folder)
    notes = folder.json(JUDGED)["notes"] if folder.has(JUDGED) else []
    more = [f"There are {len(notes) - NOTES} more such notes."] if len(notes) > NOTES else []
    return (*chosen, *notes[:NOTES], *more)


def _table(folder: RunFolder, name: str) -> Any:
    import pyarrow as pa
    from pyarrow import parquet

    # Arrow's own threads must not hold Python's objects: they may outlive the interpreter.
    return parquet.read_table(pa.BufferReader(folder.read(name)), use_threads=False)


def _floats(column: Any) -> Floats:
    return np.asarray(column.to_numpy(), dtype=np.float64)


def _numbers(values: Any) -> Floats:
    """Return lists as floats, with NaN where they hold null."""
    return np.array(values, dtype=object).astype(np.float64)


def _sensitivity(
    folder: RunFolder, targets: Sequence[str], columns: Sequence[str], added: Sequence[Added]
) -> Floats | None:
    if not folder.has(SENSITIVITY):
        return None
    table = _table(folder, SENSITIVITY)
    wide = np.full((len(targets), len(columns)), np.nan)
    row = {t: i for i, t in enumerate(targets)}
    column = {c: j for j, c in enumerate(columns)}
    i = [row[t] for t in table["target"].to_pylist()]
    j = [column[c] for c in table["column"].to_pylist()]
    wide[i, j] = _floats(table["moves"])
    for one in added:
        if one.delivered.moved.shape[1]:
            at = [column[c] for c in one.about.columns]
            wide[row[one.about.name], at] = one.delivered.moved[0]
    return wide


def _tried(folder: RunFolder, targets: Sequence[str]) -> tuple[Tried | None, ...]:
    if not folder.has(CANDIDATES):
        return (None,) * len(targets)
    table = _table(folder, CANDIDATES)
    names, loss, share = (
        table["candidate"].to_pylist(),
        _floats(table["cv_loss"]),
        _floats(table["share"]),
    )
    alpha = _floats(table["alpha"].combine_chunks().flatten()).reshape(len(names), -1)
    at = _places(table["target"].to_pylist())
    return tuple(
        Tried(tuple(names[k] for k in at[t]), alpha[at[t]], loss[at[t]], share[at[t]])
        if t in at
        else None
        for t in targets
    )


def _expected(entry: dict[str, Any] | None) -> Expected | None:
    """Return what to expect of targets without labels; None where all have some."""
    if entry is None:
        return None
    return Expected(
        judged_on=int(entry["judged_on"]),
        score=_numbers(entry["expected"]),
        tested_on=int(entry["tested_on"]),
        without_labels=float(_numbers(entry["without_labels"])),
        with_labels=float(_numbers(entry["with_labels"])),
        gain_of_labels=_numbers(entry["gain_of_labels"]),
    )


def _convergence(folder: RunFolder, targets: Sequence[str]) -> tuple[Convergence | None, ...]:
    if not folder.has(TRACE):
        return (None,) * len(targets)
    table = _table(folder, TRACE)
    step, objective, gap = (_floats(table[name]) for name in ("step", "objective", "gap"))
    at = _places(table["target"].to_pylist())
    return tuple(
        Convergence(step[at[t]], objective[at[t]], gap[at[t]]) if t in at else None for t in targets
    )


def _places(names: Sequence[str]) -> dict[str, list[int]]:
    places: dict[str, list[int]] = {}
    for k, name in enumerate(names):
        places.setdefault(name, []).append(k)
    return places


def _seconds(folder: RunFolder) -> tuple[tuple[str, float], ...]:
    """Return the seconds by kind of step: "alpha 0 64" is one of many."""
    total: dict[str, float] = {}
    for step, seconds in folder.seconds.items():
        kind = step.split()[0]
        if kind in STEPS:
            total[STEPS[kind]] = total.get(STEPS[kind], 0.0) + seconds
    return tuple(total.items())
