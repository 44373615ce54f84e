"""The labelled rows of one target of a run: a mixture may weigh them, and is scored on others."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from cuvee.data.prepared import Group
from cuvee.hypothesis.base import Space
from cuvee.oracle import Oracle
from cuvee.results import Floats
from cuvee.run.judge import judge
from cuvee.run.scores import intervals

if TYPE_CHECKING:
    from cuvee.run.base import Base


@dataclass(frozen=True, eq=False)
class Owned:
    """A target with its rows: those to learn from, which α may weigh, and those for scores.

    Models that weigh its own sample do not learn from the rows for scores, unlike the delivered
    one, so that every score is of rows that the model has not seen.
    """

    group: Group
    space: Space
    oracle: Oracle  # of the sources, and of its own sample as the last component
    metric: str  # of scores

    @classmethod
    def of(cls, base: Base, name: str) -> Owned:
        """Return a target of the run, whose rows `base` has."""
        members = replace(base.members, targets=(name,))
        posed = replace(
            base.prepared, divided={name: base.divided[name]}, rows=lambda who: base.rows
        )
        group = posed.group(members)
        space = base.hypothesis.bind(group.problem.facts)
        oracle = base.bound.family(group.problem, space)
        return cls(group, space, oracle, base.prepared.metric)

    @property
    def offset(self) -> float:
        """Return what is added to predictions: the target's level."""
        return float(self.group.offset[0])

    def score(self, w: Floats) -> Floats:
        """Return the score of each model w (M, P) with its 95 % interval, (M, 3).

        It is that of the run's metric; NaN without rows for scores.
        """
        M, metric = len(w), self.metric
        test, own = self.group.test[0], self.group.plain.targets[0]
        offset = np.full(M, self.offset)
        judged = judge(self.space, w[:, None], [test] * M, offset, [own] * M, metric, most=0)
        rows = np.full(M, 0 if test is None else test.n_rows)
        each = intervals(judged, rows, metric)  # (M, methods) each
        return np.stack([values[:, 0] for values in each], -1)
