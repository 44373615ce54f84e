"""One table in, a model per target out: problem -> α -> models -> certificates and scores ->
report.
"""

from __future__ import annotations

import platform
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np

import cuvee
from cuvee.api import ModelMap, estimate, learn, plan
from cuvee.data.fingerprint import is_same
from cuvee.data.options import LINEAR, Options, in_words
from cuvee.data.prepare import prepare
from cuvee.data.prepared import Prepared
from cuvee.data.targets import suggest
from cuvee.errors import DomainError, InputError, MixtureError, OptionError
from cuvee.hypothesis.registry import MODELS
from cuvee.numerics.parallel import workers
from cuvee.outputs.files import understood
from cuvee.results import OWN, Floats
from cuvee.run import alpha_file, models, tables
from cuvee.run.decided import check_packages, decide, decided, reasons
from cuvee.run.folder import (
    ABOUT,
    GIVEN,
    MANIFEST,
    PREPARED,
    SCRATCH,
    Parts,
    RunFolder,
    as_json,
    cleared,
    locked,
    part_name,
    reserved,
)
from cuvee.run.judge import MOST
from cuvee.run.models import Delivered
from cuvee.run.run import Run
from cuvee.simplex import check_alpha

Progress = Callable[[str, int, int], None]
Say = Callable[[str], None]
CHUNK, NETWORK_CHUNK = 64, 8  # targets whose α is estimated, and committed, together
MANY = 1_000  # targets for which it is worth asking whether to solve or to learn


@workers()
def adapt(
    source: Any,
    out: str | Path,
    *,
    options: Options | None = None,
    alpha: Any = None,
    force: bool = False,
    progress: Progress | None = None,
    say: Say | None = None,
    **asked: Any,
) -> Run:
    """Make a model per target from a table, in a new folder `out`, and return the run.

    The folder survives a kill at any moment.

    Args:
        source: a file, a folder with a file per domain, a frame, or whatever
            `cuvee.data.frame.read` takes.
        out: the run folder; it must not hold a run yet, unless `force` is given.
        options: which columns play which role, which domains are targets, and how to learn.
        alpha: weights of your own instead of estimated ones: an array (M, N) or (M, N+1), which
            goes by position, or `Mixtures`, a data frame or a CSV, which are matched by name, in
            any order. Columns name the sources and `cuvee.OWN` the own sample; a column "target",
            or the index of a frame, names the targets.
        force: replace a run that is in `out`, as soon as the table is read and understood.
        progress: called with (what, done, total).
        asked: options by their names, instead of `options` or over it.
        say: called with what was inferred and noticed, a sentence each, before the work begins,
            and with the model that "auto" chose.

    Example:
        >>> import numpy as np, pandas as pd, tempfile
        >>> import cuvee
        >>> rng = np.random.default_rng(0)
        >>> sites = np.repeat(["north", "south", "new"], 30)
        >>> frame = pd.DataFrame({"age": rng.normal(size=90), "site": sites})
        >>> frame["cost"] = 2.0 * frame.age + rng.normal(size=90)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     new = f"{folder}/run"
        ...     run = cuvee.adapt(frame, new, label="cost", domain="site", targets="new")
        ...     run.predict(frame[:2], target="new").shape
        (2, 1)
    """
    options, path = _options(options, asked), Path(out)
    if options.model != LINEAR:
        check_packages(options.model)  # hours of work would end here otherwise
    with reserved(path, force):
        try:
            prepared = _prepared(source, options, path, progress, say)
            begun = {
                ABOUT: as_json(_about(source, options, prepared)),
                PREPARED: tables.prepared(prepared, options),
            }
            if alpha is not None:
                columns, given = alpha_file.given(alpha, prepared.targets, prepared.sources)
                _check_given(given, columns, prepared)
                begun[GIVEN] = alpha_file.to_csv(prepared.targets, columns, given)
            for sentence in (
                prepared.inferred.why,
                f"hypothesis: {in_words(options, prepared.kind)}",
                *prepared.notes,
            ):
                (say or _unheard)(sentence)
            cleared(path)
            folder = RunFolder.create(path, begun)
            try:
                return _finish(folder, prepared, options, progress or _silent, say or _unheard)
            except (DomainError, MixtureError, OptionError):
                # refused after all, as it would be again: nothing stays behind
                if not folder.done("alpha"):
                    (path / MANIFEST).unlink(missing_ok=True)
                raise
        finally:
            shutil.rmtree(path / SCRATCH, ignore_errors=True)


def _prepared(
    source: Any,
    options: Options,
    path: Path,
    progress: Progress | None,
    say: Say | None,
) -> Prepared:
    """Return the problems of a table, in this process or on the workers of a cluster."""
    if options.on is None:
        return prepare(source, options, path / SCRATCH, progress)
    from cuvee.scale.ray_table import prepare_on_ray

    return prepare_on_ray(source, options, progress, say)


