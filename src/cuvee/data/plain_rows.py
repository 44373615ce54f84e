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
        # what never varied is 0 after the division
        self._scale = np.where(scale != 0.0, scale, np.inf)
        with np.errstate(over="ignore"):
            largest = (EXACT + np.abs(self._mean)) / self._scale
        self._finite = bool(np.isfinite(largest).all())  # whatever numbers come
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
        try:
            X = self._quantities(rows)
            if X is not None and self._categories:
                X = self._beside_categories(X, rows)
        except (KeyError, TypeError, OverflowError):
            return None
        return X if X is None or self._finite or np.isfinite(X).all() else None

    def _quantities(self, rows: Sequence[Mapping[str, Any]]) -> Floats | None:
        """Return the standardised numbers (rows, numbers), or None where not all are numbers."""
        if not self._numbers:
            return np.zeros((len(rows), 0))
        cells = [*map(itemgetter(*self._numbers), rows)]
        if len(self._numbers) == 1:
            cells = [(cell,) for cell in cells]
        if not {*map(type, chain.from_iterable(cells))} <= {int, float}:
            return None
        values = np.array(cells, dtype=np.float64)
        return (values - self._mean) / self._scale if (np.abs(values) < EXACT).all() else None

    def _beside_categories(self, numbers: Floats, rows: Sequence[Mapping[str, Any]]) -> Floats:
        """Return the numbers at their places, and a 1 where a row has a category (rows, d)."""
        X = np.zeros((len(rows), self._width))
        X[:, self._at] = numbers
        for name, places, varies in self._categories:
            at = [places[row[name]] for row in rows]
            if varies:
                X[np.arange(len(rows)), at] = 1.0
        return X
