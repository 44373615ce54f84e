"""`cuvee demo`, `cuvee bench` and `cuvee reproduce`: to see it work."""

from __future__ import annotations

import importlib
import json
import shutil
import sys
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import Annotated, Any

import typer

from cuvee.cli.console import show, speaking
from cuvee.cli.options import Force, Json, Quiet
from cuvee.cli.output import PICTURES, check_out, print_json, write_frame
from cuvee.errors import OptionError


def demo(
    seed: Annotated[int, typer.Option(metavar="N", help="Which images are drawn.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="New folder for the run; by default runs/demo."),
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="PNG of α and accuracies; by default beside the run."),
    ] = None,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run the paper's MNIST setting: 15 sources in 3 groups, 4 targets, a two-layer network.

    Example: cuvee demo --seed 1
    """
    from cuvee import demo as program

    if seed < 0:
        raise OptionError(f"--seed must be at least 0; got {seed}")
    with speaking(quiet):
        out = out or _unused(Path("runs/demo"))
        beside = out.with_name(f"{out.name}.png")
        if picture is not None or beside.exists():
            check_out(picture or beside, force, PICTURES, "--picture")
        result = program.run(out, seed, quiet=quiet or as_json)
        picture = picture or beside
        program.draw(result, picture)
        if as_json:
            print_json({**result.as_dict(), "picture": str(picture)})
        else:
            program.show(result, picture, _typed())


def _typed() -> str:
    """Return how this program was called, for a command to type next."""
    called = Path(sys.argv[0])
    return str(called) if called.name == "cuvee" and not shutil.which("cuvee") else "cuvee"


def _unused(path: Path) -> Path:
    """Return the path, or the first of path-2, path-3, … that is free, and so is its picture."""
    others = (path.with_name(f"{path.name}-{i}") for i in count(2))
    free = (p for p in chain([path], others) if not p.exists())
    return next(p for p in free if not p.with_name(f"{p.name}.png").exists())


def sample(
    out: Annotated[
        Path, typer.Argument(metavar="FILE", help="CSV or Parquet to write, by its suffix.")
    ],
    seed: Annotated[int, typer.Option(metavar="N", help="Which visits are drawn.")] = 0,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Write a table to try things on: 2,560 visits to 8 hospitals, made up.

    Example: cuvee sample made_up.csv
    """
    from cuvee.data.synthetic import visits

    with speaking(quiet):
        if seed < 0:
            raise OptionError(f"--seed must be at least 0; got {seed}")
        check_out(out, force, (".csv", ".parquet"), "FILE")
        write_frame(visits(seed), out)


def bench(
    name: Annotated[str, typer.Argument(help="A file or a folder of benchmarks/, without .py.")],
    more: Annotated[
        list[str] | None,
        typer.Argument(metavar="[OPTIONS OF IT]", help="Options of the benchmark itself, if any."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Smaller sizes, to see that it runs.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="On one line.")] = False,
) -> None:
    """Run a benchmark of this repository and print its ratios.

    Example: cuvee bench mixture --json
    """
    with speaking():
        benchmark = _of_the_clone("benchmarks", name)
        if more and not hasattr(benchmark, "options"):
            raise OptionError(f"the benchmark {name!r} has no options of its own: {' '.join(more)}")
        own = benchmark.options(more) if more else {}
        result = benchmark.run(quick=quick, **own)
        in_words = getattr(benchmark, "in_words", partial(json.dumps, indent=2))
        show(json.dumps(result) if as_json else in_words(result))


def reproduce(
    name: Annotated[str, typer.Argument(help="A file of experiments/, without .py.")],
    full: Annotated[
        bool,
        typer.Option(
            "--full", help="The setting whose results are published, instead of two minutes."
        ),
    ] = False,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Where its folder is made, or gone on with.")
    ] = Path("results"),
    jobs: Annotated[
        int, typer.Option(metavar="N", help="Processes that measure side by side.")
    ] = 1,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Try a claim of the paper: raw numbers, a figure, and a sentence on whether it held.

    Example: cuvee reproduce lipschitz --json
    """
    with speaking(quiet) as voice:
        if jobs < 1:
            raise OptionError(f"--jobs must be at least 1; got {jobs}")
        experiment = _of_the_clone("experiments", name)
        lab = importlib.import_module("experiments._lab")
        voice.hint = lambda: "; what was measured is kept, the same command goes on"
        with voice.bar() as bar:
            outcome = lab.reproduce(experiment, name, "full" if full else "quick", out, bar, jobs)
        if as_json:
            print_json(outcome)
        else:
            show(f"{outcome['title']}: {outcome['word']}. {outcome['sentence']}")
            if beside := outcome["published"]:
                show(
                    f"Published, with {beside['seeds']} seeds: {beside['word']}. "
                    f"{beside['sentence']}"
                )
            show(outcome["folder"])


def _of_the_clone(kind: str, name: str) -> Any:
    """Return the module KIND/NAME.py, or KIND/NAME/command.py, of the clone this runs in.

    Benchmarks and experiments are not part of the installed package.
    """
    folders = [Path(__file__).resolve().parents[3] / kind, Path.cwd() / kind]
    folder = next((f for f in folders if f.is_dir()), None)
    if folder is None:
        raise OptionError(f"{kind} live in cuvee's repository: run this from a clone of it")
    files = {p.stem: p.stem for p in folder.glob("*.py") if not p.stem.startswith("_")}
    known = files | {p.parent.name: f"{p.parent.name}.command" for p in folder.glob("*/command.py")}
    if name not in known:
        raise OptionError(
            f"no {kind.removesuffix('s')} named {name!r}; there is {', '.join(sorted(known))}"
        )
    sys.path.insert(0, str(folder.parent))
    return importlib.import_module(f"{kind}.{known[name]}")