def _options(options: Options | None, asked: dict[str, Any]) -> Options:
    known = [field.name for field in fields(Options)]
    for name in asked:
        if name not in known:
            raise OptionError(f"there is no option {name!r}{suggest(name, known)}")
    return replace(options or Options(), **asked)


@workers()
def resume(
    path: str | Path,
    *,
    source: Any = None,
    on: str | None = None,
    hypothesis: str | None = None,
    progress: Progress | None = None,
    say: Say | None = None,
) -> Run:
    """Go on where a run was cut, and return it; one that is finished is opened.

    `source` is needed where the table was a frame. `on` is another cluster than the run was begun
    on, and `say` is told which one was joined or started. What the folder names is code where it is
    a factory of networks or the address of a cluster: it is used only where `hypothesis` or `on`
    names it, too.
    """
    path = Path(path)
    folder = RunFolder.open(path)
    if folder.done("report"):
        with suppress(InputError), locked(path):  # it may lie on a disk that can only be read
            folder.tidy()
        return Run(folder, hypothesis=hypothesis)
    with locked(path):
        folder = RunFolder.open(path)  # once more: nobody else writes now
        folder.tidy()
        about = folder.about
        with understood(path / ABOUT, "what this version of cuvee writes"):
            stored, where = about["options"], str(path / ABOUT)
            options = Options.from_dict(stored, where, hypothesis=hypothesis)
            options = _on(options, on, path)
            data = about["data"]
            place, fingerprint = data["path"], data["fingerprint"]
        source = place if source is None else source
        if source is None:
            raise InputError(
                f"{path} was made from a table in memory: resume it in Python, with source=..."
            )
        try:
            prepared = _prepared(source, options, path, progress, say)
            if not is_same(prepared.fingerprint, fingerprint, data.get("name")):
                raise InputError(
                    f"the table is not the one that {path} was begun with: bring that back, or "
                    "start a new run"
                )
            tables.check_same(prepared, folder)
            return _finish(folder, prepared, options, progress or _silent, say or _unheard)
        finally:
            shutil.rmtree(path / SCRATCH, ignore_errors=True)


def _on(options: Options, on: str | None, path: Path) -> Options:
    """Return the options of a run with the cluster `on`, where one is named.

    Who joins a cluster lets it run code here, so that an address counts only if the caller says it.
    """
    if on is not None:
        return replace(options, on=on)
    if options.on is not None and ":" in options.on:
        raise OptionError(
            f"{path} was begun on the Ray cluster {options.on!r}, and a cluster that is joined can "
            f"run code on this machine: if you trust it, say so, by --on {quote(options.on)} or "
            f"on={options.on!r}; or name another, or 'ray'"
        )
    return options


def _finish(
    folder: RunFolder, prepared: Prepared, options: Options, progress: Progress, say: Say
) -> Run:
    """Run the steps of the pipeline that are not committed yet, and return the run."""
    if not folder.done("alpha"):
        _weigh(folder, prepared, options, progress)
        for sentence in reasons(folder):
            say(sentence)
    if not folder.done("models"):
        _deliver(folder, prepared, options, progress)
    if not folder.done("report"):
        began = time.perf_counter()
        Run(folder, hypothesis=options.hypothesis).report()
        folder.commit("report", {}, seconds=time.perf_counter() - began)
    return Run(folder, hypothesis=options.hypothesis)


def _weigh(folder: RunFolder, prepared: Prepared, options: Options, progress: Progress) -> None:
    """Estimate α of every group, chunk by chunk; use the user's own where it was given."""
    parts = Parts(folder)
    if folder.has(GIVEN):
        given = tables.given(prepared, folder, GIVEN)
        decide(folder, prepared, options, given, progress)
        parts.finish("alpha", tables.of_mixtures(prepared, given))
        return
    size = NETWORK_CHUNK if prepared.kind not in MODELS else CHUNK
    steps, done, total = [], 0, len(prepared.targets)
    for g, members in enumerate(prepared.weighed(options.method)):
        group = None
        for low in range(0, len(members.targets), size):
            step, began = f"alpha {g} {low}", time.perf_counter()
            many = len(members.targets[low : low + size])
            if not folder.done(step):
                group = group or prepared.group(members)
                mix = estimate(
                    group.part(slice(low, low + size)).problem,
                    prepared.hypothesis(members),
                    exclude=members.part(slice(low, low + size)).excluded,
                    method=options.method,  # type: ignore[arg-type]  # checked by Options
                    C=options.C,
                    own=True,
                    seed=options.seed,
                    progress=lambda what, i, n, done=done, many=many: progress(  # type: ignore[misc]
                        "estimating α", done + many * i // (n + 1), total
                    ),
                )
                parts.add(step, alpha_file.pack(mix), time.perf_counter() - began)
            steps.append(step)
            done += many
            progress("estimating α", done, total)
    mixtures = [
        alpha_file.unpack(parts.read(step), folder.path / part_name(step)).without_self()
        for step in steps
    ]
    judged: dict[str, bytes] = {}
    if options.model != LINEAR:
        parts.flush()
        options = decide(folder, prepared, options, mixtures, progress)
    if options.model != LINEAR:
        from cuvee.run import fitted_steps

        mixtures, judged = fitted_steps.judge(folder, prepared, options, mixtures, progress)
    parts.finish("alpha", {**tables.of_mixtures(prepared, mixtures), **judged})


