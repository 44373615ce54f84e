"""A run that was made: its numbers, its predictions, its report."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from cuvee.data.options import LINEAR, Options
from cuvee.errors import OptionError
from cuvee.outputs.files import understood
from cuvee.outputs.notebook import html_table
from cuvee.problem import Array
from cuvee.report.cautions import gravest
from cuvee.report.findings import Findings
from cuvee.report.label_free import expectation
from cuvee.report.page import render
from cuvee.report.summary import summary
from cuvee.results import Floats
from cuvee.run import added, alpha_file
from cuvee.run.decided import decided
from cuvee.run.findings import Numbers, findings, judged_notes
from cuvee.run.folder import ABOUT, ALPHA, METRICS, MODELS, PREPARED, REPORT, RunFolder
from cuvee.run.models import Delivered
from cuvee.run.predictor import Answer, Predictor
from cuvee.run.tables import metrics_of

EXPLAINED = 8  # targets whose coefficients the report shows


def open_run(path: str | Path, *, hypothesis: str | None = None) -> Run:
    """Return a run folder as its manifest has it; what was changed since is an error.

    Args:
        path: the folder.
        hypothesis: "package.module:factory", for a run with a network of one's own. It is code, so
            it is imported only where it is named here as well as in the folder.
    """
    return Run(RunFolder.open(Path(path)), hypothesis=hypothesis)


class Run(Predictor):
    """The run of one table: targets, weights of the sources, scores, and models for raw rows."""

    def __init__(self, folder: RunFolder, *, hypothesis: str | None = None) -> None:
        self._folder = folder
        self._about, self._added = folder.about, added.read(folder)
        with understood(folder.path / PREPARED, "what this version of cuvee writes"):
            self._prepared = added.join_prepared(folder.json(PREPARED), self._added)
        with understood(folder.path / PREPARED, "what this version of cuvee writes"):
            self.targets: tuple[str, ...] = tuple(t["name"] for t in self._prepared["targets"])
            self.notes: tuple[str, ...] = (self._prepared["why"], *self._prepared["notes"])
            """What was inferred, and what is worth knowing about the table."""
        with understood(folder.path / ABOUT, "what this version of cuvee writes"):
            where = str(folder.path / ABOUT)
            self.options = Options.from_dict(self._about["options"], where, hypothesis=hypothesis)

    @property
    def path(self) -> Path:
        return self._folder.path

    @property
    def folder(self) -> RunFolder:
        """Return the folder that the run was read from."""
        return self._folder

    @property
    def about(self) -> dict[str, Any]:
        """Return what run.json holds."""
        return self._about

    @property
    def added(self) -> frozenset[str]:
        """Return the targets that were added after the run was made."""
        return frozenset(one.about.name for one in self._added)

    @property
    def offset(self) -> Floats:
        """Return what is added to the predictions of each model (M,): its target's level."""
        return self._models.offset

    def described(self, i: int) -> dict[str, Any]:
        """Return what prepared.json says of target i: its rows, its encoder and its classes."""
        about = self._prepared["targets"][i]
        group = self._prepared["groups"][about["group"]]
        classes = group.get("classes") or self._prepared["classes"]
        return {**about, "encoder": group["encoder"], "classes": classes}

    @property
    def finished(self) -> bool:
        return self._folder.done("report")

    @cached_property
    def _weights(self) -> tuple[tuple[str, ...], Floats]:
        _, columns, alpha = alpha_file.from_csv(self._folder.read(ALPHA).decode(), ALPHA)
        return added.join_alpha(columns, alpha, self._added)

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns of alpha: the sources, and the own sample last."""
        return self._weights[0]

    @property
    def alpha(self) -> Floats:
        """Return α (M, columns); it is NaN where a source would be the target itself."""
        return self._weights[1]

    @cached_property
    def metrics(self) -> dict[str, Any]:
        """Return metrics.json: scores beside the baselines, and certificates."""
        metrics, prepared = self._folder.json(METRICS), self._prepared
        if not self._added:
            return metrics
        with understood(self.path, "a run of this version of cuvee"):
            rows = np.array([t["test"] for t in prepared["targets"]])
            how = metrics["metric"], metrics["plan"]
            joined = metrics_of(self._models, self.targets, rows, *how)
            # what was expected of targets without labels does not depend on those added
            return joined | {k: metrics[k] for k in ("label_free",) if k in metrics}

    @cached_property
    def _models(self) -> Delivered:
        base = Delivered.unpack(self._folder.read(MODELS), self.path / MODELS)
        return added.join_models(base, self._added)

    def _answering(self, classes: Array | None, n_inputs: int) -> Answer:
        if decided(self._folder, self.options).model == LINEAR:
            return super()._answering(classes, n_inputs)
        from cuvee.run import fitted

        return fitted.answering(self._folder, self._models.offset, classes)

    @cached_property
    def findings(self) -> Findings:
        with understood(self.path, "a run of this version of cuvee"):
            numbers = Numbers(self._prepared, self.metrics, self.columns, self.alpha, self._added)
            try:
                explained = self.explain(self.targets[:EXPLAINED])
            except OptionError:  # there is nothing to say
                explained = None
            return findings(self._folder, self.options, replace(numbers, explained=explained))

    def report(self) -> Path:
        """Write report.html, from the files of the run alone."""
        return self._folder.derive(REPORT, render(self.findings).encode())

    def summary(self) -> str:
        """Return what was asked and what came out, a sentence a line."""
        return "\n".join(summary(self.findings))

    def expectation(self) -> str:
        """Return what to expect of targets without labels, in words; nothing without any."""
        return expectation(self.findings)

    def as_dict(self) -> dict[str, Any]:
        """Return all of the run that JSON can hold in one line."""
        alpha = [
            {c: a for c, a in zip(self.columns, row, strict=True) if a == a and a > 0}
            for row in self.alpha.tolist()
        ]
        return {
            "run": str(self.path),
            "task": self._prepared["task"],
            "why": self._prepared["why"],
            "hypothesis": self._prepared["hypothesis"],
            "notes": [*self._prepared["notes"], *judged_notes(self._folder)],
            "alpha": dict(zip(self.targets, alpha, strict=True)),
            **{k: v for k, v in self.metrics.items() if k != "targets"},
            "report": str(self.path / REPORT),
        }

    def __repr__(self) -> str:
        if not self.finished:
            return f"Run at {self.path}, not finished: cuvee resume {self.path}"
        return "\n".join(filter(None, (f"Run at {self.path}: {self.summary()}", self._worry)))

    def _repr_html_(self) -> str:
        if not self.finished:
            return html_table((), (), repr(self))
        findings = self.findings
        rows = [
            (t, *("–" if s != s else f"{s:.3g}" for s in findings.scores[i, :, 0].tolist()))
            for i, t in enumerate(findings.targets[:20])
        ]
        said = f"{self.summary()} {self._worry}".strip()
        return html_table(("target", *findings.methods), rows, said)

    @cached_property
    def _worry(self) -> str:
        return gravest(self.findings)
