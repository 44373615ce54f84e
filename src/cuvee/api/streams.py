"""`run_online`: a whole stream of targets through an online learner, with checkpoints."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

import numpy as np
from torch import Tensor

from cuvee.api.checks import check_whole
from cuvee.errors import CuveeWarning, DomainError, InputError, MixtureError, OptionError
from cuvee.inputs.alpha import ordered_alpha, read
from cuvee.numerics.parallel import workers
from cuvee.online.accounts import NOTES
from cuvee.outputs import files
from cuvee.problem import Domain, digest
from cuvee.results import Floats

L_co = TypeVar("L_co", covariant=True)  # Ledger or MixtureLedger


class Learner(Protocol[L_co]):
    """`OnlineMap`, whose stream is of mixtures, or `OnlineMixtures`, whose stream is of targets."""

    def predict_one(self, item: Any, /) -> Floats: ...
    def wants_label(self, item: Any, /) -> bool: ...
    def learn_one(self, item: Any, /) -> Any: ...
    @property
    def ledger(self) -> L_co: ...
    def checkpoint(self, path: str | Path, stream: dict[str, Any]) -> None: ...
    def restore(self, path: str | Path) -> None: ...


@workers()
def run_online(
    stream: Iterable[Any],
    online: Learner[L_co],
    *,
    checkpoint: str | Path | None = None,
    every: int = 1_000,
    each: Callable[[int, Floats], None] | None = None,
    picture: str | Path | None = None,
    progress: bool | Callable[[str, int, int], None] = True,
) -> L_co:
    """Run a learner over a stream, item by item, and return its ledger.

    For every item it predicts, asks and learns; the ledger says what that cost, and what it lost.

    Args:
        stream: mixtures (N,) for an `OnlineMap`, domains for `OnlineMixtures`; an array (T, N) will
            do. `Mixtures`, data frames and rows of one are matched by the names of their columns.
            An item that is no mixture is noted in the ledger and passed over.
        online: the learner.
        checkpoint: a file that its state is written to before the first item, every so often, at
            the end, and when the stream breaks off. If it is there already, the run goes on from
            it: the stream is to start from its beginning again, and what was done is passed over.
            On the same machine, with the same number of threads and versions of torch and NumPy,
            the end is the very same as that of a run that was never cut. Without a checkpoint, a
            run that is cut leaves the learner where it was.
        every: items between two checkpoints.
        each: called with (position, prediction) for every item; after a resume, again for those
            since the checkpoint.
        picture: a PNG of loss, labels and centres over time.
        progress: a bar on the terminal, or called with (what, done, total); total is 0 where the
            stream has no length.

    Example:
        >>> import cuvee
        >>> from cuvee.data.synthetic import shifted_sources
        >>> from cuvee.simplex import sample
        >>> online = cuvee.OnlineMap(shifted_sources(3, 100, 4), cuvee.Logistic(1e-2))
        >>> cuvee.run_online(sample(200, 3), online, progress=False).rounds
        200
    """
    check_whole("every", every, 1)
    for name, path in (("checkpoint", checkpoint), ("picture", picture)):
        if path is not None and (Path(path).is_dir() or not Path(path).resolve().parent.is_dir()):
            raise OptionError(
                f"{name}={str(path)!r} must be the name of a file in a folder that exists"
            )
    stream = _checked(stream, online)
    total = len(stream) if isinstance(stream, Sized) else 0
    items, course = (
        iter(stream),
        _Course(online, None if checkpoint is None else Path(checkpoint), each),
    )
    course.begin(items)
    with _shown(progress, total) as show:
        show("rounds", course.position, total)
        for item in course.unless_cut(items):
            course.take(item)
            if course.position % every == 0:
                course.keep()
            show("rounds", course.position, total)
    if course.position % every:
        course.keep()
    if course.refused and not course.used and len(course.refused) == min(course.position, NOTES):
        warnings.warn(
            f"not one item of the stream could be used: {course.refused[0]}",
            CuveeWarning,
            stacklevel=2,
        )
    ledger: Any = online.ledger
    ledger = replace(ledger, notes=(*ledger.notes, *course.refused))
    if picture is not None:
        ledger.draw(picture)
    return cast(L_co, ledger)


@dataclass
class _Course:
    """Where a run stands in its stream, and the file that keeps that between two runs."""

    online: Learner[Any]
    file: Path | None
    each: Callable[[int, Floats], None] | None
    position: int = 0  # items gone through, those of earlier runs too
    chain: bytes = b""  # what tells this stream from another
    refused: list[str] = field(default_factory=list)
    used: int = 0  # items of this run that were rounds

    def begin(self, items: Iterator[Any]) -> None:
        """Go on from the checkpoint if there is one, else write one.

        The first one is for a run that is cut before the next.
        """
        if self.file is not None and self.file.is_file():
            self.position, self.chain, self.refused = _resumed(items, self.online, self.file)
        if self.position == 0:
            self.keep()

    def keep(self) -> None:
        """Write a checkpoint, where one is wanted."""
        if self.file is not None:
            stream = {
                "position": self.position,
                "digest": self.chain.hex(),
                "refused": self.refused,
            }
            self.online.checkpoint(self.file, stream)

    def unless_cut(self, items: Iterator[Any]) -> Iterator[Any]:
        """Yield the items; where the stream breaks off between two rounds, keep what was done."""
        while True:
            try:
                item = next(items)
            except StopIteration:
                return
            except BaseException:
                self.keep()
                raise
            yield item

    def take(self, item: Any) -> None:
        """Take one item: predict, ask and learn.

        An item that is no mixture or target is noted and passed over.
        """
        self.position, self.chain = self.position + 1, _chained(self.chain, item)
        try:
            prediction = self.online.predict_one(item)
        except (MixtureError, DomainError) as error:
            if len(self.refused) < NOTES:
                last = "; others after it are not noted" if len(self.refused) == NOTES - 1 else ""
                self.refused.append(f"item {self.position} was passed over: {error}{last}")
            return
        self.used += 1
        if self.each is not None:
            self.each(self.position, prediction)
        if self.online.wants_label(item):
            self.online.learn_one(item)


def _checked(stream: Any, online: Any) -> Iterable[Any]:
    """Return a stream that can be gone through item by item; a table of mixtures by its rows."""
    if not callable(getattr(online, "predict_one", None)) or isinstance(online, type):
        raise OptionError(
            "the second argument must be an OnlineMap or OnlineMixtures; got "
            f"{type(online).__name__}"
        )
    sources = getattr(online, "sources", None) or None
    # by itself a data frame would go through its columns' names
    if (table := read(stream, sources)) is not None:
        stream = ordered_alpha(table, sources, own=False)
    if (
        not isinstance(stream, Iterable)
        or isinstance(stream, str | bytes | Mapping)
        or getattr(stream, "ndim", 2) != 2
    ):
        raise OptionError(
            "the first argument must be a stream: an array (T, N) of mixtures, or an iterable of "
            "targets"
        )
    return stream


def _resumed(
    items: Iterator[Any], online: Learner[Any], path: Path
) -> tuple[int, bytes, list[str]]:
    """Put the learner back to a checkpoint, and move the stream on to where it was written."""
    try:
        record = files.header_of(path)["stream"]
        position, wanted, refused = (
            int(record["position"]),
            str(record["digest"]),
            [str(note) for note in record["refused"]],
        )
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{path} was written by save, not by run_online: give the checkpoint another name"
        ) from None
    chain, passed = b"", 0
    for item in islice(items, position):
        chain, passed = _chained(chain, item), passed + 1
    if passed < position or chain.hex() != wanted:
        raise InputError(
            f"{path} is a checkpoint after {position} items of another stream: give this one from "
            "its beginning, or "
            "another name for the checkpoint"
        )
    online.restore(path)
    return position, chain, refused


def _chained(before: bytes, item: Any) -> bytes:
    """Return a digest of the stream so far and its next item; it tells streams apart."""
    link = hashlib.blake2b(before, digest_size=16)
    if isinstance(item, Domain):
        link.update(digest(item).encode())
        return link.digest()
    try:
        array = np.asarray(item.detach().cpu() if isinstance(item, Tensor) else item)
    except ValueError:  # ragged, and so no mixture
        array = np.asarray(repr(item))
    link.update(repr(array.tolist()).encode() if array.dtype == object else array.tobytes())
    return link.digest()


def _shown(
    progress: bool | Callable[[str, int, int], None], total: int
) -> AbstractContextManager[Callable[[str, int, int], None]]:
    """Return a bar with the time left, the function that is to be called, or nothing."""
    if callable(progress):
        return nullcontext(progress)
    if not progress:
        return nullcontext(lambda what, done, total: None)
    return _Bar(total)


class _Bar(AbstractContextManager[Callable[[str, int, int], None]]):
    """A progress bar of rich's on stderr."""

    def __init__(self, total: int) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
        )
        self._progress = Progress(*columns, console=Console(stderr=True))
        self._task = self._progress.add_task("rounds", total=total or None)

    def __enter__(self) -> Callable[[str, int, int], None]:
        self._progress.start()
        return lambda what, done, total: self._progress.update(self._task, completed=done)

    def __exit__(self, *error: object) -> None:
        self._progress.stop()
