"""What the files of a run hold: prepared.json, alpha.csv, three tables in Parquet,
models.safetensors, metrics.json.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cuvee.api import OWN
from cuvee.data.options import Options, in_words
from cuvee.data.prepared import Prepared
from cuvee.errors import InputError
from cuvee.outputs.files import understood
from cuvee.problem import Array
from cuvee.results import Candidate, Floats, Mixtures, Status, widen
from cuvee.run import alpha_file, expected, scores
from cuvee.run.folder import (
    ALPHA,
    CANDIDATES,
    GIVEN,
    METRICS,
    MODELS,
    PREPARED,
    SENSITIVITY,
    TRACE,
    WEIGHTS,
    RunFolder,
    as_json,
    part_name,
)
from cuvee.run.judge import Judged
from cuvee.run.models import Delivered
from cuvee.run.scores import exactly

# weights of candidates that are kept; of more targets neither candidates nor traces are
KEPT = 2**24


def prepared(of: Prepared, options: Options) -> bytes:
    """Return prepared.json: all that predictions and the report need beside numbers."""
    sizes = {t: (len(learn), len(test)) for t, (learn, test) in of.divided.items()}
    return as_json(
        {
            "task": str(of.inferred.task),
            "why": of.inferred.why,
            "kind": of.kind,
            "hypothesis": in_words(options, of.kind),
            "classes": _listed(of.classes),
            "domain": of.domain,
            "label": options.label,
            "n_features": of.n_features,
            "notes": list(of.notes),
            "pooled": list(of.pooled),
            "sources": [{"name": s, "rows": of.sizes[s]} for s in of.sources],
            "targets": [
                {"name": t, "group": g, "learn": sizes[t][0], "test": sizes[t][1]}
                | ({"tested": dict(of.tested[t])} if t in of.tested else {})
                for g, members in enumerate(of.members)
                for t in members.targets
            ],
            "groups": [
                {
                    "sources": list(m.sources),
                    "encoder": m.encoder.as_dict(),
                    "classes": _listed(m.classes),
                }
                for m in of.members
            ],
        }
    )


def check_same(of: Prepared, folder: RunFolder) -> None:
    """Raise `InputError` unless a run was begun with the same sources and targets.

    Another version of cuvee may choose others.
    """
    begun_with = folder.json(PREPARED)
    with understood(folder.path / PREPARED, "what this version of cuvee writes"):
        begun = [[one["name"] for one in begun_with[part]] for part in ("sources", "targets")]
    if "pooled" not in begun_with or begun != [list(of.sources), list(of.targets)]:
        raise InputError(
            f"{folder.path} was begun by another version of cuvee, which prepares tables "
            "differently: start a new run"
        )


def _listed(classes: Array | None) -> list[Any] | None:
    return None if classes is None else classes.tolist()


def of_mixtures(of: Prepared, mixtures: list[Mixtures]) -> dict[str, bytes]:
    """Return the files of the step that estimated α."""
    own = any(OWN in mix.columns for mix in mixtures)
    columns = (*of.sources, *([OWN] if own else []))
    every = Mixtures.concat([replace(mix, trace=None, candidates=()) for mix in mixtures], columns)
    table = {
        "target": of.targets,
        "status": [str(s) for s in every.status],
        "gap": every.gap,
        "objective": every.objective,
    }
    files = {ALPHA: alpha_file.to_csv(of.targets, columns, every.alpha), WEIGHTS: _parquet(table)}
    numbers = sum(len(mix.targets) * len(mix.candidates) * len(columns) for mix in mixtures)
    few = mixtures if numbers <= KEPT else []
    few = [judged for mix in few if (judged := _judged(mix)).targets]
    if tried := [mix for mix in few if mix.candidates]:
        files[CANDIDATES] = _parquet(_candidates(tried, columns))
    if any(mix.trace is not None for mix in few):
        files[TRACE] = _parquet(_traces(few))
    return files


def _judged(mix: Mixtures) -> Mixtures:
    """Return the same without label-free targets, for which nothing could be judged."""
    kept = [t for t, s in zip(mix.targets, mix.status, strict=True) if s is not Status.LABEL_FREE]
    if len(kept) == len(mix.targets):
        return mix
    # the course of α is in no file
    trace = mix.trace and replace(mix.trace, alpha=np.zeros((*mix.trace.gap.shape, 0)))
    return replace(mix, trace=trace).in_order(kept)


def _candidates(mixtures: list[Mixtures], columns: tuple[str, ...]) -> dict[str, Any]:
    """Return a table with a row for each mixture that was tried for each target."""
    import pyarrow as pa

    def gathered(of: Callable[[Mixtures, Candidate], Floats]) -> Floats:
        """Return values (rows, …): the targets one after the other, each with its candidates."""
        stacked = [np.stack([of(mix, c) for c in mix.candidates], 1) for mix in mixtures]
        return np.concatenate([part.reshape(-1, *part.shape[2:]) for part in stacked])

    alpha = gathered(lambda mix, c: widen(c.alpha, mix.columns, columns))
    return {
        "target": [target for mix in mixtures for target in mix.targets for _ in mix.candidates],
        "candidate": [c.name for mix in mixtures for _ in mix.targets for c in mix.candidates],
        "cv_loss": gathered(lambda mix, c: c.cv_loss),
        "share": gathered(lambda mix, c: c.share),
        "alpha": pa.FixedSizeListArray.from_arrays(alpha.ravel(), len(columns)),
    }


def _traces(mixtures: list[Mixtures]) -> dict[str, Any]:
    """Return a table with a row for each recorded step of each target."""
    kept = [(mix.targets, mix.trace) for mix in mixtures if mix.trace is not None]
    return {
        "target": np.concatenate(
            [np.repeat(np.array(names, dtype=object), len(t.step)) for names, t in kept]
        ),
        "step": np.concatenate([np.tile(t.step, len(names)) for names, t in kept]),
        "objective": np.concatenate([t.objective.T.ravel() for _, t in kept]),
        "gap": np.concatenate([t.gap.T.ravel() for _, t in kept]),
    }


def alphas(of: Prepared, folder: RunFolder, name: str = ALPHA) -> list[Floats]:
    """Return α of every group, over its own sources (and the own sample), as the file has it."""
    _, columns, alpha = alpha_file.from_csv(folder.read(name).decode(), name)
    own = [OWN] if OWN in columns else []
    place = {name: j for j, name in enumerate(columns)}
    parts, low = [], 0
    for members in of.members:
        at = [place[c] for c in (*members.sources, *own)]
        parts.append(np.ascontiguousarray(alpha[low : low + len(members.targets), at]))
        low += len(members.targets)
    return parts


def given(of: Prepared, folder: RunFolder, name: str) -> list[Mixtures]:
    """Return the user's own α, as if it had been estimated."""
    own = OWN in alpha_file.from_csv(folder.read(name).decode(), name)[1]
    unknown = [np.full(len(m.targets), np.nan) for m in of.members]
    return [
        Mixtures(
            alpha=alpha,
            columns=(*m.sources, *([OWN] if own else [])),
            targets=m.targets,
            gap=nothing,
            status=(Status.CLOSED_FORM,) * len(m.targets),
            method="given",
            objective=nothing,
        )
        for alpha, m, nothing in zip(alphas(of, folder, name), of.members, unknown, strict=True)
    ]


