"""`cuvee mix fit | best | next | plan | report`: the mixture to train on, from small runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cuvee.cli import options as asked
from cuvee.cli.console import show, speaking
from cuvee.cli.output import check_out, print_json, print_table, write_file, write_frame
from cuvee.errors import InputError, OptionError

if TYPE_CHECKING:
    from cuvee.mix import Constraints, Proposal, Surface

SURFACE = "surface.safetensors"  # in the folder that `fit` writes

app = typer.Typer(
    help="Find the best data mixture for a training run from a few small ones.",
    no_args_is_help=True,
)

Folder = Annotated[Path, typer.Argument(help="Folder that cuvee mix fit wrote.")]
Pairs = list[str] | None


def _allowed(help_: str, metavar: str = "NAME=X") -> Any:
    """Return an option on what is allowed."""
    return typer.Option(metavar=metavar, rich_help_panel="What is allowed", help=help_)


def _wanted(help_: str, metavar: str = "NAME=X") -> Any:
    """Return an option on what is wanted."""
    return typer.Option(metavar=metavar, rich_help_panel="What is wanted", help=help_)


Tokens = Annotated[
    Pairs, _allowed("Tokens that a domain has, in the unit of --budget; may be repeated.")
]
Budget = Annotated[float | None, _allowed("Tokens of the training run.", "X")]
Repeat = Annotated[float, _allowed("How often a domain's tokens may be seen.", "X")]
Fixed = Annotated[Pairs, _allowed("Share that is fixed; may be repeated.")]
Minimum = Annotated[
    Pairs, _allowed("Least share of a domain, or X alone for all; may be repeated.")
]
Maximum = Annotated[
    Pairs, _allowed("Largest share of a domain, or X alone for all; may be repeated.")
]
Minimise = Annotated[
    Pairs,
    _wanted(
        "Metric to minimise, with a weight; may be repeated. By default all, equally.", "NAME[=X]"
    ),
]
Worst = Annotated[
    bool,
    typer.Option(
        "--worst",
        rich_help_panel="What is wanted",
        help="Minimise the worst of them, not their mean.",
    ),
]
Keep = Annotated[
    Pairs,
    _wanted("What a metric must stay below (above, if maximised); may be repeated."),
]
Prior = Annotated[Path | None, _wanted("JSON of a mixture to compare with.", "FILE")]
Pull = Annotated[float, _wanted("Strength of the pull to --prior.", "X")]
Risk = Annotated[float, _wanted("0 minimises the mean, 1 the upper end of its interval.", "X")]
Scale = Annotated[
    str | None, typer.Option(metavar="NAME", help="Scale to predict; by default the largest.")
]
Count = Annotated[int, typer.Option("--runs", "-k", metavar="N", help="How many runs.")]
OutTable = Annotated[
    Path | None, typer.Option("--out", metavar="FILE", help="CSV or Parquet; by default stdout.")
]


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

    Rows are joined on a column run, run_id or index. Runs with gaps are left out, and that is said.

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
        rows = [
            (f.metric, f"{f.error:.4g}", f"{f.explained:.0%}", f"{f.rank:.2f}")
            for f in surface.fits
        ]
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
    minimise: Minimise = None,
    worst: Worst = False,
    keep: Keep = None,
    tokens: Tokens = None,
    budget: Budget = None,
    repeat: Repeat = 1.0,
    fixed: Fixed = None,
    minimum: Minimum = None,
    maximum: Maximum = None,
    prior: Prior = None,
    pull: Pull = 0.0,
    risk: Risk = 0.25,
    scale: Scale = None,
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
            minimise=_weights(minimise), worst=worst, keep=_pairs("--keep", keep) or None,
            constraints=_limits(tokens, budget, repeat, fixed, minimum, maximum),
            prior=_prior(prior), pull=pull, risk=risk, scale=scale, seed=seed,
        )  # fmt: skip
        voice.tell(proposal.notes)
        if out is not None:
            content = written(proposal.weights, shape, out.suffix)
            write_file(out, lambda unfinished: unfinished.write_text(content, encoding="utf-8"))
        if as_json:
            print_json(_proposed(proposal))
            return
        order = sorted(proposal.weights.items(), key=lambda item: -item[1])
        print_table(("domain", "share"), [(n, f"{w:.4f}") for n, w in order], "The proposal:")
        show(_in_words(proposal))


@app.command("next")
def next_(
    folder: Folder,
    runs: Count = 8,
    out: OutTable = None,
    minimise: Minimise = None,
    worst: Worst = False,
    tokens: Tokens = None,
    budget: Budget = None,
    repeat: Repeat = 1.0,
    fixed: Fixed = None,
    minimum: Minimum = None,
    maximum: Maximum = None,
    scale: Scale = None,
    seed: asked.Seed = 0,
    force: asked.Force = False,
    quiet: asked.Quiet = False,
) -> None:
    """Choose the next runs: those expected to improve the proposal most, each with its reason.

    Example: cuvee mix next mix --runs 4 --out next.csv
    """
    with speaking(quiet):
        if out is not None:
            check_out(out, force, (".csv", ".parquet"))
        limits = _limits(tokens, budget, repeat, fixed, minimum, maximum)
        plan = _open(folder).next_runs(
            runs, minimise=_weights(minimise), worst=worst, constraints=limits, scale=scale,
            seed=seed,
        )  # fmt: skip
        write_frame(plan.to_frame(), out)


@app.command()
def plan(
    domains: Annotated[list[str], typer.Option(metavar="NAMES", help="Names of domains, a,b.")],
    runs: Count = 32,
    out: OutTable = None,
    tokens: Tokens = None,
    budget: Budget = None,
    repeat: Repeat = 1.0,
    fixed: Fixed = None,
    minimum: Minimum = None,
    maximum: Maximum = None,
    prior: Prior = None,
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
        limits = _limits(tokens, budget, repeat, fixed, minimum, maximum)
        made = first_runs(
            asked.names(domains), runs, constraints=limits, prior=_prior(prior), seed=seed
        )
        write_frame(made.to_frame(), out)


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
    minimise: Minimise = None,
    tokens: Tokens = None,
    budget: Budget = None,
    repeat: Repeat = 1.0,
    fixed: Fixed = None,
    minimum: Minimum = None,
    maximum: Maximum = None,
    prior: Prior = None,
    force: asked.Force = False,
    quiet: asked.Quiet = False,
) -> None:
    """Write a report of one page: fits, the proposal, sensitivities, the front, the next runs.

    Example: cuvee mix report mix
    """
    with speaking(quiet):
        from cuvee.mix.report import render

        where = out or folder / "report.html"
        surface = _open(folder)
        check_out(where, force, (".html",))
        page = render(
            surface, title=folder.resolve().name, minimise=_weights(minimise),
            constraints=_limits(tokens, budget, repeat, fixed, minimum, maximum),
            prior=_prior(prior), trade=asked.names(trade) or None,
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


def _pairs(option: str, given: Sequence[str] | None) -> dict[str, float]:
    """Return NAME=X pairs as a dictionary; the last "=" counts, as names may hold others."""
    pairs = {}
    for pair in given or ():
        name, equals, value = pair.rpartition("=")
        try:
            if not equals:
                raise ValueError
            pairs[name] = float(value)
        except ValueError:
            raise OptionError(f"{option} {pair}: write NAME=NUMBER, such as web=0.2") from None
    return pairs


def _limit(option: str, given: Sequence[str] | None) -> float | dict[str, float]:
    """Return NAME=X pairs, or the one number for all domains."""
    if given and len(given) == 1 and "=" not in given[0]:
        try:
            return float(given[0])
        except ValueError:
            raise OptionError(f"{option} {given[0]}: write a number, or NAME=NUMBER") from None
    return _pairs(option, given)


def _weights(given: Sequence[str] | None) -> dict[str, float] | None:
    """Return the metrics to minimise with their weights; 1 where none is given."""
    if not given:
        return None
    return _pairs("--minimise", [one if "=" in one else f"{one}=1" for one in given])


def _limits(
    tokens: Pairs, budget: float | None, repeat: float, fixed: Pairs, minimum: Pairs, maximum: Pairs
) -> Constraints:
    from cuvee.mix import Constraints

    return Constraints(
        tokens=_pairs("--tokens", tokens), budget=budget, repeat=repeat,
        fixed=_pairs("--fixed", fixed), minimum=_limit("--minimum", minimum),
        maximum=_limit("--maximum", maximum),
    )  # fmt: skip


def _prior(path: Path | None) -> dict[str, float] | None:
    from cuvee.mix.weights_file import read_weights

    return None if path is None else read_weights(path)


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
                "error": f.error, "explained": f.explained, "rank": f.rank, "shares": f.shares,
            }
            for f in surface.fits
        },
    }  # fmt: skip


def _proposed(proposal: Proposal) -> dict[str, Any]:
    """Return the proposal, for JSON."""
    p = proposal.prediction
    return {
        "weights": proposal.weights,
        "value": proposal.value,
        "high": proposal.high,
        "disappointment": proposal.disappointment,
        "compared": dict(proposal.compared),
        "repeats": dict(proposal.repeats),
        "notes": proposal.notes,
        "metrics": {
            name: {"mean": p.mean[0, k], "low": p.low[0, k], "high": p.high[0, k]}
            for k, name in enumerate(p.metrics)
        },
    }


def _in_words(proposal: Proposal) -> str:
    others = ", ".join(f"{name} {value:.4g}" for name, value in proposal.compared.items())
    return (
        f"Expected {proposal.value:.4g}, at most {proposal.high:.4g} at the end of its interval; "
        f"likely to turn out worse by {proposal.disappointment:.2g}, for it was chosen for looking "
        f"good. Others: {others}."
    )
