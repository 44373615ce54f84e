"""The steps of a run whose models are not linear: one target after the other, each committed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from cuvee.data.options import Options
from cuvee.data.prepared import Prepared
from cuvee.results import Floats, Mixtures
from cuvee.run import alpha_file, fitted, model_choice, tables
from cuvee.run.fitted import Fitting
from cuvee.run.folder import GIVEN, JUDGED, RunFolder, as_json, part_name
from cuvee.run.models import Delivered

Progress = Callable[[str, int, int], None]


def _targets(
    prepared: Prepared, options: Options
) -> Iterator[tuple[int, int, Callable[[], Fitting]]]:
    """Yield the group and the place in it of every target, and what makes the group's rows.

    These are put together when the first target of a group needs them, and dropped after its last.
    """
    for g, members in enumerate(prepared.members):
        made: list[Fitting] = []

        def fitting(made: list[Fitting] = made, g: int = g) -> Fitting:
            if not made:
                made.append(Fitting.of(prepared, prepared.members[g], options))
            return made[0]

        for i in range(len(members.targets)):
            yield g, i, fitting


def judge(
    folder: RunFolder,
    prepared: Prepared,
    options: Options,
    mixtures: Sequence[Mixtures],
    progress: Progress,
) -> tuple[list[Mixtures], dict[str, bytes]]:
    """Return the mixture of every target, chosen by folds of its model, and a file of notes.

    The budget begins anew where a run is resumed: what was judged before is not judged again.
    """
    total = len(prepared.targets)
    linear = {name: mix for mix in mixtures for name in mix.targets}
    end = np.inf if options.budget is None else time.monotonic() + options.budget
    bare = {*prepared.label_free}
    chosen, notes = [], []
    for done, (g, i, fitting) in enumerate(_targets(prepared, options)):
        members, step = prepared.members[g], f"judged {g} {i}"
        progress("judging mixtures", done, total)
        if not folder.done(step):
            began, target = time.monotonic(), members.targets[i]
            one = fitted.only(linear[target], target, members.sources)
            left = (end - began) / (total - done)
            known = model_choice.known(folder, target)
            if target in bare:  # no row of it can judge
                mix = replace(one, candidates=())
            else:
                mix = fitted.judged(fitting(), i, one, left, known)
            files = {part_name(step): alpha_file.pack(mix)}
            files[f"{part_name(step)}.json"] = as_json({"notes": list(mix.notes)})
            folder.commit(step, files, seconds=time.monotonic() - began)
        name = part_name(step)
        chosen.append(alpha_file.unpack(folder.read(name), folder.path / name))
        notes += folder.json(f"{name}.json")["notes"]
    progress("judging mixtures", total, total)
    return chosen, {JUDGED: as_json({"notes": notes})}


def deliver(
    folder: RunFolder,
    prepared: Prepared,
    options: Options,
    alphas: Sequence[Floats],
    progress: Progress,
) -> None:
    """Make the models of all targets; the file of each is committed as soon as it is fitted."""
    total, steps = len(prepared.targets), []
    bare = bool(prepared.label_free) and not folder.has(GIVEN)
    for done, (g, i, fitting) in enumerate(_targets(prepared, options)):
        step = f"models {g} {i}"
        progress("fitting models", done, total)
        if not folder.done(step):
            began = time.monotonic()
            part, model = fitted.deliver(fitting(), i, alphas[g][i], options, bare)
            committed = {part_name(step): part.pack(), fitted.file_of(done): model}
            folder.commit(step, committed, seconds=time.monotonic() - began)
        steps.append(part_name(step))
    progress("fitting models", total, total)
    parts = [Delivered.unpack(folder.read(name), folder.path / name) for name in steps]
    files = tables.of_models(prepared, Delivered.joined(parts), folder)
    folder.commit("models", files, parts_done=True)
