"""What scores measure: the metrics that fit the labels, and which of them is the headline."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from cuvee.data.columns import as_written
from cuvee.data.task import Task
from cuvee.errors import OptionError
from cuvee.problem import Array
from cuvee.results import Floats

AUTO = "auto"
ACCURACY, BALANCED, AUC, LOG_LOSS = "accuracy", "balanced accuracy", "AUC", "log loss"
RMSE, MAE, R2, DEVIANCE = "root mean squared error", "mean absolute error", "R²", "deviance"
RARE = 0.2  # of an equal share of the rows: a class with less is rare


@dataclass(frozen=True)
class Metric:
    """A score, and how it comes from a mean loss, which is 0 at best."""

    name: str
    tasks: tuple[Task, ...]
    higher_is_better: bool = False  # then the score is 1 − loss
    root: bool = False  # the score is the root of the loss
    lowest: float = 0.0  # that the score can be

    def score(self, loss: Floats) -> Floats:
        return 1.0 - loss if self.higher_is_better else np.sqrt(loss) if self.root else loss

    def error(self, error: Floats, score: Floats) -> Floats:
        """Return standard errors of scores, from those of their losses."""
        return error / np.maximum(2.0 * score, 1e-300) if self.root else error

    @property
    def is_share(self) -> bool:
        """Return whether the score lies between 0 and 1."""
        return self.higher_is_better and self.lowest == 0.0


_CLASSES, _NUMBERS = (Task.classification,), (Task.regression, Task.counts)
METRICS = {
    one.name: one
    for one in (
        Metric(ACCURACY, _CLASSES, higher_is_better=True),
        Metric(BALANCED, _CLASSES, higher_is_better=True),
        Metric(AUC, _CLASSES, higher_is_better=True),
        Metric(LOG_LOSS, _CLASSES),
        Metric(RMSE, _NUMBERS, root=True),
        Metric(MAE, _NUMBERS),
        Metric(R2, _NUMBERS, higher_is_better=True, lowest=-np.inf),
        Metric(DEVIANCE, (Task.counts,)),
    )
}
_SHORT = {"rmse": RMSE, "mae": MAE}


def _plain(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold().replace("-", " ").replace("_", " ")


def metric_named(name: str) -> str:
    """Return a metric as it is called everywhere, or "auto"; spelling is free.

    >>> metric_named("log-loss"), metric_named("r2"), metric_named("MAE")
    ('log loss', 'R²', 'mean absolute error')
    """
    known = {_plain(one): one for one in (AUTO, *METRICS)} | _SHORT
    if not isinstance(name, str) or _plain(name) not in known:
        listed = ", ".join(map(repr, (AUTO, *METRICS)))
        raise OptionError(f"metric must be one of {listed}; got {name!r}")
    return known[_plain(name)]


def beside(metric: str) -> tuple[str, ...]:
    """Return the other metrics of classes, or of every quantity, that stand beside this one."""
    kind = Task.classification if Task.classification in METRICS[metric].tasks else Task.regression
    return tuple(m.name for m in METRICS.values() if kind in m.tasks and m.name != metric)


def headline(
    asked: str, task: Task, n_classes: int, labels: Mapping[str, Array]
) -> tuple[str, list[str]]:
    """Return the metric that methods are compared by, and a note where it is not the usual one.

    Args:
        asked: a metric, which has to fit the labels, or "auto".
        task: what the labels are.
        n_classes: how many classes the sources have; 0 of a quantity.
        labels: those of each target's rows, where they are classes.
    """
    if asked != AUTO:
        fit = [m.name for m in METRICS.values() if task in m.tasks]
        fit = [name for name in fit if name != AUC or n_classes == 2]
        if asked not in fit:
            what = f"{n_classes} classes" if n_classes else f"{task}"
            raise OptionError(
                f"metric {asked!r} is not for {what}: choose {', '.join(map(repr, fit))}"
            )
        return asked, []
    if task is not Task.classification:
        return RMSE, []
    if not labels:
        return ACCURACY, []
    there, rows = np.unique(np.concatenate([*labels.values()]), return_counts=True)
    if len(there) < 2 or rows.min() >= RARE * rows.mean():
        return ACCURACY, []
    rarest = as_written(there[rows.argmin()])
    return LOG_LOSS, [
        f"class {rarest!r} has {rows.min() / rows.sum():.1%} of the targets' labels, and a model "
        "that never answers it may still be accurate: scores are the log loss, which judges the "
        "probability of every row's own class (--metric accuracy brings accuracy back)"
    ]
