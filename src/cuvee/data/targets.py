"""The names of domains: which of them are targets, and what was probably meant by a name that is
not there.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from cuvee.data.columns import as_written, at, comma_list, count, short
from cuvee.errors import DomainError
from cuvee.inputs.arrays import check_apart

EACH = "each"  # every domain in turn, the others being its sources


def choose(
    names: Sequence[str], wanted: str | Sequence[str], excluded: Sequence[str] = ()
) -> list[str]:
    """Return the targets among the domains, in the order of `names`.

    They are named by name, comma list, pattern ("north*") or "each".

    >>> choose(["north 1", "north 2", "south", "west"], "north*,west")
    ['north 1', 'north 2', 'west']
    """
    asked = [wanted] if isinstance(wanted, str) else [str(one) for one in wanted]
    if asked == [EACH] and EACH not in names:
        if len(names) < 2:
            raise DomainError(
                f"there is one domain ({', '.join(names)}); 'each' needs at least 2, to learn from "
                "others"
            )
        return list(names)
    parts = _parts([*names, *excluded], asked)
    if not parts:
        raise DomainError(
            f"no target is named; name a domain, a pattern such as 'north*', or '{EACH}'"
        )
    both = next((part for part in parts if part in excluded), None)
    if both is not None:
        raise DomainError(
            f"domain {both!r} is named as target and in exclude (--exclude): name it in one of them"
        )
    chosen = matching(names, asked)
    if len(chosen) == len(set(names)):
        raise DomainError(
            "no source is left: "
            f"{'the only domain is' if len(chosen) == 1 else f'all {len(chosen)} domains are'} "
            f"named as target; name fewer, or '{EACH}' for every domain in turn"
        )
    return chosen


def matching(names: Sequence[str], asked: Sequence[str], where: str = "") -> list[str]:
    """Return the domains that names, comma lists and patterns stand for, in the order of `names`.

    >>> matching(["north 1", "a, b", "south"], ["north*", "a, b"])
    ['north 1', 'a, b']
    >>> matching(["north 1", "a, b", "south"], ['south,"a, b"'])
    ['a, b', 'south']
    """
    known, chosen = set(names), set[str]()
    for part in _parts(names, asked):
        matched = {part} if part in known else {name for name in names if fnmatchcase(name, part)}
        if not matched:
            raise DomainError(f"{at(where)}no domain matches {part!r}{suggest(part, names)}")
        chosen |= matched
    return [name for name in names if name in chosen]


def _parts(names: Sequence[str], asked: Sequence[str]) -> list[str]:
    """Return comma lists taken apart; a name may hold a comma itself, and quotes keep it."""
    known = set(names)
    return [part for one in asked for part in ([one] if one in known else comma_list(one))]


def suggest(wrong: str, known: Sequence[str]) -> str:
    """Return the end of a sentence about a name that is not there.

    >>> suggest("readmited", ["age", "readmitted"])
    "; did you mean 'readmitted'?"
    """
    lower = {name.lower(): name for name in reversed(known)}
    near = [lower[name] for name in get_close_matches(wrong.lower(), lower, n=3)]
    if near:
        return f"; did you mean {' or '.join(map(repr, near))}?"
    return (
        f"; there are {', '.join(map(short, known[:8]))}{', …' if len(known) > 8 else ''}"
        if known
        else ""
    )


def domain_names(
    column: Any, where: str, *, missing: Collection[str] = (), gaps: bool = False
) -> Any:
    """Return a column (rows,) of names, numbers or dates as names of domains.

    Empty text and the words `missing` are no names. A missing name is an error, or None where
    there may be `gaps`.
    """
    import pandas as pd

    try:
        codes, values = pd.factorize(column)
        names = np.array([as_written(value) for value in values.tolist()] + [""], dtype=object)
        empty = np.array([name.strip() in {"", *missing} for name in names])
        bare = empty[codes]  # the last is that of a gap
    except (TypeError, ArithmeticError):  # what cannot be hashed or compared cannot be told apart
        raise DomainError(
            f"{at(where)}column {str(column.name)!r} does not hold names of domains; use text"
        ) from None
    if bare.any() and not gaps:
        row = column.index[int(np.argmax(bare))]
        raise DomainError(
            f"{at(where)}column {str(column.name)!r} names no domain at row {row} "
            f"({count(int(bare.sum()), 'such row')}); fill it in, or remove the row",
            row,
        )
    if len({*names[~empty]}) < int((~empty).sum()):
        check_apart(
            column[~bare].tolist(),
            names[codes[~bare]],
            f"{at(where)}column {str(column.name)!r}",
            "domain",
        )
    return pd.Series(np.where(bare, None, names[codes]), column.index, name=column.name)
