"""Give the same answers as local components, put together from what federated sites answer.

The rows of sources and of targets stay at their sites. A site answers for one domain: losses,
gradients and Hessians of models, without the weights α, so that one round serves every mixture.
What was asked lately is remembered: values and gradients at the same models are asked for once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, Self

import torch
from torch import Tensor

from cuvee.components.protocol import Batch, Pullback
from cuvee.components.sites import RemoteDomain
from cuvee.erm.linear.solver import FAR_HESSIANS
from cuvee.errors import DomainError
from cuvee.facts import KnownFacts
from cuvee.hypothesis.base import LossKind, Space
from cuvee.problem import Problem
from cuvee.scale.flower_answers import Call, shaped
from cuvee.scale.flower_memory import Memory, Row, answer_key, halves, model_names, own_models
from cuvee.scale.flower_rounds import Rounds
from cuvee.scale.flower_totals import Member, Totals
from cuvee.scale.flower_wire import fingerprint


class FederatedDomain(RemoteDomain):
    """Describe a source or a target whose rows stay at a site."""

    def __init__(
        self, rounds: Rounds, facts: KnownFacts, features: tuple[str, ...], level: float = 0.0,
        halved: bool = True,
    ) -> None:  # fmt: skip
        for name, value in {
            "name": facts.name, "weight": None, "features": features, "rounds": rounds,
            "level": level, "halved": halved, "_facts": facts,
            "_input_shape": facts.columns.mean.shape,
        }.items():  # fmt: skip
            object.__setattr__(self, name, value)

    rounds: Rounds
    level: float  # what the site takes off its labels
    halved: bool  # whether the site is asked about halves of its rows

    def lowered(self, level: float) -> FederatedDomain:
        facts = self._facts.lowered(level)
        level += self.level
        return FederatedDomain(self.rounds, facts, self.features, level, self.halved)

    def components(
        self, problem: Problem, space: Space, loss: LossKind, **options: Any
    ) -> FederatedComponents:
        from cuvee.scale.flower_quadratic import FederatedQuadratic

        quadratic = space.quadratic and loss == "trained"
        kind = FederatedQuadratic if quadratic else FederatedComponents
        return kind(problem, space, loss, **options)


class FederatedComponents(Totals):
    """Answer for sources and targets that are all at sites."""

    far = True

    def __init__(
        self, problem: Problem, space: Space, loss: LossKind = "trained", *, seed: int = 0,
        device: str | torch.device = "cpu", memory: int | None = None,
    ) -> None:  # fmt: skip
        domains = (*problem.sources, *problem.targets)
        if not all(isinstance(domain, FederatedDomain) for domain in domains):
            raise DomainError("some domains are at sites and some in this process")
        self.space, self.loss, self._seed = space, loss, seed
        self._rounds: Rounds = problem.sources[0].rounds  # type: ignore[attr-defined]
        self._sources = [self._member(s, "source") for s in problem.sources]
        self._targets = [self._member(t, "target") for t in problem.targets]
        self.counts = torch.tensor([s.n_rows for s in problem.sources], dtype=torch.int64)
        self.own_counts = torch.tensor([t.n_rows for t in problem.targets], dtype=torch.int64)
        self._aside: list[Member] = []  # targets that were taken out, but may be asked ahead
        # answers by domain, question, batch and model
        self._known = self._rounds.memories.setdefault(self._sources[0].key, Memory())

    def _member(self, domain: Any, role: str) -> Member:
        binding = {
            "space": self.space, "loss": self.loss, "seed": self._seed, "role": role,
            "level": domain.level,
        }  # fmt: skip
        key = fingerprint(binding)[:16]
        self._rounds.bindings[key] = binding
        return Member(domain, role, key)

    def together(self, jobs: Sequence[Callable[[], Any]]) -> list[Any]:
        """Return the results of jobs that share their rounds."""
        return self._rounds.together(jobs)

    @property
    def own_rows(self) -> int:
        return int(self.own_counts.max()) if len(self.own_counts) else 0

    def narrow(self, targets: Tensor) -> Self:
        other = copy(self)
        other._targets = [self._targets[i] for i in targets.tolist()]
        other._aside = [*self._aside, *self._targets] if len(targets) == 0 else []
        other.own_counts = self.own_counts[targets]
        return other

    def fold_weights(self, count: int) -> Tensor:
        """Return how much of each own sample lies in each fold: rows are dealt out in turn."""
        rows = self.own_counts[:, None]
        folds, number = rows.clamp(max=count), torch.arange(count)[None]
        inside = torch.where(number < folds, (rows - number + folds - 1) // folds, 0)
        return inside.to(self.space.dtype) / rows

    def values(self, w: Tensor, batch: Batch) -> Tensor:
        if not self._has_second(batch):
            return self._values_and_slopes(w, batch)[0]
        of_sources, of_own = self._derived("values", w, batch)
        return _side_by_side(of_sources, of_own)

    def own_values(self, w: Tensor, batch: Batch) -> Tensor:
        own: Tensor = self._derived("values", w, batch, sources=False)[1]
        return own[..., 0]

    def losses(self, w: Tensor, batch: Batch) -> tuple[Tensor, Pullback]:
        values, pull = self._values_and_slopes(w, batch)
        return values, pull

    def pull(self, w: Tensor, v: Tensor, batch: Batch) -> Tensor:
        return self.pull_with_second(w, v, batch)[0]

    def pull_with_second(self, w: Tensor, v: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        own = v.shape[-1] > len(self.counts)
        if not self._has_second(batch):
            return self._mixed(v, *self._derived("pull", w, batch, own=own)), w[..., :0]
        both = self._derived("pull_with_second", w, batch, own=own)
        K = self.space.n_outputs
        g = self._mixed(v, *both)
        return g[..., : -K * K], g[..., -K * K :].unflatten(-1, (K, K))

    def hessians(self, w: Tensor, v: Tensor, batch: Batch) -> Tensor:
        own = v.shape[-1] > len(self.counts)
        return self._mixed(v, *self._derived("hessians", w, batch, own=own))

    def hessian_blocks(
        self, w: Tensor, v: Tensor, batch: Batch, output: int, only: bool = False
    ) -> Tensor:
        K = self.space.n_outputs
        H = self.hessians(w, v, batch).unflatten(-1, (K, -1)).unflatten(-3, (K, -1))
        rows = H[:, :, output].transpose(-3, -2)  # (M, Q, K, width, width)
        return rows[:, :, output : output + 1] if only else rows

    def hessian_times(self, w: Tensor, u: Tensor, v: Tensor, batch: Batch) -> Tensor:
        return (self.hessians(w, v, batch) @ u[..., None])[..., 0]

    def _has_second(self, batch: Batch) -> bool:
        """Return whether sites give curvature in the intercepts beside gradients."""
        whole = batch.step is None and batch.part == "all"
        return self.space.generalised and self.loss == "trained" and whole

    def _mixed(self, v: Tensor, sources: Tensor, own: Tensor | None) -> Tensor:
        """Return Σ_j v_j (…) of answers (N, M, Q, …) and own ones (M, Q, …), v (M, Q or 1, N+1)."""
        N = len(sources)
        tail = [1] * (sources.ndim - 3)
        shares = v[..., :N].to(sources).movedim(-1, 0)  # (N, M, Q or 1)
        total = (shares.reshape(*shares.shape, *tail) * sources).sum(0)
        if own is not None and v.shape[-1] > N:
            total = total + v[..., N].to(own).reshape(*v.shape[:-1], *tail) * own
        return total

    def _values_and_slopes(self, w: Tensor, batch: Batch) -> tuple[Tensor, Pullback]:
        """Return losses (M, Q, N or N+1) and the pullback, from one round."""
        own = len(self.own_counts) > 0
        self._ask_for(("values", "pull"), w, batch, own=own)
        values = _side_by_side(*self._derived("values", w, batch, own=own))

        def pullback(v: Tensor) -> Tensor:
            return self._mixed(v, *self._derived("pull", w, batch, own=own))

        return values, pullback

    # The methods below ask sites about models, each model once.

    def _derived(
        self, question: str, w: Tensor, batch: Batch, *, sources: bool = True, own: bool = True
    ) -> tuple[Any, Any]:
        """Return answers of sources (N, M, Q, …) and of own samples (M, Q, …)."""
        own = own and len(self.own_counts) > 0
        self._ask_for(self._foreseen(question, w, batch), w, batch, sources=sources, own=own)
        models, (M, Q, _) = model_names(w), w.shape
        shared = self._shared(batch)
        of_sources = of_own = None
        if sources:
            of_sources = torch.stack(
                [
                    torch.stack([self._recall(s, question, shared, (m, -1)) for m in models])
                    for s in self._sources
                ]
            ).unflatten(1, (M, Q))
        if own:
            rows = own_models(models, batch, M, Q)
            of_own = torch.stack(
                [
                    torch.stack([self._recall(t, question, batch, row) for row in rows[i]])
                    for i, t in enumerate(self._targets)
                ]
            )
        return of_sources, of_own

    def _foreseen(self, question: str, w: Tensor, batch: Batch) -> list[str]:
        """Return a question, and those that will follow at the same models: one round serves all.

        Newton steps need losses, gradients and Hessians. Without one of the folds, only the centre
        of all models needs a Hessian.
        """
        derivatives = ("pull_with_second", "hessians")
        numbers = len(set(model_names(w))) * self.space.n_params**2
        if numbers > FAR_HESSIANS or not self._has_second(batch):
            return [question]
        if batch.folds is None:
            return ["values", *derivatives]
        centre = question in derivatives and len(set(model_names(w))) == 1
        return [*derivatives] if centre else [question]

    def ask_ahead(self, w: Tensor, batches: Sequence[Batch]) -> None:
        """Ask for losses and gradients of models w (Q, P) that will be needed for all targets."""
        M = max(1, len(self._targets))
        each = w.expand(M, -1, -1)
        self.together([partial(self._values_and_slopes, each, batch) for batch in batches])

    def _ask_for(
        self, questions: Iterable[str], w: Tensor, batch: Batch, *, sources: bool = True,
        own: bool = True,
    ) -> None:  # fmt: skip
        """Ask for what is not known yet of models w (M, Q, P), in one round."""
        models, (M, Q, _) = model_names(w), w.shape
        by_model = dict(zip(models, w.reshape(M * Q, -1), strict=True))
        jobs: list[tuple[Member, str, Batch, list[Row]]] = []
        for question in questions:
            for part in halves(batch):
                if sources:
                    every = [(m, -1) for m in by_model]
                    jobs += [(s, question, self._shared(part), every) for s in self._sources]
                if own:
                    of = own_models(models, part, M, Q)
                    jobs += [(t, question, part, of[i]) for i, t in enumerate(self._targets)]
            if len(by_model) == 1 and self._has_second(batch):  # the centre of many mixtures
                only = [(m, -1) for m in by_model]
                jobs += [(t, question, self._shared(batch), only) for t in self._aside]
        calls, asked = [], set[tuple[Any, ...]]()
        stacked: dict[tuple[bytes, ...], Tensor] = {}  # so that the same models are sent once
        for member, question, part, rows in jobs:
            keys = {answer_key(member, question, part, row): row for row in rows}
            new = {k: r for k, r in keys.items() if k not in asked and self._known.get(k) is None}
            asked.update(new)
            if new:
                names = tuple(m for m, _ in new.values())
                if names not in stacked:
                    stacked[names] = torch.stack([by_model[m] for m in names])[None]
                call = self._call(member, question, stacked[names], part, list(new.values()))
                calls.append(replace(call, keep=partial(self._known.keep, list(new))))
        if calls:
            self._rounds.ask(calls)

    def _call(
        self, member: Member, question: str, w: Tensor, batch: Batch, rows: Sequence[Row]
    ) -> Call:
        """Return the call for models w (1, U, P); own samples leave out a fold for each."""
        U, P, K = w.shape[1], self.space.n_params, self.space.n_outputs
        batch = replace(batch, part=member.part(batch.part))
        if batch.folds is not None and member.role == "target":
            numbers = torch.tensor([fold for _, fold in rows])
            batch = replace(batch, folds=replace(batch.folds, number=numbers))
        if question == "values":
            return member.call(question, w, batch, check=shaped((1, U, 1)))
        shape: tuple[tuple[int, ...], ...] = ((1, U, P),)
        if question == "hessians":
            shape = ((1, U, P, P),)
        elif question == "pull_with_second":
            shape = ((1, U, P), (1, U, K, K))
        one = w.new_ones(1, U, 1)
        return member.call(question, w, one, batch, check=shaped(*shape))

    def _recall(self, member: Member, question: str, batch: Batch, row: Row) -> Tensor:
        answer = self._known.get(answer_key(member, question, batch, row))
        assert answer is not None  # it was asked for just now
        return answer


def _side_by_side(of_sources: Tensor, of_own: Tensor | None) -> Tensor:
    """Return losses (M, Q, N or N+1) from those of sources (N, M, Q, 1) and own ones (M, Q, 1)."""
    values = of_sources[..., 0].movedim(0, -1)
    return values if of_own is None else torch.cat([values, of_own], -1)
