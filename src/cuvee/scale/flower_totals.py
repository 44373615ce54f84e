"""Ask federated sites once for what does not depend on models: sums, counts and lengths."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from cuvee.components.bounds import RowConstants
from cuvee.components.protocol import Half, Part
from cuvee.components.quadratic import nearest_to_zero
from cuvee.components.sites import SiteComponents
from cuvee.scale.flower_answers import Call, finite, shaped
from cuvee.scale.flower_rounds import Rounds

Check = Callable[[Any], str | None]


@dataclass(frozen=True, eq=False)
class Member:
    """Describe one domain as the components see it: whom to ask, and under which binding."""

    domain: Any  # a `FederatedDomain`
    role: str
    key: str  # of the binding

    def part(self, part: Part) -> Part:
        """Return the part that is asked about: all rows where halves would be small."""
        return "all" if isinstance(part, Half) and not self.domain.halved else part

    def call(self, question: str, *arguments: Any, check: Check | None = None) -> Call:
        """Return the call that asks this domain's site."""
        name = self.domain.name
        return Call(name, question, (self.key, *arguments), check or (lambda answer: None))


class Totals(SiteComponents):
    """Answer what certificates and solvers need to know of all rows, from one round."""

    space: Any
    _rounds: Rounds
    _sources: list[Member]
    _targets: list[Member]

    def _all(self, question: str, *arguments: Any, bound: bool = True) -> list[Any]:
        return self._rounds.ask([s.call(question, *arguments) for s in self._sources])

    def _total(self, member: Member, question: str) -> Any:
        """Return one of the totals of a domain; all of all domains are asked for at once."""
        kept = self._rounds.totals
        if (member.key, member.domain.name, question) not in kept:
            calls = [
                (m, question, m.call(question, *given, check=check))
                for m in (*self._sources, *self._targets)
                for question, given, check in self._asked_once(m)
                if (m.key, m.domain.name, question) not in kept
            ]
            answers = self._rounds.ask([call for _, _, call in calls])
            for (m, asked, _), answer in zip(calls, answers, strict=True):
                kept[m.key, m.domain.name, asked] = answer
        return kept[member.key, member.domain.name, question]

    def _asked_once(self, member: Member) -> list[tuple[str, tuple[Any, ...], Check]]:
        """Return the questions about all rows of a domain, what goes with them, and checks."""
        space: Any = self.space
        d, P, kinds = space.input_shape[0], space.n_params, getattr(space, "n_kinds", 0)
        reference = nearest_to_zero(self.means())
        asked: list[tuple[str, tuple[Any, ...], Check]] = [
            ("largest", (), finite), ("longest_row", (), shaped(())),
        ]  # fmt: skip
        if member.role == "target":
            asked += [
                ("own_rows_of_kind", (), shaped((1, kinds))),
                ("own_label_sizes", (), shaped((1,))),
            ]
            spread = [("own_spread", (reference,), shaped((1,), (1,)))]
        else:
            asked += [
                ("statistics", (), shaped((1, P))), ("mean_squares", (), shaped((space.width,))),
                ("rows_of_kind", (), shaped((1, kinds))), ("label_sizes", (), shaped((1,))),
                ("roundings", (), finite),
            ]  # fmt: skip
            spread = [("spread", (reference,), shaped((1,), (1,)))]
        return asked + (spread if space.intercept and d else [])

    def _of_sources(self, question: str) -> list[Any]:
        return [self._total(s, question) for s in self._sources]

    def _of_targets(self, question: str) -> list[Any]:
        return [self._total(t, question) for t in self._targets]

    def means(self) -> Tensor:
        """Return the mean row of every source (N, features): facts know it."""
        space: Any = self.space
        means = [torch.as_tensor(s.domain.facts.columns.mean) for s in self._sources]
        standardised: Tensor = space.standardise(torch.stack(means))
        return standardised

    @property
    def statistics(self) -> Tensor:
        return torch.cat(self._of_sources("statistics"))

    @property
    def largest(self) -> float:
        return max(map(float, [*self._of_sources("largest"), *self._of_targets("largest")]))

    @property
    def longest_row(self) -> Tensor:
        lengths = [*self._of_sources("longest_row"), *self._of_targets("longest_row")]
        return torch.stack(lengths).amax()

    @property
    def mean_squares(self) -> Tensor:
        share = (self.counts / self.counts.sum()).to(torch.float64)
        return share @ torch.stack(self._of_sources("mean_squares"))

    @property
    def rows_of_kind(self) -> Tensor:
        return torch.cat(self._of_sources("rows_of_kind"))

    @property
    def own_rows_of_kind(self) -> Tensor:
        return torch.cat(self._of_targets("own_rows_of_kind"))

    @property
    def label_sizes(self) -> Tensor:
        return torch.cat(self._of_sources("label_sizes"))

    @property
    def own_label_sizes(self) -> Tensor:
        return torch.cat(self._of_targets("own_label_sizes"))

    @property
    def roundings(self) -> float:
        return max(map(float, self._of_sources("roundings"))) + len(self.counts)

    def spread(self, reference: Tensor) -> tuple[Tensor, Tensor]:
        return _joined(self._of_sources("spread"))

    def own_spread(self, reference: Tensor) -> tuple[Tensor, Tensor]:
        return _joined(self._of_targets("own_spread"))

    def row_constants(self) -> RowConstants:
        answers = self._rounds.ask(
            [m.call("row_constants") for m in (*self._sources, *self._targets)]
        )
        names = ("G_f", "L_f", "largest_loss")
        return RowConstants(**{n: max(getattr(one, n) for one in answers) for n in names})

    def squared_lengths(self) -> tuple[Tensor, Tensor]:
        members, N = (*self._sources, *self._targets), len(self._sources)
        answers = self._rounds.ask([m.call("squared_lengths") for m in members])
        own = [of_own for _, of_own in answers[N:]]
        return torch.cat([of for of, _ in answers[:N]]), torch.cat(own) if own else torch.zeros(0)


def _joined(spreads: Sequence[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    reach, moment = (torch.cat(part) for part in zip(*spreads, strict=True))
    return reach, moment
