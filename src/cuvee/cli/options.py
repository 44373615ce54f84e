"""The options that commands share, each written once, and what is made of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from cuvee.names import AlphaMethod, TableModel

if TYPE_CHECKING:
    from cuvee.data.options import Options

Said = Sequence[str] | None  # an option that may be repeated
_TABLE, _MODEL = "The table", "What is learnt"

TableFile = Annotated[
    Path,
    typer.Argument(
        help=(
            "CSV, Parquet or Feather with a row per example; or a folder with such a file per "
            "domain."
        )
    ),
]
DomainColumn = Annotated[
    str | None,
    typer.Option(
        "--domain",
        metavar="COL",
        rich_help_panel=_TABLE,
        help=(
            "Column that names the domain; by default 'domain', in a folder the names of the files."
        ),
    ),
]
LabelColumn = Annotated[
    str,
    typer.Option(
        "--label",
        metavar="COL",
        rich_help_panel=_TABLE,
        help="Column to predict; empty: unlabelled.",
    ),
]
Targets = Annotated[
    str,
    typer.Option(
        metavar="NAMES",
        rich_help_panel=_TABLE,
        help=(
            "Domains that get a model: a,b or a pattern like north*, or each for every domain in "
            "turn."
        ),
    ),
]
NotSources = Annotated[
    str | None,
    typer.Option(
        "--targets",
        metavar="NAMES",
        rich_help_panel=_TABLE,
        help=(
            "Domains that are targets, and so no sources: a,b or a pattern like north*; by default "
            "none."
        ),
    ),
]
Exclude = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        rich_help_panel=_TABLE,
        help="Domain to leave out altogether; may be repeated, and a pattern like test*.",
    ),
]
Strict = Annotated[
    bool,
    typer.Option(
        "--strict",
        rich_help_panel=_TABLE,
        help=(
            "Small sources, targets with too few labels, rows of unknown classes or without a "
            "domain, and unseen categories are errors, not notes."
        ),
    ),
]
Features = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLS",
        rich_help_panel=_TABLE,
        help="Columns to learn from, a,b; by default all others.",
    ),
]
Drop = Annotated[
    list[str] | None,
    typer.Option(metavar="COLS", rich_help_panel=_TABLE, help="Columns to leave out, a,b."),
]
Text = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLS",
        rich_help_panel=_TABLE,
        help="Columns that are categories though they look like numbers.",
    ),
]
Encoding = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        rich_help_panel=_TABLE,
        help="How text files are encoded; cp1252 is usual for those of Windows.",
    ),
]
Missing = Annotated[
    list[str] | None,
    typer.Option(
        metavar="WORDS",
        rich_help_panel=_TABLE,
        help="Words that stand in empty cells, a,b; in columns of numbers NA and null do anyway.",
    ),
]
Impute = Annotated[
    bool,
    typer.Option(
        "--impute",
        rich_help_panel=_TABLE,
        help="Fill gaps in features: the median, or the most frequent value.",
    ),
]
Standardise = Annotated[
    bool,
    typer.Option(
        "--standardise/--no-standardise",
        rich_help_panel=_TABLE,
        help="Numbers with mean 0 and variance 1; not for pixels and embeddings.",
    ),
]
Levels = Annotated[
    bool,
    typer.Option(
        "--levels/--no-levels",
        rich_help_panel=_MODEL,
        help="Take each domain's own level out of a quantity, so that slopes are shared.",
    ),
]
Task = Annotated[
    str,
    typer.Option(
        metavar="TASK",
        rich_help_panel=_MODEL,
        help="classification, regression or counts; by default the labels tell.",
    ),
]
HypothesisName = Annotated[
    str,
    typer.Option(
        "--hypothesis",
        metavar="KIND",
        rich_help_panel=_MODEL,
        help=(
            f"{', '.join(get_args(TableModel))}, mlp, or package.module:factory, called with the "
            "numbers of inputs and outputs."
        ),
    ),
]
NamedCode = Annotated[
    str | None,
    typer.Option(
        "--hypothesis",
        metavar="KIND",
        help="package.module:factory that the run or file names; imported only if named here.",
    ),
]
Model = Annotated[
    str,
    typer.Option(
        metavar="KIND",
        rich_help_panel=_MODEL,
        help=(
            "linear, trees (histogram gradient boosting), forest, lightgbm, xgboost, or auto: "
            "linear, trees or forest, by folds; only linear models carry a certificate."
        ),
    ),
]
Budget = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS",
        rich_help_panel=_MODEL,
        help="For judging mixtures by folds of trees or forests; by default as long as it takes.",
    ),
]
L2 = Annotated[
    float,
    typer.Option(
        "--l2", metavar="X", rich_help_panel=_MODEL, help="Weight of the penalty l2/2 ‖w‖²."
    ),
]
Method = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        rich_help_panel=_MODEL,
        help=f"How weights are found: {', '.join(get_args(AlphaMethod))}.",
    ),
]
C = Annotated[
    float | None,
    typer.Option(
        "--C",
        metavar="X",
        rich_help_panel=_MODEL,
        help="Penalty for relying on few rows, 10 by default, where the method finds none itself.",
        show_default=False,
    ),
]
Metric = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        rich_help_panel=_MODEL,
        help=(
            "Score by which methods are compared: accuracy, balanced-accuracy, auc, log-loss; "
            "rmse, mae, r2; deviance of counts. By default accuracy (log-loss where a class is "
            "rare), or rmse."
        ),
    ),
]
Tol = Annotated[
    float,
    typer.Option(metavar="X", rich_help_panel=_MODEL, help="On the gradient ‖∇‖∞ of a model."),
]
Seed = Annotated[
    int,
    typer.Option(
        metavar="N",
        rich_help_panel=_MODEL,
        help="The same seed gives the same result on the same machine.",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Write over a file that is there already.")]
Json = Annotated[
    bool, typer.Option("--json", help="One JSON object on stdout, and nothing else there.")
]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="No notes and no progress, errors only.")
]


def names(given: Said) -> tuple[str, ...]:
    """Return the column names of an option that may be repeated, each a comma list.

    Quotes keep a comma in a name.

    >>> names(["age,sex", '"weight, kg"'])
    ('age', 'sex', 'weight, kg')
    """
    from cuvee.data.columns import comma_list

    return tuple(name for one in given or () for name in comma_list(one))


def of_all_rows(**given: Any) -> Options:
    """Return the options of a single step, which learns from all labelled rows.

    None are kept for scores.
    """
    return options(**given, test=0.0)


def options(
    exclude: Said, features: Said, drop: Said, text: Said, missing: Said, **given: Any
) -> Options:
    """Return `cuvee.run.Options` of a command's options, its lists of columns taken apart."""
    from cuvee.data.options import Options

    lists: dict[str, Any] = {
        "features": names(features) or None,
        "drop": names(drop),
        "text": names(text),
        "missing": names(missing),
    }
    return Options(exclude=tuple(exclude or ()), **lists, **given)
