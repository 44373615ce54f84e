"""The columns that a request is read for; others are ignored before anything is made of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from cuvee.data.targets import suggest
from cuvee.serve.limits import Limits
from cuvee.serve.problems import Problem


@dataclass(frozen=True)
class Wanted:
    """The columns that are read, and which of them are text whatever they look like."""

    names: Sequence[str]
    text: Sequence[str]
    missing: Sequence[str] = ()  # words for empty cells

    def check(self, columns: Collection[Any], rows: int, limits: Limits) -> None:
        """Raise `Problem` unless these columns hold the wanted ones, in not too many rows.

        A row may leave a column out, so that few bytes can stand for many values.
        """
        for name in self.names:
            if name not in columns:
                raise Problem(422, f"there is no column {name!r}{suggest(name, list(columns))}")
        if rows * len(self.names) > limits.cells:
            raise Problem(
                413,
                f"{rows:,} rows of the {len(self.names):,} columns that are learnt from are more "
                f"than {limits.cells:,} values; send fewer rows at once",
            )