def _deliver(folder: RunFolder, prepared: Prepared, options: Options, progress: Progress) -> None:
    """Make the models of every group, chunk by chunk.

    They are solved, or asked of a map where the planner says so.
    """
    alphas, options = tables.alphas(prepared, folder), decided(folder, options)
    if options.model != LINEAR:
        from cuvee.run import fitted_steps

        fitted_steps.deliver(folder, prepared, options, alphas, progress)
        return
    parts, steps, done, total = Parts(folder), [], 0, len(prepared.targets)
    for g, members in enumerate(prepared.members):
        group, atlas = None, None
        for low in range(0, len(members.targets), models.CHUNK):
            step, began = f"models {g} {low}", time.perf_counter()
            chunk = slice(low, low + models.CHUNK)
            progress("solving models", done, total)
            if not folder.done(step):
                if group is None:
                    group = prepared.group(members)
                    atlas = _map(folder, g, group.problem.sources, prepared, alphas[g], options)
                part = models.deliver(
                    group.part(chunk),
                    prepared.hypothesis(members),
                    alphas[g][chunk],
                    atlas,
                    options,
                    members.encoder,
                    metric=prepared.metric,
                    most=MOST - low,
                    bare=bool(prepared.label_free) and not folder.has(GIVEN),
                )
                parts.add(step, part.pack(), time.perf_counter() - began)
            steps.append(step)
            done += len(members.targets[chunk])
    progress("solving models", total, total)
    delivered = Delivered.joined(
        [Delivered.unpack(parts.read(step), folder.path / part_name(step)) for step in steps]
    )
    parts.finish("models", tables.of_models(prepared, delivered, folder))


def _map(
    folder: RunFolder, g: int, sources: Any, prepared: Prepared, alpha: Floats, options: Options
) -> ModelMap | None:
    """Return a map w*(α), or None where solving is cheaper.

    A map pays where many targets have no own rows; what was planned once stays.
    """
    if (
        len(alpha) < MANY
        or alpha.shape[1] > len(sources)
        or len(sources) < 2
        or prepared.kind not in MODELS
    ):
        return None
    how: dict[str, Any] = {"tol": options.tol, "mixtures": alpha, "seed": options.seed}
    step = f"plan {g}"
    try:
        if not folder.done(step):
            made = plan(
                sources, prepared.hypothesis(prepared.members[g]), n_targets=len(alpha), **how
            )
            record = {"choice": made.choice, "n_labels": made.n_labels, "why": str(made)}
            folder.commit(step, {part_name(step): as_json(record)}, seconds=made.seconds)
        planned = folder.json(part_name(step))
        if planned["choice"] == "solve":
            return None
        return learn(
            sources, prepared.hypothesis(prepared.members[g]), n_labels=planned["n_labels"], **how
        )
    except OptionError:  # no map can be learnt from such mixtures: they are all the same, say
        return None


def _check_given(alpha: Floats, columns: tuple[str, ...], prepared: Prepared) -> None:
    """Raise `MixtureError` unless rows lie on the simplex and no target is its own source."""
    check_alpha(alpha, len(columns))
    for i, target in enumerate(prepared.targets):
        if target in columns and alpha[i, columns.index(target)] > 0:
            raise MixtureError(
                f"alpha: target {target!r} would learn from itself as a source; its own rows are "
                f"{OWN!r}"
            )
    for target in prepared.label_free if OWN in columns else ():
        if alpha[prepared.targets.index(target), columns.index(OWN)] > 0:
            raise MixtureError(
                f"alpha: target {target!r} weighs {OWN!r}, and has no labels to learn from: give "
                "that weight to sources"
            )


def _about(source: Any, options: Options, prepared: Prepared) -> dict[str, Any]:
    """Return what run.json holds."""
    import sklearn
    import torch

    path, kind = (
        str(Path(source).resolve()) if isinstance(source, str | Path) else None,
        f"a {type(source).__name__}",
    )
    return {
        "versions": {
            "cuvee": cuvee.__version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "torch": torch.__version__,
            "scikit-learn": sklearn.__version__,
        },
        "begun": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "options": options.as_dict(),
        "data": {
            "path": path,
            "name": Path(path).name
            if path
            else "a table in memory"
            if isinstance(source, dict | tuple)
            else kind,
            "rows": sum(prepared.sizes.values()),
            "fingerprint": prepared.fingerprint,
        },
    }


def _silent(what: str, done: int, total: int) -> None:
    """Do nothing: no progress was asked for."""


def _unheard(sentence: str) -> None:
    """Do nothing: nobody asked for the sentences."""
