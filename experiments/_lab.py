"""Where experiments are run: units of work that are done once, and a folder with what they found.

    results/NAME/  setting.json  raw.csv  figure.png  verdict.json

A unit is one seed of one setting, say. Its rows are in raw.csv whole or not at all, and a second
start does what is not there yet; another setting starts anew. An experiment is a module with

    TITLE, CLAIM          what the paper says, for people
    VERSION               raised when what is measured changes, so that old rows do not count any
    more SETTINGS              "tiny" (tests), "quick" (two minutes at most) and "full" (published)
    CLOCKED               True where seconds are judged, which units side by side would spoil; else
    left out run(lab) -> Verdict   collects rows, draws them, judges them
"""

from __future__ import annotations

import hashlib
import json
import math
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Protocol

import pandas as pd
import torch
from experiments._verdict import Verdict, word

from cuvee.errors import CuveeError, InputError, OptionError

Unit = Mapping[str, Any]  # what tells one piece of work from another: names and plain values
Row = Mapping[str, Any]
Measure = Callable[[Unit], Iterable[Row]]
Show = Callable[[str, int, int], None]
PUBLISHED = Path(__file__).resolve().parents[1] / "docs" / "paper"
UNIT = "unit"  # the column that says whose a row is
SECONDS = "_s"  # columns in seconds end so: all others are the same for the same seed
SCALES = ("tiny", "quick", "full")


class Experiment(Protocol):
    """What the lab asks of a module."""

    TITLE: str
    CLAIM: str
    VERSION: int
    SETTINGS: dict[str, dict[str, Any]]

    def run(self, lab: Lab) -> Verdict: ...


@dataclass(frozen=True)
class Lab:
    """One experiment at one scale, with its folder."""

    setting: dict[str, Any]
    folder: Path
    show: Show
    jobs: int = 1

    @property
    def figure(self) -> Path:
        return self.folder / "figure.png"

    @property
    def raw(self) -> Path:
        return self.folder / "raw.csv"

    def collect(self, units: Iterable[Unit], measure: Measure) -> pd.DataFrame:
        """The rows of all units, those measured before and those that are missing, in the units'
        order.

        With several jobs `measure` goes to other processes: a function of a module, or a partial of
        one.
        """
        wanted = {name_of(unit): unit for unit in units}
        there = dict(list(self._read().groupby(UNIT, sort=False)))
        found = {name: there.pop(name) for name in wanted if name in there}
        missing = {name: unit for name, unit in wanted.items() if name not in found}
        self.show("measuring", len(found), len(wanted))
        for name, rows in measured(missing, measure, self.jobs):
            found[name] = pd.DataFrame([{UNIT: name, **wanted[name], **row} for row in rows])
            ordered = [found[n] for n in wanted if n in found]
            # what nobody asks for now is kept
            self._write(pd.concat([*ordered, *there.values()], ignore_index=True))
            self.show("measuring", len(found), len(wanted))
        # from the file also the first time: a second start then sees the same numbers
        every = self._read()
        return every[every[UNIT].isin(list(wanted))].reset_index(drop=True)

    @property
    def done(self) -> set[str]:
        """Names of the units that are in the file."""
        return set(self._read()[UNIT])

    def _read(self) -> pd.DataFrame:
        if not self.raw.exists():
            return pd.DataFrame(columns=[UNIT])
        return pd.read_csv(self.raw, engine="python")  # which reads floats to the last bit

    def _write(self, rows: pd.DataFrame) -> None:
        _whole(self.raw, rows.to_csv(index=False, lineterminator="\n"))


