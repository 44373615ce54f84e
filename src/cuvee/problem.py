"""`Domain` and `Problem`: the data, validated once, here.

Everything behind this file may assume finite features, matching feature counts and unique names.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from cuvee.errors import CuveeWarning, DomainError
from cuvee.facts import Array as Array
from cuvee.facts import Facts, LocalFacts
from cuvee.inputs.tables import (
    check_features,
    check_labels,
    check_row_weights,
    check_unlabelled,
    column_names,
    is_empty,
    per_row,
)

LEAST_ROWS = 2  # of a source


@dataclass(frozen=True, eq=False)
class Domain:
    """A named, labelled table: X (rows, features…), y (rows,), optionally a weight per row.

    Row weights matter only relative to each other: the loss of a domain is its weighted mean.

    `unlabelled` (rows, features…) are more rows of a target, whose labels nobody knows. A target
    may have nothing else: X and y are then None, and its weights rest on its inputs alone.

    >>> Domain("north", [[0.0, 1.0], [1.0, 0.0]], [0, 1]).n_rows
    2
    >>> Domain("new", None, None, unlabelled=[[0.0, 1.0], [1.0, 0.0]])
    Domain('new', 0 rows × 2 and 2 unlabelled)
    """

    name: str
    X: Array
    y: Array
    weight: Array | None = None
    features: tuple[str, ...] = field(default=(), repr=False)
    unlabelled: Array | None = None
    is_here = True  # whether the rows are in this process
    share = 1.0  # what the weights of all rows sum to: less for a part of a domain

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise DomainError(f"a domain needs a non-empty string as name; got {self.name!r}")
        features = tuple(self.features) or column_names(self.X, self.unlabelled)
        unlabelled = check_unlabelled(self.name, self.unlabelled, features)
        X, y, weight = self.X, self.y, self.weight
        if unlabelled is not None and is_empty(X) and is_empty(y):
            X, y, weight = unlabelled[:0], np.zeros(0), None
        else:
            X = check_features(self.name, X, features)
            y = check_labels(self.name, y, len(X))
            weight = None if weight is None else check_row_weights(self.name, weight, len(X))
        if unlabelled is not None and X.shape[1:] != unlabelled.shape[1:]:
            raise DomainError(
                f"domain {self.name!r}: its unlabelled rows have {per_row(unlabelled.shape[1:])}, "
                f"but its labelled ones {per_row(X.shape[1:])}; give both the same columns"
            )
        for attribute, value in (
            ("X", X), ("y", y), ("weight", weight), ("features", features),
            ("unlabelled", unlabelled),
        ):  # fmt: skip
            object.__setattr__(self, attribute, value)

    @property
    def n_rows(self) -> int:
        """Return the number of labelled rows."""
        return len(self.X)

    @property
    def n_inputs(self) -> int:
        """Return the number of rows, labelled or not."""
        return self.n_rows + (0 if self.unlabelled is None else len(self.unlabelled))

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Return the shape of one row of X."""
        return tuple(self.X.shape[1:])

    @cached_property
    def facts(self) -> LocalFacts:
        """Return what may be known of these rows without seeing them."""
        return LocalFacts(self.name, self.X, self.y, self.weight)

    def lowered(self, level: float) -> Domain:
        """Return the same rows with `level` taken off every label, which must be numbers."""
        y = self.y.astype(np.float64) - level
        return Domain(self.name, self.X, y, self.weight, self.features, self.unlabelled)

    def __repr__(self) -> str:
        more = "" if self.unlabelled is None else f" and {len(self.unlabelled)} unlabelled"
        shape = " × ".join(map(str, self.input_shape))
        return f"Domain({self.name!r}, {self.n_rows} rows × {shape}{more})"


