"""What comes back: a `Status` per row, and `Mixtures` (`Solution` is in solution.py)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

from cuvee.errors import OptionError, StatusError
from cuvee.outputs.notebook import html_table
from cuvee.outputs.visible import visible

Floats = npt.NDArray[np.float64]
OWN = "(own sample)"
"""The last column's name when each target's own sample joins its mixture."""


class Status(Enum):
    """How one row of a batch ended; `sentence` says what that means for the reader."""

    CONVERGED = "converged"
    STEP_LIMIT = "step limit"
    DIVERGED = "diverged"
    CLOSED_FORM = "closed form"
    LABEL_FREE = "label-free"
    SOLVED = "solved"
    ROUNDED = "solved to rounding"
    TRAINED = "trained"
    FITTED = "fitted"
    ITERATION_LIMIT = "iteration limit"
    ILL_CONDITIONED = "ill-conditioned"
    ABSENT_CLASS = "absent class"
    PREDICTED = "predicted"
    CERTIFIED = "certified"
    CORRECTED = "corrected"
    OFF_TOLERANCE = "off tolerance"

    @property
    def sentence(self) -> str:
        return _SENTENCES[self]

    @property
    def ok(self) -> bool:
        """Return whether the row can be used as it is."""
        return self in _GOOD

    def __str__(self) -> str:
        return self.value


_GOOD = {Status.CONVERGED, Status.CLOSED_FORM, Status.LABEL_FREE, Status.SOLVED, Status.TRAINED}
_GOOD |= {Status.ROUNDED, Status.FITTED, Status.PREDICTED, Status.CERTIFIED, Status.CORRECTED}
_SENTENCES = {
    Status.CONVERGED: "Neither player could change the objective by more than the tolerance.",
    Status.STEP_LIMIT: (
        "The steps ran out first: what was found is usable, its gap or gradient says how far from "
        "stationary it is; "
        "try more steps."
    ),
    Status.DIVERGED: (
        "It ran away or overflowed: what is returned is the last finite iterate, if there was one. "
        "Rescale the data; "
        "for mixture weights use loss='bounded' or give a radius."
    ),
    Status.CLOSED_FORM: "No minimax problem was solved: the weights follow directly from the data.",
    Status.LABEL_FREE: (
        "The target has no label: its inputs were matched by those of sources, and whether its "
        "labels follow their rule cannot be known."
    ),
    Status.SOLVED: "The gradient of the mixture's risk is within the tolerance.",
    Status.ROUNDED: (
        "The gradient of the mixture's risk is above the tolerance, but no larger than what "
        "rounding leaves of sums of such large numbers: float64 holds hardly a better model. "
        "To be within the tolerance, rescale columns and labels, or ask for a larger one."
    ),
    Status.TRAINED: (
        "Training stopped when held-out rows no longer gained; nothing is proven of a network."
    ),
    Status.FITTED: "The estimator was fitted on weighed rows; such a model carries no certificate.",
    Status.ITERATION_LIMIT: (
        "The passes ran out first: the gradient and the certificate say how far w is from w*."
    ),
    Status.ILL_CONDITIONED: (
        "Rounding ended it above the tolerance, or many w are equally good and this is the one of "
        "least norm: "
        "give more l2, rescale the columns, or ask for a larger tolerance."
    ),
    Status.ABSENT_CLASS: (
        "No source with positive weight has some class, whose intercept would fall for ever: the "
        "others are solved "
        "and that class is never predicted."
    ),
    Status.PREDICTED: (
        "Predicted without a look at the data; calibrated so that the stated share of such rows, "
        "of mixtures like "
        "those calibrated on, is within the tolerance."
    ),
    Status.CERTIFIED: "Predicted; one pass over the data proved it within the tolerance.",
    Status.CORRECTED: (
        "Predicted, then corrected on the data until it was proven within the tolerance."
    ),
    Status.OFF_TOLERANCE: (
        "Predicted, but not known to be within the tolerance: the certificate says how far off it "
        "may be; "
        "ask for trust='corrected', or solve."
    ),
}


def raise_unless_ok(names: Sequence[str], status: Sequence[Status]) -> None:
    """Raise `StatusError` that names the first few rows that did not end well."""
    bad = [f"{name}: {s} ({s.sentence})" for name, s in zip(names, status, strict=True) if not s.ok]
    if bad:
        more = f"; and {len(bad) - 5} more" if len(bad) > 5 else ""
        raise StatusError("; ".join(bad[:5]) + more)


@dataclass(frozen=True)
class Trace:
    """What a plot of the run needs: R recorded steps.

    α and F are those of the iterates themselves, not of their averages; the gap is that of what
    would be returned if the run ended there, on full data, so that the last one is `mix.gap`.
    """

    step: npt.NDArray[np.int64]  # (R,)
    objective: Floats  # (R, M) F as the run itself estimates it
    gap: Floats  # (R, M) as `Mixtures.gap`; NaN at steps at which it was not measured
    alpha: Floats  # (R, M, columns)


@dataclass(frozen=True)
class Candidate:
    """One mixture that was tried for every target.

    It has its weights, cross-validated loss and share in the result.
    """

    name: str
    alpha: Floats  # (M, columns)
    cv_loss: Floats  # (M,) mean held-out loss on the target's labelled rows
    share: Floats  # (M,) how much of the returned α is this candidate


PER_TARGET = ("alpha", "cv_loss", "share")  # fields of `Candidate` with a row each


@dataclass(frozen=True)
class Mixtures:
    """Mixture weights for M targets; every field has one row per target."""

    alpha: Floats  # (M, columns) on the simplex
    columns: tuple[str, ...]  # names of the sources, and OWN where the target's own sample joined
    targets: tuple[str, ...]
    gap: Floats
    """(M,) Definition 1 of the paper, on full data, with an η and a γ of the problem's own scale,
    whatever steps the run took; NaN where nothing was optimised. For "cuts" how much F may be above
    its least value, as far as adversaries saw; for "path" the mean of that over the path's points,
    each at its own C, weighed by what the target's own rows give them.
    """
    status: tuple[Status, ...]
    method: str
    # (M,) F at the end, on full data; NaN where nothing was optimised
    objective: Floats = field(repr=False)
    trace: Trace | None = field(default=None, repr=False)
    candidates: tuple[Candidate, ...] = field(default=(), repr=False)
    notes: tuple[str, ...] = ()

    @classmethod
    def concat(cls, parts: Sequence[Mixtures], columns: Sequence[str] | None = None) -> Mixtures:
        """Return the targets of all parts in one, in the order of the parts.

        Parts may have different sources: α then has a column for each name in `columns` (by default
            each name in the
        parts, the own sample's last), and is NaN where a target has no such source. The trace and
        the candidates are kept where all parts have the same columns and tried the same candidates.

        Example:
            >>> import cuvee
            >>> from cuvee.data.synthetic import grouped_classes
            >>> morning, evening = (
            ...     cuvee.estimate(grouped_classes(0, n_targets=n), cuvee.Ridge(), method="uniform")
            ...     for n in (2, 3)
            ... )
            >>> cuvee.Mixtures.concat([morning, evening]).alpha.shape
            (5, 9)
        """
        if not parts:
            raise OptionError("there are no mixtures to join: pass at least one part")
        first = parts[0]
        if columns is None:
            columns = sorted(
                dict.fromkeys(_chained(parts, "columns")), key=lambda name: name == OWN
            )
        same = all(part.columns == tuple(columns) for part in parts)
        if same and len(parts) == 1:
            return first
        return cls(
            alpha=np.concatenate([widen(part.alpha, part.columns, columns) for part in parts]),
            columns=tuple(columns),
            targets=tuple(_chained(parts, "targets")),
            gap=_stacked(parts, "gap"),
            status=tuple(_chained(parts, "status")),
            method=first.method,
            objective=_stacked(parts, "objective"),
            trace=_joined_traces([part.trace for part in parts]) if same else None,
            candidates=_joined_candidates([part.candidates for part in parts]) if same else (),
            notes=tuple(dict.fromkeys(_chained(parts, "notes"))),
        )

    def without_self(self) -> Mixtures:
        """Return the same with NaN, no weight at all, where a target is named as a source is."""
        itself = np.array(self.targets)[:, None] == np.array(self.columns)
        blank = [replace(c, alpha=np.where(itself, np.nan, c.alpha)) for c in self.candidates]
        return replace(self, alpha=np.where(itself, np.nan, self.alpha), candidates=tuple(blank))

    def in_order(self, targets: Sequence[str]) -> Mixtures:
        """Return the same rows in the order of these names, which must be those of the targets."""
        row = {name: i for i, name in enumerate(self.targets)}
        at = np.array([row[name] for name in targets], dtype=np.int64)
        return replace(
            self,
            alpha=self.alpha[at],
            targets=tuple(targets),
            gap=self.gap[at],
            status=tuple(self.status[i] for i in at),
            objective=self.objective[at],
            trace=None
            if self.trace is None
            else Trace(
                self.trace.step,
                *(getattr(self.trace, f)[:, at] for f in ("objective", "gap", "alpha")),
            ),
            candidates=tuple(
                Candidate(c.name, *(getattr(c, f)[at] for f in PER_TARGET)) for c in self.candidates
            ),
        )

    def raise_for_status(self) -> Mixtures:
        """Return self; raise `StatusError` naming the targets that did not end well.

        These diverged or hit the step limit.
        """
        raise_unless_ok(self.targets, self.status)
        return self

    def top(self, target: int | str, n: int = 5) -> list[tuple[str, float]]:
        """Return the n heaviest columns of one target, heaviest first."""
        if isinstance(target, str) and target not in self.targets:
            raise OptionError(
                f"no target named {target!r}; there is {', '.join(self.targets[:10])}"
            )
        row = self.alpha[self.targets.index(target) if isinstance(target, str) else target]
        return [(self.columns[j], float(row[j])) for j in np.argsort(-row, kind="stable")[:n]]

    def _ending(self, i: int) -> str:
        """Return in words how the weights of a target were found.

        The path averages what it tries by cross-validated loss: whether each search along it had
        settled is not what its weights rest on, and nobody is asked to act on it; `status` and
        `gap` have it.
        """
        if self.method == "path" and self.status[i] in (Status.CONVERGED, Status.STEP_LIMIT):
            return (
                f"average of {len(self.candidates)} mixtures tried"
                if self.candidates
                else "average of all tried"
            )
        gap = "" if np.isnan(self.gap[i]) else f"gap {self.gap[i]:.2g}, "
        return f"{gap}{self.status[i]}"

    def __repr__(self) -> str:
        targets = "1 target" if len(self.targets) == 1 else f"{len(self.targets)} targets"
        head = f"Mixtures of {len(self.columns)} columns for {targets}, method {self.method!r}"
        lines = []
        for i, name in enumerate(self.targets[:8]):
            heaviest = "; ".join(f"{visible(column)} {a:.2f}" for column, a in self.top(i, 3))
            lines.append(f"  {visible(name)}: {heaviest} | {self._ending(i)}")
        more = [f"  … and {len(self.targets) - 8} more"] if len(self.targets) > 8 else []
        return "\n".join([head, *lines, *more])

    def _repr_html_(self) -> str:
        rows = [
            (name, "; ".join(f"{column} {a:.2f}" for column, a in self.top(i, 4)), self._ending(i))
            for i, name in enumerate(self.targets[:20])
        ]
        more = f"\n… and {len(self.targets) - 20} more" if len(self.targets) > 20 else ""
        note = repr(self).splitlines()[0] + more
        return html_table(("target", "learns from", "how it was found"), rows, note)


def widen(alpha: Floats, columns: Sequence[str], to: Sequence[str]) -> Floats:
    """Return weights (M, columns) as (M, to), with NaN where a target has no such source."""
    wide = np.full((len(alpha), len(to)), np.nan)
    place = {name: j for j, name in enumerate(to)}
    wide[:, [place[name] for name in columns]] = alpha
    return wide


def _stacked(parts: Sequence[Any], field: str) -> Floats:
    """Return an array of all parts, one after the other."""
    return np.concatenate([getattr(part, field) for part in parts])


def _chained(parts: Sequence[Any], field: str) -> Iterator[Any]:
    """Yield what a field of all parts holds, one part after the other."""
    for part in parts:
        yield from getattr(part, field)


def _joined_traces(traces: Sequence[Trace | None]) -> Trace | None:
    """Return one trace of all targets.

    Those that ended early are carried on at their last record.
    """
    kept = [trace for trace in traces if trace is not None]
    if len(kept) < len(traces):
        return None
    step = np.unique(np.concatenate([t.step for t in kept]))
    # The last record at or before each step; before the first record, the first.
    at = [np.maximum(np.searchsorted(t.step, step, side="right") - 1, 0) for t in kept]
    merged = (
        np.concatenate([getattr(t, f)[i] for t, i in zip(kept, at, strict=True)], 1)
        for f in ("objective", "gap", "alpha")
    )
    return Trace(step, *merged)


def _joined_candidates(parts: Sequence[tuple[Candidate, ...]]) -> tuple[Candidate, ...]:
    """Return what was tried for all targets; nothing where other mixtures were tried for others."""
    if len({tuple(c.name for c in part) for part in parts}) > 1:
        return ()
    return tuple(
        Candidate(same[0].name, *(_stacked(same, f) for f in PER_TARGET))
        for same in zip(*parts, strict=True)
    )
