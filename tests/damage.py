"""Files with one changed byte."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cuvee import InputError


@contextmanager
def flips(
    path: Path, sentence: str
) -> Iterator[Callable[[int, int, Callable[[Path], object]], None]]:
    """Give flip(at, mask, load): change a byte, see that `load` refuses the file, and put the byte
    back.
    """
    whole = path.read_bytes()
    with path.open("r+b", buffering=0) as file:

        def flip(at: int, mask: int, load: Callable[[Path], object]) -> None:
            os.pwrite(file.fileno(), bytes([whole[at] ^ mask]), at)
            try:
                with pytest.raises(InputError, match=sentence) as caught:
                    load(path)
            finally:
                os.pwrite(file.fileno(), whole[at : at + 1], at)
            assert "\n" not in str(caught.value), (at, mask)

        yield flip
    assert path.read_bytes() == whole
