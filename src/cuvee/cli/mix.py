"""`cuvee mix plan | fit | best | next | report`: the mixture to train on, from small runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cuvee.cli import mix_options as of
from cuvee.cli import options as asked
from cuvee.cli.console import show, speaking
from cuvee.cli.output import check_out, print_json, print_table, write_file, write_frame
from cuvee.errors import InputError, OptionError

if TYPE_CHECKING:
    from cuvee.mix import Proposal, Surface

SURFACE = "surface.safetensors"  # in the folder that `fit` writes

app = typer.Typer(
    help="Find the best data mixture for a training run from a few small ones.",
    no_args_is_help=True,
)

Folder = Annotated[Path, typer.Argument(help="Folder that cuvee mix fit wrote.")]


@app.command()
def plan(
    domains: Annotated[list[str], typer.Option(metavar="NAMES", help="Names of domains, a,b.")],
    runs: of.Count = 32,
    out: of.OutTable = None,
    tokens: of.Tokens = None,
    budget: of.Budget = None,
    repeat: of.Repeat = 1.0,
    fixed: of.Fixed = None,
    minimum: of.Minimum = None,
    maximum: of.Maximum = None,
    prior: of.Prior = None,
    seed: asked.Seed = 0,
    force: asked.Force = False,
    quiet: asked.Quiet = False,
) -> None:
    """Plan the first runs, when nothing is known yet.

    Example: cuvee mix plan --domains web,code,books --runs 12 --out plan.csv
    """
    with speaking(quiet):
        from cuvee.mix import first_runs

        if out is not None:
            check_out(out, force, (".csv", ".parquet"))
        limits = of.limits(tokens, budget, repeat, fixed, minimum, maximum)
        made = first_runs(
            asked.names(domains),
            of.count(runs),
            constraints=limits,
            prior=of.prior_of(prior),
            seed=seed,
        )
        write_frame(made.to_frame(), out)


@app.command()
def fit(
    ratios: Annotated[Path, typer.Argument(help="Table with a row per run, a column per domain.")],
    metrics: Annotated[Path, typer.Argument(help="Table with a row per run, a column per metric.")],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder to write to.")],
    maximise: Annotated[
        list[str] | None,
        typer.Option(metavar="NAMES", help="Metrics that are better when larger, a,b."),
    ] = None,
    candidates: Annotated[
        list[str] | None,
        typer.Option(metavar="NAMES", help="Candidates to average, a,b; see docs/mix.md."),
    ] = None,
    level: Annotated[float, typer.Option(metavar="X", help="Of the intervals.")] = 0.9,
    seed: asked.Seed = 0,
    force: asked.Force = False,
    as_json: asked.Json = False,
    quiet: asked.Quiet = False,
) -> None:
    """Fit the surface from mixtures to metrics.

    Rows are joined on a column run, run_id or index of both tables, or else by their order. Runs
    with gaps are left out, and that is said.

    Example: cuvee mix fit ratios.csv metrics.csv --out mix
    """
    with speaking(quiet) as voice:
        from cuvee.mix import fit_surface
        from cuvee.mix.tables import read_table

        _check_folder(out, force)
        left, said = read_table(ratios)
        right, more = read_table(metrics)
        voice.tell((*said, *more))
        with voice.bar() as bar:
            surface = fit_surface(
                left, right, maximise=asked.names(maximise),
                candidates=asked.names(candidates) or None, level=level, seed=seed, progress=bar,
            )  # fmt: skip
        voice.tell(surface.notes)
        out.mkdir(exist_ok=True)
        surface.save(out / SURFACE)
        if as_json:
            print_json(_fitted(surface))
            return
        rows = [(f.metric, f"{f.error:.4g}", *f.in_words()) for f in surface.fits]
        print_table(("metric", "error", "explained", "rank"), rows, _title(surface))
        show(f"The surface is in {out / SURFACE}.")


@app.command()
def best(
    folder: Folder,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="JSON or YAML of the weights.")
    ] = None,
    shape: Annotated[
        str,
        typer.Option(metavar="NAME", help="Of that file: mapping, sources, streams or blend."),
    ] = "mapping",
    minimise: of.Minimise = None,
    worst: of.Worst = False,
    keep: of.Keep = None,
    tokens: of.Tokens = None,
    budget: of.Budget = None,
    repeat: of.Repeat = 1.0,
    fixed: of.Fixed = None,
    minimum: of.Minimum = None,
    maximum: of.Maximum = None,
    prior: of.Prior = None,
    pull: of.Pull = 0.0,
    risk: of.Risk = 0.25,
    scale: of.Scale = None,
    seed: asked.Seed = 0,
    force: asked.Force = False,
    as_json: asked.Json = False,
    quiet: asked.Quiet = False,
) -> None:
    """Propose the mixture to train on, and write it as a file of weights.

    Example: cuvee mix best mix --maximum 0.5 --out weights.json
    """
    with speaking(quiet) as voice:
        from cuvee.mix.weights_file import JSON, YAML, written

        if out is not None:
            check_out(out, force, JSON + YAML)
        surface = _open(folder)
        proposal = surface.best(
            minimise=of.weights(minimise), worst=worst, keep=of.pairs("--keep", keep) or None,
            constraints=of.limits(tokens, budget, repeat, fixed, minimum, maximum),
            prior=of.prior_of(prior), pull=pull, risk=risk, scale=scale, seed=seed,
        )  # fmt: skip
        voice.tell((*surface.notes, *proposal.notes))
        if out is not None:
            content = written(proposal.weights, shape, out.suffix)
            write_file(out, lambda unfinished: unfinished.write_text(content, encoding="utf-8"))
        if as_json:
            print_json(_proposed(proposal, surface))
            return
        order = sorted(proposal.weights.items(), key=lambda item: -item[1])
        print_table(("domain", "share"), [(n, f"{w:.4f}") for n, w in order], "The proposal:")
        head = ("metric", "expected", "interval of a new run")
        print_table(head, _metrics(proposal), "Its metrics:")
        show(_in_words(proposal))


@app.command("next")
def next_(
    folder: Folder,
    runs: of.Count = 8,
    out: of.OutTable = None,
    minimise: of.Minimise = None,
    worst: of.Worst = False,
    keep: of.Keep = None,
    tokens: of.Tokens = None,
    budget: of.Budget = None,
    repeat: of.Repeat = 1.0,
    fixed: of.Fixed = None,
    minimum: of.Minimum = None,
    maximum: of.Maximum = None,
    prior: of.Prior = None,
    pull: of.Pull = 0.0,
    risk: of.Risk = 0.25,
    scale: of.Scale = None,
    seed: asked.Seed = 0,
    force: asked.Force = False,
    quiet: asked.Quiet = False,
) -> None:
    """Choose the next runs: those that tell most about which mixture is best, with reasons.

    The first is what cuvee mix best proposes with the same options.

    Example: cuvee mix next mix --runs 4 --out next.csv
    """
    with speaking(quiet) as voice:
        if out is not None:
            check_out(out, force, (".csv", ".parquet"))
        plan = _open(folder).next_runs(
            of.count(runs), minimise=of.weights(minimise), worst=worst,
            keep=of.pairs("--keep", keep) or None,
            constraints=of.limits(tokens, budget, repeat, fixed, minimum, maximum),
            prior=of.prior_of(prior), pull=pull, risk=risk, scale=scale, seed=seed,
        )  # fmt: skip
        voice.tell(plan.notes)
        write_frame(plan.to_frame(), out)


@app.command()
def report(
    folder: Folder,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="By default report.html in the folder."),
    ] = None,
    trade: Annotated[
        list[str] | None,
        typer.Option(metavar="NAMES", help="Two metrics for the front; by default the first two."),
    ] = None,
    minimise: of.Minimise = None,
    worst: of.Worst = False,
    keep: of.Keep = None,
    tokens: of.Tokens = None,
    budget: of.Budget = None,
    repeat: of.Repeat = 1.0,
    fixed: of.Fixed = None,
    minimum: of.Minimum = None,
    maximum: of.Maximum = None,
    prior: of.Prior = None,
    pull: of.Pull = 0.0,
    risk: of.Risk = 0.25,
    scale: of.Scale = None,
    seed: asked.Seed = 0,
    force: asked.Force = False,
    quiet: asked.Quiet = False,
) -> None:
    """Write a report of one page: fits, the proposal, sensitivities, the front, the next runs.

    The proposal is what cuvee mix best proposes with the same options.

    Example: cuvee mix report mix
    """
    with speaking(quiet):
        from cuvee.mix.report import render

        where = out or folder / "report.html"
        surface = _open(folder)
        check_out(where, force, (".html",))
        page = render(
            surface, title=folder.resolve().name, minimise=of.weights(minimise), worst=worst,
            keep=of.pairs("--keep", keep) or None,
            constraints=of.limits(tokens, budget, repeat, fixed, minimum, maximum),
            prior=of.prior_of(prior), pull=pull, risk=risk, scale=scale, seed=seed,
            trade=asked.names(trade) if trade else None,
        )  # fmt: skip
        write_file(where, lambda unfinished: unfinished.write_text(page, encoding="utf-8"))
        show(f"The report is in {where}.")


def _check_folder(out: Path, force: bool) -> None:
    """Raise `OptionError` unless a surface can be written to this folder."""
    if out.exists() and not out.is_dir():
        raise OptionError(f"--out {out}: it is a file; give the name of a folder")
    if not out.absolute().parent.is_dir():
        raise OptionError(f"--out {out}: there is no folder {out.absolute().parent}; make it first")
    if out.is_dir():
        check_out(out / SURFACE, force)


def _open(folder: Path) -> Surface:
    from cuvee.mix import load_surface

    if not (folder / SURFACE).is_file():
        raise InputError(f"{folder} holds no {SURFACE}: give a folder that cuvee mix fit wrote")
    return load_surface(folder / SURFACE)


def _title(surface: Surface) -> str:
    n, N = surface.runs.alpha.shape
    return f"{n} runs of {N} domains; on runs that were held out:"


def _fitted(surface: Surface) -> dict[str, Any]:
    """Return what was fitted, for JSON."""
    return {
        "runs": len(surface.runs),
        "domains": surface.domains,
        "scales": surface.scales,
        "notes": surface.notes,
        "metrics": {
            f.metric: {
                "error": f.error, "explained": f.explained, "rank": f.rank, "varies": f.varies,
                "shares": f.shares,
            }
            for f in surface.fits
        },
    }  # fmt: skip


def _proposed(proposal: Proposal, surface: Surface) -> dict[str, Any]:
    """Return the proposal, for JSON."""
    p = proposal.prediction
    return {
        "weights": proposal.weights,
        "value": proposal.value,
        "high": proposal.high,
        "disappointment": proposal.disappointment,
        "compared": dict(proposal.compared),
        "not_allowed": proposal.forbidden,
        "repeats": dict(proposal.repeats),
        "notes": (*surface.notes, *proposal.notes),
        "metrics": {
            name: {"mean": p.mean[0, k], "low": p.low[0, k], "high": p.high[0, k]}
            for k, name in enumerate(p.metrics)
        },
    }


def _metrics(proposal: Proposal) -> list[tuple[str, str, str]]:
    """Return what every metric is expected to be, and the interval of a new run."""
    p = proposal.prediction
    return [
        (name, f"{p.mean[0, k]:.4g}", f"{p.low[0, k]:.4g} to {p.high[0, k]:.4g}")
        for k, name in enumerate(p.metrics)
    ]


def _in_words(proposal: Proposal) -> str:
    luck = (
        f"; expect it to be about {proposal.disappointment:.2g} worse than predicted, because the "
        "mixture that looks best was chosen"
    )
    told = luck if proposal.disappoints else ""
    return f"{proposal.expected()}{told}. Others: {proposal.others()}."
