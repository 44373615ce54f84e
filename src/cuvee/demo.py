"""`make demo`: Table 2 of the paper on images it has not seen, from data to α to models."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cuvee import erm
from cuvee.api import estimate
from cuvee.components import LocalComponents
from cuvee.data import mnist
from cuvee.hypothesis.network import Network
from cuvee.results import Floats, Mixtures

METHODS = ("plain averaging", "target only", "learnt mixture")
HIDDEN = 32


@dataclass(frozen=True)
class DemoResult:
    """What the demo found; one row per target."""

    mix: Mixtures
    groups: tuple[str, ...]  # column names: the groups of sources, then the own sample
    by_group: Floats  # (M, groups + 1) α summed by group
    accuracy: Floats  # (M, methods)
    n_test: int
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        return {
            "seconds": round(self.seconds, 1),
            "test_images": self.n_test,
            "targets": {
                target: {
                    "alpha": dict(zip(self.groups, self.by_group[i].round(4).tolist(), strict=True)),
                    "gap": round(float(self.mix.gap[i]), 5),
                    "status": str(self.mix.status[i]),
                    "accuracy": dict(zip(METHODS, self.accuracy[i].round(4).tolist(), strict=True)),
                }
                for i, target in enumerate(self.mix.targets)
            },
        }


def run(seed: int = 0, quiet: bool = False) -> DemoResult:
    """Data, α by the unattended default, then one batch of models for all targets and the two baselines."""
    began = time.perf_counter()
    data = mnist.groups(seed)
    hypothesis = Network(two_layers(seed))
    with _Bar(quiet) as bar:
        mix = estimate(data.problem, hypothesis, seed=seed, progress=bar)
        uniform = estimate(data.problem, hypothesis, method="uniform", own=True).alpha
        alone = estimate(data.problem, hypothesis, method="target_only").alpha
        bar("training the models", 0, 1)
        space = hypothesis.bind(data.problem)
        components = LocalComponents(data.problem, space, seed=seed)
        alpha = torch.as_tensor(np.stack([uniform, alone, mix.alpha], 1))  # (M, 3, N+1)
        w = erm.solve(components, components.everything, alpha, seed=seed)
        bar("training the models", 1, 1)
    accuracy = [np.mean(space.predict(w[i], t.X) == t.y, axis=-1) for i, t in enumerate(data.test)]
    names = tuple(mnist.GROUPS)
    summed = [mix.alpha[:, :-1][:, np.array(data.groups) == g].sum(1) for g in names]
    return DemoResult(
        mix=mix,
        groups=(*names, "own rows"),
        by_group=np.column_stack([*summed, mix.alpha[:, -1]]),
        accuracy=np.array(accuracy),
        n_test=data.test[0].n_rows,
        seconds=time.perf_counter() - began,
    )


def two_layers(seed: int) -> torch.nn.Module:
    """The paper's two-layer MLP."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return torch.nn.Sequential(torch.nn.Linear(784, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, 10))


def show(result: DemoResult) -> None:
    """Two tables for a terminal."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    alpha = Table(title="How much each target learns from each group of sources (α summed)")
    for column in ("target", *result.groups, "gap", "status"):
        alpha.add_column(column, justify="left" if column in ("target", "status") else "right", no_wrap=True)
    for i, target in enumerate(result.mix.targets):
        shares = (f"{a:.2f}" for a in result.by_group[i])
        alpha.add_row(target, *shares, f"{result.mix.gap[i]:.3f}", str(result.mix.status[i]))
    scores = Table(title=f"Accuracy on {result.n_test} unseen images per target")
    for column in ("target", *METHODS):
        scores.add_column(column, justify="left" if column == "target" else "right")
    for target, row in zip(result.mix.targets, result.accuracy, strict=True):
        best = row.max()
        scores.add_row(target, *(f"[bold]{a:.1%}[/bold]" if a == best else f"{a:.1%}" for a in row))
    console.print(alpha)
    for status in dict.fromkeys(result.mix.status):
        console.print(f"  {status}: {status.sentence}", style="dim")
    console.print("  gap: how far from a stationary point, Definition 1 of the paper.\n", style="dim")
    console.print(scores)
    wins = int((result.accuracy[:, 2] > result.accuracy[:, :2].max(1)).sum())
    console.print(
        f"The learnt mixture beats both baselines on {wins} of {len(result.accuracy)} targets. {result.seconds:.0f} s."
    )


def draw(result: DemoResult, path: Path) -> None:
    """α by group as a heat map beside the accuracies as bars, one PNG."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 3.6), layout="constrained")
    left.imshow(result.by_group, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    left.set_xticks(range(len(result.groups)), result.groups)
    left.set_yticks(range(len(result.mix.targets)), result.mix.targets)
    for (i, j), value in np.ndenumerate(result.by_group):
        left.text(j, i, f"{value:.2f}", ha="center", va="center", color="white" if value > 0.5 else "black")
    left.set_title("α summed by group of sources")
    place = np.arange(len(result.mix.targets))
    for k, (method, colour) in enumerate(zip(METHODS, ("#b8c4ce", "#7d93a6", "#1f4e79"), strict=True)):
        right.bar(place + 0.27 * (k - 1), 100 * result.accuracy[:, k], width=0.25, label=method, color=colour)
    right.set_xticks(place, result.mix.targets)
    right.set_ylim(0, 100)
    right.set_ylabel("accuracy, %")
    right.set_title(f"{result.n_test} unseen images per target")
    right.legend(loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=3, frameon=False)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)


class _Bar:
    """A progress bar per stage; silent when asked to be."""

    def __init__(self, quiet: bool) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        columns = (
            TextColumn("{task.description:<28}"),
            BarColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        self._bars = Progress(*columns, console=Console(stderr=True), disable=quiet)
        self._tasks: dict[str, Any] = {}

    def __enter__(self) -> _Bar:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def __call__(self, what: str, done: int, total: int) -> None:
        if what not in self._tasks:
            self._tasks[what] = self._bars.add_task(what, total=total)
        self._bars.update(self._tasks[what], completed=done)
