"""`cuvee weights` and `cuvee solve`: the two halves of `cuvee adapt`, made to be piped."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from cuvee.cli import options as asked
from cuvee.cli.output import check_out, print_json, print_table
from cuvee.cli.voice import show, speaking
from cuvee.mixture import registry as alpha_methods

OutAlpha = Annotated[Path | None, typer.Option("--out", metavar="FILE", help="CSV to write; by default stdout.")]
OutModels = Annotated[Path, typer.Option("--out", metavar="FILE", help="Safetensors file to write the models to.")]
_OWN_JOINS = " and ".join(name for name in alpha_methods.names() if alpha_methods.find(name).own)
OwnJoins = Annotated[
    bool | None,
    typer.Option(
        "--own/--no-own",
        help=f"Let a target's own rows join as a last column; by default {_OWN_JOINS} do.",
        show_default=False,
    ),
]
AlphaFile = Annotated[
    str,
    typer.Option("--alpha", metavar="FILE", help="CSV of weights as cuvee weights writes it; - reads stdin."),
]
MapFile = Annotated[
    Path | None,
    typer.Option("--map", metavar="FILE", help="Ask this map, which cuvee learn wrote, instead of solving."),
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
    impute: asked.Impute = False,
    task: asked.Task = "auto",
    hypothesis: asked.HypothesisName = "auto",
    l2: asked.L2 = 1e-2,
    method: asked.Method = "path",
    C: asked.C = 10.0,
    own: OwnJoins = None,
    seed: asked.Seed = 0,
    force: asked.Force = False,
    as_json: asked.Json = False,
    quiet: asked.Quiet = False,
) -> None:
    """How much each target should learn from each source: α as a CSV.

    Example: cuvee weights visits.csv --domain hospital --label readmitted --targets new --out alpha.csv
    """
    from cuvee.api import estimate
    from cuvee.cli.alpha import merged, write_alpha
    from cuvee.cli.tables import Data

    with speaking(quiet) as voice:
        options = asked.options(
            label=label,
            domain=domain,
            targets=targets,
            exclude=exclude,
            strict=strict,
            features=features,
            drop=drop,
            text=text,
            encoding=encoding,
            impute=impute,
            task=task,
            hypothesis=hypothesis,
            l2=l2,
            method=method,
            C=C,
            seed=seed,
        )
        if out is not None:
            check_out(out, force)
        data = Data.read(table, options)
        found, notes = data.problems(targets)
        problems = [(problem, data.hypothesis(problem)) for problem in found]
        data.tell(voice, *notes)
        parts = []
        with voice.bar() as bar:
            for i, (problem, kind) in enumerate(problems):
                inner = bar if len(problems) == 1 else None  # every domain in turn: one bar over all of them
                how: Any = {"method": method, "C": C, "own": own, "seed": seed, "progress": inner}
                parts.append(estimate(problem, kind, **how))
                if inner is None:
                    bar("weighing", i + 1, len(problems))
        mix = merged(parts, data.names)
        voice.say(repr(mix))
        if out is not None or not as_json:
            write_alpha(mix, out)
        if as_json:
            print_json(
                {
                    "method": mix.method,
                    "columns": mix.columns,
                    "targets": {
                        name: {"alpha": mix.alpha[i], "gap": mix.gap[i], "status": str(mix.status[i])}
                        for i, name in enumerate(mix.targets)
                    },
                    "notes": [*data.notes, *notes, *mix.notes],
                    "out": out and str(out),
                }
            )


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
    impute: asked.Impute = False,
    task: asked.Task = "auto",
    hypothesis: asked.HypothesisName = "auto",
    l2: asked.L2 = 1e-2,
    tol: asked.Tol = 1e-6,
    seed: asked.Seed = 0,
    force: asked.Force = False,
    as_json: asked.Json = False,
    quiet: asked.Quiet = False,
) -> None:
    """A certified model for every row of α: its columns name the sources, its rows the targets.

    Example: cuvee solve visits.csv --domain hospital --label readmitted --alpha alpha.csv --out models.safetensors
    """
    from cuvee.api import load_map
    from cuvee.api import solve as solve_models
    from cuvee.cli.alpha import read_alpha
    from cuvee.cli.models import as_dict, write_models
    from cuvee.cli.tables import Data, joined
    from cuvee.errors import MixtureError

    with speaking(quiet) as voice:
        options = asked.options(
            label=label,
            domain=domain,
            exclude=exclude,
            strict=strict,
            features=features,
            drop=drop,
            text=text,
            encoding=encoding,
            impute=impute,
            task=task,
            hypothesis=hypothesis,
            l2=l2,
            tol=tol,
            seed=seed,
        )
        check_out(out, force, (".safetensors",))
        given = read_alpha(alpha)
        given.check_named()
        data = Data.read(table, options)
        data.named(given.columns)
        given = given.ordered([name for name in data.names if name in given.columns])
        if given.own and given.targets is None:
            raise MixtureError("alpha weighs own samples but does not say whose: add a column 'target'")
        owners, notes = data.owners(given.columns, given.targets or ()) if given.own else ([], [])
        problem = joined(data.named(given.columns), owners)
        kind = data.hypothesis(problem)
        atlas = None if map_file is None else load_map(map_file, problem, kind)
        data.tell(voice, *notes)
        with voice.bar() as bar:
            if atlas is None:
                sol = solve_models(problem, kind, given.alpha, tol=tol, seed=seed, progress=bar)
            else:
                sol = atlas(given.alpha, tol=tol, progress=bar)
        write_models(out, data, given, sol)
        if as_json:
            print_json({**as_dict(data, given, sol), "notes": [*data.notes, *notes], "out": str(out)})
            return
        bounds = zip(sol.certificate.distance, sol.certificate.excess_risk, strict=True)
        rows = [
            (name, str(status), f"{distance:.2g}", f"{excess:.2g}")
            for name, status, (distance, excess) in zip(given.rows, sol.status, bounds, strict=True)
        ]
        print_table(("model", "status", "‖w − w*‖ ≤", "excess risk ≤"), rows, repr(sol).partition("\n")[0], str(out))
        show(f"bounds rest on: {sol.certificate.rests_on}\nmodels: {out}")