def measured(
    units: Mapping[str, Unit], measure: Measure, jobs: int
) -> Iterator[tuple[str, list[Row]]]:
    """Each unit's rows as soon as they are there; with several jobs that is in any order.

    Every process has one thread: steps are small, more threads slow them down, and sums are the
    same for any jobs.
    """
    if jobs == 1 or len(units) < 2:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            yield from ((name, list(measure(unit))) for name, unit in units.items())
        finally:
            torch.set_num_threads(threads)
        return
    # Fresh processes: a fork would inherit torch's threads and locks.
    with ProcessPoolExecutor(jobs, get_context("spawn"), _enter) as pool:
        names = {pool.submit(_listed, measure, unit): name for name, unit in units.items()}
        try:
            yield from ((names[future], future.result()) for future in as_completed(names))
        except BrokenProcessPool:
            raise CuveeError(
                "a process was killed, perhaps for want of memory; what was measured is kept: go "
                "on with fewer --jobs"
            ) from None
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _enter() -> None:
    """One thread; and Ctrl-C ends it without a word, as the first process speaks."""
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _listed(measure: Measure, unit: Unit) -> list[Row]:
    return list(measure(unit))


def name_of(unit: Unit) -> str:
    """A unit in words.

    >>> name_of({"N": 3, "p": 0.1, "seed": 0})
    'N=3 p=0.1 seed=0'
    """
    return " ".join(f"{key}={value}" for key, value in unit.items())


def seed_of(*parts: Any) -> int:
    """A seed of its own for whatever is named, the same on every machine."""
    return int.from_bytes(hashlib.blake2b(repr(parts).encode(), digest_size=4).digest(), "big")


def reproduce(
    experiment: Experiment, name: str, scale: str, out: Path, show: Show, jobs: int = 1
) -> dict[str, Any]:
    """Run it, or what is left of it; what verdict.json holds. Only the full setting has the name
    alone to itself.
    """
    if jobs > 1 and getattr(experiment, "CLOCKED", False):
        raise OptionError(
            f"{name} takes seconds, which units side by side would spoil: leave --jobs out"
        )
    folder = out / (name if scale == "full" else f"{name}-{scale}")
    asked = {
        "experiment": name,
        "scale": scale,
        "version": experiment.VERSION,
        "setting": experiment.SETTINGS[scale],
    }
    asked = json.loads(json.dumps(asked))  # as a file says it
    lab = Lab(experiment.SETTINGS[scale], folder, show, jobs)
    try:
        _open(lab, asked)
    except OSError as error:
        raise InputError(f"{folder} cannot be written: {error}") from None
    verdict = experiment.run(lab)
    said = {
        **asked,
        "title": experiment.TITLE,
        "claim": experiment.CLAIM,
        "held": verdict.held,
        "sentence": verdict.sentence,
        "numbers": _plain(verdict.numbers),
    }
    _whole(
        folder / "verdict.json",
        json.dumps(said, indent=2, ensure_ascii=False, allow_nan=False) + "\n",
    )
    return {
        **said,
        "word": verdict.word,
        "folder": str(folder),
        "published": None if scale == "full" else published(name),
    }


def published(name: str) -> dict[str, Any] | None:
    """What the full setting said: word, seeds and sentence; None where nothing is published."""
    path = PUBLISHED / name / "verdict.json"
    if not path.is_file():
        return None
    found = json.loads(path.read_text(encoding="utf-8"))
    seeds = found["setting"]["seeds"]
    return {"word": word(found["held"]), "seeds": seeds, "sentence": found["sentence"]}


def _open(lab: Lab, asked: dict[str, Any]) -> None:
    """The folder; raw numbers of another setting are put aside as raw.old.csv, they may have taken
    hours.
    """
    lab.folder.mkdir(parents=True, exist_ok=True)
    path = lab.folder / "setting.json"
    if path.exists():
        if json.loads(path.read_text(encoding="utf-8")) == asked:
            return
        for name in ("verdict.json", "figure.png"):
            (lab.folder / name).unlink(missing_ok=True)
        if lab.raw.exists():
            lab.raw.replace(lab.raw.with_name("raw.old.csv"))
    elif lab.raw.exists():
        raise InputError(f"{lab.raw} is not of `cuvee reproduce`: give another folder")
    _whole(path, json.dumps(asked, indent=2, ensure_ascii=False) + "\n")


def _whole(path: Path, text: str) -> None:
    """Written beside and then moved: whoever reads it, or cuts this off, finds the old
    or the new.
    """
    unfinished = path.with_name(f"{path.name}.part")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(path)


def _plain(value: Any) -> Any:
    """As JSON has it: no infinities, no numbers of numpy's."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value
