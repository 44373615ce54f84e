"""Read the two tables of a swarm: ratios and metrics, a row per run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from cuvee.data.files import files
from cuvee.data.notation import AS_MISSING, AS_TEXT, DROPPED
from cuvee.data.notes import notes
from cuvee.errors import DomainError, InputError
from cuvee.mix.run_tables import KEYS, OTHER_REASON, REASON, SCALE

LEFT_OUT = "leave the column out"


def read_table(path: Path) -> tuple[Any, tuple[str, ...]]:
    """Return the frame of a CSV, Parquet or Feather file, and what is worth saying of it.

    Columns that name runs or scales, and the reasons of a plan, are text; all others are to be
    numbers, decimal commas too.
    """
    if path.is_dir():
        raise InputError(f"{path} is a folder: give the file itself")
    [(file, _)] = files(path)
    twice = next((n for i, n in enumerate(file.columns) if n in file.columns[:i]), None)
    if twice is not None:
        raise InputError(f"{path} has two columns named {twice!r}: keep one, or rename it")
    text = [name for name in (*KEYS, SCALE, REASON, OTHER_REASON) if name in file.columns]
    try:
        frame, remarks = file.load(file.columns, text)
    except DomainError as error:  # elsewhere a column may be text, and here it may not
        words = re.sub(AS_MISSING, "", str(error))
        words = words.replace(AS_TEXT, LEFT_OUT).replace(DROPPED, LEFT_OUT)
        raise InputError(words.replace("drop the column, or leave", "or leave")) from None
    return frame, notes(remarks, "")
