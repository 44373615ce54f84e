"""Choose which rows and columns of α are drawn, and put similar ones side by side."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cuvee.api import OWN
from cuvee.report.findings import Findings
from cuvee.results import Floats

ROWS, COLUMNS = 60, 40  # drawn at most
CLUSTERED = 800  # rows clustered at most: more pairs would take too much memory and time
Indices = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Layout:
    """Hold the indices of targets and of α's columns, as they are drawn."""

    rows: Indices
    columns: Indices  # sources alone
    others: Indices  # sources too light to be drawn, summed into one column
    own: int | None  # the column of own samples


def layout(findings: Findings) -> Layout:
    """Return clustered rows and columns of α.

    Of too many rows it keeps an even choice along their order, of too many columns the heaviest.
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
        # Every domain in turn is a target: one order for both, so that domains that help each
        # other stand along the diagonal.
        place = {findings.targets[i]: k for k, i in enumerate(rows)}
        columns = np.array(sorted(drawn, key=lambda j: place[findings.columns[j]]), dtype=np.intp)
    elif len(alpha) == 1:
        columns = drawn
    else:
        columns = np.sort(drawn)[clustered(alpha[:, np.sort(drawn)].T)]
    return Layout(rows, columns, others, own)


def clustered(values: Floats) -> Indices:
    """Return an order of the rows in which neighbours are similar, from a cluster tree.

    Rows that cannot be clustered keep their order.
    """
    if len(values) < 3 or values.shape[1] == 0 or np.ptp(values, axis=0).max() == 0.0:
        return np.arange(len(values))
    from scipy.cluster.hierarchy import leaves_list, linkage

    return np.asarray(
        leaves_list(linkage(values, "average", optimal_ordering=len(values) <= 200)), dtype=np.intp
    )


def spread(items: Indices, most: int) -> Indices:
    """Return at most `most` of the items, evenly from the first to the last."""
    if len(items) <= most:
        return items
    return items[np.linspace(0, len(items) - 1, most).round().astype(np.intp)]
