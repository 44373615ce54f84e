"""Hold what the report shows: plain values, all of them read from a run's files."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from cuvee.results import Floats

CUVEE = "cuvee"
MAJORITY, OWN_MEAN = CONSTANT = "majority class", "own mean"
"""The methods that always give a target the same answer, from its own labels: for classes and for
numbers.
"""
FEW_TARGETS = 5  # fewer say nothing about targets beside them


@dataclass(frozen=True, eq=False)
class Convergence:
    """Hold the course of the objective and the gap for one target."""

    step: Floats  # (R,)
    objective: Floats  # (R,)
    gap: Floats  # (R,)


@dataclass(frozen=True, eq=False)
class Tried:
    """Hold the G mixtures tried for one target.

    Path points are named "path 1/5", from large C to small.
    """

    names: tuple[str, ...]
    alpha: Floats  # (G, columns)
    cv_loss: Floats  # (G,) NaN where it failed
    share: Floats  # (G,)


@dataclass(frozen=True, eq=False)
class Expected:
    """Hold how labelled targets do without their labels; an interval is of 95 %, (3,) with it."""

    judged_on: int  # targets
    score: Floats  # to expect of one target more, with an interval of prediction
    tested_on: int  # of them, those with test rows, on which the next three are means
    without_labels: float
    with_labels: float
    gain_of_labels: Floats  # positive where labels help, with its interval


@dataclass(frozen=True, eq=False)
class Findings:
    """Hold what a run found for M targets and N sources; NaN means not known."""

    title: str  # the table's name
    about: dict[str, Any]  # run.json: "versions", "options", "data" {"name", "rows", "fingerprint"}
    task: str  # "classification" or "regression"
    hypothesis: str  # in words: "logistic regression, l2 = 0.01"
    domain: str  # column names
    label: str
    n_features: int
    # of alpha: the sources, and cuvee.OWN last where the targets' own rows joined
    columns: tuple[str, ...]
    source_rows: Floats  # (N,)
    targets: tuple[str, ...]
    # (M,) labelled rows that α and the scored models learnt from; 0 where weights come from inputs
    learn_rows: Floats
    test_rows: Floats  # (M,) labelled rows kept for scores
    alpha: Floats  # (M, columns); NaN where a source is the target itself (every domain in turn)
    alpha_status: tuple[str, ...]  # (M,) values of cuvee.Status
    gap: Floats  # (M,)
    model_status: tuple[str, ...]  # (M,)
    distance: Floats  # (M,) certificate: ‖w − w*‖ at most this; inf where nothing is proven
    excess_risk: Floats  # (M,)
    gradient: Floats  # (M,)
    rests_on: str  # what certificates rest on, a sentence
    metric: str  # a name of cuvee.data.metrics.METRICS
    higher_is_better: bool
    methods: tuple[
        str, ...
    ]  # "cuvee", "uniform", "pooled", "pooled_own", "target_only"; "majority class" or "own mean"
    # (M, methods, 3): value, low and high end of a 95 % interval; NaN where there are no test rows
    scores: Floats
    mean: Floats  # (methods, 3) over targets with scores
    mean_rank: Floats  # (methods,)
    # (methods, 3) mean paired difference over targets, positive where cuvee is better, with its
    # interval
    gain: Floats
    # (M, columns) relative change of w per unit of α moved there; None: not computed
    sensitivity: Floats | None
    tried: tuple[Tried | None, ...]  # (M,); None where one method alone was asked for
    convergence: tuple[Convergence | None, ...]  # (M,)
    seconds: tuple[tuple[str, float], ...]  # where the time went
    notes: tuple[str, ...]
    also: dict[str, Floats] = field(default_factory=dict)
    """Scores beside the metric by name, (M, methods) each; NaN where a target has none."""
    expected: Expected | None = None  # of targets without labels; None where there are none
    coefficients: dict[str, Floats] = field(default_factory=dict)
    """Of the first targets, by encoded column: (targets,); root mean squares over many classes."""
    importance: dict[str, Floats] = field(default_factory=dict)  # the same by raw column
    tested: dict[str, int] = field(default_factory=dict)  # test rows by class; {}: not known
    # (M, methods) how likely such a difference to cuvee is by chance, of pairs of a target's test
    # rows; None: a run of an older version
    chance: Floats | None = None
