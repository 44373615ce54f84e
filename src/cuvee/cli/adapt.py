"""`cuvee adapt`, `resume`, `predict` and `report`: one table in, a folder with a model per target
out.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cuvee.cli import options as asked
from cuvee.cli.console import one_line, show, speaking
from cuvee.cli.output import check_out, print_json, print_table, print_text, write_frame
from cuvee.outputs.visible import visible

if TYPE_CHECKING:
    from cuvee.run import Run, SavedModels

TOP, LEAST = 3, 0.005  # sources of a target that are shown
LONGEST = 60  # characters of what a target learns from
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
Importance = Annotated[
    bool,
    typer.Option(
        "--importance",
        help="Also permute each column of the test rows, to see how much the scores need it.",
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
Replace = Annotated[
    bool,
    typer.Option("--force", help="Replace a run that is in the folder, once the table is read."),
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
    C: asked.C = None,
    metric: asked.Metric = "auto",
    importance: Importance = False,
    alpha: AlphaFile = None,
    test: TestShare = 0.25,
    labelled: LabelledRows = None,
    tol: asked.Tol = 1e-6,
    seed: asked.Seed = 0,
    on: On = None,
    mlflow: MLflow = None,
    force: Replace = False,
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
            model=model, budget=budget, l2=l2, method=method, C=C, metric=metric,
            importance=importance, test=test,
            labelled=labelled, tol=tol, seed=seed, on=on,
        )  # fmt: skip
        voice.hint = lambda: _how_to_resume(out, hypothesis=hypothesis, on=on)
        with voice.bar() as bar:
            run = runs.adapt(
                table, out, options=options, alpha=alpha, force=force, progress=bar, say=voice.note
            )
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
            help="ray:HOST:PORT of the cluster to go on at, which must be named again; or ray.",
            show_default=False,
        ),
    ] = None,
    hypothesis: asked.NamedCode = None,
    as_json: asked.Json = False,
    quiet: asked.Quiet = False,
) -> None:
    """Go on with a run that was cut; one that is finished is only shown.

    Example: cuvee resume run
    """
    from cuvee import run as runs

    how = {"on": on, "hypothesis": hypothesis}
    with speaking(quiet) as voice:
        voice.hint = lambda: _how_to_resume(folder, **how)
        with voice.bar() as bar:
            run = runs.resume(folder, **how, progress=bar, say=voice.note)
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
    hypothesis: asked.NamedCode = None,
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
        # columns that are kept come before the prediction, probabilities after it; classes and
        # what is kept stay as they are
        told = answers.columns[answers.columns.get_loc("prediction") :]
        write_frame(_in_nine_digits(answers, told[1:] if len(told) > 1 else told), out)
        if out is not None:
            whose = (
                "each by the model of its domain"
                if target is None
                else f"by the model of {target!r}"
            )
            voice.note(f"{len(answers):,} rows, predicted {whose}: {out}")


def explain(
    models: Annotated[
        Path,
        typer.Argument(
            metavar="MODELS", help="The folder that cuvee adapt wrote, or the file of cuvee solve."
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="CSV or Parquet to write, by its suffix; by default stdout."
        ),
    ] = None,
    target: Annotated[
        str | None, typer.Option(metavar="NAME", help="One target alone; by default all.")
    ] = None,
    hypothesis: asked.NamedCode = None,
    force: asked.Force = False,
    quiet: asked.Quiet = False,
) -> None:
    """Write what models go by: coefficients by column, and how much scores need each column.

    Example: cuvee explain run --out columns.csv
    """
    with speaking(quiet):
        if out is not None:
            check_out(out, force, (".csv", ".parquet"))
        said = _models(models, hypothesis).explain(target)
        write_frame(_in_nine_digits(said, said.select_dtypes("number").columns), out)


def _in_nine_digits(frame: Any, columns: Sequence[str]) -> Any:
    """Return a frame whose numbers in these columns have no more digits than they are worth."""
    from cuvee.run.scores import rounded

    return frame.assign(**{name: rounded(frame[name].to_numpy()) for name in columns})


def _models(path: Path, hypothesis: str | None) -> Run | SavedModels:
    """Return what predicts: a run, or the models of a file."""
    from cuvee.errors import InputError
    from cuvee.run import load_models, open_run

    if os.path.isfile(path):
        return load_models(path, hypothesis=hypothesis)
    if not os.path.exists(path):
        raise InputError(f"there is no folder and no file {path}; is the name right?")
    return open_run(path, hypothesis=hypothesis)


def report(
    folder: RunFolder,
    hypothesis: asked.NamedCode = None,
    as_json: asked.Json = False,
    quiet: asked.Quiet = False,
) -> None:
    """Write the report of a run once more, and say where it is.

    Example: cuvee report run
    """
    from cuvee.run import open_run

    with speaking(quiet):
        path = open_run(folder, hypothesis=hypothesis).report()
        if as_json:
            print_json({"report": str(path)})
        else:
            show(path)


def _how_to_resume(folder: Path, **named: str | None) -> str:
    """Return what to type next; code that the folder names has to be named again."""
    if not os.path.isfile(folder / "manifest.json"):
        return "; nothing was written"
    code = [f" --{option} {quote(name)}" for option, name in named.items() if name and ":" in name]
    return f"; go on with: cuvee resume {folder}{''.join(code)}"


def _show(run: Run, as_json: bool) -> None:
    """Print the targets, what was found, and where the report is."""
    from cuvee.data.metrics import ACCURACY, BALANCED, METRICS
    from cuvee.report.cautions import gravest
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
        )
        for i, (target, alpha) in enumerate(results["alpha"].items())
    ]
    balanced = balanced if results["metric"] == ACCURACY else [None] * len(balanced)
    fair = any(one and one[0] is not None for one in balanced)
    metric = f"{results['metric']} (balanced)" if fair else results["metric"]
    columns = ("target", "learns from", metric, "best baseline")
    print_table(
        columns,
        rows,
        f"{len(rows)} {'target' if len(rows) == 1 else 'targets'}",
        str(run.path / "alpha.csv"),
    )
    for sentence in run.summary().splitlines():
        print_text(one_line(sentence))
    if beside := [
        f"{name} {also[name]['mean'][0]:.3f}{partly(run.findings, name)}"
        for name in METRICS
        if name in also and also[name]["scored"]
    ]:
        print_text(f"Beside {results['metric']}, on average: {', '.join(beside)}.")
    if said := run.expectation():
        print_text(one_line(said))
    if worry := gravest(run.findings):
        print_text(one_line(worry))
    show(f"report: {results['report']}")


def _heaviest(alpha: Mapping[str, float]) -> str:
    """Return the first few sources that weigh something, and how many more do, in 60 characters."""
    heaviest = sorted(
        (item for item in alpha.items() if item[1] >= LEAST), key=lambda item: -item[1]
    )
    for top in range(min(TOP, len(heaviest)), 0, -1):
        more = [f"{len(heaviest) - top} more"] if len(heaviest) > top else []
        said = "; ".join([*(f"{visible(name)} {a:.2f}" for name, a in heaviest[:top]), *more])
        if len(said) <= LONGEST:
            return said
    if not heaviest:
        return ""
    name, rest = visible(heaviest[0][0]), said[len(visible(heaviest[0][0])) :]
    return f"{name[: LONGEST - len(rest) - 1]}…{rest}"


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
