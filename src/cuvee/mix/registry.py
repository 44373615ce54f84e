"""Register the candidates for a surface by name.

To add one, fill in a `Method` in a file beside this one and put it into the list below. Error
messages and `cuvee mix fit --candidates` follow from it.
"""

from __future__ import annotations

from collections.abc import Sequence

from cuvee.errors import OptionError, check_choice, option
from cuvee.mix import gaussian, laws, quadratic, trees
from cuvee.mix.candidate import Method

METHODS: dict[str, Method] = {
    method.name: method
    for method in (*laws.METHODS, quadratic.METHOD, gaussian.PLAIN, gaussian.BENT, trees.METHOD)
}


def names() -> tuple[str, ...]:
    """Return the names of all candidates."""
    return tuple(METHODS)


def chosen(wanted: Sequence[str] | None) -> tuple[Method, ...]:
    """Return the candidates of these names; by default all but trees."""
    if wanted is None:
        return tuple(method for method in METHODS.values() if method.default)
    if isinstance(wanted, str) or not wanted:
        raise OptionError(
            f"{option('candidates')} must be a list of names, of {', '.join(names())}"
        )
    for name in wanted:
        check_choice(option("candidates"), name, names())
    return tuple(METHODS[name] for name in dict.fromkeys(wanted))
