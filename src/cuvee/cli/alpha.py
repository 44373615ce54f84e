"""α as a CSV: a column `target`, a column per source, and "(own sample)" last where targets' own
rows joined.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cuvee.cli.output import print_csv, write_file
from cuvee.errors import InputError, MixtureError
from cuvee.inputs.alpha import Labelled, ordered_alpha
from cuvee.results import OWN, Floats, Mixtures
from cuvee.run.alpha_file import from_csv, read_text, to_csv
from cuvee.simplex import check_alpha


@dataclass(frozen=True, eq=False)
class Weights:
    """Rows of α and what they are about."""

    columns: tuple[str, ...]  # sources
    alpha: Floats  # (M, N), or (M, N+1) with the own samples last
    targets: tuple[str, ...] | None  # (M,), where the file names them

    @property
    def own(self) -> bool:
        return self.alpha.shape[1] > len(self.columns)

    @property
    def bare(self) -> tuple[str, ...]:
        """Return the rows that give no weight to an own sample."""
        own = self.alpha[:, -1] if self.own else np.zeros(len(self.alpha))
        return tuple(name for name, a in zip(self.rows, own, strict=True) if a == 0)

    @property
    def rows(self) -> tuple[str, ...]:
        """Return the names (M,) to print."""
        return self.targets or tuple(f"row {i}" for i in range(len(self.alpha)))

    def check_named(self) -> None:
        """Raise `MixtureError` where two rows have one name, or rows need names and have none.

        Models are asked for by name.
        """
        if self.own and self.targets is None:
            raise MixtureError(
                "alpha weighs own samples but does not say whose: add a column 'target'"
            )
        name, rows = Counter(self.rows).most_common(1)[0]
        if rows > 1:
            raise MixtureError(
                f"alpha has {rows} rows for target {name!r}: give each model a name of its own"
            )

    def ordered(self, names: Sequence[str]) -> Weights:
        """Return the same with the columns of sources in the order of `names`.

        It is an error if these are not the names that the columns have.
        """
        table = Labelled(self.alpha, [*self.columns, *([OWN] if self.own else [])])
        return Weights(tuple(names), ordered_alpha(table, names), self.targets)

    @property
    def apart(self) -> tuple[str, ...]:
        """Return the targets that are sources of others and not of themselves.

        So it is with every domain in turn as target.
        """
        place = {name: j for j, name in enumerate(self.columns)}
        alone = {
            t
            for t, row in zip(self.rows, self.alpha, strict=True)
            if t in place and row[place[t]] == 0
        }
        return tuple(alone) if len(self.columns) > 1 else ()

    def of_sources(self) -> tuple[Weights, str]:
        """Return the weights of the sources alone, and a note where that changed them.

        Each row lies on the simplex again.
        """
        if not self.own:
            return self, ""
        shared = self.alpha[:, :-1].sum(1)
        has_sources = shared > 0
        targets = (
            None
            if self.targets is None
            else tuple(t for t, s in zip(self.targets, has_sources, strict=True) if s)
        )
        note = (
            f"the column {OWN!r} is left out here, and what is left of each row scaled to sum to 1"
        )
        note += (
            ""
            if has_sources.all()
            else f"; {int((~has_sources).sum())} rows had nothing left and are passed over"
        )
        return Weights(
            self.columns, self.alpha[has_sources, :-1] / shared[has_sources, None], targets
        ), note


def _stdin() -> str:
    """Return what comes in on stdin."""
    try:
        return sys.stdin.read()
    except OSError as error:
        raise InputError(f"stdin cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError("stdin is not UTF-8; send the weights as CSV in UTF-8") from None


def read_alpha(path: str) -> Weights:
    """Read α from a file, or from stdin for "-"; errors name the row that is wrong."""
    where = "stdin" if path == "-" else path
    text = _stdin() if path == "-" else read_text(path)
    targets, columns, alpha = from_csv(text, where)
    twice = next((name for name in columns if columns.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"{where}: two columns are named {twice!r}; keep one")
    sources = [name for name in columns if name != OWN]
    if not sources or not len(alpha):
        raise InputError(
            f"{where} holds no weights: it needs a column per source and a row per target"
        )
    order = [*sources, *([OWN] if OWN in columns else [])]
    # empty: it is no source
    alpha = np.nan_to_num(alpha[:, [columns.index(name) for name in order]], nan=0.0)
    try:
        return Weights(tuple(sources), check_alpha(alpha, len(order)), targets or None)
    except MixtureError as error:
        raise MixtureError(f"{where}: {error}") from None


def write_alpha(mix: Mixtures, path: Path | None) -> None:
    """Write α as `read_alpha` reads it, to the last bit; on stdout where no path is given."""
    content = to_csv(mix.targets, mix.columns, mix.alpha)
    if path is None:
        print_csv(content.decode())
    else:
        write_file(path, lambda unfinished: unfinished.write_bytes(content))


def merged(parts: Sequence[Mixtures], names: Sequence[str]) -> Mixtures:
    """Return targets with different sources as one table, in the order of `names`.

    Where there is no weight, the cell is empty.
    """
    if len(parts) == 1:
        return parts[0]
    used = {name for part in parts for name in part.columns}
    return Mixtures.concat(parts, [name for name in (*names, OWN) if name in used])
