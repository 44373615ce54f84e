"""`Solution`: M models, how each ended, and what is proven about it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

import numpy as np
import numpy.typing as npt
from torch import nn

from cuvee.errors import DomainError, OptionError
from cuvee.hypothesis.base import Space
from cuvee.inputs.arrays import as_array
from cuvee.outputs.notebook import html_table
from cuvee.problem import Array, Domain
from cuvee.results import Floats, Status, raise_unless_ok


@dataclass(frozen=True)
class Certificate:
    """Bounds per model, infinite where nothing is known; as an array it is `distance`.

    They are proven whatever made w, or calibrated for predictions that no data were looked at for.
    """

    distance: Floats  # (M,) ≥ ‖w − w*(α)‖
    excess_risk: Floats  # (M,) ≥ f_α(w) − f_α(w*)
    gradient_norm: Floats
    """(M,) ‖∇f_α(w)‖∞ as float64 computes it; on the sphere of an active W, that of its Lagrangian.
    What rounding may hide of it is in the bounds.
    """
    rests_on: str
    """What the bounds rest on, in a sentence."""
    calibrated: npt.NDArray[np.bool_] | None = None
    """(M,) where bounds are calibrated only: they hold for the share of mixtures that `rests_on`
    states.
    """

    @property
    def certified(self) -> npt.NDArray[np.bool_]:
        """Return (M,) whether anything is proven."""
        proven = np.isfinite(self.distance)
        return proven if self.calibrated is None else proven & ~self.calibrated

    def __len__(self) -> int:
        return len(self.distance)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self.distance, dtype=dtype) if copy or dtype is not None else self.distance

    def __repr__(self) -> str:
        calibrated = np.zeros(len(self), dtype=bool) if self.calibrated is None else self.calibrated
        bounds = [
            f"{known.sum()} of {len(self)} {kind}: ‖w − w*‖ ≤ {self.distance[known].max():.2g}"
            + (
                f", excess risk ≤ {worst:.2g}"
                if np.isfinite(worst := self.excess_risk[known].max())
                else ""
            )
            for kind, known in (
                ("certified", self.certified),
                ("calibrated", calibrated & np.isfinite(self.distance)),
            )
            if known.any()
        ]
        if not bounds:
            no = (
                ""
                if self.rests_on.startswith("not certified")
                else "not certified; certificates rest on "
            )
            return no + self.rests_on if len(self) else "nothing to certify"
        return "; ".join(bounds)


@dataclass(frozen=True)
class Model:
    """One model of a solution."""

    space: Space = field(repr=False)
    w: Floats = field(repr=False)  # (P,)
    status: Status
    # names of the columns, where the sources had some
    features: tuple[str, ...] = field(default=(), repr=False)

    @property
    def classes(self) -> Array | None:
        """Return the classes, in the order of `predict_proba`; None for a regression."""
        return getattr(self.space, "classes", None)

    def predict(self, X: Any) -> Array:
        """Predict X (rows, …) -> (rows,), in the labels of the sources."""
        return self.space.predict(self.w, _rows(self.space, self.features, X))

    def predict_proba(self, X: Any) -> Array:
        """Return class probabilities of X: (rows, …) -> (rows, classes)."""
        return self.space.predict_proba(self.w, _rows(self.space, self.features, X))


class Models(Sequence[Model]):
    """The models of a solution, made when asked for."""

    def __init__(
        self, space: Space, w: Floats, status: Sequence[Status], features: tuple[str, ...]
    ) -> None:
        self._space, self._w, self._status, self._features = space, w, status, features

    def __len__(self) -> int:
        return len(self._w)

    @overload
    def __getitem__(self, i: int) -> Model: ...
    @overload
    def __getitem__(self, i: slice) -> list[Model]: ...
    def __getitem__(self, i: int | slice) -> Model | list[Model]:
        if isinstance(i, slice):
            return [self[k] for k in range(*i.indices(len(self)))]
        return Model(self._space, self._w[i], self._status[i], self._features)

    def __iter__(self) -> Iterator[Model]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"{len(self)} models of {self._space.n_params} parameters"


@dataclass(frozen=True)
class Solution:
    """M models; every field has one row per model."""

    w: Floats  # (M, P) flat: per output its features, then its intercept
    alpha: Floats = field(repr=False)  # (M, N) or (M, N+1)
    status: tuple[Status, ...]
    certificate: Certificate
    passes: npt.NDArray[np.int64]
    """(M,) passes over the data that each model needed; for a network, minibatches."""
    space: Space = field(repr=False)
    # names of the columns, where the sources had some
    features: tuple[str, ...] = field(default=(), repr=False)
    targets: tuple[str, ...] = field(default=(), repr=False)
    """Whose models these are, where the problem has as many targets."""
    curves: Floats | None = field(default=None, repr=False)
    """(M, checks, 3) of networks, else None: the minibatches taken, the mean loss of those since
    the check before, and the loss on held-out rows, both weighed by α; NaN once a model has ended.
    """

    @property
    def models(self) -> Models:
        return Models(self.space, self.w, self.status, self.features)

    def predict(self, X: Any) -> Array:
        """Return what every model says of the same rows: (rows, …) -> (M, rows)."""
        return self.space.predict(self.w, _rows(self.space, self.features, X))

    def module(self, target: str | int) -> nn.Module:
        """Return the network of a target, by name or row of α: a module of its own, in eval mode.

        It holds the parameters that were learnt (`state_dict()`), and takes rows as its like did.
        """
        return self.space.module(self.w[self._row(target)])

    def curve(self, target: str | int) -> dict[str, Floats]:
        """Return how a target's network was trained: minibatches taken, training and held-out loss.

        `pandas.DataFrame(solution.curve("fir")).plot(x="step")` draws it.
        """
        if self.curves is None:
            raise OptionError("only networks that cuvee.solve trained have a training curve")
        one = self.curves[self._row(target)]
        names = "step", "training", "held out"
        return dict(zip(names, one[~np.isnan(one[:, 0])].T, strict=True))

    def _row(self, target: str | int) -> int:
        if isinstance(target, str):
            if target not in self.targets:
                there = f"there is {', '.join(self.targets[:8])}" if self.targets else ""
                raise OptionError(
                    f"no model belongs to a target {target!r}: "
                    f"{there or 'these mixtures have no names, so give the row of alpha'}"
                )
            return self.targets.index(target)
        if not -len(self.w) <= target < len(self.w):
            raise OptionError(f"there is no model {target}: alpha has {len(self.w)} rows")
        return target

    def raise_for_status(self) -> Solution:
        """Return self, or raise `StatusError` naming the models that did not end well."""
        raise_unless_ok([f"model {i}" for i in range(len(self.w))], self.status)
        return self

    def __repr__(self) -> str:
        ended = (
            ", ".join(f"{self.status.count(s)} {s}" for s in dict.fromkeys(self.status))
            or "nothing to solve"
        )
        models = "1 model" if len(self.w) == 1 else f"{len(self.w)} models"
        return (
            f"Solution of {models}, {self.w.shape[1]} parameters each: {ended}\n  "
            f"{self.certificate!r}"
        )

    def _repr_html_(self) -> str:
        proven = self.certificate
        bounds = zip(proven.distance, proven.excess_risk, proven.gradient_norm, strict=True)
        rows = [
            (i, s, *(f"{b:.2g}" for b in row))
            for i, (s, row) in enumerate(zip(self.status, bounds, strict=True))
        ]
        more = f"\n… and {len(rows) - 20} more" if len(rows) > 20 else ""
        return html_table(
            ("model", "status", "‖w − w*‖ ≤", "excess risk ≤", "‖∇‖∞"), rows[:20], repr(self) + more
        )


def _rows(space: Space, features: tuple[str, ...], X: Any) -> Array:
    """Return rows to predict, held to the same rules as the rows that were learnt from."""
    if not isinstance(X, Domain):
        if len(X) == 0:
            return np.zeros((0, *space.input_shape))
        X = Domain("rows to predict", X, np.zeros(len(X)))
    if X.X.shape[1:] != space.input_shape:
        raise DomainError(
            f"rows to predict have shape {X.X.shape[1:]}, the models learnt from "
            f"{space.input_shape}"
        )
    for given, learnt in zip(X.features, features, strict=False):  # either may have no names
        if given != learnt:
            raise DomainError(
                f"rows to predict have column {given!r} where the models learnt from {learnt!r}"
            )
    return X.X


def check_w(w: Any, n_models: int, n_params: int) -> Floats:
    """Return w (M, P) as float64; raise an error that names the row that does not fit."""
    try:
        array = as_array(w)
        if array.dtype.kind == "c":
            raise TypeError
        array = np.require(array, dtype=np.float64, requirements=["C", "W"])
    except (TypeError, ValueError):
        raise OptionError(f"w must be a numeric array of shape ({n_models}, {n_params})") from None
    if array.shape != (n_models, n_params):
        raise OptionError(
            f"w must have shape ({n_models}, {n_params}), a row per row of alpha; got {array.shape}"
        )
    bad = ~np.isfinite(array).all(1)
    if bad.any():
        raise OptionError(
            f"row {int(np.argmax(bad))} of w holds a value that is not finite ({int(bad.sum())} "
            "such rows)"
        )
    return array
