"""What models go by: coefficients by the names of columns, and how much a score needs each one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cuvee.data.dates import made_of
from cuvee.data.encode import Encoder, Number
from cuvee.data.metrics import METRICS
from cuvee.hypothesis.base import Space
from cuvee.problem import Array, Domain
from cuvee.results import Floats
from cuvee.run.judge import coded, measured

REPEATS = 10  # permutations of a column
INTERCEPT = "(intercept)"


def coefficients(
    space: Space, w: Floats, offset: Floats, encoder: Encoder, targets: Sequence[str]
) -> Any:
    """Return a frame with the coefficients of linear models w (M, P), a row for each.

    `offset` (M,) is added to what they predict. With several classes each has coefficients of its
    own; with two, those of the second class's log-odds.
    """
    import pandas as pd

    each = [(c.name, c) for c in encoder.columns for _ in c.names]
    numbers = [(c.mean, c.scale) if isinstance(c, Number) else (0.0, 1.0) for _, c in each]
    mean, scale = np.array(numbers).reshape(-1, 2).T
    W = w.reshape(len(w), -1, space.n_params // space.n_outputs)  # (M, outputs, columns + 1)
    slopes = W[..., : len(each)]
    level = (W[..., -1] if W.shape[2] > len(each) else 0.0) + offset[:, None]
    unit = np.divide(slopes, scale, out=np.zeros_like(slopes), where=scale > 0)
    raw_level = level - unit @ mean
    classes = getattr(space, "classes", None)
    of = [None] if classes is None else classes[1:] if space.n_outputs == 1 else classes
    categories = [None if isinstance(c, Number) else v for c in encoder.columns for v in _values(c)]
    size = len(each) + 1
    return pd.DataFrame(
        {
            "target": np.repeat(np.array(targets, dtype=object), len(of) * size),
            "class": np.tile(np.repeat(np.array(of, dtype=object), size), len(targets)),
            "column": [*(name for name, _ in each), INTERCEPT] * (len(of) * len(targets)),
            "category": [*categories, None] * (len(of) * len(targets)),
            "coefficient": np.concatenate([slopes, level[..., None]], -1).ravel(),
            "per_unit": np.concatenate([unit, raw_level[..., None]], -1).ravel(),
        }
    )


def _values(column: Any) -> Sequence[str | None]:
    return (None,) if isinstance(column, Number) else column.categories


def importance(
    answer: Callable[[Floats], Floats],
    test: Domain | None,
    classes: Array | None,
    metric: str,
    encoder: Encoder,
    seed: int,
) -> Floats:
    """Return how much the score of a model needs each raw column, (columns, 2).

    That is how much worse the score becomes, on average over permutations of the column among the
    test rows, and its standard deviation over these. All columns that a category or a date became
    are permuted together. NaN where the test rows do not define the score.

    Args:
        answer: encoded rows (k, d) -> quantities (k,) or probabilities (k, K).
        test: the test rows.
        classes: sorted; None: a quantity.
        metric: the score.
        encoder: what made the columns.
        seed: of the permutations, which do not depend on the order of the rows.
    """
    from sklearn.inspection import permutation_importance

    place = {name: j for j, name in enumerate(encoder.raw_features)}
    width = len(place)
    if test is None or test.n_rows < 2:
        return np.full((width, 2), np.nan)
    y = coded(test, classes)
    order = np.lexsort((*test.X.T, y))
    X, y = test.X[order], y[order]
    raw = np.array([place[made_of(c.name)] for c in encoder.columns for _ in c.names])

    def score(model: object, at: Array, y: Array) -> float:
        """Return the score of rows whose raw column j is that of row at[:, j]; higher is better."""
        told = measured(metric, y, answer(X[at[:, raw], np.arange(len(raw))])[None])
        of = METRICS[metric]
        value = np.nan if told is None else float(of.score(told[0])[0])
        return value if of.higher_is_better else -value

    at = np.tile(np.arange(len(y))[:, None], width)
    if np.isnan(score(None, at, y)):
        return np.full((width, 2), np.nan)
    found = permutation_importance(
        _Model(), at, y, scoring=score, n_repeats=REPEATS, random_state=seed
    )
    return np.stack([found["importances_mean"], found["importances_std"]], 1)


class _Model:
    """Stand for the model, as scikit-learn asks for something that could be fitted."""

    def fit(self, X: Any, y: Any) -> _Model:
        return self
