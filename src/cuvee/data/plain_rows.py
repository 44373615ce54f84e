"""Rows of plain values, encoded without a frame, which costs far more than their arithmetic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any

import numpy as np

from cuvee.data.encode import Category, Encoder, Number
from cuvee.results import Floats

EXACT = 2.0**53  # below it every whole number is a float


class PlainRows:
    """Encode rows {column: value} whose values are what the training rows had.

    Numbers are numbers, and text is one of the categories. Whatever else comes, gaps too, is not
    encoded here: the encoder reads it in its own way, or says what is wrong with it.

    >>> import pandas as pd
    >>> encoder = Encoder.fit(pd.DataFrame({"age": [20, 40], "sex": ["f", "m"]}), ["age", "sex"])
    >>> encode = PlainRows(encoder)
    >>> encode([{"sex": "m", "age": 30}]).tolist(), encode([{"sex": "x", "age": 30}])
    ([[0.0, 0.0, 1.0]], None)
    """

    def __init__(self, encoder: Encoder) -> None:
        ends = np.cumsum([len(rule.names) for rule in encoder.columns])
        begins = [0, *ends[:-1].tolist()]
        both = list(zip(begins, encoder.columns, strict=True))
        numbers = [(at, rule) for at, rule in both if isinstance(rule, Number)]
        self._width = int(ends[-1])
        self._numbers = [rule.name for _, rule in numbers]
        self._at = np.array([at for at, _ in numbers], dtype=np.intp)
        self._mean = np.array([rule.mean for _, rule in numbers])
        scale = np.array([rule.scale for _, rule in numbers])
        self._varies = scale != 0.0
        self._scale = np.where(self._varies, scale, 1.0)
        self._categories = [
            (
                rule.name,
                {c: at + k for k, c in enumerate(rule.categories)},
                len(rule.categories) > 1,
            )
            for at, rule in both
            if isinstance(rule, Category)
        ]

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> Floats | None:
        """Return the encoded rows (rows, d), or None where the encoder has to look at them."""
        X = np.zeros((len(rows), self._width))
        try:
            if self._numbers:
                cells = [*map(itemgetter(*self._numbers), rows)]
                if len(self._numbers) == 1:
                    cells = [(cell,) for cell in cells]
                if not {*map(type, chain.from_iterable(cells))} <= {int, float}:
                    return None
                values = np.array(cells, dtype=np.float64)  # (rows, numbers)
                if not (np.abs(values) < EXACT).all():
                    return None
                X[:, self._at] = np.where(self._varies, (values - self._mean) / self._scale, 0.0)
            for name, places, varies in self._categories:
                at = [places[row[name]] for row in rows]
                if varies:
                    X[np.arange(len(rows)), at] = 1.0
        except (KeyError, TypeError, OverflowError):
            return None
        return X if np.isfinite(X).all() else None
