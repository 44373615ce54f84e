"""What an experiment says about its claim: computed from numbers, so that other numbers say
otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

Held = bool | Literal["partly"] | None  # None: too few seeds to tell


@dataclass(frozen=True)
class Verdict:
    """Whether a claim held, in one sentence, and the numbers that this rests on."""

    held: Held
    sentence: str
    numbers: dict[str, Any]

    @property
    def word(self) -> str:
        """For a terminal, and for the page."""
        return word(self.held)


def word(held: Held) -> str:
    """What a verdict is called.

    >>> word(None)
    'too few seeds to tell'
    """
    if held is None:
        return "too few seeds to tell"
    return {True: "held", False: "did not hold", "partly": "held in part"}[held]


def of_parts(parts: Sequence[bool]) -> Held:
    """All, none or some of the parts of a claim.

    >>> of_parts([True, False]), of_parts([True, True]), of_parts([False])
    ('partly', True, False)
    """
    if not parts:
        raise ValueError("a verdict needs something to judge")
    return True if all(parts) else "partly" if any(parts) else False
