"""The sources of a finished run, in memory: new mixtures and new targets are made from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
import torch

from cuvee.api import ModelMap, learn
from cuvee.api.bound import Bound
from cuvee.api.checks import MEMORY
from cuvee.data.blends import of_sources
from cuvee.data.fingerprint import is_same
from cuvee.data.held_out import Divided
from cuvee.data.opened import decodable, open_table
from cuvee.data.options import LINEAR
from cuvee.data.prepare import prepare
from cuvee.data.prepared import Group, Members, Prepared
from cuvee.errors import InputError, MixtureError, OptionError
from cuvee.hypothesis import Hypothesis
from cuvee.hypothesis.base import Space
from cuvee.numerics.parallel import workers
from cuvee.problem import Array
from cuvee.results import OWN, Floats, Status
from cuvee.run.decided import decided
from cuvee.run.models import LARGEST
from cuvee.run.owned import Owned
from cuvee.run.run import Run
from cuvee.run.tables import check_same
from cuvee.simplex import check_alpha
from cuvee.solution import Certificate

Rows = tuple[Array, Array]  # encoded X, y
MOST_OWNED = 16  # targets whose rows are kept ready for mixtures


@dataclass(frozen=True, eq=False)
class Mixed:
    """Models of M mixtures of the sources; every field has a row per mixture."""

    alpha: Floats  # (M, N), or (M, N+1) where the last column weighs a target's own sample
    w: Floats  # (M, P)
    offset: Floats  # (M,) to add to predictions: the sources' levels, weighed
    status: tuple[Status, ...]
    certificate: Certificate
    moves: Floats | None  # (M, N, P) dw*/dα; None where there is no w*(α), or it is too large
    score: Floats  # (M, 3) on the rows of a target, with its interval; NaN where there are none
    tol: float  # on ‖∇‖∞, which the statuses speak of: the run's, or the map's

    def part(self, i: int) -> Mixed:
        """Return the mixture i alone."""
        one, bounds = slice(i, i + 1), self.certificate
        known = bounds.calibrated
        certificate = replace(
            bounds,
            distance=bounds.distance[one],
            excess_risk=bounds.excess_risk[one],
            gradient_norm=bounds.gradient_norm[one],
            calibrated=None if known is None else known[one],
        )
        moves = None if self.moves is None else self.moves[one]
        status = self.status[one]
        rows = self.alpha[one], self.w[one], self.offset[one], status, certificate, moves
        return Mixed(*rows, self.score[one], self.tol)


@dataclass(frozen=True, eq=False)
class Base:
    """One group of all sources of a run, without targets, encoded once."""

    prepared: Prepared
    members: Members  # the sources and the encoder; no targets
    group: int  # its number in prepared.json; one more than the last where the run has no such
    rows: Mapping[str, Rows]  # source, or target of the run -> encoded X, y
    divided: Divided  # of every target of the run: its rows to learn from, and for scores

    @classmethod
    def of(cls, run: Run, source: Any = None) -> Base:
        """Read the table of a run again, and return its sources.

        `source` is needed where the run was made from a table in memory, or where it has moved.
        """
        data, options = run.about["data"], replace(run.options, metric=run.metrics["metric"])
        source = data["path"] if source is None else source
        if source is None:
            raise InputError(
                f"{run.path} was made from a table in memory, so that its sources are not known: "
                "name the table"
            )
        model = decided(run.folder, options).model
        if model != LINEAR:
            raise InputError(
                f"the models of {run.path} are {model}, and only linear ones can be mixed anew or "
                "given to new targets: make a run with --model linear"
            )
        prepared = prepare(source, replace(options, on=None))
        if not is_same(prepared.fingerprint, data["fingerprint"], data.get("name")):
            raise InputError(
                f"the table is not the one that {run.path} was made from: bring that back, or "
                "make a new run"
            )
        check_same(prepared, run.folder)
        members, group, divided = prepared.members[0], 0, prepared.divided
        if len(prepared.members) > 1:  # every domain in turn: a new target learns from all
            with decodable():
                together = of_sources(open_table(source, options), prepared.sources)
            prepared, group = together, len(prepared.members)
            members = prepared.members[0]
        alone = replace(members, targets=())
        rows = cast(Mapping[str, Rows], prepared.rows(members))  # all of them are here
        return cls(prepared, alone, group, rows, divided)

    @property
    def sources(self) -> tuple[str, ...]:
        """Return the names (N,) of the sources."""
        return self.members.sources

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the encoded columns."""
        return self.members.encoder.names

    @cached_property
    def hypothesis(self) -> Hypothesis:
        return self.prepared.hypothesis(self.members)

    @cached_property
    def alone(self) -> Group:
        """Return the sources as a problem without targets, at one level."""
        kept = replace(self.prepared, divided={}, rows=lambda who: self.rows)
        return kept.group(self.members)

    @cached_property
    def bound(self) -> Bound:
        """Return the sources with the oracle that answers for their mixtures."""
        seed = self.prepared.options.seed
        return Bound.of(self.alone.whole, self.hypothesis, "cpu", MEMORY, seed)

    def has_rows(self, target: str) -> bool:
        """Return whether the labelled rows of a target are at hand; those of added ones are not."""
        return target in self.rows and any(map(len, self.divided.get(target, ())))

    def test_rows(self, target: str) -> int:
        """Return how many rows of a target are kept for scores, as far as rows are at hand."""
        return len(self.divided[target][1]) if self.has_rows(target) else 0

    def owned(self, target: str) -> Owned:
        """Return a target of the run with its rows; those asked for lately are kept."""
        kept = self._owned
        kept[target] = kept.pop(target) if target in kept else Owned.of(self, target)
        if len(kept) > MOST_OWNED:
            kept.pop(next(iter(kept)))
        return kept[target]

    @cached_property
    def _owned(self) -> dict[str, Owned]:
        return {}

    @property
    def space(self) -> Space:
        return self.bound.space

    def learnt(self, progress: Callable[[str, int, int], None] | None = None) -> ModelMap:
        """Return a map w*(α) of the sources, learnt now; it takes seconds to minutes.

        What it answers is looked at on the data: it is not calibrated.
        """
        return learn(
            self.alone.whole.sources,
            self.hypothesis,
            n_calibration=0,
            seed=self.prepared.options.seed,
            progress=progress,
        )

    def alpha(self, weights: Mapping[str, float], target: str | None = None) -> Floats:
        """Return weights by the names of sources as α (N,); who is not named weighs nothing.

        Where the own sample of `target` is weighed, too, it is (N+1,) with that weight last.
        """
        unknown = next((name for name in weights if name not in (*self.sources, OWN)), None)
        if unknown is not None:
            raise MixtureError(f"alpha names {unknown!r}, which is no source of this run")
        if target is not None and weights.get(target, 0.0) != 0.0:
            raise MixtureError(
                f"alpha weighs {target!r} for itself, with the rows for its scores: weigh {OWN!r}"
            )
        own = weights.get(OWN, 0.0) != 0.0
        if own and target is None:
            raise MixtureError(f"alpha weighs {OWN!r}: say whose, by naming a target")
        if own and not self.has_rows(str(target)):
            raise MixtureError(
                f"alpha weighs {OWN!r}, but the run does not keep the rows of target {target!r}: "
                "weigh sources alone"
            )
        columns = (*self.sources, OWN) if own else self.sources
        alpha = np.array([[weights.get(name, 0.0) for name in columns]], dtype=np.float64)
        return np.asarray(check_alpha(alpha, len(columns))[0])

    @workers()
    def mixed(
        self,
        alpha: Sequence[Floats],
        atlas: ModelMap | None,
        trust: str | None,
        target: str | None = None,
        *,
        moves: bool = True,
    ) -> Mixed:
        """Return the models of mixtures (M, N): solved, or the map's, proven on the data.

        `trust` is "certified", or "corrected", which is the default. Nothing can be proven of a
        network: its mixtures are solved. Where `target` is one whose rows are at hand they are
        scored on those. Mixtures (M, N+1) that weigh its own sample are solved.
        """
        a = np.stack(alpha)
        atlas = atlas if self.space.convex else None
        owned = None if target is None or not self.has_rows(target) else self.owned(target)
        own = a.shape[1] > len(self.sources)
        if own and trust == "certified":
            raise OptionError(
                f"mixtures that weigh {OWN!r} are solved on the data: trust {trust!r} cannot be had"
            )
        tensor = torch.as_tensor(a)
        oracle = owned.oracle if own and owned is not None else self.bound.oracle
        tol = self.prepared.options.tol if atlas is None or own else atlas.tol
        if atlas is None or own:
            outcome = oracle.solve(tensor, tol=tol)
            w, status = _numpy(outcome.w), tuple(outcome.status.tolist())
            certificate = Certificate(
                _numpy(outcome.bounds.distance),
                _numpy(outcome.bounds.excess),
                _numpy(outcome.gradient),
                oracle.rests_on,
            )
        else:
            solution = atlas(a, trust="certified" if trust == "certified" else "corrected")
            w, status, certificate = solution.w, solution.status, solution.certificate
        moved = None
        if moves and self.space.convex and self.space.n_params <= LARGEST:
            moved = _numpy(oracle.sensitivity(tensor, torch.as_tensor(w)))
        offset = a @ self.alone.levels if owned is None else np.full(len(a), owned.offset)
        score = np.full((len(a), 3), np.nan) if owned is None else owned.score(w)
        return Mixed(a, w, offset, status, certificate, moved, score, tol)


def _numpy(x: torch.Tensor) -> Floats:
    return np.asarray(x.double().cpu())
