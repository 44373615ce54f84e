"""From a table to problems: who is a target, which rows are kept for scores, and numbers instead of columns."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from cuvee.data.columns import count, listed
from cuvee.data.encode import Encoder, check_missing
from cuvee.data.files import files
from cuvee.data.frame import located, read, spec
from cuvee.data.roles import LEAST_LABELLED, SMALL, excluded, without
from cuvee.data.spool import census, spool
from cuvee.data.targets import EACH, choose
from cuvee.data.task import Inferred, check, infer
from cuvee.errors import DomainError, InputError, OptionError
from cuvee.problem import Array
from cuvee.run.groups import Members, Prepared
from cuvee.run.labelled import Labelled
from cuvee.run.options import Options, kind_of
from cuvee.run.roles import Taught, assigned, taught

FAR = 1e150
LARGE = 2**30  # bytes of files that are not read whole


def prepare(
    source: Any, options: Options, scratch: Path, progress: Callable[[str, int, int], None] | None = None
) -> Prepared:
    """A table from anywhere; one too large to be read whole is encoded into files in `scratch`."""
    if isinstance(source, str) and not source:
        raise InputError("no table is named: give a file, a folder or a frame")
    tell = progress or (lambda what, done, total: None)
    tell("reading the table", 0, 0)
    try:
        prepared = _prepared(source, options, scratch)
        for i in range(len(prepared.members)):
            tell("preparing", i, len(prepared.members))
            prepared = prepared.checked(i)
        return prepared
    except UnicodeEncodeError as error:
        raise DomainError(f"the table holds text that is none, {error.object!r:.60}: mend its encoding") from None


def _prepared(source: Any, options: Options, scratch: Path) -> Prepared:
    large = options.stream
    if large is None:
        large = (
            isinstance(source, str | Path)
            and _bytes(Path(source), options.encoding) > LARGE
            and options.hypothesis in ("auto", "ridge")
        )
    if large:
        if not isinstance(source, str | Path):
            raise OptionError("stream reads files: give a path, or leave stream out")
        return _streamed(source, options, scratch)
    table = read(source, **_columns(options))
    fingerprint = _fingerprint(source, table.frame, options.encoding)
    left_out = excluded(table.names, options.exclude)
    table = without(table, left_out)
    found = Labelled.of(table)
    sizes = {name: len(at) for name, at in found.at.items()}
    targets = choose(table.names, options.targets, left_out)
    in_turn = options.targets in (EACH, (EACH,)) and len(targets) == len(table.names)
    roles = assigned(sizes, targets, in_turn, options.strict)
    notes = [*table.notes, *roles.notes]
    if roles.pooled:
        found = found.pooled(roles.pooled, SMALL)
    used = found.rows(found.at[name] for name in roles.used)
    if not options.impute:  # told of all rows at once, not of those learnt from first
        check_missing([used[name] for name in table.features], "")
    with located(source, options.encoding):
        inferred = _inferred(options, used[table.label])
        groups = taught(found, roles.groups, inferred.task, options.strict, notes)
    as_target = {name: at for group in groups for name, at in group.targets.items()}
    divided = {name: _divided(len(at), options, i) for i, (name, at) in enumerate(as_target.items())}
    members = tuple(_members(found, table.features, options, group, divided) for group in groups)
    for who in members:
        for name, fits in _fitting(found, who, as_target, divided).items():
            learn, test = divided[name]
            kept = np.sort(np.concatenate([learn, test[fits]]))
            as_target[name] = as_target[name][kept]
            divided[name] = np.searchsorted(kept, learn), np.searchsorted(kept, test[fits])
            lost = count(int((~fits).sum()), "test row")
            notes.append(f"target {name!r}: {lost} left out, for categories that no training row has")

    def rows(who: Members) -> dict[str, tuple[Array, Array]]:
        places = {name: found.at[name] for name in who.sources} | {name: as_target[name] for name in who.targets}
        with located(source, options.encoding):
            return found.encoded(who.encoder, places)

    with located(source, options.encoding):
        return _checked(
            options, inferred, members, used[table.label], sizes=roles.sizes, pooled=roles.pooled, divided=divided,
            notes=notes, domain=table.domain, n_features=len(table.features), rows=rows, fingerprint=fingerprint,
        )  # fmt: skip


def _columns(options: Options) -> dict[str, Any]:
    """Which column plays which role."""
    return {name: getattr(options, name) for name in ("domain", "label", "features", "drop", "text", "encoding")}


def _inferred(options: Options, labels: Any) -> Inferred:
    """What the labels of all rows are, or whether they are what the user says."""
    return infer(labels, options.label) if options.task == "auto" else check(labels, options.task, options.label)


def _checked(
    options: Options,
    inferred: Inferred,
    members: tuple[Members, ...],
    labels: Any,
    *,
    notes: Sequence[str],
    **rest: Any,
) -> Prepared:
    """Return everything together, with its hypothesis and what is worth saying; labels are those of all rows."""
    taught = [m.classes for m in members if m.classes is not None]
    classes = np.unique(np.concatenate(taught)) if taught else None
    if classes is None and (far := float(np.abs(labels.to_numpy(np.float64)).max())) > FAR:
        raise DomainError(f"label {options.label!r} reaches {far:g}, whose square is too far for a float: rescale it")
    said = [*notes, *members[0].encoder.notes, *_unscored(options, rest["sizes"], rest["divided"])]
    if options.labelled is None and any(len(test) for _, test in rest["divided"].values()):
        said.append("scores are of models that saw no test row; delivered models learn from all labelled rows")
    kind = kind_of(options, inferred.task)
    return Prepared(members, options, inferred, kind, classes, notes=tuple(said), **rest)


def _streamed(path: str | Path, options: Options, scratch: Path) -> Prepared:
    """Ridge needs no row twice: encoded rows lie in a file, and Gram matrices are made from it batch by batch."""
    import pandas as pd

    if options.targets in (EACH, (EACH,)):
        raise OptionError("a table that is streamed cannot have every domain in turn as target: name the targets")
    if options.hypothesis not in ("auto", "ridge") or options.task == "classification":
        asked = repr(options.hypothesis) if options.hypothesis not in ("auto", "ridge") else "classification"
        raise OptionError(f"stream is for ridge alone; {asked} needs the table in memory")
    what = spec(path, **_columns(options))
    sizes = census(what)
    left_out = excluded(list(sizes), options.exclude)
    for name in left_out:
        del sizes[name]
    roles = assigned(sizes, choose(list(sizes), options.targets, left_out), False, options.strict)
    ((targets, sources),) = roles.groups
    what = replace(what, exclude=(*left_out, *roles.unused))
    scratch.mkdir(parents=True, exist_ok=True)
    fit_on = [*(s for s in sources if s != SMALL or not roles.pooled), *roles.pooled]
    spooled = spool(what, scratch, impute=options.impute, standardise=options.standardise, fit_on=fit_on)
    found = {d.name: (d.X, d.y) for d in spooled.domains}
    if roles.pooled:
        X, y = (np.concatenate(part) for part in zip(*(found.pop(name) for name in roles.pooled), strict=True))
        found[SMALL] = X, y
    divided = {name: _divided(sizes[name], options, i) for i, name in enumerate(targets)}
    members = (Members(tuple(targets), tuple(sources), spooled.encoder),)
    options = replace(options, task="regression") if options.hypothesis == "ridge" else options
    labels = pd.Series(np.concatenate([found[n][1] for n in (*sources, *targets)]), name=what.label)
    inferred = _inferred(options, labels)
    if kind_of(options, inferred.task) != "ridge":
        raise OptionError("stream is for ridge alone, and the labels are classes: this table has to fit into memory")
    return _checked(
        options, inferred, members, labels, sizes=roles.sizes, pooled=roles.pooled, divided=divided,
        notes=[*spooled.notes, *roles.notes], domain=what.domain, n_features=len(what.features),
        rows=lambda who: found, fingerprint=_fingerprint(path, None, options.encoding),
    )  # fmt: skip


def _divided(rows: int, options: Options, position: int) -> tuple[Array, Array]:
    """Numbers of a target's labelled rows: to learn from, and for scores."""
    order = np.random.default_rng([options.seed, position]).permutation(rows)
    keep = rows - round(options.test * rows) if options.labelled is None else options.labelled
    keep = max(keep, LEAST_LABELLED)
    return np.sort(order[:keep]), np.sort(order[keep:])