@dataclass(frozen=True, eq=False)
class Problem:
    """N sources and M targets with the same features.

    `targets` may be empty when only sources matter.

    >>> a = Domain("a", [[0.0], [1.0], [2.0]], [0, 1, 1])
    >>> t = Domain("t", [[0.5], [1.5]], [0, 1])
    >>> Problem(sources=[a], targets=[t]).n_sources
    1
    """

    sources: Sequence[Domain]
    targets: Sequence[Domain] = ()
    notes: tuple[str, ...] = field(default=(), init=False)

    def __post_init__(self) -> None:
        for role, domains in (("sources", self.sources), ("targets", self.targets)):
            if isinstance(domains, Domain):
                raise DomainError(
                    f"{role} must be a list of domains; got the single domain {domains.name!r}"
                )
        object.__setattr__(self, "sources", tuple(self.sources))
        object.__setattr__(self, "targets", tuple(self.targets))
        if not self.sources:
            raise DomainError("a problem needs at least one source; got none")
        for role, domains in (("source", self.sources), ("target", self.targets)):
            for position, domain in enumerate(domains):
                if not isinstance(domain, Domain):
                    raise DomainError(
                        f"{role} {position} is a {type(domain).__name__}, not a cuvee.Domain"
                    )
        self._check_names()
        self._check_shapes()
        for source in self.sources:
            if source.n_rows < LEAST_ROWS:
                has = "one row" if source.n_rows else "no labelled row"
                raise DomainError(
                    f"source {source.name!r} has {has}; a source needs at least {LEAST_ROWS}"
                )
        object.__setattr__(self, "notes", self._shared_data())
        for note in self.notes:
            warnings.warn(note, CuveeWarning, stacklevel=3)

    @property
    def n_sources(self) -> int:
        return len(self.sources)

    @property
    def n_targets(self) -> int:
        return len(self.targets)

    @property
    def source_names(self) -> tuple[str, ...]:
        """Return the names (N,) of the sources, in the order of α's columns."""
        return tuple(source.name for source in self.sources)

    @property
    def target_names(self) -> tuple[str, ...]:
        """Return the names (M,) of the targets, in the order of α's rows."""
        return tuple(target.name for target in self.targets)

    def __repr__(self) -> str:
        return (
            f"Problem({self.n_sources} sources, {self.n_targets} targets, rows of shape "
            f"{self.input_shape})"
        )

    @property
    def facts(self) -> Facts:
        """Return what binding a hypothesis needs to know of the labelled rows.

        Of targets without any there is nothing to know.
        """
        features = next((d.features for d in (*self.sources, *self.targets) if d.features), ())
        sources = [d.facts for d in self.sources]
        targets = [d.facts for d in self.targets if d.n_rows]
        return Facts(self.input_shape, sources, targets, features)

    def without_targets(self) -> Problem:
        """Return the same sources alone."""
        return Problem(self.sources) if self.targets else self

    def with_targets(self, targets: Sequence[Domain], *, warn: bool = False) -> Problem:
        """Return the same sources with other targets.

        With `warn`, targets that are new are told about as `Problem` does: that one holds the very
        rows of a source.
        """
        with warnings.catch_warnings():
            if not warn:
                warnings.simplefilter("ignore", CuveeWarning)
            return Problem(self.sources, targets)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Return the shape of one row of X."""
        return self.sources[0].input_shape

    def _check_names(self) -> None:
        for role, domains in (("sources", self.sources), ("targets", self.targets)):
            seen: set[str] = set()
            for domain in domains:
                if domain.name in seen:
                    raise DomainError(
                        f"two {role} are named {domain.name!r}; give each its own name"
                    )
                seen.add(domain.name)

    def _check_shapes(self) -> None:
        first = self.sources[0]
        for domain in (*self.sources, *self.targets):
            if domain.input_shape != first.input_shape:
                raise DomainError(
                    f"domain {domain.name!r} has {_shape(domain)} per row, "
                    f"but {first.name!r} has {_shape(first)}; all domains need the same features"
                )
        named = [d for d in (*self.sources, *self.targets) if d.features]
        for domain in named:
            pairs = zip(domain.features, named[0].features, strict=True)
            column = next((i for i, (a, b) in enumerate(pairs) if a != b), None)
            if column is not None:
                raise DomainError(
                    f"domain {domain.name!r} has column {domain.features[column]!r} at position "
                    f"{column}, where "
                    f"{named[0].name!r} has {named[0].features[column]!r}; bring the columns into "
                    "one order"
                )

    def _shared_data(self) -> tuple[str, ...]:
        """Return notes on sources and targets that hold the very same rows.

        Rows are compared by hashes, so that 10⁵ targets stay cheap.
        """
        shapes = {(target.n_rows, *target.input_shape) for target in self.targets}
        alike = [s for s in self.sources if (s.n_rows, *s.input_shape) in shapes and s.is_here]
        by_content = {_content(source): source.name for source in alike}
        pairs = [
            (by_content[key], t.name)
            for t in self.targets
            if t.is_here and (key := _content(t)) in by_content
        ]
        return tuple(
            f"source {source!r} and target {target!r} hold the very same data: "
            "its discrepancy is 0, so its weight says nothing about other rows"
            for source, target in pairs
        )


def digest(domain: Domain) -> str:
    """Return a digest that is the same for the same rows, labels and weights.

    The domain's name does not enter it.
    """
    hashed = hashlib.sha256(repr((domain.X.shape, domain.X.dtype.str)).encode())
    more = () if domain.unlabelled is None else (domain.unlabelled,)
    for part in (domain.X, domain.y, domain.weight, *more):
        if part is not None:
            hashed.update(str(part.tolist()).encode() if part.dtype == object else part.tobytes())
        hashed.update(b"|")
    return hashed.hexdigest()


def as_problem(data: Problem | Sequence[Domain]) -> Problem:
    """Accept a problem, or a list of sources where no targets are needed."""
    return data if isinstance(data, Problem) else Problem(sources=data)


def _shape(domain: Domain) -> str:
    return per_row(domain.input_shape)


def _content(domain: Domain) -> tuple[Any, ...]:
    """Return a key that is equal for equal values, whatever types they are held in."""
    return (
        domain.X.shape,
        hash(domain.X.astype(np.float64).tobytes()),
        hash(tuple(domain.y.tolist())),
    )
