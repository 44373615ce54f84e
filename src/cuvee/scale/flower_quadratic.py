"""Answer for squared losses at federated sites, from Gram matrices that are sent once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cuvee.components.protocol import Batch, Folds, Grams, Half, Part, Pullback, Reference
from cuvee.components.quadratic import BLOCK, losses_by_grams, nearest_to_zero
from cuvee.components.quadratic import packed as packed_halves
from cuvee.scale.flower_answers import shaped
from cuvee.scale.flower_components import FederatedComponents
from cuvee.scale.flower_totals import Member

HALVES: tuple[Part, ...] = ("all", Half(0, 0), Half(0, 1))  # what an estimate looks at


class FederatedQuadratic(FederatedComponents):
    """Answer for a quadratic space: after two rounds nothing is asked about any model."""

    def reference(self) -> Reference:
        """Return a row and a label near the data, from facts alone."""
        space: Any = self.space
        ones = [torch.ones(len(self.counts), 1, dtype=space.dtype)] if space.intercept else []
        rows = torch.cat([self.means(), *ones], -1)
        labels = np.array([float(s.domain.facts.quantity.mean) for s in self._sources])
        encoded = torch.as_tensor(space.encode(labels, "sites"))
        return Reference(nearest_to_zero(rows), nearest_to_zero(encoded))

    @property
    def roundings(self) -> float:
        return BLOCK + float(self.counts.max()) / BLOCK + self.own_rows + len(self.counts)

    def source_grams(self, around: Reference | None = None, part: Part = "all") -> Grams:
        return _stacked([self._gram(s, around, part) for s in self._sources])

    def own_grams(
        self,
        around: Reference | None = None,
        *,
        targets: slice = slice(None),
        folds: Folds | None = None,
        models: slice = slice(None),
    ) -> Grams:
        chosen = self._targets[targets]
        if folds is None:
            return _stacked([self._gram(t, around, "all") for t in chosen])[:, None]
        by_fold = _stacked([self._of_folds(t, around, folds) for t in chosen])
        number = folds.number[models]
        return by_fold[:, number]

    @property
    def grams(self) -> tuple[Grams, Grams]:
        return self.grams_of("all")

    def grams_of(self, part: Part) -> tuple[Grams, Grams]:
        own = [self._gram(t, None, part) for t in self._targets]
        return self.source_grams(part=part), _stacked(own) if own else self._nothing()

    def losses(self, w: Tensor, batch: Batch) -> tuple[Tensor, Pullback]:
        if batch.step is not None or batch.folds is not None:
            return super().losses(w, batch)
        sources, own = self.grams_of(batch.part)
        return losses_by_grams(w, sources, own, packed_halves(sources.A))

    def values(self, w: Tensor, batch: Batch) -> Tensor:
        return self.losses(w, batch)[0]

    def pull(self, w: Tensor, v: Tensor, batch: Batch) -> Tensor:
        return self.losses(w, batch)[1](v)

    def _nothing(self) -> Grams:
        P, dtype = self.space.n_params, self.space.dtype
        shapes = (0, P, P), (0, P), (0,)
        return Grams(*(torch.zeros(shape, dtype=dtype) for shape in shapes))

    def _gram(self, member: Member, around: Reference | None, part: Part) -> Grams:
        """Return the Gram matrix of one domain; those of all domains are asked for at once."""
        kept = self._rounds.totals
        key = _key(member, around, part)
        if key not in kept:
            wanted = [(around, part)]
            if self.space.radius is not None:
                wanted += [(None, one) for one in HALVES]
            elif self.space.intercept:  # models will be solved around the reference
                wanted += [(None, "all"), (self._around(), "all")]
            self._ask_grams(wanted)
        grams: Grams = kept[key]
        return grams

    def _around(self) -> Reference:
        reference = self.reference()
        row = reference.row.clone()
        row[-1] = 0.0
        return replace(reference, row=row)

    def _ask_grams(self, wanted: Sequence[tuple[Reference | None, Part]]) -> None:
        P, kept = self.space.n_params, self._rounds.totals
        calls = {}
        for around, part in wanted:
            for s in self._sources:
                check = shaped((1, P, P), (1, P), (1,))
                call = s.call("source_grams", around, s.part(part), check=check)
                calls[_key(s, around, part)] = call
            for t in self._targets:
                check = shaped((1, 1, P, P), (1, 1, P), (1, 1))
                call = t.call("own_grams", around, check=check)
                if t.part(part) != "all":
                    call = t.call("own_grams_of", part, check=shaped((1, P, P), (1, P), (1,)))
                calls[_key(t, around, part)] = call
        new = {key: call for key, call in calls.items() if key not in kept}
        for key, (A, b, r) in zip(new, self._rounds.ask(list(new.values())), strict=True):
            P = A.shape[-1]
            kept[key] = Grams(A.reshape(P, P), b.reshape(P), r.reshape(()))

    def _of_folds(self, member: Member, around: Reference | None, folds: Folds) -> Grams:
        """Return the Gram matrices (count, …) of an own sample without each of its folds."""
        kept = self._rounds.totals
        key = (*_key(member, around, "all"), folds.count)
        if key not in kept:
            P, F = self.space.n_params, int(folds.number.max()) + 1
            asked = Folds(folds.count, torch.arange(F))
            check = shaped((1, F, P, P), (1, F, P), (1, F))
            answers = self._rounds.ask(
                [t.call("own_grams_in_folds", around, asked, check=check) for t in self._targets]
            )
            for t, (A, b, r) in zip(self._targets, answers, strict=True):
                kept[(*_key(t, around, "all"), folds.count)] = Grams(A[0], b[0], r[0])
        grams: Grams = kept[key]
        return grams


def _key(member: Member, around: Reference | None, part: Part) -> tuple[Any, ...]:
    at = None if around is None else (around.row.numpy().tobytes(), float(around.label))
    return member.key, member.domain.name, at, member.part(part)


def _stacked(grams: Sequence[Grams]) -> Grams:
    return Grams(*(torch.stack([getattr(g, name) for g in grams]) for name in ("A", "b", "r")))
