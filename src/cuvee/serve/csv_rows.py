"""Rows as CSV, read by the same reader as the tables of runs."""

from __future__ import annotations

from typing import Any

from cuvee.data.files import in_memory
from cuvee.data.frame import read_rows
from cuvee.serve.limits import Limits
from cuvee.serve.problems import Problem
from cuvee.serve.wanted import Wanted

CSV = "text/csv"
SAID = "the CSV"  # instead of the name of a file
OTHERS = (b"PAR1", b"ARROW1", b"\x1f\x8b", b"PK\x03\x04", b"(\xb5/\xfd", b"BZh")


def from_csv(content: bytes, wanted: Wanted, limits: Limits) -> Any:
    """Return those columns of a CSV that are wanted as a frame; others are ignored.

    The rows are read where they are, in memory: on a disk they would outlive a kill.
    """
    if content.startswith(OTHERS):
        raise Problem(415, "the body is no CSV, or a compressed one; send the text as it is")
    file = in_memory(content, SAID)
    columns = file.columns
    if len(columns) > limits.columns:
        raise Problem(413, f"{SAID} has {len(columns):,} columns; send at most {limits.columns:,}")
    kept = [name for name in wanted.names if name in columns]
    if not kept:
        raise Problem(
            422, f"{SAID} has none of the columns that the models learnt from; send those"
        )
    text = [name for name in wanted.text if name in kept]
    frame = read_rows(file, kept, text=text, missing=wanted.missing)
    if len(frame) > limits.rows:
        raise Problem(413, f"there are {len(frame):,} rows; send at most {limits.rows:,} at once")
    return frame