def of_models(of: Prepared, delivered: Delivered, folder: RunFolder) -> dict[str, bytes]:
    """Return the files of the step that made the models."""
    rows = np.array([len(of.divided[t][1]) for t in of.targets])
    plans = [
        folder.json(name)
        for g in range(len(of.members))
        if folder.has(name := part_name(f"plan {g}"))
    ]
    why = [p["why"] for p in plans]
    # weights that somebody gave say nothing of those from inputs alone
    bare = () if folder.has(GIVEN) else of.label_free
    metrics = metrics_of(delivered, of.targets, rows, of.metric, why)
    metrics |= expected.as_metrics(delivered.bare, delivered.loss[:, 0], bare, of.metric)
    files = {MODELS: delivered.pack(targets=list(of.targets)), METRICS: as_json(metrics)}
    if delivered.moved.shape[1]:
        files[SENSITIVITY] = _parquet(
            _moved(
                of,
                delivered.moved,
                OWN in alpha_file.from_csv(folder.read(ALPHA).decode(), ALPHA)[1],
            )
        )
    return files


def metrics_of(
    delivered: Delivered,
    targets: Sequence[str],
    rows: Array,
    metric: str,
    plan: Sequence[str],
) -> dict[str, Any]:
    """Return metrics.json of these models; `rows` (M,) are those that they were scored on."""
    judged = Judged(delivered.loss, delivered.error, delivered.paired, delivered.also)
    return {
        **scores.metrics(judged, rows, metric),
        "plan": list(plan),
        "status": delivered.status.tolist(),
        "certificate": {
            "rests_on": delivered.rests_on,
            "distance": exactly(delivered.distance),
            "excess_risk": exactly(delivered.excess_risk),
            "gradient": exactly(delivered.gradient),
        },
        "targets": list(targets),
    }


def _moved(of: Prepared, moved: Floats, own: bool) -> dict[str, Any]:
    """Return a table with a row per target and column."""
    each = [(t, (*m.sources, *([OWN] if own else []))) for m in of.members for t in m.targets]
    return {
        "target": [t for t, columns in each for _ in columns],
        "column": [c for _, columns in each for c in columns],
        # rows of groups with fewer sources end with NaN
        "moves": np.concatenate(
            [row[: len(columns)] for row, (_, columns) in zip(moved, each, strict=True)]
        ),
    }


def _parquet(columns: dict[str, Any]) -> bytes:
    import pyarrow as pa
    from pyarrow import parquet

    out = io.BytesIO()
    parquet.write_table(pa.table(columns), out, compression="zstd")
    return out.getvalue()
