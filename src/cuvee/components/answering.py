"""What a site says of the rows that it holds: an introduction, and answers to a list of questions.

This is the end of the seam where the rows are; `components/sites.py` is the other one, which asks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from cuvee.components.bounds import RiskBounds
from cuvee.components.kinds import local_kind
from cuvee.components.local import LocalComponents
from cuvee.components.protocol import Grams
from cuvee.errors import DomainError
from cuvee.facts import KnownFacts
from cuvee.problem import Domain, Problem

QUESTIONS = frozenset(
    { "values", "pull", "pull_with_second", "hessians", "hessian_times", "hessian_blocks",
    "statistics", "largest", "longest_row", "mean_squares", "rows_of_kind", "label_sizes", "means",
    "spread", "source_grams", "reference", "source_moments", "bytes_per_row", "roundings",
    "row_constants", "squared_lengths", "risk_bounds", "feature_means", "inputs_times", }
)  # fmt: skip
"""What a site may be asked once it is bound to a hypothesis: sums, maxima, means over its rows."""


@dataclass(frozen=True)
class Introduction:
    """Hold what a site says of itself at first."""

    facts: KnownFacts
    input_shape: tuple[int, ...]
    features: tuple[str, ...]


class Answerer:
    """Hold the rows of a site and answer questions about them."""

    def __init__(self, domain: Domain) -> None:
        self._domain, self._bound = domain, list[LocalComponents]()

    def answer(self, question: str, *arguments: Any) -> Any:
        """Return the answer to one question; only QUESTIONS may be asked of the rows."""
        if question == "introduce":
            return Introduction(
                self._domain.facts.known(), self._domain.X.shape[1:], self._domain.features
            )
        if question == "bind":
            space, loss, options = arguments
            self._bound.append(
                local_kind(space, loss)(Problem([self._domain]), space, loss, **options)
            )
            return len(self._bound) - 1
        if question not in QUESTIONS:
            raise DomainError(
                f"domain {self._domain.name!r}: its site does not answer {question!r}; it answers "
                f"{', '.join(sorted(QUESTIONS))}"
            )
        handle, *inputs = arguments
        return asked(self._bound[handle], question, inputs)


def asked(components: LocalComponents, question: str, inputs: Sequence[Any]) -> Any:
    """Return the answer of components to a question; bounds and Gram matrices become tuples."""
    attribute = getattr(components, question)
    answer = attribute(*inputs) if callable(attribute) else attribute
    if isinstance(answer, Grams | RiskBounds):
        return tuple(getattr(answer, field.name) for field in fields(answer))
    return answer
