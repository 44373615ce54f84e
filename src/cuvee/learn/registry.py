"""The maps there are, by name: each says in one line what it is, which options it takes and how it is fitted.

`cuvee/learn/__init__.py` registers those that ship. To add one, write a file with a `Map` in it and register it there:
`cuvee.learn(method=…)`, its error messages, `cuvee learn --method` and saved files know it from then on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cuvee.errors import OptionError, check_choice
from cuvee.hypothesis.base import Space
from cuvee.learn.choose import Chosen
from cuvee.learn.material import Material
from cuvee.learn.options import Options


def _anything(space: Space, options: Options) -> None:
    """Raise nothing: most maps suit every hypothesis."""


@dataclass(frozen=True)
class Map:
    """Describe a way to learn α -> w*(α)."""

    name: str
    description: str
    """One line, for error messages, `--help` and the docs."""
    fit: Callable[[Material, Options], Chosen]
    """Labels and what is behind them -> the predictor; raises `OptionError` where labels are too few."""
    predictors: tuple[type[Any], ...]
    """What it may end with: frozen dataclasses of tensors and plain numbers, which a file can hold."""
    options: tuple[str, ...] = ()
    """The fields of `Options` that it takes; others are refused when they are given."""
    check: Callable[[Space, Options], None] = _anything
    """Raises `OptionError` before anything is solved, if the map does not suit the hypothesis."""
    cheapest: bool = False
    """It takes the first candidate within the tolerance, not the most accurate."""


_MAPS: dict[str, Map] = {}


def register(new: Map) -> None:
    """Make a map known by its name, which must be a new one."""
    if new.name in _MAPS:
        raise OptionError(f"there is a map named {new.name!r} already: take another name")
    taken = predictors()
    for kind in new.predictors:
        if taken.get(kind.__name__, kind) is not kind:
            raise OptionError(f"another map has a predictor named {kind.__name__!r}: files tell them apart by name")
    _MAPS[new.name] = new


def unregister(name: str) -> None:
    """Forget a map again."""
    del _MAPS[find(name).name]


def names() -> tuple[str, ...]:
    """Return the names of all maps, in the order in which they were registered."""
    return tuple(_MAPS)


def maps() -> tuple[Map, ...]:
    """Return all maps, in the order in which they were registered."""
    return tuple(_MAPS.values())


def find(name: str) -> Map:
    """Return the map of that name; a wrong one is an error that lists the right ones."""
    check_choice("method", name, names())
    return _MAPS[name]


def predictors() -> dict[str, type[Any]]:
    """Return the predictors that a file may hold, by the names of their classes."""
    return {kind.__name__: kind for each in maps() for kind in each.predictors}


def check_given(name: str, options: Options) -> None:
    """Raise `OptionError` if an option was given that the map has no use for."""
    wanted = find(name).options
    unused = [option for option in options.given() if option not in wanted]
    if unused:
        raise OptionError(f"method={name!r} has no use for {', '.join(unused)}: leave it out")
