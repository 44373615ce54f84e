"""The options of `cuvee mix`, each written once, and what is made of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cuvee.errors import OptionError

if TYPE_CHECKING:
    from cuvee.mix import Constraints

Pairs = list[str] | None


def _allowed(help_: str, metavar: str = "NAME=X") -> Any:
    """Return an option on what is allowed."""
    return typer.Option(metavar=metavar, rich_help_panel="What is allowed", help=help_)


def _wanted(help_: str, metavar: str = "NAME=X") -> Any:
    """Return an option on what is wanted."""
    return typer.Option(metavar=metavar, rich_help_panel="What is wanted", help=help_)


Tokens = Annotated[
    Pairs, _allowed("Tokens that a domain has, in the unit of --budget; may be repeated.")
]
Budget = Annotated[float | None, _allowed("Tokens of the training run.", "X")]
Repeat = Annotated[float, _allowed("How often a domain's tokens may be seen.", "X")]
Fixed = Annotated[Pairs, _allowed("Share that is fixed; may be repeated.")]
Minimum = Annotated[
    Pairs, _allowed("Least share of a domain, or X alone for all; may be repeated.")
]
Maximum = Annotated[
    Pairs, _allowed("Largest share of a domain, or X alone for all; may be repeated.")
]
Minimise = Annotated[
    Pairs,
    _wanted(
        "Metric to minimise, with a weight; may be repeated. By default all, equally.", "NAME[=X]"
    ),
]
Worst = Annotated[
    bool,
    typer.Option(
        "--worst",
        rich_help_panel="What is wanted",
        help="Minimise the worst of them, not their mean.",
    ),
]
Keep = Annotated[
    Pairs,
    _wanted("What a metric must stay below (above, if maximised); may be repeated."),
]
Prior = Annotated[Path | None, _wanted("JSON or YAML of a mixture to compare with.", "FILE")]
Pull = Annotated[float, _wanted("Strength of the pull to --prior.", "X")]
Risk = Annotated[float, _wanted("0 minimises the mean, 1 the upper end of its interval.", "X")]
Scale = Annotated[
    str | None, typer.Option(metavar="NAME", help="Scale to predict; by default the largest.")
]
Count = Annotated[int, typer.Option("--runs", "-k", metavar="N", help="How many runs.")]
OutTable = Annotated[
    Path | None, typer.Option("--out", metavar="FILE", help="CSV or Parquet; by default stdout.")
]


def count(runs: int) -> int:
    """Return the number of runs; raise where it is none."""
    if runs < 1:
        raise OptionError(f"--runs {runs}: ask for at least one run")
    return runs


def pairs(option: str, given: Sequence[str] | None) -> dict[str, float]:
    """Return NAME=X pairs as a dictionary; the last "=" counts, as names may hold others."""
    values = {}
    for pair in given or ():
        name, equals, value = pair.rpartition("=")
        try:
            if not equals:
                raise ValueError
            values[name] = float(value)
        except ValueError:
            raise OptionError(f"{option} {pair}: write NAME=NUMBER, such as web=0.2") from None
    return values


def _limit(option: str, given: Sequence[str] | None) -> float | dict[str, float]:
    """Return NAME=X pairs, or the one number for all domains."""
    if given and len(given) == 1 and "=" not in given[0]:
        try:
            return float(given[0])
        except ValueError:
            raise OptionError(f"{option} {given[0]}: write a number, or NAME=NUMBER") from None
    return pairs(option, given)


def weights(given: Sequence[str] | None) -> dict[str, float] | None:
    """Return the metrics to minimise with their weights; 1 where none is given."""
    if not given:
        return None
    return pairs("--minimise", [one if "=" in one else f"{one}=1" for one in given])


def limits(
    tokens: Pairs, budget: float | None, repeat: float, fixed: Pairs, minimum: Pairs, maximum: Pairs
) -> Constraints:
    from cuvee.mix import Constraints

    return Constraints(
        tokens=pairs("--tokens", tokens), budget=budget, repeat=repeat,
        fixed=pairs("--fixed", fixed), minimum=_limit("--minimum", minimum),
        maximum=_limit("--maximum", maximum),
    )  # fmt: skip


def prior_of(path: Path | None) -> dict[str, float] | None:
    from cuvee.mix.weights_file import read_weights

    return None if path is None else read_weights(path)
