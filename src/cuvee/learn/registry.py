"""Register the maps by name.

To add one, put a file with a `MAP` beside this one and its name in the list of `cuvee.names`. Error
messages, `cuvee learn --method`, saved files and the table in docs/maps.md follow from it.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, get_args

from cuvee.errors import OptionError, check_choice
from cuvee.learn.method import Map
from cuvee.learn.options import Options
from cuvee.names import MapMethod as Method

_MAPS: dict[str, Map] = {}


def register(new: Map) -> None:
    """Make a map known by its name, which must be a new one."""
    if new.name in _MAPS:
        raise OptionError(f"a map named {new.name!r} is registered already: choose another name")
    known = predictors()
    for kind in new.predictors:
        if known.get(kind.__name__, kind) is not kind:
            raise OptionError(
                f"another map has a predictor named {kind.__name__!r}, and saved files hold only "
                "the name: give the class another name"
            )
    _MAPS[new.name] = new


def unregister(name: str) -> None:
    """Remove a map from the registry."""
    del _MAPS[find(name).name]


def names() -> tuple[str, ...]:
    """Return the names of all maps, in the order in which they were registered."""
    return tuple(_MAPS)


def maps() -> tuple[Map, ...]:
    """Return all maps, in the order in which they were registered."""
    return tuple(_MAPS.values())


def find(name: str) -> Map:
    """Return the map of that name, or raise `OptionError` with a list of the names."""
    check_choice("method", name, names())
    return _MAPS[name]


def predictors() -> dict[str, type[Any]]:
    """Return the predictors that a file may hold, by the names of their classes."""
    return {kind.__name__: kind for map_ in maps() for kind in map_.predictors}


def check_given(name: str, options: Options) -> None:
    """Raise `OptionError` if an option was given that the map does not use."""
    wanted = find(name).options
    unused = [option for option in options.given() if option not in wanted]
    if unused:
        raise OptionError(f"method={name!r} does not use {', '.join(unused)}: leave it out")


for _name in get_args(Method):
    register(import_module(f"cuvee.learn.{_name}").MAP)
