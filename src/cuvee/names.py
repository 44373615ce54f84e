"""The names that options take, in one light file: help texts list them without loading torch."""

from __future__ import annotations

from typing import Literal

Searching = Literal[
    "path",
    "cuts",
    "scgda",
    "sgda",
    "agp",
    "konstantinov_lampert",
]
"""α methods that take steps (`steps` above 0); `cuvee.OnlineMixtures` may learn from them."""

ClosedForm = Literal[
    "uniform",
    "pooled",
    "pooled_own",
    "target_only",
    "matching",
]
"""α methods that take no steps, whether or not they look at losses."""

AlphaMethod = Literal[Searching, ClosedForm]

OWN_JOINS = ("path", "pooled_own", "target_only")
"""α methods in which a target's own rows join by default."""

MapMethod = Literal[
    "auto",
    "network",
    "ntf",
    "kernel",
    "surface",
    "meta",
]

TableModel = Literal["ridge", "logistic", "poisson"]
"""Hypotheses that tables are learnt with."""
