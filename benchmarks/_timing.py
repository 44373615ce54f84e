"""What two sides' times, taken in turns, say."""

from __future__ import annotations

import statistics
from typing import Any


def compared(fast: list[float], slow: list[float]) -> dict[str, Any]:
    """Medians of both sides and of their paired ratios, with the lowest and the highest."""
    ratios = sorted(s / f for f, s in zip(fast, slow, strict=True))
    return {
        "fast_s": round(statistics.median(fast), 4),
        "slow_s": round(statistics.median(slow), 3),
        "ratio": round(statistics.median(ratios), 2),
        "ratio_low": round(ratios[0], 2),
        "ratio_high": round(ratios[-1], 2),
        "repeats": len(ratios),
    }
