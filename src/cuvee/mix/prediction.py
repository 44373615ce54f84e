"""Hold what a surface says of mixtures: means with intervals, and effects of domains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cuvee.results import Floats


@dataclass(frozen=True, eq=False)
class Prediction:
    """Hold the metrics of m mixtures.

    `low` and `high` are for one new, noisy run of the mixture; `mean_low` and `mean_high` for the
    average of many such runs.
    """

    metrics: tuple[str, ...]
    mean: Floats  # (m, K)
    low: Floats  # (m, K)
    high: Floats  # (m, K)
    mean_low: Floats  # (m, K)
    mean_high: Floats  # (m, K)
    level: float  # share of new runs that the interval from low to high is meant to hold

    def to_frame(self) -> Any:
        """Return a pandas frame with a row per mixture and metric."""
        import pandas as pd

        m, K = self.mean.shape
        columns = ("mean", "low", "high", "mean_low", "mean_high")
        return pd.DataFrame(
            {
                "mixture": [i for i in range(m) for _ in range(K)],
                "metric": list(self.metrics) * m,
                **{name: getattr(self, name).ravel() for name in columns},
            }
        )


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """Hold how each metric changes when a domain gets `step` more of the mixture.

    The other domains give it up in proportion to their shares. A change below 0 is a lower metric.
    """

    domains: tuple[str, ...]
    metrics: tuple[str, ...]
    step: float
    change: Floats  # (N, K)
    low: Floats  # (N, K)
    high: Floats  # (N, K)

    def to_frame(self) -> Any:
        """Return a pandas frame with a row per domain and metric."""
        import pandas as pd

        N, K = self.change.shape
        return pd.DataFrame(
            {
                "domain": [name for name in self.domains for _ in range(K)],
                "metric": list(self.metrics) * N,
                **{name: getattr(self, name).ravel() for name in ("change", "low", "high")},
            }
        )
