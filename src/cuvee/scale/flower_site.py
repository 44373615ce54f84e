"""Answer for one site: what a hospital's ClientApp does with a message.

A request carries all that its questions need, so that a site which was restarted answers as before:

    {"agreed": encoder and kind of labels, "bindings": {key: …}, "calls": [(question, …), …]}

The reply has an answer for every call, or one sentence that says why there is none. Sentences of
the library are for the site's own log alone: they quote cells, rows and paths.
"""

from __future__ import annotations

import json
import os
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from cuvee.components.answering import asked
from cuvee.components.kinds import local_kind
from cuvee.components.local import LocalComponents
from cuvee.data.encode import Encoder
from cuvee.errors import CuveeError
from cuvee.problem import Domain, Problem
from cuvee.scale import flower_guard as guard
from cuvee.scale.flower_given import Given
from cuvee.scale.flower_introduction import Greeting, Introduction, discreet_facts
from cuvee.scale.flower_table import SiteConfig, SiteTable
from cuvee.scale.flower_wire import Packet, fingerprint, packed, unpacked

MOST_BOUND = 8  # bindings that are kept; others are made again when they are asked for


@dataclass(frozen=True, eq=False)
class Bound:
    """Hold what a binding stands for at this site."""

    domain: Domain
    role: str
    seed: int
    components: LocalComponents


class Desk:
    """Hold the table of one site and answer requests about it."""

    def __init__(self, config: SiteConfig) -> None:
        self.config = config
        self._tables: dict[tuple[Any, ...], SiteTable] = {}
        self._domains: dict[str, Domain] = {}
        self._bound = OrderedDict[str, Bound]()
        self._given = Given(self._log_file)

    @property
    def _log_file(self) -> Path:
        return self.config.beside(self.config.log, "sent.jsonl")

    def answer(self, packet: Packet) -> Packet:
        """Return the reply to a request, and write into the log what it holds."""
        torch.set_num_threads(1)
        self._given.new.clear()  # an answer that failed was not given
        try:
            request = unpacked(packet)
            calls = request["calls"]
            bound = {
                key: self._binding(request["agreed"], one)
                for key, one in request.get("bindings", {}).items()
            }
            answers = [self._answer(request, bound, *call) for call in calls]
            reply = packed({"site": self.config.domain, "answers": answers})
            about = [asdict(part) for part in self._given.new]
            self._log([str(call[0]) for call in calls], reply.n_bytes, about)
            self._given.was_sent()
        except Exception as error:
            kind = "refused" if isinstance(error, guard.Refused) else "failed"
            reply = packed({"site": self.config.domain, kind: sayable(error)})
            with suppress(guard.Sayable):  # what cannot be logged is no answer anyway
                self._log([f"{kind}: {error or type(error).__name__}"], reply.n_bytes)
        return reply

    def _answer(
        self, request: Mapping[str, Any], bindings: Mapping[str, Bound], question: str,
        *arguments: Any,
    ) -> Any:  # fmt: skip
        if question == "meet":
            return as_plain(self._table((), None).greet())
        if question == "introduce":
            text, task = arguments
            return as_plain(self._allowed(tuple(text), task).introduce())
        if question == "keep":
            (model,) = arguments
            return self._keep(model)
        agreed = request["agreed"]
        if question == "facts":
            domain = self._domain(agreed)
            table = self._allowed(tuple(agreed["text"]), agreed["task"])
            known = discreet_facts(domain.facts.known(), table.classes)
            return {"facts": known, "features": domain.features, "agreed": fingerprint(agreed)}
        key, *inputs = arguments
        bound = bindings[key]
        min_rows = self.config.min_rows
        role = self.config.role
        guard.check(bound.domain, bound.role, bound.seed, min_rows, question, inputs, role)
        if question == "own_grams_in_folds":
            around, folds = inputs
            grams = bound.components.own_grams(around, folds=folds)  # type: ignore[attr-defined]
            return grams.A, grams.b, grams.r
        return asked(bound.components, question, inputs)

    def _table(self, text: tuple[str, ...], task: str | None) -> SiteTable:
        found = Path(self.config.file).stat()
        # a file that was written anew is read anew
        key = text, task, found.st_mtime_ns, found.st_size
        if key not in self._tables:
            self._tables = {key: SiteTable(self.config, text, task)}
            self._domains.clear()
        return self._tables[key]

    def _allowed(self, text: tuple[str, ...], task: str | None) -> SiteTable:
        """Return the table, where its rows may be answered about."""
        table = self._table(text, task)
        self._given.allow(table.part, self.config.min_rows)
        return table

    def _domain(self, agreed: Mapping[str, Any]) -> Domain:
        key = fingerprint(agreed)
        table = self._allowed(tuple(agreed["text"]), agreed["task"])
        if key not in self._domains:
            encoder = Encoder.from_dict(json.loads(agreed["encoder"]))
            self._domains = {key: table.domain(encoder, agreed["kind"])}
            self._bound.clear()
        return self._domains[key]

    def _binding(self, agreed: Mapping[str, Any], binding: Mapping[str, Any]) -> Bound:
        """Return the rows bound to a space and a loss, as a source or as an own sample."""
        domain, key = self._domain(agreed), fingerprint(binding)
        if key not in self._bound:
            role, level = binding["role"], float(binding["level"])
            if self.config.role not in (role, "both"):
                raise guard.Refused(f"it takes part as {self.config.role}, not as {role}")
            lowered = domain.lowered(level) if level else domain
            space, loss, seed = binding["space"], binding["loss"], int(binding["seed"])
            trained = loss == "trained"
            if role == "source":
                made = local_kind(space, loss)(Problem([lowered]), space, loss, seed=seed)
            else:
                kind = local_kind(space, loss) if trained else LocalComponents
                made = kind.of_samples([lowered], space, loss, seed=seed)
            self._bound[key] = Bound(lowered, role, seed, made)
            while len(self._bound) > MOST_BOUND:
                self._bound.popitem(last=False)
        return self._bound[key]

    def _keep(self, model: Mapping[str, Any]) -> str:
        """Write the model that was made for this target."""
        if self.config.role == "source":
            raise guard.Sayable("this site takes part as source: it is given no model")
        path = self.config.beside(self.config.model, "model.json")
        unfinished = path.with_name(f".{path.name}.unfinished")
        unfinished.write_text(json.dumps(model, indent=1), encoding="utf-8")
        os.replace(unfinished, path)
        return "kept"

    def _log(
        self, questions: Sequence[str], n_bytes: int, about: Sequence[Mapping[str, str]] = ()
    ) -> None:
        """Add a line that says what was sent, and about which rows if these are new."""
        line: dict[str, Any] = {
            "at": datetime.now(UTC).isoformat(timespec="seconds"), "sent_bytes": n_bytes,
            "answered": questions,
        }  # fmt: skip
        try:
            with self._log_file.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line | ({"about": about} if about else {})) + "\n")
        except OSError:
            raise guard.Sayable("its log cannot be written, and it answers nothing then") from None


def sayable(error: Exception) -> str:
    """Return what a site says of an error; its own words may quote a cell, a row or a path."""
    if isinstance(error, guard.Sayable):
        return str(error)
    if isinstance(error, CuveeError | OSError):
        return "its table cannot be used as it is: the site's own log says why"
    return "it could not answer: the site's own log says why"


def as_plain(said: Greeting | Introduction) -> dict[str, Any]:
    """Return a greeting or an introduction as it is sent."""
    return {f.name: getattr(said, f.name) for f in fields(said)}
