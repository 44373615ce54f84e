"""Describe questions to sites, and believe no answer that cannot be true."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from cuvee.errors import CuveeError, InputError
from cuvee.scale.flower_wire import Packet, unpacked


class SiteLost(CuveeError):
    """A site cannot take part any more: it is silent, refuses, or sends what cannot be true."""

    def __init__(self, site: str, status: str, why: str) -> None:
        super().__init__(f"site {site!r} is left out ({status}): {why}")
        self.site, self.status, self.why = site, status, why


@dataclass(frozen=True)
class Call:
    """Describe a question to one site, and what an answer must look like."""

    site: str
    question: str
    arguments: tuple[Any, ...] = ()
    check: Callable[[Any], str | None] = lambda answer: None  # returns what is wrong with it
    keep: Callable[[Any], None] = lambda answer: None  # called before anybody goes on


@dataclass(frozen=True)
class Round:
    """Hold what one round carried: bytes to and from every site, and the questions."""

    stage: str
    sent: Mapping[str, int]
    received: Mapping[str, int]
    questions: Mapping[str, Sequence[str]]
    repeated: bool = False  # whether it asks again what had no answer


class Silent(CuveeError):
    """A site did not answer."""


class Untrue(CuveeError):
    """An answer cannot be true."""


def checked(site: str, reply: Packet | str, calls: Sequence[Call]) -> list[Any]:
    """Return the answers in a reply; raise where there are none, or where they cannot be true."""
    if isinstance(reply, str):
        raise Silent(reply)
    try:
        content = unpacked(reply)
        if "refused" in content:
            raise SiteLost(site, "refused", str(content["refused"]))
        if "failed" in content:
            raise SiteLost(site, "failed", str(content["failed"]))
        answers = content["answers"]
    except (InputError, KeyError, TypeError) as error:
        raise Untrue(f"its message cannot be read ({error})") from None
    if not isinstance(answers, list) or len(answers) != len(calls):
        raise Untrue("it answered other questions than were asked")
    for call, answer in zip(calls, answers, strict=True):
        wrong = call.check(answer)
        if wrong is not None:
            raise Untrue(f"its answer to {call.question!r} {wrong}")
    return answers


def shaped(*shapes: tuple[int, ...]) -> Callable[[Any], str | None]:
    """Return what checks that an answer is a finite tensor of this shape, or a tuple of such."""

    def check(answer: Any) -> str | None:
        parts = answer if isinstance(answer, tuple) else (answer,)
        if len(parts) != len(shapes):
            return f"has {len(parts)} parts instead of {len(shapes)}"
        for part, shape in zip(parts, shapes, strict=True):
            if not isinstance(part, Tensor) or tuple(part.shape) != shape:
                got = tuple(part.shape) if isinstance(part, Tensor) else type(part).__name__
                return f"has the shape {got} instead of {shape}"
            if not bool(part.isfinite().all()):
                return "holds a number that is not finite"
        return None

    return check


def finite(answer: Any) -> str | None:
    """Return what is wrong with a single number."""
    value = answer.item() if isinstance(answer, Tensor) and answer.numel() == 1 else answer
    good = isinstance(value, int | float) and bool(np.isfinite(value))
    return None if good else "is not a finite number"
