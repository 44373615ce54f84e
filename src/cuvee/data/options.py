"""Everything a run was asked for: what run.json holds, and what a resume goes by."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from numbers import Real
from shlex import quote
from typing import Any, Literal

from cuvee.data.columns import as_written, comma_list
from cuvee.data.encoding import UTF8, check_encoding
from cuvee.data.metrics import AUTO as AUTO_METRIC
from cuvee.data.metrics import metric_named
from cuvee.data.roles import LEAST_LABELLED
from cuvee.data.targets import EACH
from cuvee.data.task import Task
from cuvee.errors import InputError, OptionError, check_choice, check_number
from cuvee.hypothesis import Hypothesis, Network
from cuvee.hypothesis.registry import MODELS, for_task
from cuvee.mixture import registry as alpha_methods

HIDDEN = 64  # units of "mlp"
LARGEST = 2**63 - 1  # whole number that a tensor holds
KINDS = ("auto", *MODELS, "mlp")
OURS = ("cuvee.demo:two_layers",)  # factories of cuvee's own, which any file may name
LINEAR, AUTO = "linear", "auto"
FITTED = {
    "trees": "histogram gradient boosting",
    "forest": "a random forest",
    "lightgbm": "LightGBM",
    "xgboost": "XGBoost",
}
"""Models that are fitted on mixtures which a linear hypothesis finds, in words."""


@dataclass(frozen=True)
class Options:
    """The options of a run; they are plain values only, so that JSON holds them.

    >>> Options(label="readmitted", domain="hospital", targets="north,south").hypothesis
    'auto'
    """

    label: str = "label"
    domain: str | None = None
    """The column that says whose row each is; None: "domain", or the files of a folder."""
    targets: str | tuple[str, ...] = EACH
    """Names (a number too), a comma list, patterns such as "north*", or "each": every domain in
    turn.
    """
    exclude: tuple[str, ...] = ()
    """Domains that are neither source nor target, named as targets are."""
    strict: bool = False
    """Make errors of what is otherwise noted: small sources that are pooled or left out, targets
    with too few labelled rows, rows of a target whose class no source has, rows without a domain,
    and test rows with a category that no training row has.
    """
    features: tuple[str, ...] | None = None
    """Columns to learn from, a list of names or one text, "age,sex"; None: all but `drop`."""
    drop: tuple[str, ...] = ()
    """Columns to leave out, named as features are."""
    text: tuple[str, ...] = ()
    """Columns that are categories, whatever they look like, named as features are."""
    encoding: str = UTF8
    """Of text files: "utf-8", "cp1252", …."""
    missing: tuple[str, ...] = ()
    """Words, or numbers, that stand in empty cells, a list or one text, "NA,-999". An empty cell is
    missing anyway, and so are NA, null and the like in a column of numbers.
    """
    task: str = "auto"
    hypothesis: str = "auto"
    """"ridge", "logistic", "poisson", "mlp", or "package.module:factory".

    The last makes a module from (inputs, outputs).
    """
    model: str = LINEAR
    """"linear": the hypothesis itself; "trees" (histogram gradient boosting) or "forest": fitted on
    mixtures that the hypothesis finds and the model's own folds judge, and so are "lightgbm" and
    "xgboost" where these packages are installed; "auto": linear models, trees or a forest, by the
    loss on held-out rows. All but the first need `cuvee[trees]`.
    """
    budget: float | None = None
    """Seconds for judging mixtures by folds of trees or forests; None: as long as it takes."""
    l2: float = 1e-2
    method: str = "path"
    C: float | None = None
    """Weight of Σ_j α_j²/m_j, by default 10, for methods that do not find their own."""
    test: float = 0.25
    """Share of each target's labelled rows that is kept for scores; delivered models learn from all
    of them.
    """
    labelled: int | None = None
    """Labelled rows of each target to learn from, instead of a share: the others are for scores and
    nothing else.
    """
    metric: str = AUTO_METRIC
    """What scores and comparisons are: "accuracy", "balanced accuracy", "AUC" (of two classes) or
    "log loss"; of a quantity "root mean squared error" (RMSE), "mean absolute error" (MAE) or "R²";
    of counts "deviance" too. "auto": accuracy, or log loss where a class is rare, and RMSE.
    """
    importance: bool = False
    """Work out how much each target's score needs each column: how much worse it becomes where the
    column is permuted among the test rows.
    """
    tol: float = 1e-6
    impute: bool = False
    standardise: bool = True
    """Give every number column mean 0 and variance 1 on the rows of sources; pixels and embeddings
    are better left alone.
    """
    levels: bool = True
    """Take each domain's own level out of the labels of a quantity, so that domains share slopes
    and not means.
    """
    stream: bool | None = None
    """Read the files batch by batch, never whole; None: where they are large. A category that
    only targets have then counts as another one.
    """
    seed: int = 0
    on: str | None = None
    """"ray": rows lie in shards on the workers of a Ray cluster, one that is running or a local one
    that is started; "ray:HOST:PORT": on those of the cluster at that address.
    """

    def __post_init__(self) -> None:
        for name in ("label", "task", "hypothesis", "method"):
            if not isinstance(getattr(self, name), str) or not getattr(self, name):
                raise OptionError(f"{name} must be a text; got {getattr(self, name)!r}")
        if self.on is not None and not isinstance(self.on, str):
            raise OptionError(f"on must be a text, such as 'ray'; got {self.on!r}")
        if self.domain is not None and not isinstance(self.domain, str):
            raise OptionError(f"domain must be the name of a column; got {self.domain!r}")
        for name in ("strict", "impute", "standardise", "levels", "stream", "importance"):
            if not isinstance(getattr(self, name), bool) and not (
                name == "stream" and self.stream is None
            ):
                raise OptionError(f"{name} must be True or False; got {getattr(self, name)!r}")
        for name in ("targets", "exclude", "features", "drop", "text", "missing"):
            object.__setattr__(self, name, _names(name, getattr(self, name)))
        check_encoding(self.encoding)
        object.__setattr__(self, "metric", metric_named(self.metric))
        check_choice("task", self.task, ("auto", *(t.value for t in Task)))
        alpha_methods.find(self.method)
        if self.hypothesis not in KINDS and ":" not in self.hypothesis:
            raise OptionError(
                f"hypothesis must be {', '.join(map(repr, KINDS))} or 'package.module:factory'; "
                f"got {self.hypothesis!r}"
            )
        check_choice("model", self.model, (LINEAR, *FITTED, AUTO))
        if self.model != LINEAR and self.hypothesis not in ("auto", *MODELS):
            raise OptionError(
                f"model {self.model!r} learns from mixtures that a linear hypothesis finds: leave "
                f"hypothesis {self.hypothesis!r} out"
            )
        if self.budget is not None:
            check_number("budget", self.budget, above=0.0)
            object.__setattr__(self, "budget", float(self.budget))
            if self.model == LINEAR or (self.model != AUTO and self.method != "path"):
                why = f"model {self.model!r}" if self.model == LINEAR else f"method {self.method!r}"
                raise OptionError(
                    f"budget has no effect with {why}: it is for trees and forests that judge what "
                    "method 'path' has tried; leave it out"
                )
        check_number("l2", self.l2, least=0.0)
        if self.C is not None:
            check_number("C", self.C, above=0.0)
            object.__setattr__(self, "C", float(self.C))
            alpha_methods.check_taken(self.method, ["C"])
        check_number("test", self.test, least=0.0, most=0.9)
        check_number("tol", self.tol, above=0.0)
        for name in ("l2", "test", "tol"):
            # JSON knows no numbers of NumPy
            object.__setattr__(self, name, float(getattr(self, name)))
        for name, least in (("labelled", LEAST_LABELLED), ("seed", 0)):
            value = getattr(self, name)
            if value is not None or name == "seed":
                check_number(name, value, least=least, most=LARGEST)
                if int(value) != value:
                    raise OptionError(f"{name} must be a whole number; got {value!r}")
                object.__setattr__(self, name, int(value))

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(
        cls, stored: dict[str, Any], where: str = "run.json", *, hypothesis: str | None = None
    ) -> Options:
        """Return the options that `as_dict` gave, after a way through JSON, which has no tuples.

        Args:
            stored: what the file holds.
            where: the file that errors name.
            hypothesis: the one that the caller names. A factory that the file names is code, and
                would be imported: it is an error unless the caller names it, too.
        """
        known = {field.name for field in fields(cls)}
        if unknown := sorted(set(stored) - known):
            raise InputError(
                f"{where} has an option {unknown[0]!r} that this version of cuvee does not know"
            )
        plain: dict[str, Any] = {
            name: tuple(v) if isinstance(v, list) else v for name, v in stored.items()
        }
        # what older versions called otherwise, or kept without an effect
        if plain.get("method") == "proportional":
            plain["method"] = "pooled_own"
        takes = alpha_methods.find(plain.get("method", cls.method)).takes
        if takes is not None and "C" not in takes:
            plain.pop("C", None)
        if plain.get("model", cls.model) == LINEAR:
            plain.pop("budget", None)
        options = cls(**plain)
        named = options.hypothesis
        if hypothesis is not None and hypothesis != named:
            raise OptionError(
                f"{where} holds the hypothesis {named!r}, not {hypothesis!r}: name that, or none"
            )
        if hypothesis is None and named not in (*KINDS, *OURS):
            raise OptionError(
                f"{where} names {named!r}, code that makes its networks, and a file's code is not "
                f"run by itself: if you trust it, say so, by --hypothesis {quote(named)} or "
                f"hypothesis={named!r}"
            )
        return options


def _names(option: str, value: Any) -> str | tuple[str, ...] | None:
    """Return names as a tuple; targets stay one text or number, and features may be nothing."""
    if option == "targets" and isinstance(value, Real) and not isinstance(value, bool):
        return as_written(value)
    if (value is None and option == "features") or (isinstance(value, str) and option == "targets"):
        return value
    if isinstance(value, str):
        # patterns of domains are taken apart beside the names that there are
        return (value,) if option == "exclude" else comma_list(value)
    if not isinstance(value, Iterable):
        raise OptionError(f"{option} must be a list of names; got {value!r}")
    return tuple(map(as_written, value))


def kind_of(options: Options, task: Task) -> str:
    """Return the name of the hypothesis that was asked for, or of the one that fits the task."""
    kind = for_task(task).name if options.hypothesis == "auto" else options.hypothesis
    model = MODELS.get(kind)
    if model is not None and (model.task == Task.classification) != (task == Task.classification):
        labels, fitting = _labels[task], for_task(task).name
        raise OptionError(
            f"{kind} predicts {_labels[Task(model.task)]}, and the labels are {labels}: "
            f"choose {fitting}, or task {model.task}"
        )
    return kind


_labels = {
    Task.regression: "a quantity",
    Task.classification: "classes",
    Task.counts: "counts",
}


def in_words(options: Options, kind: str) -> str:
    """Return the hypothesis in words for people."""
    words = {name: model.words for name, model in MODELS.items()}
    words["mlp"] = f"{HIDDEN} hidden units"
    linear = f"{words.get(kind, f'the network of {kind}')}, l2 = {options.l2:g}"
    if options.model == LINEAR:
        return linear
    fitted = FITTED.get(options.model, "linear models, trees or a forest")
    return f"{fitted}, on mixtures found with {linear}"


def hypothesis_of(options: Options, task: Task, n_inputs: int, n_outputs: int) -> Hypothesis:
    """Return the hypothesis that was asked for, on so many encoded columns.

    A quantity has one output.
    """
    kind = kind_of(options, task)
    if kind in MODELS:
        return MODELS[kind].make(options.l2)
    classify = task is Task.classification
    loss: Literal["squared", "cross_entropy"] = "cross_entropy" if classify else "squared"
    return Network(_module(kind, n_inputs, n_outputs, options.seed), l2=options.l2, loss=loss)


def _module(kind: str, n_inputs: int, n_outputs: int, seed: int) -> Any:
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if kind == "mlp":
            layers = (
                torch.nn.Linear(n_inputs, HIDDEN),
                torch.nn.ReLU(),
                torch.nn.Linear(HIDDEN, n_outputs),
            )
            return torch.nn.Sequential(*layers)
        name, _, factory = kind.partition(":")
        try:
            return getattr(importlib.import_module(name), factory)(n_inputs, n_outputs)
        except (ImportError, AttributeError, ValueError, TypeError) as error:
            raise OptionError(f"hypothesis {kind!r} cannot be made: {error}") from None
