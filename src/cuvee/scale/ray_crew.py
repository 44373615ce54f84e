"""Keep a crew of Ray workers: ask all of them at once, and replace those that die.

A worker is made from a description of its rows, and every question carries all else that it needs.
So one that dies is made again, anywhere in the cluster, reads its shard again and is asked again.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any

import cuvee
from cuvee.components.protocol import Batch, Half
from cuvee.components.shards import Binding, ShardIntroduction
from cuvee.errors import InputError
from cuvee.scale.ray_worker import Labels, Worker, packed, unpacked

TRIES = 10  # times that one question is asked anew
PATIENCE = 180.0  # seconds for a worker to start
LARGE = 2**16  # bytes of parameters from which on they go through the object store


class RayCrew:
    """Reach the workers, one for each reader of rows."""

    def __init__(self, ray: Any, readers: Sequence[Any]) -> None:
        self._ray, self._readers = ray, list(readers)
        self._lock = Lock()
        self._bindings: dict[str, Any] = {}
        self._labels: list[Any] = []  # a reference to `Labels`, once they are needed
        self._shared: dict[str, list[int]] = {}  # sources with rows at several workers
        self.replaced = 0  # workers that died and were made again
        self.actors = [self._made(k) for k in range(len(self._readers))]
        weakref.finalize(self, _end, ray, self.actors)
        self._check_versions()

    def introduce(self) -> list[list[ShardIntroduction]]:
        """Return what every worker says of its shards."""
        said = self.each("introduce")
        holders: dict[str, list[int]] = {}
        for k, shards in enumerate(said):
            for shard in shards:
                holders.setdefault(shard.facts.name, []).append(k)
        self._shared = {name: workers for name, workers in holders.items() if len(workers) > 1}
        return said

    def settle(self, readers: Sequence[Any]) -> None:
        """Give every worker a reader that knows more, and those that will replace them too."""
        self._readers = list(readers)
        self.each_with("settle", [(reader,) for reader in self._readers])

    def each(self, method: str, *arguments: Any) -> list[Any]:
        """Return what a method of every worker returns."""
        return self.each_with(method, [arguments] * len(self.actors))

    def each_with(self, method: str, own: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Return the same where every worker is given arguments of its own."""
        return self._gathered(
            range(len(self.actors)), lambda k: getattr(self.actors[k], method).remote(*own[k])
        )

    def ask(
        self,
        binding: Binding,
        workers: Sequence[int],
        question: str,
        shared: tuple[Any, ...],
        own: Sequence[tuple[Any, ...]],
    ) -> list[Any]:
        """Return the answers of these workers, the parameters `shared` travelling once."""
        split = any(_is_part(one) for given in (shared, *own) for one in given)
        for_all, mine = packed(shared), dict(zip(workers, map(packed, own), strict=True))
        if sum(getattr(one, "nbytes", 0) for one in for_all) >= LARGE:
            for_all = self._ray.put(for_all)

        def send(k: int) -> Any:
            labels = self._shared_labels() if split else []
            return self.actors[k].answer.remote(
                binding.key, [self._bound(binding)], labels, question, for_all, mine[k]
            )

        return [unpacked(answer) for answer in self._gathered(workers, send)]

    def release(self, binding: Binding) -> None:
        """Tell all workers to forget a binding; one that is dead has forgotten it already."""
        if self._bindings.pop(binding.key, None) is not None and self._ray.is_initialized():
            for actor in self.actors:
                actor.release.remote(binding.key)

    def _bound(self, binding: Binding) -> Any:
        if binding.key not in self._bindings:
            self._bindings[binding.key] = self._ray.put(binding)
        return self._bindings[binding.key]

    def _shared_labels(self) -> list[Any]:
        """Return a reference to the labels of sources that several workers have rows of.

        It holds further ones: labels go from worker to worker, and do not pass this process.
        """
        with self._lock:
            if not self._labels:
                labels: Labels = {
                    name: [self.actors[k].labels.remote(name) for k in workers]
                    for name, workers in self._shared.items()
                }
                self._labels = [self._ray.put(labels)]
            return self._labels

    def _gathered(self, workers: Sequence[int], send: Callable[[int], Any]) -> list[Any]:
        """Return the results of calls to these workers, each repeated where its worker died."""
        asked = {k: (self.actors[k], send(k)) for k in workers}
        return [self._received(k, *asked[k], send) for k in workers]

    def _received(self, k: int, actor: Any, reference: Any, send: Callable[[int], Any]) -> Any:
        errors = self._ray.exceptions
        for _ in range(TRIES):
            try:
                return self._ray.get(reference)
            except errors.RayTaskError as error:  # raised at the worker, which lives
                if not isinstance(error.cause, errors.ObjectLostError | errors.RayActorError):
                    raise error.cause from None
                last: Exception = error  # it waited for labels of one that died
                self._replace_dead()
            except errors.ObjectLostError as error:  # with a node
                last = error
            except errors.RayError as error:  # it died, whether killed, crashed or out of memory
                last = error
                self._replace(k, actor)
            actor, reference = self.actors[k], send(k)
        raise InputError(
            f"worker {k} of {len(self.actors)} died {TRIES} times over one question "
            f"({_first_line(last)}): if its memory was full, use more workers, or nodes with more "
            "memory"
        )

    def _replace(self, k: int, actor: Any) -> None:
        """Make a worker anew, unless another thread has done so."""
        with self._lock:
            if self.actors[k] is actor:
                self._ray.kill(actor)  # it may only have been out of reach
                self.actors[k] = self._made(k)
                self._labels = []
                self.replaced += 1

    def _replace_dead(self) -> None:
        """Make every worker anew that is dead, also those whose answers nobody has waited for."""
        with self._lock:
            self._labels = []
        for k, actor in enumerate(list(self.actors)):
            try:
                self._ray.get(actor.version.remote())
            except self._ray.exceptions.RayError:
                self._replace(k, actor)

    def _made(self, k: int) -> Any:
        """Return a new worker; where no CPU is left, it shares one with others."""
        free = self._ray.available_resources().get("CPU", 0.0)
        cpus = 1 if free >= 1 or not hasattr(self, "actors") else 0
        actor = self._ray.remote(Worker).options(num_cpus=cpus, max_restarts=0)
        return actor.remote(k, self._readers[k])

    def _check_versions(self) -> None:
        """Raise `InputError` where workers do not start, or have another version of cuvee."""
        references = [actor.version.remote() for actor in self.actors]
        _, waiting = self._ray.wait(
            references, num_returns=len(references), timeout=PATIENCE, fetch_local=False
        )
        if waiting:
            free = self._ray.available_resources().get("CPU", 0.0)
            raise InputError(
                f"{len(waiting)} of {len(references)} workers did not start within {PATIENCE:.0f} "
                f"seconds, with {free:g} CPUs free: the cluster is busy or too small; ask for "
                "fewer workers, or wait for the other jobs"
            )
        try:
            versions = set(self._ray.get(references))
        except self._ray.exceptions.RayError as error:
            missing = "No module named 'cuvee" in str(error)
            raise InputError(
                f"cuvee {cuvee.__version__} is not installed on every node of the Ray cluster: "
                "install it there"
                if missing
                else f"the workers do not start: {_first_line(error)}"
            ) from None
        if versions != {cuvee.__version__}:
            raise InputError(
                f"the nodes of the Ray cluster have cuvee {', '.join(sorted(versions))}, and this "
                f"machine has {cuvee.__version__}: install the same version everywhere"
            )


def _is_part(argument: Any) -> bool:
    """Return whether an argument asks for a part of a source's rows."""
    if isinstance(argument, Batch):
        return argument.part != "all"
    return isinstance(argument, Half) or argument in ("training", "held out")


def _end(ray: Any, actors: list[Any]) -> None:
    if ray.is_initialized():
        for actor in actors:
            ray.kill(actor)


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:200].rstrip(".") or type(error).__name__
