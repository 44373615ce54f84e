"""What every map fills in. One more map is one more file with a `Map` in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cuvee.hypothesis.base import Space
from cuvee.learn.choose import Chosen
from cuvee.learn.material import Material
from cuvee.learn.options import Options


def _suits(space: Space, options: Options) -> None:
    """Raise nothing: most maps suit every hypothesis."""


@dataclass(frozen=True)
class Map:
    """Describe a way to learn α -> w*(α): its name, how it is fitted, one line about it, and the
    options it takes.
    """

    name: str
    fit: Callable[[Material, Options], Chosen]
    """Labels and what is behind them -> the predictor; raises `OptionError` where labels are too
    few.
    """
    summary: str
    predictors: tuple[type[Any], ...]
    """What it may end with: frozen dataclasses of tensors and plain numbers, which a file can hold.
    """
    options: tuple[str, ...] = ()
    """The fields of `Options` that it takes; others are refused when they are given."""
    check: Callable[[Space, Options], None] = _suits
    """Raises `OptionError` before anything is solved, if the map does not suit the hypothesis."""
    cheapest: bool = False
    """Whether it takes the first candidate within the tolerance, not the most accurate."""
