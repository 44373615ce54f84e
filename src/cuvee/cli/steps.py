"""`cuvee weights` and `cuvee solve`: the two halves of `cuvee adapt`, made to be piped."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cuvee.cli import options as asked
from cuvee.cli.console import speaking
from cuvee.cli.output import check_out, print_json
from cuvee.names import OWN_JOINS

if TYPE_CHECKING:
    from cuvee.data.prepared import Prepared
    from cuvee.results import Mixtures

OutAlpha = Annotated[
    Path | None, typer.Option("--out", metavar="FILE", help="CSV to write; by default stdout.")
]
OutModels = Annotated[
    Path, typer.Option("--out", metavar="FILE", help="Safetensors file to write the models to.")
]
OwnJoins = Annotated[
    bool | None,
    typer.Option(
        "--own/--no-own",
        help="Let a target's own rows join as a last column; by default "
        f"with {', '.join(OWN_JOINS)}.",
        show_default=False,
    ),
]
AlphaFile = Annotated[
    str,
    typer.Option(
        "--alpha", metavar="FILE", help="CSV of weights as cuvee weights writes it; - reads stdin."
    ),
]
MapFile = Annotated[
    Path | None,
    typer.Option(
        "--map", metavar="FILE", help="Ask this map, which cuvee learn wrote, instead of solving."
    ),
]


def weights(
    table: asked.TableFile,
    targets: asked.Targets,
    domain: asked.DomainColumn = None,
    label: asked.LabelColumn = "label",
    out: OutAlpha = None,
    exclude: asked.Exclude = None,
    strict: asked.Strict = False,
    features: asked.Features = None,
    drop: asked.Drop = None,
    text: asked.Text = None,
    encoding: asked.Encoding = "utf-8",
    missing: asked.Missing = None,
    impute: asked.Impute = False,
    standardise: asked.Standardise = True,
    levels: asked.Levels = True,
    task: asked.Task = "auto",
    hypothesis: asked.HypothesisName = "auto",
    l2: asked.L2 = 1e-2,
    method: asked.Method = "path",
    C: asked.C = None,
    own: OwnJoins = None,
    seed: asked.Seed = 0,
    force: asked.Force = False,
    as_json: asked.Json = False,
    quiet: asked.Quiet = False,
) -> None:
    """Estimate how much each target should learn from each source: α as a CSV.

    Example: cuvee weights visits.csv --domain hospital --label readmitted --targets new --out
    alpha.csv
    """
    from cuvee.cli.alpha import write_alpha
    from cuvee.data.prepare import prepare

    with speaking(quiet) as voice:
        options = asked.of_all_rows(
            label=label, domain=domain, targets=targets, exclude=exclude, strict=strict,
            features=features, drop=drop, text=text, encoding=encoding, missing=missing,
            impute=impute,
            standardise=standardise, levels=levels, task=task, hypothesis=hypothesis, l2=l2,
            method=method, C=C, seed=seed,
        )  # fmt: skip
        if out is not None:
            check_out(out, force)
        prepared = prepare(table, options)
        notes = (prepared.inferred.why, *prepared.notes)
        voice.tell(notes)
        how: Any = {"method": method, "C": C, "own": own, "seed": seed}
        with voice.bar() as bar:
            mix = _estimated(prepared, bar, how)
        voice.say(repr(mix))
        if out is not None or not as_json:
            write_alpha(mix, out)
        if as_json:
            print_json(_weights(mix) | {"notes": [*notes, *mix.notes], "out": out and str(out)})


def _estimated(prepared: Prepared, progress: Any, how: Any) -> Mixtures:
    """Return α of all targets, group by group."""
    from cuvee.api import estimate
    from cuvee.cli.alpha import merged

    parts, groups = [], prepared.weighed(how["method"])
    inner = progress if len(groups) == 1 else None  # one bar over all of them
    for members in groups:
        problem, hypothesis = prepared.group(members).problem, prepared.hypothesis(members)
        how |= {"exclude": members.excluded, "progress": inner}
        parts.append(estimate(problem, hypothesis, **how))
        if inner is None:
            progress("weighing", len(parts), len(groups))
    return merged([part.without_self() for part in parts], prepared.sources)


def _weights(mix: Mixtures) -> dict[str, Any]:
    """Return α and how it was found, for JSON."""
    each = {
        name: {"alpha": mix.alpha[i], "gap": mix.gap[i], "status": str(mix.status[i])}
        for i, name in enumerate(mix.targets)
    }
    return {"method": mix.method, "columns": mix.columns, "targets": each}


def solve(
    table: asked.TableFile,
    alpha: AlphaFile,
    out: OutModels,
    domain: asked.DomainColumn = None,
    label: asked.LabelColumn = "label",
    map_file: MapFile = None,
    exclude: asked.Exclude = None,
    strict: asked.Strict = False,
    features: asked.Features = None,
    drop: asked.Drop = None,
    text: asked.Text = None,
    encoding: asked.Encoding = "utf-8",
    missing: asked.Missing = None,
    impute: asked.Impute = False,
    standardise: asked.Standardise = True,
    levels: asked.Levels = True,
    task: asked.Task = "auto",
    hypothesis: asked.HypothesisName = "auto",
    l2: asked.L2 = 1e-2,
    tol: asked.Tol = 1e-6,
    seed: asked.Seed = 0,
    force: asked.Force = False,
    as_json: asked.Json = False,
    quiet: asked.Quiet = False,
) -> None:
    """Solve a certified model for every row of α: columns name the sources, rows the targets.

    Example: cuvee solve visits.csv --domain hospital --label readmitted --alpha alpha.csv --out
    models.safetensors
    """
    from cuvee.cli.alpha import read_alpha
    from cuvee.cli.models import as_dict, print_models, solved
    from cuvee.data.blends import blends
    from cuvee.data.opened import decodable, open_table

    with speaking(quiet) as voice:
        options = asked.of_all_rows(
            label=label, domain=domain, exclude=exclude, strict=strict, features=features,
            drop=drop, text=text, encoding=encoding, missing=missing,
            impute=impute, standardise=standardise,
            levels=levels, task=task, hypothesis=hypothesis, l2=l2, tol=tol, seed=seed,
        )  # fmt: skip
        check_out(out, force, (".safetensors",))
        given = read_alpha(alpha)
        given.check_named()
        with decodable():
            opened = open_table(table, options)
            given = given.ordered(opened.named(given.columns))
            apart = given.apart if map_file is None else ()  # a map has one list of sources
            blended = blends(
                opened, given.columns, given.rows, own=given.own, apart=apart, bare=given.bare
            )
        notes = (blended.prepared.inferred.why, *blended.prepared.notes)
        voice.tell(notes)
        with voice.bar() as bar:
            models = solved(blended, given, map_file, bar)
        models.save(out)
        if as_json:
            print_json({**as_dict(models), "notes": notes, "out": str(out)})
            return
        print_models(models, out)
