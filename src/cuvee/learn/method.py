"""Define what every map fills in; a new map is a new file with a `Map` in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cuvee.hypothesis.base import Space
from cuvee.learn.choose import Chosen
from cuvee.learn.material import Material
from cuvee.learn.options import Options


def _suits(space: Space, options: Options) -> None:
    """Accept every hypothesis, as most maps do."""


@dataclass(frozen=True)
class Map:
    """Describe a way to learn α -> w*(α): its name, how it is fitted, and the options it takes."""

    name: str
    fit: Callable[[Material, Options], Chosen]
    """Returns the predictor fitted to the material; raises `OptionError` if labels are too few."""
    summary: str
    predictors: tuple[type[Any], ...]
    """The predictors it may return: frozen dataclasses of tensors and plain numbers, for a file."""
    options: tuple[str, ...] = ()
    """The fields of `Options` that it takes; others are refused when they are given."""
    check: Callable[[Space, Options], None] = _suits
    """Raises `OptionError` before anything is solved, if the map does not suit the hypothesis."""
    cheapest: bool = False
    """Whether it takes the first candidate within the tolerance, not the most accurate."""
