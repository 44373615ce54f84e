"""Rows as CSV, read by the same reader as the tables of runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cuvee.data.frame import columns_of, read_rows
from cuvee.errors import CuveeError
from cuvee.serve.limits import Limits
from cuvee.serve.problems import Problem

CSV = "text/csv"
SAID = "the CSV"  # instead of the name of a file that nobody knows
OTHERS = (b"PAR1", b"ARROW1", b"\x1f\x8b", b"PK\x03\x04", b"(\xb5/\xfd", b"BZh")


@dataclass(frozen=True)
class Wanted:
    """The columns that are read, and which of them are text whatever they look like."""

    names: Sequence[str]
    text: Sequence[str]


def from_csv(content: bytes, wanted: Wanted, limits: Limits) -> Any:
    """Return those columns of a CSV that are wanted as a frame; others are ignored.

    The reader takes files alone, so that the rows stand in one of their own until they are read.
    """
    if content.startswith(OTHERS):
        raise Problem(415, "the body is no CSV, or a compressed one; send the text as it is")
    with TemporaryDirectory(prefix="cuvee-") as folder:
        path = Path(folder) / "rows.csv"
        path.write_bytes(content)
        try:
            columns = columns_of(path)
            if len(columns) > limits.columns:
                raise Problem(
                    413, f"{SAID} has {len(columns):,} columns; send at most {limits.columns:,}"
                )
            kept = [name for name in wanted.names if name in columns]
            if not kept:
                raise Problem(
                    422, f"{SAID} has none of the columns that the models learnt from; send those"
                )
            frame = read_rows(path, kept, text=[name for name in wanted.text if name in kept])
        except CuveeError as error:
            raise Problem(422, str(error).replace(str(path), SAID)) from None
    if len(frame) > limits.rows:
        raise Problem(413, f"there are {len(frame):,} rows; send at most {limits.rows:,} at once")
    return frame
