"""The models of a run: those that are scored, those that are delivered, and what is
proven of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cuvee.api import ModelMap, sensitivity, solve
from cuvee.data.encode import Encoder
from cuvee.data.options import Options, hypothesis_of
from cuvee.data.prepared import Group
from cuvee.data.task import Task
from cuvee.hypothesis import Hypothesis
from cuvee.hypothesis.base import Space
from cuvee.outputs import files
from cuvee.problem import Array, Domain, Problem
from cuvee.results import Floats
from cuvee.run import expected
from cuvee.run.explained import importance
from cuvee.run.judge import MOST, answers_of, judge
from cuvee.run.scores import simple_mixtures
from cuvee.solution import Solution

WHAT, FORMAT = "models of cuvee", 1
CHUNK = 1024  # targets whose models are solved together
LARGEST = 2_000  # parameters of a model whose sensitivities are worth their Hessian
NUMBERS = 2**24  # held at a time in sensitivities


@dataclass(frozen=True, eq=False)
class Delivered:
    """Models of some targets; every field has a row per target."""

    w: Floats  # (M, P)
    offset: Floats  # (M,) to add to predictions
    status: Array  # (M,) values of `Status`
    distance: Floats  # (M,) of the certificate
    excess_risk: Floats  # (M,)
    gradient: Floats  # (M,)
    loss: Floats  # (M, methods) as `Judged` has it
    error: Floats
    paired: Floats
    moved: Floats  # (M, columns) of `sensitivities`; no columns where there are none
    rests_on: str
    # (M, methods, scores) of `Judged`
    also: Floats = field(default_factory=lambda: np.zeros((0, 0, 0)))
    # (M, expected.COLUMNS); NaN where every target of the run has labels
    bare: Floats = field(default_factory=lambda: expected.unknown(0))
    # (M, raw columns, 2) of `importance`; no columns where nobody asked
    importance: Floats = field(default_factory=lambda: np.zeros((0, 0, 2)))

    def pack(self, **more: Any) -> bytes:
        values = {
            f.name: getattr(self, f.name)
            for f in fields(self)
            if f.name not in ("status", "rests_on")
        }
        header = {
            "format": FORMAT,
            "what": WHAT,
            "status": self.status.tolist(),
            "rests_on": self.rests_on,
            **more,
        }
        return files.packed(
            {name: torch.as_tensor(np.ascontiguousarray(v)) for name, v in values.items()}, header
        )

    @classmethod
    def unpack(cls, content: bytes, where: Path) -> Delivered:
        tensors, header = files.unpacked(content, where, WHAT, FORMAT)
        with files.understood(where, WHAT):
            status = np.array(header["status"], dtype=object)
            known = {f.name for f in fields(cls)}  # an older version wrote more
            numbers = {
                "bare": expected.unknown(len(status)),
                "importance": np.zeros((len(status), 0, 2)),
                **{name: t.numpy() for name, t in tensors.items() if name in known},
            }
            return cls(**numbers, status=status, rests_on=header["rests_on"])

    @classmethod
    def joined(cls, parts: list[Delivered]) -> Delivered:
        arrays = [f.name for f in fields(cls) if f.name != "rests_on"]
        width = max(p.moved.shape[1] for p in parts)  # groups may have more sources than others
        longest = max(p.w.shape[1] for p in parts)  # groups may have seen different categories
        return cls(
            **{
                n: np.concatenate([getattr(p, n) for p in parts])
                for n in arrays
                if n not in ("moved", "w")
            },
            w=np.concatenate([np.pad(p.w, ((0, 0), (0, longest - p.w.shape[1]))) for p in parts]),
            moved=np.concatenate(
                [
                    np.pad(
                        p.moved,
                        ((0, 0), (0, width - p.moved.shape[1])),
                        constant_values=np.nan,
                    )
                    for p in parts
                ]
            ),
            rests_on=parts[0].rests_on,
        )


def deliver(
    group: Group,
    hypothesis: Hypothesis,
    alpha: Floats,
    atlas: ModelMap | None,
    options: Options,
    encoder: Encoder,
    *,
    metric: str,
    most: int = MOST,
    bare: bool = False,
) -> Delivered:
    """Return the models of a group's targets, with their scores beside the simple mixtures.

    Models are solved, or asked of the map; those delivered learn from all labelled rows.

    The first `most` targets have the scores beside the metric. With `bare`, targets are scored as
    if they had no labels, too.
    """
    sources = np.array([s.n_rows for s in group.problem.sources], dtype=float)
    simple = simple_mixtures(
        sources, np.array([t.n_rows for t in group.problem.targets], dtype=float)
    )
    scored = _models(group.problem, hypothesis, alpha, atlas, options)
    compared = [_w(group.plain, hypothesis, simple[:, k], options) for k in range(simple.shape[1])]
    w = np.stack([scored.w, *compared], 1)  # (M, methods, P)
    judged = judge(
        scored.space, w, group.test, group.offset, group.plain.targets, metric, most=most
    )
    own = alpha.shape[1] > group.problem.n_sources
    # no own rows: the same
    final = _models(group.whole, hypothesis, alpha, atlas, options) if own else scored
    return Delivered(
        w=final.w,
        offset=levels(group, alpha),
        status=np.array([str(s) for s in final.status], dtype=object),
        distance=final.certificate.distance,
        excess_risk=final.certificate.excess_risk,
        gradient=final.certificate.gradient_norm,
        loss=judged.loss,
        error=judged.error,
        paired=judged.paired,
        also=judged.also,
        moved=sensitivities(group, hypothesis, alpha, final),
        rests_on=final.certificate.rests_on,
        importance=_importance(group, scored, encoder, options, metric),
        bare=expected.scores(group, hypothesis, options, metric)
        if bare
        else expected.unknown(len(alpha)),
    )


def _importance(
    group: Group, scored: Solution, encoder: Encoder, options: Options, metric: str
) -> Floats:
    """Return how much the score of each model needs each raw column, (M, columns, 2)."""
    M, space = len(scored.w), scored.space
    if not options.importance:
        return np.zeros((M, 0, 2))

    def answer(i: int, X: Floats) -> Floats:
        w = torch.as_tensor(scored.w[i], dtype=space.dtype)
        rows = space.prepare(torch.as_tensor(X, dtype=space.dtype))
        with torch.no_grad():
            answers = answers_of(space, space.scores(w, rows))
        return answers if answers.ndim > 1 else answers + group.offset[i]

    classes = getattr(space, "classes", None)
    return np.stack(
        [
            importance(partial(answer, i), group.test[i], classes, metric, encoder, options.seed)
            for i in range(M)
        ]
    )


def levels(group: Group, alpha: Floats) -> Floats:
    """Return the level (M,) of each target, which is added to the predictions of its model.

    A target without labels has the level of its sources, weighed as they are by α (M, columns).
    """
    bare = [t.n_rows == 0 for t in group.whole.targets]
    shared = np.nan_to_num(alpha[:, : len(group.levels)]) @ group.levels
    return np.where(bare, shared, group.whole_offset)


def _models(
    problem: Problem,
    hypothesis: Hypothesis,
    alpha: Floats,
    atlas: ModelMap | None,
    options: Options,
) -> Solution:
    if atlas is not None:
        return atlas(alpha)
    return solve(problem, hypothesis, alpha, tol=options.tol, seed=options.seed)


def _w(problem: Problem, hypothesis: Hypothesis, alpha: Floats, options: Options) -> Floats:
    """Return the models (M, P) of a simple mixture, given as (M, N+1).

    One without own samples that is the same for all targets has one model.
    """
    N = problem.n_sources
    if len(alpha) > 1 and not alpha[:, N].any() and (alpha == alpha[0]).all():
        one = _models(problem, hypothesis, alpha[:1, :N], None, options)
        return np.repeat(one.w, len(alpha), 0)
    return _models(problem, hypothesis, alpha, None, options).w


def sensitivities(
    group: Group, hypothesis: Hypothesis, alpha: Floats, solution: Solution
) -> Floats:
    """Return how far each model moves (M, columns), relative to its norm, as α changes.

    That is per unit of α that one column gains and all others give up.

    (M, columns): ‖Σ_k (δ_jk − α_k) dw*/dα_k‖ / ‖w‖. No columns where there is no w*(α), or its
    Hessian is too large.
    """
    space = solution.space
    if not space.convex or space.n_params > LARGEST:
        return np.zeros((len(alpha), 0))
    own = alpha.shape[1] > group.whole.n_sources
    size = max(1, NUMBERS // (alpha.shape[1] * space.n_params))
    parts = []
    for low in range(0, len(alpha), size):
        chunk = slice(low, low + size)
        part = group.part(chunk).whole if own else group.whole
        moves = sensitivity(part, hypothesis, alpha[chunk], solution.w[chunk])  # (m, columns, P)
        if moves.shape[1] < alpha.shape[1]:  # none of these targets has an own sample
            moves = np.pad(moves, ((0, 0), (0, 1), (0, 0)))
        moves = moves - np.einsum("mj,mjp->mp", alpha[chunk], moves)[:, None]
        norm = np.linalg.norm(solution.w[chunk], axis=1)[:, None]
        parts.append(np.linalg.norm(moves, axis=2) / np.maximum(norm, 1e-300))
    moved = np.concatenate(parts)
    if own:
        moved[[t.n_rows == 0 for t in group.whole.targets], -1] = np.nan
    return moved


def space_of(options: Options, task: str, n_inputs: int, classes: Array | None) -> Space:
    """Return the space that models were solved in, without their data.

    Sizes and classes are all that it needs of them.
    """
    y = np.array([0.0, 1.0]) if classes is None else classes
    X = np.zeros((len(y), n_inputs))
    hypothesis = hypothesis_of(
        options, Task(task), n_inputs, 1 if classes is None else len(classes)
    )
    return hypothesis.bind(Problem([Domain("sizes", X, y)]).facts)
