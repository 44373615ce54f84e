"""Say what a good mixture is: one number to minimise, from the means and spreads of metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cuvee.errors import OptionError, check_number, option
from cuvee.mix.belief import Belief
from cuvee.mix.candidate import DTYPE

LISTED = 4  # metrics of a goal that are named; of more it is said how many they are
SHARP = 40.0  # of the smooth maximum, per unit of a metric's spread
AUGMENTED = 0.01  # of the sum beside the worst, so that the others are not given away


@dataclass(frozen=True, eq=False)
class Goal:
    """Hold the metrics to minimise and how: all as lower is better."""

    weights: Tensor  # (K,) sum to 1; 0 for metrics that do not count
    worst: bool  # minimise the worst of the metrics, each in units of its spread
    guards: Mapping[int, float]  # metric -> what it must stay below, at the end of its interval
    risk: float  # 1: the upper end of the mean's interval counts; 0: the mean itself
    prior: Tensor | None  # (N,) mixture to be pulled to
    pull: float  # strength, in units of the goal's spread per unit of KL divergence
    ideal: Tensor | None = None  # (K,) what `worst` is measured from: see `search.with_ideal`

    def value(self, belief: Belief, mean: Tensor, spread: Tensor | None) -> Tensor:
        """Return what counts of each mixture (m,), in units of the metrics or of their spread."""
        if self.worst:
            high = mean if spread is None else mean + self.risk * belief.half_mean(spread)
            away = self.away(belief, high)
            # augmented Chebyshev scalarisation, with a smooth maximum
            return torch.logsumexp(SHARP * away, 1) / SHARP + AUGMENTED * away.sum(1)
        value = mean @ self.weights
        return value if spread is None else value + self.risk * self.half(belief, spread)

    def away(self, belief: Belief, metrics: Tensor) -> Tensor:
        """Return how far metrics (m, K) that count are above their ideal, in weighted spreads.

        All are above 0 there, so that a larger weight always makes a metric count more. From the
        mean of the runs, most would be below 0 near the best mixture, and it would count less.
        """
        assert self.ideal is not None
        return (self.relative * (metrics - self.ideal) / belief.unit)[:, self.weights > 0]

    @property
    def relative(self) -> Tensor:
        """Return the weights (K,) relative to their mean over the metrics that count."""
        return self.weights * (self.weights > 0).sum()

    def shown(self, belief: Belief, mean: Tensor, spread: Tensor | None) -> Tensor:
        """Return the goal (m,) as it is told: exactly, without what helps the search.

        With a `spread` it is the upper end of its interval. Of the worst metric this is the worst
        of the upper ends.
        """
        if not self.worst:
            value = mean @ self.weights
            return value if spread is None else value + self.half(belief, spread)
        high = mean if spread is None else mean + belief.half_mean(spread)
        return self.away(belief, high).amax(1)

    def half(self, belief: Belief, spread: Tensor) -> Tensor:
        """Return half the interval (m,) of the weighted sum.

        Errors of two metrics go together as far as their held-out residuals do.
        """
        part = self.weights * belief.half_mean(spread)  # (m, K)
        variance = ((part @ belief.calibration.correlation) * part).sum(1)
        return variance.clamp(min=1e-24 * self.unit(belief) ** 2).sqrt()

    def noise(self, belief: Belief) -> float:
        """Return the standard deviation of the goal of one run that noise alone makes.

        Of the worst metric it is that of one metric, whichever it is: their root mean square.
        """
        if self.worst:
            each = (self.relative * belief.noise / belief.unit)[self.weights > 0]
            return float(each.square().mean().sqrt())
        part = self.weights * belief.noise
        return float(((part @ belief.calibration.correlation) * part).sum().clamp(min=0.0).sqrt())

    def unit(self, belief: Belief) -> float:
        """Return the size of differences in the goal, so that searches need no settings."""
        return 1.0 if self.worst else float(self.weights @ belief.unit)

    def pulled(self, alpha: Tensor, belief: Belief) -> Tensor:
        """Return the price (m,) of leaving the prior mixture: pull · KL(α ‖ prior)."""
        if self.prior is None or self.pull == 0.0:
            return torch.zeros(len(alpha), dtype=DTYPE)
        away = torch.special.xlogy(alpha, alpha.clamp(min=1e-12) / self.prior.clamp(min=1e-6))
        return self.pull * self.unit(belief) * away.sum(1)

    def beyond(self, belief: Belief, mean: Tensor, spread: Tensor | None) -> Tensor:
        """Return how far guarded metrics are above their bounds (m, guards), in units of spread."""
        places = list(self.guards)
        bounds = torch.tensor([self.guards[k] for k in places], dtype=DTYPE)
        high = mean if spread is None else mean + self.risk * belief.half_mean(spread)
        return (high[:, places] - bounds) / belief.unit[places]

    def in_words(self, names: Sequence[str], sign: Tensor) -> tuple[str, float]:
        """Return what the goal is, and −1 where it is to be shown negated, as larger is better."""
        counted = [k for k, weight in enumerate(self.weights.tolist()) if weight > 0]
        turned = [k for k in counted if sign[k] < 0]
        direction = -1.0 if len(turned) == len(counted) and not self.worst else 1.0
        minus = "" if direction < 0 else "−"
        listed = ", ".join(f"{minus if k in turned else ''}{names[k]}" for k in counted)
        if len(counted) > LISTED:
            listed = f"{len(counted)} metrics"
        if self.worst:
            return f"the worst of {listed} (spreads above its ideal; lower is better)", direction
        if len(counted) == 1:
            return listed, direction
        even = float(self.weights[counted].max() - self.weights[counted].min()) < 1e-12
        mean = f"the {'mean' if even else 'weighted mean'} of {listed}"
        mixed = bool(turned) and direction > 0
        return mean + (" (lower is better)" if mixed else ""), direction


def read_goal(
    names: Sequence[str],
    sign: Tensor,
    *,
    minimise: str | Sequence[str] | Mapping[str, float] | None,
    worst: bool,
    keep: Mapping[str, float] | None,
    risk: float,
    prior: Tensor | None,
    pull: float,
) -> Goal:
    """Return the checked goal; `sign` (K,) is −1 for metrics that are better when larger."""
    check_number(option("risk"), risk, least=0.0)
    check_number(option("pull"), pull, least=0.0)
    if pull > 0 and prior is None:
        raise OptionError(
            f"{option('pull')} draws the mixture to {option('prior')}: give the prior mixture too"
        )
    given = names if minimise is None else [minimise] if isinstance(minimise, str) else minimise
    wanted = dict(given) if isinstance(given, Mapping) else dict.fromkeys(given, 1.0)
    weights = torch.zeros(len(names), dtype=DTYPE)
    for name, weight in wanted.items():
        check_number(f"the weight of {name!r} in {option('minimise')}", weight, least=0.0)
        weights[_place(name, names, "minimise")] = float(weight)
    if float(weights.sum()) <= 0.0:
        raise OptionError(f"{option('minimise')} names no metric with a weight above 0")
    guards = {}
    for name, bound in (keep or {}).items():
        check_number(f"the bound of {name!r} in {option('keep')}", bound)
        place = _place(name, names, "keep")
        guards[place] = float(sign[place]) * float(bound)
    return Goal(weights / weights.sum(), worst, guards, float(risk), prior, float(pull))


def _place(name: str, names: Sequence[str], named_by: str) -> int:
    if name not in names:
        raise OptionError(
            f"{option(named_by)} names the metric {name!r}, which is not one of {', '.join(names)}"
        )
    return list(names).index(name)
