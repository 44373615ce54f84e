"""The hypotheses that tables are learnt with, by name: add a line here, and options know it."""

from __future__ import annotations

from cuvee.hypothesis import logistic, poisson, ridge
from cuvee.hypothesis.base import TableModel

MODELS: dict[str, TableModel] = {m.name: m for m in (ridge.MODEL, logistic.MODEL, poisson.MODEL)}


def for_task(task: str) -> TableModel:
    """Return the model that labels of a task are learnt with unless another is asked for."""
    return next(model for model in MODELS.values() if model.task == task)
