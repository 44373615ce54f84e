"""Hold what is believed of the metrics at one scale, so that lower is better for all of them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from cuvee.mix.average import Average
from cuvee.mix.conformal import WIDER_MEAN, WIDER_RUN, Calibration
from cuvee.mix.scales import Levels


@dataclass(frozen=True, eq=False)
class Belief:
    """Predict the metrics of mixtures (m, N) at one scale, in their own units."""

    average: Average
    levels: Levels
    calibration: Calibration
    scale: int
    few: bool = False  # no more runs than domains: intervals are widened

    def __call__(self, alpha: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean and its spread (m, K)."""
        return self.levels.at(*self.average(alpha), self.scale)

    def mean(self, alpha: Tensor) -> Tensor:
        """Return the mean (m, K) alone, which is cheaper."""
        return self.levels.level[self.scale] + self.unit * self.average.mean(alpha)

    def joint(self, alpha: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean (m, K), and the covariance (K, m, m) of what mixtures differ in.

        How sure the slope of the scale is counts; its level is the same for all mixtures.
        """
        mean, covariance = self.average.joint(alpha)
        squared = self.unit.square()[:, None, None]
        slope = self.levels.covariance[self.scale][:, 1, 1][:, None, None]  # 0 with one scale
        together = squared * covariance + slope * mean.T[:, :, None] * mean.T[:, None, :]
        return self.levels.level[self.scale] + self.unit * mean, together

    @property
    def unit(self) -> Tensor:
        """Return the spread (K,) of each metric over the runs at this scale."""
        return self.levels.slope[self.scale]

    @property
    def noise(self) -> Tensor:
        """Return the noise (K,) of a run at this scale, in units of the metric."""
        return self.unit * self.calibration.noise * self.levels.noise[self.scale]

    def half_mean(self, spread: Tensor) -> Tensor:
        """Return half the interval (m, K) of the mean."""
        wider = WIDER_MEAN if self.few else 1.0
        return wider * self.calibration.quantile * spread

    def half_run(self, spread: Tensor) -> Tensor:
        """Return half the interval (m, K) of a new, noisy run."""
        wider = WIDER_RUN if self.few else 1.0
        run = wider * self.calibration.quantile * torch.hypot(spread, self.noise.expand_as(spread))
        return torch.maximum(run, self.half_mean(spread))  # a run is no surer than the mean