def _unscored(options: Options, sizes: Mapping[str, int], divided: Mapping[str, tuple[Array, Array]]) -> list[str]:
    """Say which targets have no row left to score on, though scores were wanted."""
    bare = [name for name, (learn, _) in divided.items() if len(learn) == sizes[name]]
    if not bare or (options.labelled is None and options.test == 0):
        return []
    one, own = len(bare) == 1, max(sizes[name] for name in bare)
    who = f"target {bare[0]!r}" if one else f"{len(bare):,} targets ({listed(bare)})"
    if options.labelled is not None:
        asked = f"{options.labelled:,} labelled rows were asked for (--labelled)"
        why = f"{asked} and {f'{own:,} are there' if one else f'they have {own:,} or fewer'}; ask for fewer"
    else:
        why = f"of {f'its {own:,}' if one else f'their {own:,} or fewer'} labelled rows none can be spared; label more"
    return [f"no row of {who} is left to score on: {why}"]


def _members(
    found: Labelled,
    features: Sequence[str],
    options: Options,
    group: Taught,
    divided: Mapping[str, tuple[Array, Array]],
) -> Members:
    learnt = [found.at[s] for s in group.sources] + [at[divided[t][0]] for t, at in group.targets.items()]
    encoder = Encoder.fit(found.rows(learnt), features, impute=options.impute)
    encoder = encoder if options.standardise else encoder.unscaled()
    return Members(tuple(group.targets), tuple(group.sources), encoder, group.classes)


def _fitting(
    found: Labelled, who: Members, as_target: Mapping[str, Array], divided: Mapping[str, tuple[Array, Array]]
) -> dict[str, Array]:
    """Which test rows hold no unseen category, of the targets that have some that do."""
    tests = [as_target[t][divided[t][1]] for t in who.targets]
    fits = np.split(who.encoder.fits(found.rows(tests)), np.cumsum([len(t) for t in tests])[:-1])
    return {name: good for name, good in zip(who.targets, fits, strict=True) if not good.all()}


def _bytes(path: Path, encoding: str) -> int:
    return sum(file.path.stat().st_size for file, _ in files(path, encoding))


def _fingerprint(source: Any, frame: Any, encoding: str) -> str:
    """The same for the same files, or for the same values of a table in memory."""
    import pandas as pd

    found = hashlib.sha256()
    if isinstance(source, str | Path):
        for table, _ in files(Path(source), encoding):
            found.update(table.path.name.encode() + b"\0")
            with table.path.open("rb") as file:
                found.update(hashlib.file_digest(file, "sha256").digest())
    else:
        found.update(repr(list(frame.columns)).encode())
        found.update(pd.util.hash_pandas_object(frame, index=False).to_numpy().tobytes())
    return found.hexdigest()
