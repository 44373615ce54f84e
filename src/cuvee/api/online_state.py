"""The state of an `OnlineMap` between two rounds, and the file that holds it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from cuvee.api.bound import Bound
from cuvee.api.online_settings import Settings, radius_of
from cuvee.errors import InputError
from cuvee.online.accounts import Accounts
from cuvee.online.regressor import Radius, Regressor
from cuvee.online.variants import VARIANTS
from cuvee.outputs import files
from cuvee.results import Floats

WHAT, FORMAT = "a cuvee online map", 2
UNCHECKED = (1,)  # formats without a checksum


@dataclass(eq=False)
class State:
    """Hold what a stream has brought so far, and what that depends on."""

    settings: Settings
    sources: tuple[str, ...]  # () in a file of an earlier version
    n_sources: int
    made_from: Bound | str  # the data and the hypothesis, or their fingerprint, read from a file
    in_ball: bool  # whether W is a ball, and a prediction has to be projected onto it
    regressor: Regressor
    accounts: Accounts = field(default_factory=Accounts)
    waiting: list[tuple[Floats, Floats]] = field(default_factory=list)
    """(α_t, ŵ_t) that are not evaluated yet."""

    @classmethod
    def first(cls, settings: Settings, radius: Radius, prior: Floats, bound: Bound) -> Self:
        """Return the state before the first round."""
        names, in_ball = bound.problem.source_names, bound.space.radius is not None
        regressor = _regressor(settings, radius, prior, len(names))
        return cls(settings, names, len(names), bound, in_ball, regressor)

    @property
    def fingerprint(self) -> str:
        """Return that of the data and the hypothesis, for which all rows are read once."""
        made_from = self.made_from
        return made_from if isinstance(made_from, str) else made_from.fingerprint

    def write(self, path: Path, stream: dict[str, Any]) -> None:
        """Write it to a safetensors file, whole or not at all, with notes on its stream."""
        arrays = {f"balls.{name}": value for name, value in self.regressor.state().items()}
        arrays["prior"] = self.regressor.prior
        counted, accounts = self.accounts.state()
        arrays |= counted
        if self.waiting:
            waiting = zip(*self.waiting, strict=True)
            arrays |= {
                f"waiting.{name}": np.stack(part)
                for name, part in zip(("alpha", "w"), waiting, strict=True)
            }
        header = {
            "what": WHAT,
            "format": FORMAT,
            "settings": asdict(self.settings),
            "fingerprint": self.fingerprint,
            "in_ball": self.in_ball,
            "n_sources": self.n_sources,
            "sources": self.sources,
            "accounts": accounts,
            "stream": stream,
        }
        files.write(path, {name: torch.as_tensor(a) for name, a in arrays.items()}, header)


def read(path: Path, bound: Bound | None, radius: Radius | None) -> State:
    """Return the state in a file; without the data, the rounds to come are not evaluated.

    `radius` is that of the map where it is a function, which a file cannot hold.
    """
    tensors, header = files.read(path, "cpu", WHAT, FORMAT, UNCHECKED)
    arrays = {name: t.numpy() for name, t in tensors.items()}
    with files.understood(path, WHAT):
        settings = Settings(**header["settings"])
        fingerprint, in_ball = str(header["fingerprint"]), bool(header["in_ball"])
        if bound is not None and bound.fingerprint != fingerprint:
            raise InputError(f"{path} was learnt from other data or another hypothesis")
        if bound is None and in_ball:
            raise InputError(
                f"{path} needs its data, for W is a ball: load(path, data, hypothesis)"
            )
        if bound is None:
            settings = replace(settings, evaluate=False)
        N = int(header["n_sources"])
        named = header.get("sources", ()) if bound is None else bound.problem.source_names
        sources = tuple(map(str, named))
        if len(sources) not in (0, N):
            raise ValueError(f"it names {len(sources)} sources, but has {N}")
        accounts = Accounts.restored(arrays, header["accounts"])
        schedule = _schedule(path, settings, radius, N)
        regressor = _regressor(settings, schedule, arrays["prior"], N)
        regressor.restore(accounts.rounds, files.part(arrays, "balls."))
        state = State(settings, sources, N, fingerprint, in_ball, regressor, accounts)
        if "waiting.alpha" in arrays and settings.evaluate:
            state.waiting = list(zip(arrays["waiting.alpha"], arrays["waiting.w"], strict=True))
        # what does not fit together shows here
        regressor.predict(np.full((1, N), 1.0 / N))
    return state


def _regressor(settings: Settings, radius: Radius, prior: Floats, n_sources: int) -> Regressor:
    balls = VARIANTS[settings.variant](n_sources, len(prior))
    return Regressor(balls, n_sources, radius, prior, nearest=settings.centre)


def _schedule(path: Path, settings: Settings, radius: Radius | None, n_sources: int) -> Radius:
    """Return ε_t of a map in a file.

    A file cannot hold a function: that one is to be given again, and no other.
    """
    if settings.radius == "given" and not callable(radius):
        raise InputError(f"{path} was made with a radius that is a function: give it again")
    if settings.radius != "given" and radius is not None:
        raise InputError(f"{path} was made with a radius that is {settings.radius!r}: leave it out")
    return radius_of(settings.radius if radius is None else radius, n_sources)
