"""Hold what a caller may choose about a map, checked on creation.

Options read from a file are checked like those of a user.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from cuvee.errors import OptionError, check_choice, check_number, check_whole

Trunk = Literal["own", "shared"]
"""A hidden layer per output, as in the paper, or one for all."""
Solver = Literal["exact", "descent"]
"""How a kernel's least squares are solved: at once, or by gradient descent that stops early."""


@dataclass(frozen=True)
class Options:
    """Hold what the caller chose about a map; None leaves it to the map."""

    tol: float
    degree: int | None = None
    order: int | None = None
    width: int | None = None
    steps: int | None = None
    eta: float | None = None
    trunk: Trunk = "own"
    solver: Solver = "exact"
    seed: int = 0
    shallow: bool = False  # "auto" without what costs more than the labels
    K: int = 10

    def __post_init__(self) -> None:
        check_choice("trunk", self.trunk, get_args(Trunk))
        check_choice("solver", self.solver, get_args(Solver))
        check_number("tol", self.tol, above=0.0)
        for name, least in (
            ("degree", 1),
            ("order", 1),
            ("width", 2),
            ("steps", 1),
            ("K", 1),
            ("seed", 0),
        ):
            value = getattr(self, name)
            if value is not None or name in ("K", "seed"):
                check_whole(name, value, least)
                # a plain int, because JSON cannot hold NumPy's
                object.__setattr__(self, name, int(value))
        if self.order is not None and self.order > 2:
            raise OptionError(f"order must be 1 or 2; got {self.order}")
        if self.degree is not None and self.order is not None:
            raise OptionError(
                "degree= belongs to polynomials and order= to Taylor pieces: give only one of them"
            )
        if self.width is not None and self.width % 2:
            raise OptionError(
                f"width must be even, because hidden units come in pairs; got {self.width}"
            )
        if self.eta is not None:
            check_number("eta", self.eta, above=0.0)
            object.__setattr__(self, "eta", float(self.eta))
        object.__setattr__(self, "tol", float(self.tol))

    def given(self) -> list[str]:
        """Return the names of the options that differ from their defaults."""
        plain = Options(self.tol, seed=self.seed, shallow=self.shallow)
        return [name for name, value in vars(self).items() if value != getattr(plain, name)]
