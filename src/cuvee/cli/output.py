"""Results: one JSON object, a table for a terminal, or a file that is there whole or not at all."""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from cuvee.cli.console import show
from cuvee.data.cells import guarded_frame
from cuvee.errors import InputError, OptionError
from cuvee.outputs.visible import json_visible, visible

MOST_ROWS = 20
PICTURES = (".png",)


def print_json(content: Mapping[str, Any]) -> None:
    """Print the one object on stdout; what is not finite becomes null, for JSON has neither."""
    print(json_visible(json.dumps(_plain(content), allow_nan=False, ensure_ascii=False)))


def print_csv(content: str) -> None:
    """Print a CSV on stdout.

    A pipe gets it exactly as it is; on a terminal it is shown safely.
    """
    sys.stdout.write(visible(content, keep="\n") if sys.stdout.isatty() else content)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(one) for one in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], title: str, more_in: str = ""
) -> None:
    """Print at most 20 rows of a table.

    The first column is what a row is about; numbers stand right.
    """
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table()
    for i, column in enumerate(columns):
        number = i > 0 and all(row[i][:1] in "0123456789+-−≤ " for row in rows)
        table.add_column(escape(visible(column)), justify="right" if number else "left")
    for row in rows[:MOST_ROWS]:
        table.add_row(*(escape(visible(cell)) for cell in row))
    show(title)
    Console().print(table)
    if len(rows) > MOST_ROWS:
        show(f"… and {len(rows) - MOST_ROWS:,} more{more_in and f' in {more_in}'}")


def print_text(text: str) -> None:
    """Print a paragraph: broken between words on a terminal, one line elsewhere."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else len(text) + 1
    print(textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False))


def check_out(path: Path, force: bool, suffixes: Sequence[str] = (), option: str = "--out") -> None:
    """Raise `OptionError` unless a file can be written there, before anything is computed."""
    folder = path.absolute().parent
    if suffixes and path.suffix.lower() not in suffixes:
        raise OptionError(f"{option} {path}: the name must end in {' or '.join(suffixes)}")
    if path.is_dir() or not folder.is_dir():
        what = "it is a folder" if path.is_dir() else f"there is no folder {folder}"
        raise OptionError(
            f"{option} {path}: {what}; give the name of a file in a folder that exists"
        )
    if not os.access(folder, os.W_OK):
        raise OptionError(f"{option} {path}: nothing may be written to {folder}; give another name")
    if path.exists() and not force:
        raise OptionError(
            f"{option} {path}: there is such a file already; give another name, or --force"
        )


def write_file(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file under another name and then rename it, so that nobody ever sees half of it."""
    path = path.resolve()  # what a link points to, not the link
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        try:
            write(unfinished)
            os.replace(unfinished, path)
        finally:
            unfinished.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(
            f"{path} cannot be written: {error.strerror or error}; give another --out"
        ) from None


def write_frame(frame: Any, path: Path | None) -> None:
    """Write a data frame as Parquet or CSV by the suffix, or as CSV on stdout.

    In a CSV no text is a formula.
    """
    if path is None:
        print_csv(guarded_frame(frame).to_csv(index=False))
    elif path.suffix.lower() == ".csv":
        safe = guarded_frame(frame)
        write_file(path, lambda unfinished: safe.to_csv(unfinished, index=False))
    else:
        write_file(path, lambda unfinished: frame.to_parquet(unfinished, index=False))
