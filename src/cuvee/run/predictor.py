"""Models that predict raw rows: what a run and a file of models share."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from cuvee.data.columns import as_written, comma_list
from cuvee.data.dates import made_of
from cuvee.data.encode import Encoder, unseen_in
from cuvee.data.frame import columns_of, located, read_rows
from cuvee.data.noticed import filled
from cuvee.data.options import Options
from cuvee.data.plain_rows import PlainRows
from cuvee.data.targets import suggest
from cuvee.errors import CuveeWarning, DomainError, OptionError
from cuvee.hypothesis.base import far_out
from cuvee.hypothesis.registry import MODELS
from cuvee.outputs.files import understood
from cuvee.problem import Array
from cuvee.results import Floats
from cuvee.run.answers import as_table, check_whose
from cuvee.run.explained import coefficients
from cuvee.run.models import Delivered, space_of

# predictions (rows,) and probabilities (rows, K) of the model of target i for encoded rows
Answer = Callable[[int, Array], tuple[Array, Array | None]]


class Predictor(ABC):
    """Models that predict raw rows: what a run and a file of models share."""

    targets: tuple[str, ...]
    options: Options
    _prepared: dict[str, Any]
    """Of prepared.json: task, classes, domain, the targets' groups and the groups' encoders."""

    @property
    @abstractmethod
    def path(self) -> Path:
        """Return where the models were read from."""

    @property
    @abstractmethod
    def _models(self) -> Delivered: ...

    @property
    def w(self) -> Floats:
        """Return the parameters (M, P) of the models, on the encoded columns."""
        return self._models.w

    @property
    def classes(self) -> Array | None:
        """Return the classes, in the order of `predict_proba`; None for a regression."""
        listed = self._prepared["classes"]
        return None if listed is None else np.array(listed)

    @cached_property
    def features(self) -> tuple[str, ...]:
        """Return the raw columns that the models learnt from, in order."""
        return self._encoders[0].raw_features

    @cached_property
    def categories(self) -> tuple[str, ...]:
        """Return those of the raw columns that are text, whatever their values look like."""
        return tuple(sorted({name for encoder in self._encoders for name in encoder.raw_text}))

    def _table(self, source: Any, target: str | None) -> Any:
        """Return the rows as a table.

        Its domain column says whose model each row gets, unless `target` does.
        """
        with understood(self.path, "a run of this version of cuvee"):
            table = as_table(source, self.features)
            if target is None:
                check_whose(table, self._prepared["domain"], self.targets)
            return table

    def predict_proba(self, source: Any, **how: Any) -> Floats:
        """Return the probability of each class, (rows, classes), for what `predict` takes."""
        if self.classes is None:
            raise OptionError(
                "these models predict a quantity: they have no class probabilities, use predict"
            )
        answers = self.predict(source, **how)
        return np.asarray(answers[[f"p({c})" for c in self.classes]], dtype=np.float64)

    def predict(
        self,
        source: Any,
        *,
        target: str | float | None = None,
        keep: Sequence[str] = (),
        text: Sequence[str] = (),
        encoding: str | None = None,
        strict: bool = False,
        say: Callable[[str], None] | None = None,
    ) -> Any:
        """Return a frame with the prediction for each raw row.

        Its columns are the domain, the columns to `keep`, `prediction`, and a probability per
        class.

        Each row is answered by the model of the target that its domain column names, or all of them
        by `target`'s. Rows come back in the order given. Those of a pandas frame keep its index, so
        that `frame["p"] = run.predict(frame)["p(yes)"]` puts each answer beside its row; so do
        those of a mapping name -> frame, if no two of its rows have the same label. Rows of files
        and arrays are numbered from 0. `encoding` is that of text files; by default the one that
        the run was made with. A category that no training row has counts as another one, or is an
        error with `strict`. `say` is told of such categories, without it they are a warning; and
        how many gaps were filled in which columns, where the models know what to fill them with.
        """
        # a domain that a number names
        if isinstance(target, Real) and not isinstance(target, bool):
            target = as_written(target)
        if not (target is None or isinstance(target, str)):
            raise OptionError(f"target must be the name of a target; got {target!r}")
        for name, value in (("keep", keep), ("text", text)):
            if not all(isinstance(v, str) for v in value):
                raise OptionError(f"{name} must be a list of column names; got {value!r}")
        keep, text = (comma_list(v) if isinstance(v, str) else v for v in (keep, text))
        source = self._table(source, target)
        with understood(self.path, "a run of this version of cuvee"):
            encoding = encoding or self.options.encoding
            with located(source, encoding):
                return self._predicted(source, target, keep, text, encoding, strict, say)

    def _predicted(
        self,
        source: Any,
        target: str | None,
        keep: Sequence[str],
        text: Sequence[str],
        encoding: str,
        strict: bool,
        say: Callable[[str], None] | None,
    ) -> Any:
        prepared, known = self._prepared, self.targets
        if target is not None and target not in known:
            raise OptionError(f"{target!r} is not a target of these models{suggest(target, known)}")
        if (
            target is None
            and len(known) == 1
            and prepared["domain"] not in columns_of(source, encoding)
        ):
            target = known[0]
        domain = prepared["domain"] if target is None else None
        how: Any = {"domain": domain, "text": self._categories({*text}), "encoding": encoding}
        how["missing"] = self.options.missing
        features = list(self._encoders[0].features)
        frame = read_rows(source, features, keep, **how)
        names = frame[domain].to_numpy() if domain else np.full(len(frame), target, dtype=object)
        answers = self._answers(frame, names, [k for k in keep if k != domain], domain)
        for sentence in self.unseen(frame, names, strict=strict):
            if say is None:
                warnings.warn(sentence, CuveeWarning, stacklevel=3)
            else:
                say(sentence)
        if say is not None:  # what has gaps and was answered had them filled
            for sentence in filled({f: int(n) for f, n in frame[features].isna().sum().items()}):
                say(sentence)
        index = _index_of(source)
        return answers if index is None else answers.set_axis(index, axis=0)

    def explain(self, target: str | Sequence[str] | None = None) -> Any:
        """Return a frame of what the models go by: a row per target, class and encoded column.

        Its columns are:

        - `target`; `class` (of two the second, whose log-odds they are); `column`, or
          "(intercept)"; `category` of a column of categories
        - `coefficient`: of columns as the model sees them, numbers in standard deviations from
          their mean. `per_unit`: of the column as it is; the intercept is then that of zeros.
        - `importance`, `importance_std`: how much worse the score of `metric` became, on average,
          where this column was permuted among the test rows, of runs with `importance=True`. The
          numbers that a column of dates became have that of the column.

        Models that are not linear have no coefficients.

        Args:
            target: the name of one target, or of several; None: all.
        """
        import pandas as pd

        named = (target,) if isinstance(target, str) else self.targets if target is None else target
        for name in named:
            if name not in self._place_of:
                raise OptionError(
                    f"{name!r} is not a target of these models{suggest(str(name), self.targets)}"
                )
        linear = self.w.shape[1] > 0 and self.options.hypothesis in ("auto", *MODELS)
        groups: dict[int, list[str]] = {}
        for name in named if linear else ():
            groups.setdefault(self._group_of[name], []).append(name)
        with understood(self.path, "a run of this version of cuvee"):
            parts = [self._coefficients(g, of) for g, of in groups.items()]
            important = self._importance(named)
        if linear:
            frame = pd.concat(parts, ignore_index=True)
            of = important.rename(columns={"column": "made of"})
            frame["made of"] = frame["column"].map(made_of)
            return frame.merge(of, how="left", on=["target", "made of"]).drop(columns="made of")
        if important.importance.isna().all():
            raise OptionError(
                "these models have no coefficients, as they are not linear, and how much scores "
                "need each column was not asked for: run cuvee adapt with --importance "
                "(importance=True)"
            )
        return important

    def _coefficients(self, g: int, targets: Sequence[str]) -> Any:
        classes = self._prepared["groups"][g].get("classes") or self._prepared["classes"]
        encoder, at = self._encoders[g], [self._place_of[name] for name in targets]
        labels = None if self._prepared["classes"] is None else np.array(classes)
        space = space_of(self.options, self._prepared["task"], len(encoder.names), labels)
        w = self.w[at][:, : space.n_params]
        return coefficients(space, w, self._models.offset[at], encoder, targets)

    def _importance(self, targets: Sequence[str]) -> Any:
        """Return a frame of how much scores need each raw column; it is empty where none do."""
        import pandas as pd

        values = self._models.importance[[self._place_of[name] for name in targets]]
        features = self.features if values.shape[1] else ()
        return pd.DataFrame(
            {
                "target": np.repeat(np.array(targets, dtype=object), len(features)),
                "column": np.tile(np.array(features, dtype=object), len(targets)),
                "importance": values[..., 0].ravel(),
                "importance_std": values[..., 1].ravel(),
            }
        )

    def read(self, frame: Any) -> Any:
        """Return a frame of rows (rows, …) as the models take them."""
        with understood(self.path, "a run of this version of cuvee"):
            kept = self._encoders[0].features
            text, missing = self._categories(set()), self.options.missing
            return read_rows(frame, kept, text=text, missing=missing)

    def answer(self, rows: Any, names: Array) -> Any:
        """Return what `predict` does of rows that `read` gave, each by the model of its `names`.

        This is the way for a service: encoders and spaces are made once, and rows of many targets
        are answered together.
        """
        with understood(self.path, "a run of this version of cuvee"):
            return self._answers(rows, names, [], None)

    def unseen(self, frame: Any, names: Array, *, strict: bool = False) -> list[str]:
        """Return a sentence about categories of these rows that no training row has, or none.

        The model of the target that `names` (rows,) has is to answer each row. With `strict` such
        categories are an error.
        """
        group = np.array([self._group_of[name] for name in names.tolist()])
        each = np.unique(group)
        parts = ((self._encoders[g], frame.iloc[np.flatnonzero(group == g)]) for g in each)
        return unseen_in(parts, "row", where="rows to predict", strict=strict)

    def encoded(self, rows: Sequence[Mapping[str, Any]], target: str) -> Floats | None:
        """Return rows {column: value} as the model of `target` sees them, (rows, d).

        None means that they are not plain: `answer` reads them in a frame.
        """
        g = self._group_of[target]
        if g not in self._plain:
            self._plain[g] = PlainRows(self._encoders[g])
        return self._plain[g](rows)

    def of_encoded(self, X: Floats, target: str) -> tuple[Array, Floats | None]:
        """Return what the model of `target` predicts of `encoded` rows (rows, d).

        With classes there are their probabilities, too, (rows, classes) in the order of `classes`.
        """
        g, i = self._group_of[target], self._place_of[target]
        own, answer = self._answerer(g)
        predictions, probabilities = answer(i, X)
        if own is None or self.classes is None:
            return predictions, None
        chance = np.zeros((len(X), len(self.classes)))
        chance[:, np.searchsorted(self.classes, own)] = probabilities
        return predictions, chance

    @cached_property
    def _plain(self) -> dict[int, PlainRows]:
        """Hold what encodes plain rows, for each group that was asked for."""
        return {}

    @cached_property
    def _group_of(self) -> dict[str, int]:
        return {t["name"]: t["group"] for t in self._prepared["targets"]}

    @cached_property
    def _place_of(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.targets)}

    @cached_property
    def _encoders(self) -> list[Encoder]:
        return [Encoder.from_dict(group["encoder"]) for group in self._prepared["groups"]]

    def _categories(self, more: set[str]) -> list[str]:
        return sorted(more.union(*(encoder.text for encoder in self._encoders)))

    @cached_property
    def _answerers(self) -> dict[int, tuple[Array | None, Answer]]:
        """Hold the classes of each group that was asked for, and what answers for its models."""
        return {}

    def _answerer(self, g: int) -> tuple[Array | None, Answer]:
        if g not in self._answerers:
            listed = self._prepared["groups"][g].get("classes") or self._prepared["classes"]
            own = None if self._prepared["classes"] is None else np.array(listed)
            self._answerers[g] = own, self._answering(own, len(self._encoders[g].names))
        return self._answerers[g]

    def _answering(self, classes: Array | None, n_inputs: int) -> Answer:
        """Return what answers encoded rows by the model of target i.

        It gives predictions (rows,) and probabilities (rows, K) of the group's classes.
        """
        space = space_of(self.options, self._prepared["task"], n_inputs, classes)

        def answer(i: int, X: Array) -> tuple[Array, Array | None]:
            w = self.w[i][: space.n_params]
            if classes is None:
                return space.predict(w, X) + self._models.offset[i], None
            return space.predict(w, X), space.predict_proba(w, X)

        return answer

    def _answers(self, frame: Any, names: Array, keep: list[str], domain: str | None) -> Any:
        import pandas as pd

        place = pd.Index(self.targets).get_indexer(names)
        if (place < 0).any():
            row = int(np.argmax(place < 0))
            raise DomainError(
                f"row {row} is of domain {names[row]!r}, which is not a target of these models "
                f"({int((place < 0).sum())} such rows){suggest(str(names[row]), self.targets)}",
                row,
            )
        prepared = self._prepared
        classes = None if prepared["classes"] is None else np.array(prepared["classes"])
        group = np.array([t["group"] for t in prepared["targets"]])[place]
        predictions = np.empty(len(frame), dtype=np.float64 if classes is None else classes.dtype)
        # 0 where no source has the class
        chance = np.zeros((len(frame), 0 if classes is None else len(classes)))
        for g in np.unique(group):
            rows = np.flatnonzero(group == g)
            own, answer = self._answerer(g)
            X = self._encoders[g](frame.iloc[rows], where="rows to predict")
            order = np.argsort(place[rows], kind="stable")
            cuts = np.flatnonzero(np.diff(place[rows][order])) + 1
            for part in np.split(order, cuts):
                i = int(place[rows[part[0]]])
                try:
                    predictions[rows[part]], probabilities = answer(i, X[part])
                except DomainError as error:
                    if error.row is None:
                        raise
                    raise far_out(int(rows[part[error.row]])) from None  # of all rows
                if classes is not None and own is not None:
                    chance[np.ix_(rows[part], np.searchsorted(classes, own))] = probabilities
        said_names = ("prediction", *(f"p({c})" for c in (classes if classes is not None else ())))
        taken = next((name for name in (domain, *keep) if name in said_names), None)
        if taken is not None:
            raise OptionError(
                f"column {taken!r} is how predictions are called: rename it in these rows, or do "
                "not keep it"
            )
        columns: dict[str, Any] = {domain: names} if domain else {}
        columns |= {name: frame[name].to_numpy() for name in keep}
        columns["prediction"] = predictions
        columns |= {
            f"p({c})": chance[:, k] for k, c in enumerate(classes if classes is not None else ())
        }
        return pd.DataFrame(columns)


def _index_of(source: Any) -> Any:
    """Return the index of the pandas frame that rows came in, or of all its parts, or None."""
    import pandas as pd

    if isinstance(source, pd.DataFrame):
        return source.index
    if isinstance(source, tuple) and len(source) == 3:  # (X, y, domain)
        return _index_of(source[0])
    if not isinstance(source, Mapping):
        return None
    tables = [
        part[0] if isinstance(part, tuple | list) and len(part) == 2 else part
        for part in source.values()
    ]
    first, *others = map(_index_of, tables)
    if first is None or any(index is None for index in others):
        return None
    joined = first.append(others)
    return joined if joined.is_unique or not others else None
