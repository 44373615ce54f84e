"""Models in a file: what `cuvee solve` writes, and `cuvee predict` and `cuvee.load_models` read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cuvee.data.encode import Encoder
from cuvee.data.frame import DOMAIN
from cuvee.data.options import Options
from cuvee.data.task import Task
from cuvee.errors import InputError
from cuvee.outputs import files
from cuvee.problem import Array
from cuvee.results import Floats, Status, widen
from cuvee.run.models import WHAT as PART_OF_A_RUN
from cuvee.run.models import Delivered, space_of
from cuvee.run.predictor import Predictor
from cuvee.solution import Certificate, Solution

WHAT, FORMAT = "cuvee models", 3
BOUNDS = ("distance", "excess_risk", "gradient_norm")  # of a `Certificate`


class SavedModels(Predictor):
    """A model per target, in one file: they predict raw rows as a `Run` does, without its data.

    Attributes:
        targets: (M,) the names of the rows of α, or "row 0", "row 1", … where they had none.
        columns: those of α: the sources, and the own sample last.
        alpha: (M, columns).
        status: (M,) how each model ended.
        certificate: (M,) what is proven of each.
        options: the label, the domain column, the hypothesis, and all else they were solved with.
    """

    def __init__(
        self,
        path: Path,
        numbers: Mapping[str, Array],
        header: Mapping[str, Any],
        *,
        hypothesis: str | None = None,
    ) -> None:
        self._path, self._numbers, self._header = path, numbers, header
        with files.understood(path, WHAT):
            self.targets = tuple(map(str, header["models"]))
            self.columns = tuple(map(str, header["columns"]))
            self.options = Options.from_dict(header["options"], str(path), hypothesis=hypothesis)
            self.alpha: Floats = numbers["alpha"]
            self.status = tuple(Status(one) for one in header["status"])
            rests_on, calibrated = header["rests_on"], numbers.get("calibrated")
            bounds: Any = {name: numbers[name] for name in BOUNDS}
            self.certificate = Certificate(**bounds, rests_on=rests_on, calibrated=calibrated)
            self._prepared = {
                **{name: header[name] for name in ("task", "classes", "domain", "groups")},
                "targets": [
                    {"name": n, "group": g}
                    for n, g in zip(self.targets, header["group"], strict=True)
                ],
            }
            self._check(numbers["w"], numbers["offset"])

    def _check(self, w: Floats, offset: Floats) -> None:
        """Raise `ValueError` where parts do not fit each other; files that `save` wrote do."""
        groups, n = self._prepared["groups"], len(self.targets)
        sizes = {len(self.status), *map(len, self._numbers.values())}
        if len(set(self.targets)) != n or sizes != {n}:
            raise ValueError("targets and models do not match")
        if {t["group"] for t in self._prepared["targets"]} != {*range(len(groups))}:
            raise ValueError("models and groups do not match")
        if offset.shape != (n,) or not np.isfinite(offset).all():
            raise ValueError("the levels of the models are not numbers")
        self._check_classes([group["classes"] for group in groups])
        longest = max(self._n_params(group) for group in groups)
        if w.shape != (n, longest):
            raise ValueError(f"models of shape {w.shape} for {longest} parameters each")

    def _check_classes(self, groups: Sequence[Any]) -> None:
        """Raise `ValueError` unless the classes of the groups match the models and the task.

        Together, they are the classes of the models.
        """
        classes, task = self._prepared["classes"], self._prepared["task"]
        if any((one is None) != (task != Task.classification) for one in (classes, *groups)):
            raise ValueError("the task and the classes do not match")
        if classes is not None and _union(groups) != classes:
            raise ValueError("the classes of the groups and of all models do not match")

    def _n_params(self, group: Mapping[str, Any]) -> int:
        """Return how many parameters a model of a group has."""
        classes = None if group["classes"] is None else np.array(group["classes"])
        return space_of(
            self.options, self.task, len(Encoder.from_dict(group["encoder"]).names), classes
        ).n_params

    @property
    def task(self) -> str:
        """Return what the models learnt: "regression", "classification" or "counts"."""
        return str(self._prepared["task"])

    @classmethod
    def of(
        cls,
        solution: Solution,
        *,
        targets: Sequence[str],
        columns: Sequence[str],
        encoder: Encoder,
        options: Options,
        offset: Floats | None = None,
    ) -> SavedModels:
        """Return the models of a solution on columns that `encoder` made.

        Args:
            solution: M models.
            targets: (M,) their names.
            columns: the names of the columns of α.
            encoder: what made numbers of raw columns, and will make them of rows to predict.
            options: names the label, the domain column and the kind of hypothesis.
            offset: (M,) the level of each, to add to what it predicts, where levels were taken out
                of the labels (`cuvee.data.levels`); by default 0.
        """
        bounds, classes = solution.certificate, getattr(solution.space, "classes", None)
        numbers: dict[str, Array] = {"w": solution.w, "alpha": solution.alpha}
        numbers["offset"] = (
            np.zeros(len(solution.w)) if offset is None else np.asarray(offset, dtype=np.float64)
        )
        numbers |= {name: getattr(bounds, name) for name in BOUNDS}
        numbers |= {} if bounds.calibrated is None else {"calibrated": bounds.calibrated}
        listed = None if classes is None else classes.tolist()
        header = {
            "what": WHAT,
            "format": FORMAT,
            "models": list(targets),
            "group": [0] * len(solution.w),
            "groups": [{"encoder": encoder.as_dict(), "classes": listed}],
            "columns": list(columns),
            "status": [str(status) for status in solution.status],
            "rests_on": bounds.rests_on,
            "task": solution.space.task,
            "classes": listed,
            "domain": options.domain or DOMAIN,
            "options": options.as_dict(),
        }
        return cls(Path("models"), numbers, header, hypothesis=options.hypothesis)

    @classmethod
    def joined(
        cls, parts: Sequence[SavedModels], targets: Sequence[str], columns: Sequence[str]
    ) -> SavedModels:
        """Return models of several solutions, each with its own sources and encoder, as one.

        Args:
            parts: the models.
            targets: (M,) the names of all of them, in the order wanted.
            columns: the names of all columns of α; whoever is no source of a model has weight 0.
        """
        if len(parts) == 1 and parts[0].targets == tuple(targets):
            return parts[0]
        place = {
            name: i for i, name in enumerate(chain.from_iterable(part.targets for part in parts))
        }
        order = [place[name] for name in targets]
        longest = max(part.w.shape[1] for part in parts)
        each = [part._widened(longest, columns) for part in parts]
        headers = [part._header for part in parts]
        group = np.repeat(np.arange(len(parts)), [len(part.targets) for part in parts])
        status = np.concatenate([header["status"] for header in headers])
        classes = [header["classes"] for header in headers]
        header = {
            **headers[0],
            "models": list(targets),
            "group": group[order].tolist(),
            "groups": [header["groups"][0] for header in headers],
            "columns": list(columns),
            "status": status[order].tolist(),
            "classes": None if classes[0] is None else _union(classes),
        }
        numbers = {name: np.concatenate([part[name] for part in each])[order] for name in each[0]}
        return cls(Path("models"), numbers, header, hypothesis=parts[0].options.hypothesis)

    def _widened(self, n_params: int, columns: Sequence[str]) -> dict[str, Array]:
        """Return the numbers with more parameters and more columns of α, which are 0."""
        w = np.pad(self.w, ((0, 0), (0, n_params - self.w.shape[1])))
        alpha = np.nan_to_num(widen(self.alpha, self.columns, columns), nan=0.0)
        return {**self._numbers, "w": w, "alpha": alpha}

    def save(self, path: str | Path) -> None:
        """Write them and a checksum to a safetensors file, whole or not at all."""
        tensors = {name: torch.as_tensor(value) for name, value in self._numbers.items()}
        files.write(Path(path), tensors, self._header)

    @property
    def path(self) -> Path:
        """Return the path of the file."""
        return self._path

    @cached_property
    def _models(self) -> Delivered:
        nothing, M = np.zeros((len(self.targets), 0)), len(self.targets)
        return Delivered(
            w=self._numbers["w"],
            offset=self._numbers["offset"],
            status=np.array([str(status) for status in self.status], dtype=object),
            distance=self.certificate.distance,
            excess_risk=self.certificate.excess_risk,
            gradient=self.certificate.gradient_norm,
            loss=nothing,
            error=nothing,
            paired=nothing,
            moved=nothing,
            rests_on=self.certificate.rests_on,
            importance=np.zeros((M, 0, 2)),
        )

    def __repr__(self) -> str:
        models = "1 model" if len(self.targets) == 1 else f"{len(self.targets)} models"
        names = ", ".join(map(repr, self.targets[:4])) + (", …" if len(self.targets) > 4 else "")
        return f"{models} of {self.options.label!r}, for {names}\n  {self.certificate!r}"


def _union(classes: Sequence[Sequence[Any]]) -> list[Any]:
    """Return the classes of several groups, sorted."""
    return np.unique(np.concatenate([np.array(one) for one in classes])).tolist()


def load_models(path: str | Path, *, hypothesis: str | None = None) -> SavedModels:
    """Return the models that `cuvee solve` wrote to a file; they predict raw rows.

    A file that is damaged, of an older version, or no file of models is an `InputError`.

    Args:
        path: the file.
        hypothesis: "package.module:factory", for models of a network of one's own. It is code, so
            it is imported only where it is named here as well as in the file.

    Example:
        >>> import numpy as np, pandas as pd, tempfile
        >>> import cuvee
        >>> from cuvee.data.encode import Encoder
        >>> north = pd.DataFrame({"age": [20.0, 30.0, 40.0], "cost": [2.0, 3.0, 4.0]})
        >>> encoder = Encoder.fit(north, ["age"])
        >>> problem = cuvee.Problem([cuvee.Domain("north", encoder(north), north.cost)])
        >>> sol = cuvee.solve(problem, cuvee.Ridge(1e-9), [[1.0]])
        >>> named = {"targets": ["new"], "columns": ["north"], "encoder": encoder}
        >>> options = cuvee.Options(label="cost", l2=1e-9)
        >>> models = cuvee.SavedModels.of(sol, **named, options=options)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     models.save(f"{folder}/models.safetensors")
        ...     again = cuvee.load_models(f"{folder}/models.safetensors")
        >>> again.targets, again.features
        (('new',), ('age',))
        >>> again.predict(pd.DataFrame({"age": [50.0]})).prediction.round(6).tolist()
        [5.0]
    """
    path = Path(path)
    header = files.header_of(path, WHAT)
    kind, version = header.get("what"), header["format"]
    if kind == PART_OF_A_RUN:
        raise InputError(
            f"{path} is part of a run: give its folder, {path.parent}, to cuvee predict or "
            "cuvee.open_run"
        )
    if kind == WHAT and version in range(FORMAT):
        raise InputError(
            f"{path} was written by an older version of cuvee, in format {version}: run cuvee "
            "solve again"
        )
    tensors, header = files.read(path, "cpu", WHAT, FORMAT)
    numbers = {name: t.numpy() for name, t in tensors.items()}
    return SavedModels(path, numbers, header, hypothesis=hypothesis)
