"""`cuvee learn`, `cuvee plan` and `cuvee online`: models for mixtures that nobody solved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from cuvee import names
from cuvee.cli import options as asked
from cuvee.cli.console import show, speaking
from cuvee.cli.output import PICTURES, check_out, print_json

if TYPE_CHECKING:
    from cuvee.api import ModelMap
    from cuvee.data.opened import OpenedTable
    from cuvee.data.options import Options
    from cuvee.hypothesis import Hypothesis
    from cuvee.problem import Domain

OutMap = Annotated[
    Path, typer.Option("--out", metavar="FILE", help="Safetensors file to write the map to.")
]
MapTol = Annotated[
    float,
    typer.Option(
        "--tol", metavar="X", help="On the gradient ‖∇‖∞ of the models that the map gives."
    ),
]
Sample = Annotated[
    str | None,
    typer.Option(
        "--mixtures", metavar="FILE", help="CSV of weights like those to come; - reads stdin."
    ),
]
Concentration = Annotated[
    float,
    typer.Option(
        metavar="X",
        help="Of the Dirichlet law that mixtures are drawn from: 1 is uniform, less is sparser.",
    ),
]
MapMethod = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help=f"What the map is: {', '.join(get_args(names.MapMethod))}; see docs/maps.md.",
    ),
]
Stream = Annotated[
    str,
    typer.Option(
        metavar="FILE", help="CSV of weights, a row per round; its columns name the sources."
    ),
]
OutOnline = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Safetensors file to write the map to, as it is at the end."),
]
Checkpoint = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Kept while it runs; if it is there, the run goes on from it."
    ),
]
Budget = Annotated[
    float, typer.Option(metavar="X", help="Share of the rounds that may be paid for with a solve.")
]
Variant = Annotated[
    str, typer.Option(metavar="NAME", help="auto, paper, paper_repaired, first_order or curved.")
]
Policy = Annotated[str, typer.Option(metavar="NAME", help="auto, coin, budget or certificate.")]
Evaluate = Annotated[
    bool, typer.Option("--evaluate", help="Also solve every round, to know the loss.")
]
Picture = Annotated[Path | None, typer.Option(metavar="FILE", help="Also draw it into this PNG.")]


def learn(
    table: asked.TableFile,
    out: OutMap,
    domain: asked.DomainColumn = None,
    label: asked.LabelColumn = "label",
    targets: asked.NotSources = None,
    method: MapMethod = "auto",
    labels: Annotated[
        int, typer.Option(metavar="N", help="Mixtures to solve and learn from.")
    ] = 256,
    tol: MapTol = 1e-3,
    mixtures: Sample = None,
    concentration: Concentration = 1.0,
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
    seed: asked.Seed = 0,
    force: asked.Force = False,
    as_json: asked.Json = False,
    quiet: asked.Quiet = False,
) -> None:
    """Learn the map from weights to models, for cuvee solve --map and cuvee.load_map.

    Example: cuvee learn visits.csv --domain hospital --label readmitted --targets new --out
    map.safetensors
    """
    from cuvee.api import learn as learn_map
    from cuvee.learn import registry

    with speaking(quiet) as voice:
        options = asked.of_all_rows(
            label=label, domain=domain, exclude=exclude, strict=strict, features=features,
            drop=drop, text=text, encoding=encoding, missing=missing,
            impute=impute, standardise=standardise,
            levels=levels, task=task, hypothesis=hypothesis, l2=l2, seed=seed,
        )  # fmt: skip
        registry.find(method)
        check_out(out, force, (".safetensors",))
        sources, kind, notes = _prepared(table, options, lambda opened: opened.others(targets))
        sample = _sample(mixtures, [s.name for s in sources], voice)
        voice.tell(notes)
        with voice.bar() as bar:
            how: Any = {
                "mixtures": sample,
                "concentration": concentration,
                "seed": seed,
                "progress": bar,
            }
            how["method"] = method
            atlas = learn_map(sources, kind, n_labels=labels, tol=tol, **how)
        atlas.save(out)
        if as_json:
            print_json(
                _map(atlas, [s.name for s in sources], tol) | {"notes": notes, "out": str(out)}
            )
        else:
            show(f"{atlas!r}\nmap: {out}")


def plan(
    table: asked.TableFile,
    n_targets: Annotated[int, typer.Option(metavar="N", help="How many models are wanted.")],
    domain: asked.DomainColumn = None,
    label: asked.LabelColumn = "label",
    targets: asked.NotSources = None,
    tol: MapTol = 1e-3,
    mixtures: Sample = None,
    concentration: Concentration = 1.0,
    picture: Picture = None,
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
    seed: asked.Seed = 0,
    force: asked.Force = False,
    as_json: asked.Json = False,
    quiet: asked.Quiet = False,
) -> None:
    """Measure whether to solve or to learn for so many targets, and answer in two sentences.

    Example: cuvee plan visits.csv --domain hospital --label readmitted --targets new --n-targets
    10000
    """
    from cuvee.api import plan as make_plan

    with speaking(quiet) as voice:
        options = asked.of_all_rows(
            label=label, domain=domain, exclude=exclude, strict=strict, features=features,
            drop=drop, text=text, encoding=encoding, missing=missing,
            impute=impute, standardise=standardise,
            levels=levels, task=task, hypothesis=hypothesis, l2=l2, seed=seed,
        )  # fmt: skip
        if picture is not None:
            check_out(picture, force, PICTURES, "--picture")
        sources, kind, notes = _prepared(table, options, lambda opened: opened.others(targets))
        sample = _sample(mixtures, [s.name for s in sources], voice)
        voice.tell(notes)
        how: Any = {"mixtures": sample, "concentration": concentration, "seed": seed}
        planned = make_plan(sources, kind, n_targets=n_targets, tol=tol, **how)
        if picture is not None:
            planned.draw(picture)
        if as_json:
            print_json(_plan(planned, n_targets, tol) | {"notes": notes})
        else:
            show(planned)


def online(
    table: asked.TableFile,
    stream: Stream,
    domain: asked.DomainColumn = None,
    label: asked.LabelColumn = "label",
    out: OutOnline = None,
    checkpoint: Checkpoint = None,
    budget: Budget = 0.1,
    variant: Variant = "auto",
    policy: Policy = "auto",
    tol: MapTol = 3e-3,
    evaluate: Evaluate = False,
    picture: Picture = None,
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
    seed: asked.Seed = 0,
    force: asked.Force = False,
    as_json: asked.Json = False,
    quiet: asked.Quiet = False,
) -> None:
    """Predict models for targets that arrive one by one; show at the end what that cost.

    Example: cuvee online visits.csv --domain hospital --label readmitted --stream alpha.csv --out
    online.safetensors
    """
    from cuvee.api import OnlineMap, run_online
    from cuvee.cli.alpha import read_alpha

    with speaking(quiet) as voice:
        options = asked.of_all_rows(
            label=label, domain=domain, exclude=exclude, strict=strict, features=features,
            drop=drop, text=text, encoding=encoding, missing=missing,
            impute=impute, standardise=standardise,
            levels=levels, task=task, hypothesis=hypothesis, l2=l2, seed=seed,
        )  # fmt: skip
        _check_outs(out, checkpoint, picture, force)
        given, note = read_alpha(stream).of_sources()
        sources, kind, notes = _prepared(table, options, lambda opened: opened.named(given.columns))
        given = given.ordered([s.name for s in sources])
        voice.hint = lambda: (
            f"; the same command goes on from {checkpoint}" if _is_file(checkpoint) else ""
        )
        voice.tell([*notes, *([note] if note else [])])
        how: Any = {"variant": variant, "policy": policy, "evaluate": evaluate, "seed": seed}
        with voice.bar() as bar:
            learner = OnlineMap(sources, kind, label_budget=budget, tol=tol, **how)
            ledger = run_online(
                given.alpha, learner, checkpoint=checkpoint, picture=picture, progress=bar
            )
        voice.tell(ledger.notes)
        if out is not None:
            learner.save(out)
        if as_json:
            print_json(
                _rounds(ledger) | {"notes": [*notes, *ledger.notes], "out": out and str(out)}
            )
        else:
            show(ledger if out is None else f"{ledger}\nmap: {out}")


def _check_outs(
    out: Path | None, checkpoint: Path | None, picture: Path | None, force: bool
) -> None:
    """Raise an error unless all that a stream writes can be written."""
    if out is not None:
        check_out(out, force, (".safetensors",))
    if checkpoint is not None:  # one that is there is gone on from
        check_out(checkpoint, force=True, option="--checkpoint")
    if picture is not None:
        check_out(picture, force, PICTURES, "--picture")


def _is_file(path: Path | None) -> bool:
    return path is not None and path.is_file()


def _map(atlas: ModelMap, sources: Sequence[str], tol: float) -> dict[str, Any]:
    """Return what was learnt, for JSON."""
    plan = atlas.plan
    return {
        "sources": sources,
        "method": plan.method,
        "status": str(atlas.status),
        "labels": plan.n_labels,
        "tol": tol,
        "why": plan.why,
        "seconds": plan.seconds,
    }


def _plan(planned: Any, n_targets: int, tol: float) -> dict[str, Any]:
    """Return what is cheaper, for JSON."""
    return {
        "choice": planned.choice,
        "why": str(planned),
        "n_targets": n_targets,
        "tol": tol,
        "method": planned.method,
        "labels": planned.n_labels,
        "solve_seconds": planned.solve(n_targets),
        "learn_seconds": planned.learn(n_targets),
        "crossing": planned.crossing,
        "seconds": planned.seconds,
    }


def _rounds(ledger: Any) -> dict[str, Any]:
    """Return what a stream cost, for JSON."""
    names = ("rounds", "labels", "failed", "centres", "looks", "average_loss")
    return {name: getattr(ledger, name) for name in names}


def _prepared(
    table: Path, options: Options, chosen: Callable[[OpenedTable], list[str]]
) -> tuple[Sequence[Domain], Hypothesis, tuple[str, ...]]:
    """Return the chosen sources of a table, at one level, with their hypothesis and notes."""
    from cuvee.data.blends import of_sources
    from cuvee.data.opened import decodable, open_table

    with decodable():
        opened = open_table(table, options)
        prepared = of_sources(opened, chosen(opened))
    return (
        prepared.group(prepared.members[0]).problem.sources,
        prepared.hypothesis(prepared.members[0]),
        (prepared.inferred.why, *prepared.notes),
    )


def _sample(path: str | None, sources: list[str], voice: Any) -> Any:
    """Return weights like those to come, in the order of the sources; None without a file."""
    from cuvee.cli.alpha import read_alpha
    from cuvee.errors import MixtureError

    if path is None:
        return None
    given, note = read_alpha(path).of_sources()
    try:
        given = given.ordered(sources)
    except MixtureError as error:
        raise MixtureError(
            f"--mixtures: {error}, or name who is not a source in --targets"
        ) from None
    if note:
        voice.note(note)
    return given.alpha
