"""The command line: `cuvee COMMAND`, and how every command ends."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from traceback import format_exc
from typing import Annotated, Any

import typer

import cuvee
from cuvee.cli import adapt, dev, maps, mix, serve, steps
from cuvee.cli.console import one_line, show
from cuvee.errors import CuveeError

FINE, UNEXPECTED, BAD_INPUT, NOT_WRITTEN, STOPPED = 0, 1, 2, 74, 130
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
# click's ClickException, which newer typers carry inside themselves
USAGE: Any = typer.BadParameter.__mro__[2]

app = typer.Typer(
    name="cuvee",
    help="Multi-source, multi-target domain adaptation: one table in, a model per target out.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


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
    """Take the two options of all commands, which are dealt with before a command begins."""


PANELS: dict[str, tuple[Callable[..., None], ...]] = {
    "From a table to models": (
        adapt.adapt,
        adapt.resume,
        adapt.predict,
        adapt.explain,
        adapt.report,
    ),
    "Single steps": (steps.weights, steps.solve, maps.learn, maps.plan, maps.online),
    "A service": (serve.serve,),
    "To see it work": (dev.sample, dev.demo, dev.bench, dev.reproduce),
}
for _panel, _commands in PANELS.items():
    for _command in _commands:
        # a benchmark may have options of its own
        _given = {"ignore_unknown_options": True} if _command is dev.bench else None
        app.command(rich_help_panel=_panel, context_settings=_given)(_command)
app.add_typer(mix.app, name="mix", rich_help_panel="The mixture to train on")


def main() -> None:
    """Run the command, and print an error as one sentence.

    The exit code says whose error it is; `--debug` shows where it came from.
    """
    # wherever it stands: who adds it, adds it last
    words = [word for word in sys.argv[1:] if word != "--debug"]
    debug = len(words) < len(sys.argv) - 1
    try:
        code = app(words, prog_name="cuvee", standalone_mode=False)
        sys.stdout.flush()
        # what newer typers make of Ctrl-C outside of `speaking`, which says more
        if code == STOPPED:
            show("cuvee: stopped", sys.stderr)
        sys.exit(code if isinstance(code, int) else FINE)
    except USAGE as error:
        sys.exit(_misused(error))
    except CuveeError as error:
        if debug:
            raise
        show(f"cuvee: {one_line(error)}", sys.stderr)
        sys.exit(BAD_INPUT)
    except (typer.Abort, KeyboardInterrupt):  # what older typers make of it
        show("cuvee: stopped", sys.stderr)
        sys.exit(STOPPED)
    except Exception as error:
        if debug:
            raise
        if isinstance(error, OSError) and error.errno in NO_ROOM and error.filename is None:
            reason = f"stdout cannot be written ({error.strerror}); make room, or send it elsewhere"
            show(f"cuvee: {reason}", sys.stderr)
            sys.exit(NOT_WRITTEN)
        detail = one_line(error)
        show(
            f"cuvee: unexpected {type(error).__name__}{detail and f': {detail}'}; run again with "
            "--debug",
            sys.stderr,
        )
        sys.exit(UNEXPECTED)


def entry() -> None:
    """Run `main` for a shell, and leave at once.

    Threads of Arrow have been seen to abort a process that was done, while the interpreter was
    taken down.
    """
    code = UNEXPECTED
    try:
        main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else FINE
    except Exception:  # with --debug
        show(format_exc(), sys.stderr)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):  # nobody reads it any more
            stream.flush()
    os._exit(code)


def _misused(error: Any) -> int:
    """Print what is wrong with an option or argument in one sentence, and return the exit code.

    The sentence names the help.
    """
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return BAD_INPUT
    command = error.ctx.command_path if getattr(error, "ctx", None) else "cuvee"
    sentence = one_line(error.format_message()).rstrip(".")
    show(f"cuvee: {sentence[:1].lower()}{sentence[1:]}; see {command} --help", sys.stderr)
    return BAD_INPUT
