"""Ask all sites at once, in rounds: count them, wait within limits, and trust no answer blindly.

All questions that are known at one time travel in one message per site. Computations that do not
wait for one another (`Rounds.together`) share their rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Condition, Thread
from time import monotonic, sleep
from typing import Any, Protocol

from cuvee.scale.flower_answers import Call, Round, Silent, SiteLost, Untrue, checked
from cuvee.scale.flower_wire import Packet, packed

WAIT = 600.0  # seconds for a site to answer, or to come back
PAUSE = 3.0  # seconds before a site that is not there is looked for again
LIES = 2  # times that a site may send what cannot be true


class Transport(Protocol):
    """Carry packets to sites and back: Flower, or a test."""

    def nodes(self) -> list[str]:
        """Return who is there now, by addresses that may change when a site is restarted."""
        ...

    def exchange(self, packets: Mapping[str, Packet], timeout: float) -> dict[str, Packet | str]:
        """Return each node's reply within `timeout` seconds, or a sentence that says why not."""
        ...


@dataclass(eq=False)
class _Ticket:
    calls: Sequence[Call]
    answers: list[Any] | None = None
    error: BaseException | None = None


@dataclass(eq=False)
class Rounds:
    """Reach the sites by their names, whatever their addresses are."""

    transport: Transport
    wait: float = WAIT
    pause: float = PAUSE
    stage: str = "meeting"
    log: list[Round] = field(default_factory=list)
    bindings: dict[str, Any] = field(default_factory=dict)
    agreed: Any = None
    memories: dict[str, Any] = field(default_factory=dict)  # of bindings: what was answered lately
    totals: dict[Any, Any] = field(default_factory=dict)  # what was asked once for all
    digests: dict[str, str] = field(default_factory=dict)
    address: dict[str, str] = field(default_factory=dict)  # of every site
    _waiting: list[_Ticket] = field(default_factory=list)
    _running: int = 1  # computations that may still ask
    _sending: bool = False
    _turn: Condition = field(default_factory=Condition)

    def ask(self, calls: Sequence[Call]) -> list[Any]:
        """Return the answers to calls, together with those of others that ask at the same time."""
        ticket = _Ticket(calls)
        with self._turn:
            self._waiting.append(ticket)
            while ticket.answers is None and ticket.error is None:
                if self._sending or len(self._waiting) < self._running:
                    self._turn.wait()
                    continue
                tickets, self._waiting, self._sending = self._waiting, [], True
                self._turn.release()
                try:
                    self._send_all(tickets)
                finally:
                    self._turn.acquire()
                    self._sending = False
                    self._turn.notify_all()
        if ticket.error is not None:
            raise ticket.error
        assert ticket.answers is not None
        return ticket.answers

    def together(self, jobs: Sequence[Callable[[], Any]]) -> list[Any]:
        """Return the results of jobs that run side by side and share their rounds."""
        results: list[Any] = [None] * len(jobs)
        errors: list[BaseException] = []
        left = len(jobs)

        def run(i: int) -> None:
            nonlocal left
            try:
                results[i] = jobs[i]()
            except BaseException as error:
                errors.append(error)
            with self._turn:
                left -= 1
                if left:  # who waits for all of them goes on in the place of the last one
                    self._running -= 1
                    self._turn.notify_all()

        with self._turn:
            self._running += max(0, left - 1)
        threads = [Thread(target=run, args=(i,), daemon=True) for i in range(len(jobs))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
        return results

    def _send_all(self, tickets: Sequence[_Ticket]) -> None:
        """Send the calls of all tickets in one round, and hand out the answers."""
        by_site: dict[str, list[Call]] = {}
        place = []
        for ticket in tickets:
            for call in ticket.calls:
                calls = by_site.setdefault(call.site, [])
                place.append((call.site, len(calls)))
                calls.append(call)
        try:
            answers = self._round(by_site)
            for site, calls in by_site.items():
                for call, answer in zip(calls, answers[site], strict=True):
                    call.keep(answer)
        except BaseException as error:
            for ticket in tickets:
                ticket.error = error
            return
        told = iter(place)
        for ticket in tickets:
            ticket.answers = [answers[site][i] for site, i in (next(told) for _ in ticket.calls)]

    def _round(self, by_site: Mapping[str, Sequence[Call]]) -> dict[str, list[Any]]:
        """Return every site's answers; ask those again that gave none, as long as we may wait."""
        answers: dict[str, list[Any]] = {}
        until, lies, repeated = monotonic() + self.wait, dict[str, int](), False
        while left := [site for site in by_site if site not in answers]:
            replies = self._exchange({s: by_site[s] for s in left}, until - monotonic(), repeated)
            for site in left:
                try:
                    answers[site] = checked(site, replies[site], by_site[site])
                except Silent as silent:
                    if monotonic() + self.pause >= until:
                        raise SiteLost(site, "silent", str(silent)) from None
                except Untrue as untrue:
                    lies[site] = lies.get(site, 0) + 1
                    if lies[site] >= LIES:
                        raise SiteLost(site, "untrue", str(untrue)) from None
            if len(answers) < len(by_site):
                repeated = True
                if any(site not in lies for site in by_site if site not in answers):
                    sleep(self.pause)
                    self._meet_again()
        return answers

    def _exchange(
        self, by_site: Mapping[str, Sequence[Call]], timeout: float, repeated: bool
    ) -> dict[str, Packet | str]:
        def bindings(calls: Sequence[Call]) -> dict[str, Any]:
            keys = {str(call.arguments[0]) for call in calls if call.arguments}
            return {key: self.bindings[key] for key in sorted(keys) if key in self.bindings}

        packets = {
            site: packed(
                {
                    "agreed": self.agreed,
                    "bindings": bindings(calls),
                    "calls": [(call.question, *call.arguments) for call in calls],
                }
            )
            for site, calls in by_site.items()
        }
        there = {site: self.address[site] for site in packets if site in self.address}
        replies = self.transport.exchange(
            {address: packets[site] for site, address in there.items()}, max(1.0, timeout)
        )
        by_name = {
            site: replies.get(there[site], "it did not answer") if site in there else "it has left"
            for site in packets
        }
        self.log.append(
            Round(
                self.stage,
                {site: packet.n_bytes for site, packet in packets.items()},
                {s: r.n_bytes for s, r in by_name.items() if isinstance(r, Packet)},
                {site: [call.question for call in calls] for site, calls in by_site.items()},
                repeated,
            )
        )
        return by_name

    def meet(self, known: Container[str] = ()) -> dict[str, Any]:
        """Return what every node says of itself, by address; a sentence where it says nothing.

        Nodes that are `known` are not asked.
        """
        packet = packed({"calls": [("meet",)]})
        told: dict[str, Any] = {}
        until, silent = monotonic() + self.wait, set[str]()
        while monotonic() < until:  # some may come while others are asked
            nodes = [n for n in self.transport.nodes() if n not in known and n not in told]
            if not nodes:
                break
            replies = self.transport.exchange(dict.fromkeys(nodes, packet), until - monotonic())
            received = {}
            for node in nodes:
                reply = replies.get(node, "it did not answer")
                try:
                    told[node] = checked(node, reply, [Call(node, "meet")])[0]
                    if isinstance(reply, Packet):
                        received[str(told[node]["name"])] = reply.n_bytes
                except Silent:
                    silent.add(node)
                except SiteLost as lost:
                    told[node] = lost.why
                except (Untrue, KeyError, TypeError) as error:
                    told[node] = str(error)
            asked = {name: ["meet"] for name in received}
            sent = dict.fromkeys(received, packet.n_bytes)
            self.log.append(Round(self.stage, sent, received, asked))
            if silent & set(nodes):
                sleep(self.pause)
        return {**dict.fromkeys(silent, "it did not answer"), **told}

    def _meet_again(self) -> None:
        """Find sites that have come back at another address, with the same table."""
        known = set(self.address.values())
        if all(node in known for node in self.transport.nodes()):
            return
        for node, said in self.meet(known).items():
            if isinstance(said, dict) and self.digests.get(said["name"]) == said["digest"]:
                self.address[said["name"]] = node
