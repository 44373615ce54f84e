"""`cuvee adapt`, `resume`, `predict` and `report`: one table in, a folder with a model per target
out.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cuvee.cli import options as asked
from cuvee.cli.console import one_line, show, speaking
from cuvee.cli.output import check_out, print_json, print_table, print_text, write_frame

if TYPE_CHECKING:
    from cuvee.run import Run, SavedModels

TOP, LEAST = 3, 0.005  # sources of a target that are shown
Stream = Annotated[
    bool | None,
    typer.Option(
        "--stream/--no-stream",
        help="Read the table batch by batch, never whole; by default where it is large.",
        show_default=False,
    ),
]
On = Annotated[
    str | None,
    typer.Option(
        "--on",
        metavar="ENGINE",
        help="ray, or ray:HOST:PORT: keep the rows of a Parquet table on a Ray cluster's workers.",
        show_default=False,
    ),
]
AlphaFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="CSV of weights to use as they are, as cuvee weights writes it."
    ),
]
TestShare = Annotated[
    float,
    typer.Option(
        metavar="X",
        help="Share of a target's labelled rows for scores; delivered models learn from all.",
    ),
]
LabelledRows = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Labelled rows of a target to learn from; the others are for scores alone.",
    ),
]
MLflow = Annotated[
    str | None,
    typer.Option(metavar="URI", help="Also log the run to MLflow there: a server, or file:FOLDER."),
]
RunFolder = Annotated[
    Path, typer.Argument(metavar="DIR", help="The folder that cuvee adapt wrote.")
]


def adapt(
    table: asked.TableFile,
    targets: asked.Targets,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="New folder for everything that is found.")
    ],
    domain: asked.DomainColumn = None,
    label: asked.LabelColumn = "label",
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
    stream: Stream = None,
    task: asked.Task = "auto",
    hypothesis: asked.HypothesisName = "auto",
    model: asked.Model = "linear",
    budget: asked.Budget = None,
    l2: asked.L2 = 1e-2,
    method: asked.Method = "path",
    C: asked.C = 10.0,
    alpha: AlphaFile = None,
    test: TestShare = 0.25,
    labelled: LabelledRows = None,
    tol: asked.Tol = 1e-6,
    seed: asked.Seed = 0,
    on: On = None,
    mlflow: MLflow = None,
    as_json: asked.Json = False,
    quiet: asked.Quiet = False,
) -> None:
    """Make weights, models, scores and a report for every target, from one table.

    Example: cuvee adapt visits.csv --domain hospital --label readmitted --targets new --out run
    """
    from cuvee import run as runs

    with speaking(quiet) as voice:
        options = asked.options(
            label=label, domain=domain, targets=targets, exclude=exclude, strict=strict,
            features=features, drop=drop, text=text, encoding=encoding, missing=missing,
            impute=impute,
            standardise=standardise, levels=levels, stream=stream, task=task, hypothesis=hypothesis,
            model=model, budget=budget, l2=l2, method=method, C=C, test=test, labelled=labelled,
            tol=tol, seed=seed, on=on,
        )  # fmt: skip
        voice.hint = lambda: _how_to_resume(out)
        with voice.bar() as bar:
            run = runs.adapt(table, out, options=options, alpha=alpha, progress=bar, say=voice.note)
        if mlflow is not None:
            from cuvee.run.tracking import log_run

            voice.note(f"MLflow has it as run {log_run(run, mlflow)}")
        _show(run, as_json)


def resume(
    folder: RunFolder,
    on: Annotated[
        str | None,
        typer.Option(
            "--on",
            metavar="ENGINE",
            help="ray:HOST:PORT of another cluster than the run was begun on.",
            show_default=False,
        ),
    ] = None,
    as_json: asked.Json = False,
    quiet: asked.Quiet = False,
) -> None:
    """Go on with a run that was cut; one that is finished is only shown.

    Example: cuvee resume run
    """
    from cuvee import run as runs

    with speaking(quiet) as voice:
        voice.hint = lambda: _how_to_resume(folder)
        with voice.bar() as bar:
            run = runs.resume(folder, on=on, progress=bar, say=voice.note)
        for note in run.notes:
            voice.note(note)
        _show(run, as_json)


def predict(
    models: Annotated[
        Path,
        typer.Argument(
            metavar="MODELS", help="The folder that cuvee adapt wrote, or the file of cuvee solve."
        ),
    ],
    rows: Annotated[
        Path, typer.Argument(help="Table with the features that were learnt from, and the domain.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="CSV or Parquet to write, by its suffix; by default stdout."
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Whose model all rows get; by default that of their domain."
        ),
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(metavar="COLS", help="Columns to copy into the output, such as an id: a,b."),
    ] = None,
    text: asked.Text = None,
    hypothesis: Annotated[
        str | None,
        typer.Option(
            metavar="KIND",
            help="package.module:factory of a file's models, imported only if named here.",
        ),
    ] = None,
    encoding: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="How text files are encoded; by default as in the run."),
    ] = None,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict", help="A category that no training row has is an error, not a note."
        ),
    ] = False,
    force: asked.Force = False,
    quiet: asked.Quiet = False,
) -> None:
    """Predict new rows, and write the predictions as CSV or Parquet.

    Example: cuvee predict run visits.csv --target new --out predictions.csv
    """
    with speaking(quiet) as voice:
        if out is not None:
            check_out(out, force, (".csv", ".parquet"))
        lists: dict[str, Any] = {"keep": asked.names(keep), "text": asked.names(text)}
        answers = _models(models, hypothesis).predict(
            rows, target=target, **lists, encoding=encoding, strict=strict, say=voice.note
        )
        write_frame(answers, out)
        if out is not None:
            whose = (
                "each by the model of its domain"
                if target is None
                else f"by the model of {target!r}"
            )
            voice.note(f"{len(answers):,} rows, predicted {whose}: {out}")


def _models(path: Path, hypothesis: str | None) -> Run | SavedModels:
    """Return what predicts: a run, or the models of a file."""
    from cuvee.errors import InputError, OptionError
    from cuvee.run import load_models, open_run

    if os.path.isfile(path):
        return load_models(path, hypothesis=hypothesis)
    if not os.path.exists(path):
        raise InputError(f"there is no folder and no file {path}; is the name right?")
    if hypothesis is not None:
        raise OptionError("--hypothesis is for a file of models; a run has its own: leave it out")
    return open_run(path)


def report(folder: RunFolder, as_json: asked.Json = False, quiet: asked.Quiet = False) -> None:
    """Write the report of a run once more, and say where it is.

    Example: cuvee report run
    """
    from cuvee.run import open_run

    with speaking(quiet):
        path = open_run(folder).report()
        if as_json:
            print_json({"report": str(path)})
        else:
            show(path)


def _how_to_resume(folder: Path) -> str:
    begun = os.path.isfile(folder / "manifest.json")
    return f"; go on with: cuvee resume {folder}" if begun else "; nothing was written"


def _show(run: Run, as_json: bool) -> None:
    """Print the targets, what was found, and where the report is."""
    from cuvee.report.cautions import gravest
    from cuvee.report.findings import ALSO, BALANCED
    from cuvee.report.summary import partly

    results = run.as_dict()
    if as_json:
        print_json(results)
        return
    also = results.get("also", {})
    balanced = also[BALANCED]["scores"] if BALANCED in also else [None] * len(results["alpha"])
    rows = [
        (
            target,
            _heaviest(alpha),
            *_scores(
                results["scores"][i], results["methods"], results["higher_is_better"], balanced[i]
            ),
            _proven(results["status"][i], results["certificate"]["distance"][i]),
        )
        for i, (target, alpha) in enumerate(results["alpha"].items())
    ]
    fair = any(one and one[0] is not None for one in balanced)
    metric = f"{results['metric']} (balanced)" if fair else results["metric"]
    columns = ("target", "learns from", metric, "best baseline", "proven distance ≤")
    print_table(
        columns,
        rows,
        f"{len(rows)} {'target' if len(rows) == 1 else 'targets'}",
        str(run.path / "alpha.csv"),
    )
    print_text(one_line(run.summary()))
    if beside := [
        f"{name} {also[name]['mean'][0]:.3f}{partly(run.findings, name)}"
        for name in ALSO
        if name in also and also[name]["scored"]
    ]:
        print_text(f"Beside {results['metric']}, on average: {', '.join(beside)}.")
    if said := run.expectation():
        print_text(one_line(said))
    if worry := gravest(run.findings):
        print_text(one_line(worry))
    show(f"report: {results['report']}")


def _heaviest(alpha: Mapping[str, float]) -> str:
    """Return the first few sources that weigh something, and how many more do, in words."""
    heaviest = sorted(
        (item for item in alpha.items() if item[1] >= LEAST), key=lambda item: -item[1]
    )
    more = [f"{len(heaviest) - TOP} more"] if len(heaviest) > TOP else []
    return "; ".join([*(f"{name} {a:.2f}" for name, a in heaviest[:TOP]), *more])


def _scores(
    scores: Sequence[Sequence[float | None]],
    methods: Sequence[str],
    higher: bool,
    balanced: Sequence[float | None] | None,
) -> tuple[str, str]:
    """Return cuvee's own score, which comes first, and the best of the others, in words.

    Balanced accuracies stand in brackets.
    """
    from cuvee.report.summary import best_of

    ours, *others = (one[0] for one in scores)
    known = {k: value for k, value in enumerate(others, 1) if value is not None}
    best = best_of(known, methods, higher)
    fair = f" ({balanced[0]:.3f})" if balanced and balanced[0] is not None else ""
    return (
        "–" if ours is None else f"{ours:.3f}{fair}",
        "–" if best is None else f"{known[best]:.3f} {methods[best]}",
    )


def _proven(status: str, distance: float | None) -> str:
    """Return the bound in words, with the status where that is not a good one."""
    from cuvee.report.summary import is_bad
    from cuvee.results import Status

    if status == str(Status.FITTED):
        return "no certificate"
    bound = "not proven" if distance is None else f"{distance:.1e}"
    return f"{bound} ({status})" if is_bad(status) else bound
