"""The command line: `cuvee demo`, `cuvee bench NAME`."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

import cuvee
from cuvee.errors import CuveeError, OptionError

app = typer.Typer(
    help="Multi-source, multi-target domain adaptation.", no_args_is_help=True, pretty_exceptions_enable=False
)
_debug = False


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"cuvee {cuvee.__version__}")
        raise typer.Exit


@app.callback()
def _global(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print it.")
    ] = False,
) -> None:
    global _debug
    _debug = debug


@app.command()
def demo(
    seed: Annotated[int, typer.Option(help="Which images are drawn.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON line instead of tables.")] = False,
    picture: Annotated[Path | None, typer.Option(help="Also draw α and the accuracies into this PNG.")] = None,
) -> None:
    """The paper's MNIST setting: 15 sources in 3 groups, 4 targets, a two-layer network.

    Example: cuvee demo --seed 1
    """
    from cuvee import demo as program

    if seed < 0:
        raise OptionError(f"--seed must be at least 0; got {seed}")
    if picture is not None and not picture.resolve().parent.is_dir():
        raise OptionError(f"--picture: there is no folder {picture.resolve().parent}")
    result = program.run(seed, quiet=as_json)
    if picture is not None:
        program.draw(result, picture)
    if as_json:
        typer.echo(json.dumps(result.as_dict()))
    else:
        program.show(result)


@app.command()
def bench(
    name: Annotated[str, typer.Argument(help="A file of benchmarks/, without .py.")],
    as_json: Annotated[bool, typer.Option("--json", help="On one line.")] = False,
    quick: Annotated[bool, typer.Option(help="Smaller sizes, to see that it runs.")] = False,
) -> None:
    """Run a benchmark of this repository and print its ratios.

    Example: cuvee bench mixture --json
    """
    result = _benchmark(name).run(quick=quick)
    typer.echo(json.dumps(result) if as_json else json.dumps(result, indent=2))


def _benchmark(name: str) -> Any:
    """benchmarks/NAME.py of the clone this runs in: benchmarks are not part of the installed package."""
    folders = [Path(__file__).resolve().parents[2] / "benchmarks", Path.cwd() / "benchmarks"]
    folder = next((f for f in folders if f.is_dir()), None)
    if folder is None:
        raise OptionError("benchmarks live in cuvee's repository: run this from a clone of it")
    known = sorted(p.stem for p in folder.glob("*.py") if not p.stem.startswith("_"))
    if name not in known:
        raise OptionError(f"no benchmark named {name!r}; there is {', '.join(known)}")
    sys.path.insert(0, str(folder.parent))
    return importlib.import_module(f"benchmarks.{name}")


def main() -> None:
    """Errors in one sentence and exit code 2; `--debug` shows where they came from."""
    try:
        app()
    except CuveeError as error:
        if _debug:
            raise
        typer.echo(f"cuvee: {error}", err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        typer.echo("cuvee: stopped", err=True)
        sys.exit(130)


if __name__ == "__main__":
    main()
