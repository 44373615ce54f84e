"""The ServerApp: run cuvee over a Flower SuperLink, with every row at its own site.

`cuvee_site.client_app` is the other half, which hospitals run.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import cuvee_site
from cuvee.errors import InputError, MissingExtra, OptionError
from cuvee.scale.flower_report import write
from cuvee.scale.flower_run import FederatedOptions, Federation, federate
from cuvee.scale.flower_wire import Packet, RawArray

POLL = 0.2  # seconds between two looks for replies
LOOK = 5.0  # seconds after which it is looked whether sites have gone or come back


@dataclass(eq=False)
class GridTransport:
    """Carry packets over a Flower grid, to nodes by their numbers."""

    grid: Any

    def nodes(self) -> list[str]:
        return [str(node) for node in self.grid.get_node_ids()]

    def exchange(self, packets: Mapping[str, Packet], timeout: float) -> dict[str, Packet | str]:
        from flwr.app import Message

        messages = [
            Message(_records(packet), int(node), "query", ttl=timeout + 60.0)
            for node, packet in packets.items()
        ]
        at_first, until, look = set(self.nodes()), time.monotonic() + timeout, time.monotonic()
        numbers = list(self.grid.push_messages(messages))
        waiting = {n: node for n, node in zip(numbers, packets, strict=True) if n is not None}
        replies: dict[str, Packet | str] = {}
        while waiting and time.monotonic() < until:
            for message in self.grid.pull_messages(list(waiting)):
                node = waiting.pop(message.metadata.reply_to_message_id)
                replies[node] = _packet(message)
            if waiting and time.monotonic() - look > LOOK:
                look, now = time.monotonic(), set(self.nodes())
                if now - at_first:  # one that came back has a new number: ask it
                    break
                waiting = {n: node for n, node in waiting.items() if node in now}
            if waiting:
                time.sleep(POLL)
        return replies


def _records(packet: Packet) -> Any:
    return cuvee_site.to_records(packet.text, [(a.dtype, a.shape, a.data) for a in packet.arrays])


def _packet(message: Any) -> Packet | str:
    """Return what a reply holds, or why it holds nothing."""
    if not message.has_content():
        return f"its ClientApp did not answer ({message.error.reason})"
    try:
        text, arrays = cuvee_site.from_records(message.content)
    except ValueError as error:
        return str(error)
    return Packet(text, tuple(RawArray(*raw) for raw in arrays))


def run(grid: Any, config: Mapping[str, Any]) -> Federation:
    """Run cuvee with the sites of a grid, and write the result into the folder `out`.

    Besides `out`, the run config may have `sites`, how many to wait for, and the fields of
    `FederatedOptions`.
    """
    given = {str(key).replace("-", "_"): value for key, value in config.items()}
    out, sites = Path(str(given.pop("out", "federated"))), int(given.pop("sites", 2))
    names = {field.name for field in fields(FederatedOptions)}
    wrong = next((key for key in given if key not in names), None)
    if wrong is not None:
        known = ", ".join(sorted({*names, "out", "sites"}))
        raise OptionError(f"the run config has {wrong!r}; it may have {known}")
    options = replace(FederatedOptions(), **{k: v for k, v in given.items() if v != ""})
    transport = GridTransport(grid)
    _wait_for(transport, sites, options.wait)
    federation = federate(transport, options, say)
    write(federation, out)
    say(f"the result is in {out}")
    return federation


def _wait_for(transport: GridTransport, sites: int, wait: float) -> None:
    until = time.monotonic() + wait
    while len(transport.nodes()) < sites:
        if time.monotonic() > until:
            raise InputError(
                f"{len(transport.nodes())} of {sites} sites are there after {wait:g} s: are their "
                "SuperNodes running, and do they know this SuperLink's address and certificate?"
            )
        time.sleep(1.0)


def server_app() -> Any:
    """Return the ServerApp; its run config is described in docs/federated.md."""
    try:
        from flwr.app import Context
        from flwr.serverapp import Grid, ServerApp
    except ImportError:
        raise MissingExtra("Flower is not installed: pip install 'cuvee[flower]'") from None
    app = ServerApp()

    @app.main()  # type: ignore[untyped-decorator,unused-ignore]
    def main(grid: Grid, context: Context) -> None:
        run(grid, context.run_config)

    return app


def say(sentence: str) -> None:
    """Write a sentence to the log of the run."""
    import logging

    logging.getLogger("flwr").info(sentence)
