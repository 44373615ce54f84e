"""What every public function asks of its arguments first."""

from __future__ import annotations

from typing import Any

import torch

from cuvee.errors import OptionError
from cuvee.errors import check_whole as check_whole
from cuvee.problem import Problem

MEMORY = 2**30


def check_problem(problem: Any) -> None:
    """Raise `OptionError` unless this is a `Problem`."""
    if not isinstance(problem, Problem):
        raise OptionError(
            f"problem must be a cuvee.Problem(sources, targets); got {type(problem).__name__}"
        )


def check_hypothesis(hypothesis: Any) -> None:
    if not callable(getattr(hypothesis, "bind", None)) or isinstance(hypothesis, type):
        raise OptionError(
            "hypothesis must be one such as cuvee.Ridge(), Logistic(), Poisson() or "
            f"Network(module); got {hypothesis!r}"
        )


def check_device(device: Any) -> None:
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, TypeError) as error:
        raise OptionError(
            f"device {device!r} cannot be used: {str(error).splitlines()[0]}"
        ) from None


def check_memory(memory: int | None, device: str) -> int:
    """Return the bytes to work with: the caller's, or by default 1 GiB.

    On a GPU the default is a quarter of what is free.
    """
    if memory is None:
        memory = (
            torch.cuda.mem_get_info(device)[0] // 4
            if torch.device(device).type == "cuda"
            else MEMORY
        )
    check_whole("memory", memory, 2**20)
    return memory
