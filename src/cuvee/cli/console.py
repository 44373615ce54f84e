"""What a command says beside its result: notes and progress on stderr, and how it was stopped."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

import typer

from cuvee.errors import CuveeWarning
from cuvee.outputs.progress import Bar
from cuvee.outputs.visible import visible

STOPPED, PIPE_CLOSED = 130, 141  # as shells count signals


class Voice:
    """The notes of a command, printed on stderr unless it is to be quiet."""

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet
        # until something is under way: what is refused at once needs no notes
        self._held: list[str] | None = []
        self.hint: Callable[[], str] = lambda: ""
        """What to do after Ctrl-C, asked when it comes."""

    def say(self, text: str) -> None:
        if self._held is not None:
            self._held.append(text)
        elif not self.quiet:
            show(text, sys.stderr)

    def begin(self) -> None:
        """Print what was held back; from now on everything is printed at once."""
        held, self._held = self._held or [], None
        for text in held:
            self.say(text)

    def note(self, text: object) -> None:
        """Say something that was inferred, left out or is worth a look."""
        self.say(f"cuvee: note: {one_line(text)}")

    def tell(self, notes: Iterable[str]) -> None:
        """Print every note, each on a line of its own."""
        for text in notes:
            self.note(text)

    def bar(self) -> Bar:
        return _Bar(self)


class _Bar(Bar):
    """A progress bar that first prints the notes held back."""

    def __init__(self, voice: Voice) -> None:
        super().__init__(voice.quiet)
        self._voice = voice

    def __call__(self, what: str, done: int, total: int) -> None:
        self._voice.begin()
        super().__call__(what, done, total)


@contextmanager
def speaking(quiet: bool = False) -> Iterator[Voice]:
    """Yield the voice of a command, and turn warnings into notes.

    Ctrl-C and a reader that went away end the command without a traceback.
    """
    voice = Voice(quiet)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what other libraries warn of is not for users to mend
        warnings.simplefilter("always", CuveeWarning)
        warnings.showwarning = lambda message, *_, **__: voice.note(message)
        try:
            yield voice
            voice.begin()
            sys.stdout.flush()
        except KeyboardInterrupt:
            voice.begin()
            show(f"cuvee: stopped{voice.hint()}", sys.stderr)
            raise SystemExit(STOPPED) from None
        except BrokenPipeError:
            # python flushes once more when it ends
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(PIPE_CLOSED) from None


def show(text: object, stream: TextIO | None = None) -> None:
    """Print lines for people, on stdout or `stream`.

    Control characters in names are shown, and the terminal obeys none of them.
    """
    print(visible(str(text), keep="\n"), file=stream or sys.stdout)


def one_line(text: Any) -> str:
    """Return a text that may be printed as one line."""
    return visible(" ".join(str(text).split()))
