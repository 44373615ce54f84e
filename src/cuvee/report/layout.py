"""Which rows and columns of α are drawn, and in what order: likes beside likes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cuvee.api import OWN
from cuvee.report.findings import Findings
from cuvee.results import Floats

ROWS, COLUMNS = 60, 40  # drawn at most
CLUSTERED = 800  # rows looked at: distances between all pairs must fit into memory and patience
Indices = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Layout:
    """Indices of targets and of α's columns, as they are drawn."""

    rows: Indices
    columns: Indices  # sources alone
    others: Indices  # sources too light to be drawn, summed into one column
    own: int | None  # the column of own samples


def layout(findings: Findings) -> Layout:
    """Clustered rows and columns; of too many rows an even choice along their order, of columns the
    heaviest.
    """
    alpha = np.nan_to_num(findings.alpha)
    n_sources, own = len(findings.columns), None
    if findings.columns and findings.columns[-1] == OWN:
        n_sources, own = n_sources - 1, n_sources - 1
    heaviest = np.argsort(-alpha[:, :n_sources].sum(0), kind="stable")
    drawn, others = heaviest[:COLUMNS], np.sort(heaviest[COLUMNS:])
    rows = spread(np.arange(len(alpha)), CLUSTERED)
    rows = spread(rows[clustered(alpha[rows])], ROWS)
    if set(findings.targets) >= {findings.columns[j] for j in drawn} and len(rows) == len(alpha):
        # Every domain in turn: one order for both, so that what helps each other stands along the
        # diagonal.
        place = {findings.targets[i]: k for k, i in enumerate(rows)}
        columns = np.array(sorted(drawn, key=lambda j: place[findings.columns[j]]), dtype=np.intp)
    elif len(alpha) == 1:
        columns = drawn
    else:
        columns = np.sort(drawn)[clustered(alpha[:, np.sort(drawn)].T)]
    return Layout(rows, columns, others, own)


def clustered(values: Floats) -> Indices:
    """An order of the rows in which neighbours are as alike as a tree allows; as they are, where
    there is no tree.
    """
    if len(values) < 3 or values.shape[1] == 0 or np.ptp(values, axis=0).max() == 0.0:
        return np.arange(len(values))
    from scipy.cluster.hierarchy import leaves_list, linkage

    return np.asarray(
        leaves_list(linkage(values, "average", optimal_ordering=len(values) <= 200)), dtype=np.intp
    )


def spread(items: Indices, most: int) -> Indices:
    """At most so many of them, evenly from the first to the last."""
    if len(items) <= most:
        return items
    return items[np.linspace(0, len(items) - 1, most).round().astype(np.intp)]
