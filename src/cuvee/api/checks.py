"""What every public function asks of its arguments first."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import torch

from cuvee.errors import OptionError


def check_hypothesis(hypothesis: Any) -> None:
    if not callable(getattr(hypothesis, "bind", None)) or isinstance(hypothesis, type):
        raise OptionError(f"hypothesis must be cuvee.Ridge(), Logistic() or Network(module); got {hypothesis!r}")


def check_device(device: Any) -> None:
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, TypeError) as error:
        raise OptionError(f"device {device!r} cannot be used: {str(error).splitlines()[0]}") from None


def check_whole(name: str, value: Any, least: int) -> None:
    if not isinstance(value, Integral) or isinstance(value, bool) or not least <= int(value) < 2**63:
        raise OptionError(f"{name} must be a whole number of at least {least}; got {value!r}")
