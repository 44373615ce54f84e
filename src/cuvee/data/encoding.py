"""How the text of a file is encoded, and where it is not what it was said to be."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any, BinaryIO, cast

from cuvee.data.columns import short
from cuvee.errors import InputError, OptionError

UTF8 = "utf-8"
USUAL = "cp1252"  # of Windows and Excel; Latin-1 is a part of it


def check_encoding(encoding: Any) -> None:
    """Raise `OptionError` unless Python knows an encoding of text by this name."""
    try:
        "".encode(encoding)
    except (LookupError, TypeError, ValueError):
        raise OptionError(
            f"encoding must be the name of an encoding, such as {UTF8!r} or {USUAL!r}; got "
            f"{encoding!r}"
        ) from None


def undecodable(
    path: Path, source: Path | BinaryIO, packed: str | None, encoding: str
) -> InputError:
    """Return the error that says where a text file is not in its encoding, and what to do.

    `path` is what it is called, and `source` what is read.
    """
    named = "UTF-8" if encoding == UTF8 else encoding
    what_to_do = (
        f"save the table as UTF-8, or name its encoding, such as --encoding {USUAL} for a file of "
        f'Windows (encoding="{USUAL}" in Python)'
    )
    before = 0
    with bytes_of(source, packed) as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode(encoding)
            except UnicodeDecodeError as error:
                byte, word = line[error.start], _word(line, error.start)
                where = f"byte {before + error.start:,}, in line {number:,}, is 0x{byte:02X}"
                read = f" (in {USUAL} it would be part of {short(word)})" if word else ""
                return InputError(f"{path} is not {named}: {where}{read}; {what_to_do}")
            before += len(line)
    return InputError(f"{path} is not {named}; {what_to_do}")


def bytes_of(source: Path | BinaryIO, packed: str | None) -> BinaryIO:
    """Return a stream of what a text file holds, which may be packed with "gzip", say."""
    if packed:
        import pyarrow as pa

        stream = pa.input_stream(str(source) if isinstance(source, Path) else source, packed)
        return cast(BinaryIO, io.BufferedReader(stream))
    return source.open("rb") if isinstance(source, Path) else source


def _word(line: bytes, at: int) -> str:
    """Return the word that holds a byte, as it would read in the usual other encoding."""
    start = max((m.end() for m in re.finditer(rb"[\s,;|\"]", line[:at])), default=0)
    end = re.search(rb"[\s,;|\"]", line[at:])
    return line[start : at + end.start() if end else None].decode(USUAL, errors="replace")
