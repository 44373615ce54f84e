"""`cuvee serve`: a run behind HTTP."""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from cuvee.cli import options as asked
from cuvee.cli.console import show, speaking
from cuvee.cli.output import print_json


def serve(
    run: Annotated[Path, typer.Argument(metavar="DIR", help="The folder that cuvee adapt wrote.")],
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Address to listen at; by default this machine.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="N", help="Port; 0 takes a free one.")] = 8765,
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File with a token, or lines with a role (read, predict, adapt) and a token.",
        ),
    ] = None,
    table: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Where the table of the run is now, if it has moved."),
    ] = None,
    certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Certificate (PEM), for HTTPS.")
    ] = None,
    key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Private key (PEM) of the certificate.")
    ] = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Take no new targets, and write nothing.")
    ] = False,
    workers: Annotated[
        int, typer.Option(metavar="N", help="Processes that share the run folder.")
    ] = 1,
    rate: Annotated[
        float, typer.Option(metavar="X", help="Requests a second that one client may send.")
    ] = 500.0,
    hypothesis: asked.NamedCode = None,
    as_json: asked.Json = False,
    quiet: asked.Quiet = False,
) -> None:
    """Serve a run over HTTP: predictions, any mixture, new targets; see docs/serve.md.

    Example: cuvee serve run
    """
    with speaking(quiet) as voice:
        gc.disable()  # until it is ready: what is loaded stays, as in cuvee_command
        try:
            from cuvee.serve.limits import Limits
            from cuvee.serve.server import Serving
            from cuvee.serve.server import serve as serve_run

            def ready(about: dict[str, Any]) -> None:
                gc.enable()
                voice.begin()
                if as_json:
                    print_json(about)
                else:
                    show(f"serving {run} at {about['url']}")
                    if about["token"]:
                        show(f"token, shown this once: {about['token']}")
                sys.stdout.flush()

            limits = Limits.of_rate(rate)
            files = token_file, table, certificate, key
            how: Any = {"hypothesis": hypothesis, "limits": limits}
            serving = Serving(run, host, port, *files, read_only, workers, **how)
            serve_run(serving, ready, voice.note)
        finally:
            gc.enable()
