"""Register the α methods by name.

To add one, put a file with a `METHOD` beside this one and its name in one of the lists of
`cuvee.names`. Error messages, `cuvee weights --method`, `cuvee adapt --method` and the table in
docs/choosing.md follow from it.
"""

from __future__ import annotations

from collections.abc import Collection
from importlib import import_module
from typing import get_args

from cuvee.errors import OptionError, check_choice
from cuvee.mixture.method import AlphaMethod
from cuvee.names import AlphaMethod as Method

_METHODS: dict[str, AlphaMethod] = {}


def register(method: AlphaMethod) -> None:
    """Make a method known to `cuvee.estimate` by its name."""
    if method.name in _METHODS:
        raise OptionError(
            f"an α method named {method.name!r} is registered already: choose another name"
        )
    _METHODS[method.name] = method


def unregister(name: str) -> None:
    """Remove a method from the registry."""
    del _METHODS[name]


def names(searching: bool = False) -> tuple[str, ...]:
    """Return the names of all methods, or of those that search, in the order they are listed."""
    return tuple(name for name, method in _METHODS.items() if method.steps or not searching)


def find(name: str) -> AlphaMethod:
    """Return the method of this name, or raise `OptionError` with a list of the names."""
    check_choice("method", name, names())
    return _METHODS[name]


def check_taken(name: str, given: Collection[str]) -> None:
    """Raise `OptionError` for the first of the options given that has no effect with a method."""
    takes = find(name).takes
    unused = [] if takes is None else [option for option in given if option not in takes]
    if not unused:
        return
    able = [m.name for m in _METHODS.values() if m.takes is not None and unused[0] in m.takes]
    raise OptionError(
        f"{unused[0]} has no effect with method {name!r}: leave it out, or choose a method that "
        f"takes it: {', '.join(map(repr, able))}"
    )


for _name in get_args(Method):
    register(import_module(f"cuvee.mixture.{_name}").METHOD)
