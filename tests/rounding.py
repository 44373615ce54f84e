"""How far two computations of the same number may be apart; equal bits are asked only of a call
that is repeated.

The last bits of a sum depend on the order of its terms, and that order on the processor, the
version of the linear algebra library, the number of threads and the way an array lies in memory.
`make test-anywhere` varies all of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

ROUNDING = 1e-12  # of the largest number: thousands of roundings in float64, of 1e-16 each
SOLVED = 1e-9  # of the model that Newton steps end in: they carry roundings along
ESTIMATED = 1e-7  # of the weights that hundreds of projected gradient steps end in


def assert_alike(actual: Any, wanted: Any, tolerance: float = SOLVED) -> None:
    """Raise unless two values of JSON are equal, their floats up to `tolerance`,
    relative to each.
    """
    if isinstance(wanted, dict):
        assert isinstance(actual, dict) and list(actual) == list(wanted)
        actual, wanted = list(actual.values()), list(wanted.values())
    if isinstance(wanted, list):
        for one, other in zip(actual, wanted, strict=True):
            assert_alike(one, other, tolerance)
    else:
        assert actual == (
            pytest.approx(wanted, rel=tolerance, abs=tolerance) if type(wanted) is float else wanted
        )


def assert_rounded(actual: Any, wanted: Any, tolerance: float = ROUNDING) -> None:
    """Raise unless both are equal up to `tolerance` times the largest absolute number that was
    wanted.
    """
    wanted = np.asarray(wanted)
    finite = np.abs(wanted[np.isfinite(wanted)])
    np.testing.assert_allclose(actual, wanted, rtol=0, atol=tolerance * finite.max(initial=0.0))
