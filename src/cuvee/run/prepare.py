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
from cuvee.data.spool import census, spool
from cuvee.data.targets import EACH, choose
from cuvee.data.task import check, check_known, infer
from cuvee.errors import DomainError, InputError, OptionError
from cuvee.problem import Array
from cuvee.run.groups import Members, Prepared
from cuvee.run.labelled import Labelled
from cuvee.run.options import LEAST_LABELLED, Options, kind_of

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
    found = Labelled.of(table)
    sizes = {name: len(at) for name, at in found.at.items()}
    targets = choose(table.names, options.targets)
    in_turn = options.targets in (EACH, (EACH,)) and len(targets) == len(table.names)
    roles, left_out = _roles(sizes, targets, in_turn)
    notes = [*table.notes, *left_out]
    divided = {name: _divided(sizes[name], options, i) for i, name in enumerate(targets)}
    used = found.rows(found.at[name] for name in dict.fromkeys(n for group in roles for part in group for n in part))
    if not options.impute:  # told of all rows at once, not of those learnt from first
        check_missing([used[name] for name in table.features], "")
    members = tuple(_members(found, table.features, options, some, sources, divided) for some, sources in roles)
    as_target = {name: found.at[name] for name in targets}
    for who in members:
        for name, fits in _fitting(found, who, divided).items():
            learn, test = divided[name]
            kept = np.sort(np.concatenate([learn, test[fits]]))
            as_target[name] = found.at[name][kept]
            divided[name] = np.searchsorted(kept, learn), np.searchsorted(kept, test[fits])
            lost = count(int((~fits).sum()), "test row")
            notes.append(f"target {name!r}: {lost} left out, for categories that no training row has")

    def rows(who: Members) -> dict[str, tuple[Array, Array]]:
        places = {name: found.at[name] for name in who.sources} | {name: as_target[name] for name in who.targets}
        with located(source, options.encoding):
            return found.encoded(who.encoder, places)

    with located(source, options.encoding):
        prepared = _checked(
            options, members, used[table.label], found.rows(found.at[s] for s in members[0].sources)[table.label],
            sizes=sizes, divided=divided, notes=notes, domain=table.domain, n_features=len(table.features), rows=rows,
            fingerprint=_fingerprint(source, table.frame, options.encoding),
        )  # fmt: skip
        if prepared.classes is not None:
            learnt = {t: at if options.labelled is None else at[divided[t][0]] for t, at in as_target.items()}
            _check_labels(replace(found, frame=found.frame[[table.label, table.domain]]), members, learnt)
    return prepared


def _check_labels(labels: Labelled, members: Sequence[Members], learnt: Mapping[str, Array]) -> None:
    """Raise `DomainError` where a label that a target learns from is one that no source of it has."""
    for who in members:
        known = labels.rows(labels.at[s] for s in who.sources).iloc[:, 0].unique()
        own = labels.rows(learnt[t] for t in who.targets)
        check_known(own.iloc[:, 0], own.iloc[:, 1], known)


def _columns(options: Options) -> dict[str, Any]:
    """Which column plays which role."""
    return {name: getattr(options, name) for name in ("domain", "label", "features", "drop", "text", "encoding")}


def _checked(
    options: Options, members: tuple[Members, ...], labels: Any, known: Any, *, notes: Sequence[str], **rest: Any
) -> Prepared:
    """What the labels are, those of all rows and those known from sources, and what is worth saying."""
    inferred = infer(labels, options.label) if options.task == "auto" else check(labels, options.task, options.label)
    classes = np.unique(known.to_numpy()) if inferred.task == "classification" else None
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
    targets = choose(list(sizes), options.targets)
    roles, notes = _roles(sizes, targets, False)
    ((_, sources),) = roles
    scratch.mkdir(parents=True, exist_ok=True)
    spooled = spool(what, scratch, impute=options.impute, standardise=options.standardise, fit_on=sources)
    found = {d.name: (d.X, d.y) for d in spooled.domains}
    divided = {name: _divided(sizes[name], options, i) for i, name in enumerate(targets)}
    members = (Members(tuple(targets), tuple(sources), spooled.encoder),)
    options = replace(options, task="regression") if options.hypothesis == "ridge" else options
    known, labels = (
        pd.Series(np.concatenate([found[n][1] for n in names]), name=what.label)
        for names in (sources, [*sources, *targets])
    )
    prepared = _checked(
        options, members, labels, known, sizes=sizes, divided=divided, notes=[*spooled.notes, *notes],
        domain=what.domain, n_features=len(what.features), rows=lambda who: found,
        fingerprint=_fingerprint(path, None, options.encoding),
    )  # fmt: skip
    if prepared.kind != "ridge":
        raise OptionError("stream is for ridge alone, and the labels are classes: this table has to fit into memory")
    return prepared


def _roles(
    sizes: Mapping[str, int], targets: list[str], in_turn: bool
) -> tuple[list[tuple[list[str], list[str]]], list[str]]:
    """Groups of (targets, sources), and what is worth saying of who is neither."""
    for name in targets:
        if sizes[name] < LEAST_LABELLED:
            raise DomainError(
                f"target {name!r} has {count(sizes[name], 'labelled row')}, and needs {LEAST_LABELLED}: label more, or "
                "leave it out"
            )
    usable = [name for name in sizes if sizes[name] >= 2]
    grouped = [[t] for t in targets] if in_turn else [targets]
    roles = [(some, [n for n in usable if n not in others]) for some, others in ((g, set(g)) for g in grouped)]
    if not all(sources for _, sources in roles):
        raise DomainError("no source is left: no other domain has 2 labelled rows; label some, or name fewer targets")
    few = [n for n in sizes if sizes[n] < 2]
    return roles, [f"domain {n!r} has fewer than 2 labelled rows and is no source" for n in few]


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
    targets: list[str],
    sources: list[str],
    divided: Mapping[str, tuple[Array, Array]],
) -> Members:
    learnt = [found.at[s] for s in sources] + [found.at[t][divided[t][0]] for t in targets]
    encoder = Encoder.fit(found.rows(learnt), features, impute=options.impute)
    return Members(tuple(targets), tuple(sources), encoder if options.standardise else encoder.unscaled())


def _fitting(found: Labelled, who: Members, divided: Mapping[str, tuple[Array, Array]]) -> dict[str, Array]:
    """Which test rows hold no unseen category, of the targets that have some that do."""
    tests = [found.at[t][divided[t][1]] for t in who.targets]
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
