"""Report what a stream has cost and lost so far, in the terms of Theorem 4."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from cuvee.results import Floats

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Ledger:
    """Hold the costs and losses of the T rounds so far."""

    rounds: int
    labels: int
    """Number of solves that were paid for, including those that failed."""
    failed: int
    centres: int
    looks: int
    """Number of passes over the data for certificates."""
    loss: float
    """Σ_t ‖ŵ_t − w*(α_t)‖² over the rounds evaluated; NaN where none was."""
    evaluated: int
    notes: tuple[str, ...] = field(repr=False)
    """What went wrong, and in which round."""
    n_sources: int = field(repr=False)
    # (evaluated,) of each round; NaN where there is no w* to compare with
    losses: Floats = field(repr=False)
    labels_at: Counts = field(repr=False)  # (T,) paid up to and with each round
    centres_at: Counts = field(repr=False)  # (T,)

    @property
    def average_loss(self) -> float:
        return self.loss / self.evaluated if self.evaluated else np.nan

    @property
    def regret(self) -> float:
        """Return the cumulative loss, which is the regret against f = w*.

        The loss of w* is 0 in every round.
        """
        return self.loss

    @property
    def average_at(self) -> Floats:
        """Return the average loss up to and with each round, (evaluated,)."""
        return np.nancumsum(self.losses) / np.maximum(np.cumsum(~np.isnan(self.losses)), 1)

    def __str__(self) -> str:
        failed = f" ({self.failed} failed)" if self.failed else ""
        loss = f", average loss {self.average_loss:.3g}" if self.evaluated else ""
        return (
            f"{self.rounds:,} rounds, {self.labels:,} labels{failed}, {self.centres:,} "
            f"centres{loss}"
        )

    def draw(self, path: str | Path) -> None:
        """Draw loss, labels and centres over time into a PNG file."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7.2, 7.2 if self.evaluated else 4.4), layout="constrained")
        rows = figure.subplots(3 if self.evaluated else 2, sharex=True)
        t = np.arange(1, self.rounds + 1)
        if self.evaluated:
            axes, average = rows[0], self.average_at
            at = t[: len(average)]
            axes.plot(
                at,
                np.maximum(self.losses, 1e-300),
                ".",
                color="0.75",
                markersize=2,
                label="of one round",
            )
            axes.plot(at, np.maximum(average, 1e-300), color="#b3402a", label="average so far")
            rate = at ** (-1.0 / (1 + self.n_sources))
            axes.plot(
                at,
                average[0] * rate,
                ":",
                color="0.4",
                label="at the rate of Theorem 4, T^(−1/(1+N))",
            )
            axes.set(yscale="log", ylabel="‖ŵ − w*‖²")
            positive = self.losses[self.losses > 0]
            if len(positive):
                axes.set_ylim(bottom=max(np.quantile(positive, 0.01) / 3, 1e-30))
            axes.legend(frameon=False, fontsize=9)
        for axes, counts, name in zip(
            rows[-2:], (self.labels_at, self.centres_at), ("labels paid", "centres"), strict=True
        ):
            axes.plot(t, counts, color="#2a6fb3", drawstyle="steps-post")
            axes.set_ylabel(name)
            axes.set_ylim(bottom=0)
        rows[0].set_title(str(self), loc="left", fontsize=10)
        rows[-1].set(xlabel="round", xscale="log" if self.rounds > 1_000 else "linear")
        for axes in rows:
            axes.spines[["top", "right"]].set_visible(False)
        figure.savefig(path, dpi=150, format="png")
