"""docs/api.md from signatures and docstrings: `make docs` writes it, `--check` says whether it is
what it should be.

A name that is to appear stands in `GROUPS` below, under the question it answers. Every name of
`cuvee.__all__` must.
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from functools import cached_property
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import cuvee

PAGE = Path(__file__).with_name("api.md")
WIDTH = 110  # of a signature that stays on one line

GROUPS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("The data", "What everything takes.", ("cuvee.Domain", "cuvee.Problem")),
    ("The kind of model", "", ("cuvee.Ridge", "cuvee.Logistic", "cuvee.Poisson", "cuvee.Network")),
    (
        "Weights: how much from each source?",
        "See [mixture.md](mixture.md).",
        (
            "cuvee.estimate",
            "cuvee.Mixtures",
            "cuvee.Candidate",
            "cuvee.Trace",
            "cuvee.OWN",
        ),
    ),
    (
        "Models: which w for this mixture?",
        "See [models.md](models.md).",
        (
            "cuvee.solve",
            "cuvee.certify",
            "cuvee.sensitivity",
            "cuvee.load_models",
            "cuvee.SavedModels",
        ),
    ),
    (
        "Maps: models for mixtures that nobody solved",
        "See [maps.md](maps.md).",
        ("cuvee.plan", "cuvee.Plan", "cuvee.learn", "cuvee.ModelMap", "cuvee.load_map"),
    ),
    (
        "Online: targets that arrive one by one",
        "See [online.md](online.md).",
        ("cuvee.OnlineMap", "cuvee.OnlineMixtures", "cuvee.run_online", "cuvee.Ledger"),
    ),
    (
        "Mixtures to train on: from small runs to the next one",
        "See [mix.md](mix.md).",
        (
            "cuvee.fit_surface",
            "cuvee.Surface",
            "cuvee.load_surface",
            "cuvee.first_runs",
            "cuvee.Constraints",
            "cuvee.mix.Prediction",
            "cuvee.mix.Sensitivity",
            "cuvee.mix.Proposal",
            "cuvee.mix.Front",
            "cuvee.mix.Plan",
            "cuvee.mix.InfeasibleError",
        ),
    ),
    (
        "Tables: from a file or a frame to models",
        "See [examples.md](examples.md#one-table-with-sites).",
        (
            "cuvee.adapt",
            "cuvee.Options",
            "cuvee.Run",
            "cuvee.open_run",
            "cuvee.resume",
            "cuvee.data.frame.read",
            "cuvee.data.frame.Table",
            "cuvee.data.encode.Encoder",
        ),
    ),
    (
        "Ray: rows and targets on a cluster",
        "See [ray.md](ray.md).",
        ("cuvee.on_ray", "cuvee.estimate_on_ray", "cuvee.solve_on_ray"),
    ),
    (
        "scikit-learn and skada",
        "See [sklearn.md](sklearn.md).",
        (
            "cuvee.CuveeClassifier",
            "cuvee.CuveeRegressor",
            "cuvee.sklearn.TargetSplit",
            "cuvee.sklearn.TargetScorer",
            "cuvee.skada.CuveeReweightAdapter",
        ),
    ),
    (
        "Theory: the theorems' numbers",
        "See [theory.md](theory.md).",
        (
            "cuvee.risk_bound",
            "cuvee.RiskBound",
            "cuvee.theory_steps",
            "cuvee.Constants",
            "cuvee.theory.TheorySteps",
            "cuvee.theory.multi_source_bound",
            "cuvee.theory.sample_bound",
            "cuvee.theory.LearningBound",
            "cuvee.theory.stationarity_bound",
            "cuvee.theory.StationarityBound",
            "cuvee.theory.stationarity_needs",
            "cuvee.theory.StationarityNeeds",
            "cuvee.theory.lipschitz_constant",
            "cuvee.theory.offline_exponent",
            "cuvee.theory.labels_exponent",
            "cuvee.theory.offline_risk",
            "cuvee.theory.offline_needs",
            "cuvee.theory.OfflineNeeds",
            "cuvee.theory.learning_pays_from",
            "cuvee.theory.online_exponent",
            "cuvee.theory.regret_bound",
            "cuvee.theory.RegretBound",
            "cuvee.theory.label_needs",
            "cuvee.theory.LabelNeeds",
            "cuvee.theory.printed_label_complexity",
            "cuvee.theory.packing_constant",
            "cuvee.theory.risk_constants",
            "cuvee.theory.RiskConstants",
            "cuvee.theory.row_constants",
            "cuvee.theory.RowConstants",
            "cuvee.theory.minimax_constants",
            "cuvee.theory.rademacher",
        ),
    ),
    (
        "Checks: for a hypothesis, an α method or a map of your own",
        "See [CONTRIBUTING](../CONTRIBUTING.md).",
        (
            "cuvee.testing.check_hypothesis",
            "cuvee.testing.check_alpha_method",
            "cuvee.testing.check_map",
        ),
    ),
    (
        "Results: what comes back",
        "",
        ("cuvee.Solution", "cuvee.Model", "cuvee.Certificate", "cuvee.Status"),
    ),
    (
        "Errors",
        "",
        (
            "cuvee.CuveeError",
            "cuvee.InputError",
            "cuvee.DomainError",
            "cuvee.MixtureError",
            "cuvee.OptionError",
            "cuvee.StatusError",
            "cuvee.CuveeWarning",
        ),
    ),
)

GIVEN = {  # results: nobody calls their constructors
    *(
        "cuvee.Mixtures",
        "cuvee.Candidate",
        "cuvee.Trace",
        "cuvee.Plan",
        "cuvee.ModelMap",
        "cuvee.Ledger",
    ),
    *("cuvee.Solution", "cuvee.Model", "cuvee.Certificate", "cuvee.Run", "cuvee.data.frame.Table"),
    *(
        f"cuvee.theory.{name}"
        for name in ("LearningBound", "StationarityBound", "StationarityNeeds", "TheorySteps")
    ),
    *(
        f"cuvee.theory.{name}"
        for name in ("RegretBound", "LabelNeeds", "RiskConstants", "RowConstants")
    ),
    *("cuvee.RiskBound", "cuvee.theory.OfflineNeeds"),
    "cuvee.SavedModels",
}
INNER = {
    "cuvee.ModelMap": {
        "bound",
        "predictor",
        "subspace",
        "calibration",
        "labels",
        "settings",
        "relearn",
    }
}
WITHIN = {"bind", "checkpoint", "restore", "settings"}  # public for the library's own sake


def page() -> str:
    """The whole page, the same whoever makes it."""
    listed = [name for _, _, names in GROUPS for name in names]
    absent = {f"cuvee.{name}" for name in cuvee.__all__} - set(listed)
    if absent:
        raise SystemExit(f"docs/make_api.py: put {', '.join(sorted(absent))} into GROUPS")
    slugs = Slugs()
    slugs("API reference")
    contents, body = [], []
    for title, intro, names in GROUPS:
        contents.append(f"- [{title}](#{slugs(title)})")
        body += [f"## {title}", *([intro] if intro else [])]
        if title == "Errors":
            body.append(
                _fenced(
                    textwrap.dedent((import_module("cuvee.errors").__doc__ or "").split("::")[1]),
                    "",
                )
            )
        for name in names:
            contents.append(f"  - [`{name}`](#{slugs(name)})")
            body += [f"### `{name}`", *entry(name)]
    head = [
        "# API reference",
        "On this page you find every public name, with its arguments and what comes back. It is "
        "made by `make docs` from signatures and docstrings: change those, not this page. Shapes: "
        "M targets or models, "
        "N sources, P parameters.",
        "\n".join(contents),
    ]
    text = "\n\n".join(part.strip("\n") for part in (*head, *body)) + "\n"
    if leak := re.search(r".* at 0x.*|.*/(home|root|work|tmp)/.*", text):
        raise SystemExit(f"docs/make_api.py: this is of one machine only: {leak[0]}")
    return text


class Slugs:
    """Anchors as GitHub makes them: a second heading with the same letters gets -1."""

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}

    def __call__(self, heading: str) -> str:
        slug = re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
        again = self._seen.get(slug, 0)
        self._seen[slug] = again + 1
        return f"{slug}-{again}" if again else slug


def entry(name: str) -> Iterator[str]:
    """What is said of one name."""
    module, _, last = name.rpartition(".")
    thing: Any = getattr(import_module(module), last)
    if not callable(thing):
        yield (
            f"`{last} = {thing!r}`: the last column's name when each target's own sample joins its "
            "mixture."
        )
    elif inspect.isclass(thing) and issubclass(thing, enum.Enum):
        yield from rendered(inspect.getdoc(thing))
        yield "\n".join(f"- `{m.name}`, {m.value!r}: {m.sentence}" for m in thing)
        yield from members(thing, set())
    elif inspect.isclass(thing) and issubclass(thing, Exception):
        yield from rendered(inspect.getdoc(thing))
    elif inspect.isclass(thing):
        if name not in GIVEN:
            yield from call(thing, last)
        yield from rendered(inspect.getdoc(thing))
        yield from fields(thing, INNER.get(name, set()), known=name not in GIVEN)
        yield from members(thing, WITHIN)
    else:
        yield from call(thing, last)
        yield from rendered(inspect.getdoc(thing))


def call(thing: Callable[..., Any], name: str, method: bool = False) -> Iterator[str]:
    """The signature, and the choices behind the names in it."""
    yield _fenced(signature(thing, name, method))
    known = vars(import_module(thing.__module__))
    said = " ".join(_words(p.annotation) for p in inspect.signature(thing).parameters.values())
    for word in dict.fromkeys(re.findall(r"\w+", said)):
        if get_origin(known.get(word)) is Literal:
            yield (
                f"`{word}` is one of "
                f"{', '.join(f'`{choice!r}`' for choice in get_args(known[word]))}."
            )


def signature(thing: Callable[..., Any], name: str, method: bool = False) -> str:
    """As one would write the call; on several lines where it is long."""
    found = inspect.signature(thing)
    parameters = [p for i, p in enumerate(found.parameters.values()) if not (method and i == 0)]
    said: list[str] = []
    for p in parameters:
        if p.kind is p.KEYWORD_ONLY and not any(s.startswith("*") for s in said):
            said.append("*")
        said.append(_parameter(p))
    back = found.return_annotation
    arrow = (
        ""
        if inspect.isclass(thing) or back in (found.empty, None, "None")
        else f" -> {_words(back)}"
    )
    line = f"{name}({', '.join(said)}){arrow}"
    return (
        line
        if len(line) <= WIDTH
        else f"{name}(\n" + "".join(f"    {s},\n" for s in said) + f"){arrow}"
    )


def _parameter(p: inspect.Parameter) -> str:
    star = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
    kind = "" if p.annotation is p.empty else f": {_words(p.annotation)}"
    if p.default is p.empty:
        return f"{star}{p.name}{kind}"
    default = "…" if "<factory>" in repr(p.default) else repr(p.default)
    if isinstance(p.default, enum.Enum):
        default = f"{type(p.default).__name__}.{p.default.name}"
    return f"{p.name}{kind} = {default}" if kind else f"{p.name}={default}"


def _words(annotation: Any) -> str:
    return (
        annotation.strip("'\"")
        if isinstance(annotation, str)
        else inspect.formatannotation(annotation)
    )


def rendered(doc: str | None) -> Iterator[str]:
    """A docstring as Markdown: prose, Args and Attributes as lists, examples as code."""
    for title, lines in _sections(doc or ""):
        if title in ("Args", "Attributes"):
            yield f"{title}:" if title == "Attributes" else "Arguments:"
            yield "\n".join(f"- `{name}`: {said}" for name, said in _items(lines))
        else:
            yield from _prose(lines)


def _sections(doc: str) -> Iterator[tuple[str, list[str]]]:
    title, lines = "", list[str]()
    for line in doc.splitlines():
        if line in ("Args:", "Attributes:", "Example:"):
            yield title, lines
            title, lines = line[:-1], []
        else:
            lines.append(line)
    yield title, textwrap.dedent("\n".join(lines)).splitlines() if title else lines


def _items(lines: list[str]) -> Iterator[tuple[str, str]]:
    """`name: what it is`, with the lines that continue it."""
    found: list[list[str]] = []
    for line in textwrap.dedent("\n".join(lines)).splitlines():
        if line and not line.startswith(" "):
            found.append([line])
        elif line.strip():
            found[-1].append(line.strip())
    for item in found:
        name, _, said = " ".join(item).partition(": ")
        yield name.replace(", ", "`, `"), said


def _prose(lines: list[str]) -> Iterator[str]:
    """Paragraphs as they are; those with a prompt are code."""
    text = textwrap.dedent("\n".join(lines)).strip("\n")
    for paragraph in re.split(r"\n\s*\n", text) if text else ():
        start = paragraph.find(">>>")
        if start < 0:
            yield " ".join(line.strip() for line in paragraph.splitlines())
            continue
        if paragraph[:start].strip():
            yield paragraph[:start].strip()
        yield _fenced(textwrap.dedent(paragraph[start:]))


def fields(kind: type, hidden: set[str], known: bool) -> Iterator[str]:
    """The fields of a dataclass with what its source says beside them; only those, where the
    signature has the rest.
    """
    if not dataclasses.is_dataclass(kind):
        return
    said = Said(kind)
    listed = [
        f for f in dataclasses.fields(kind) if not f.name.startswith("_") and f.name not in hidden
    ]
    listed = [f for f in listed if not known or said.of.get(f.name)]
    lines = [
        f"- `{f.name}: {_words(f.type)}`" + (f": {t}" if (t := said.of.get(f.name)) else "")
        for f in listed
    ]
    if lines:
        yield "Fields:"
        yield "\n".join(lines)


class Said:
    """What the source of a class says beside each of its fields."""

    def __init__(self, kind: type) -> None:
        self._kinds = [k for k in reversed(kind.__mro__) if k.__module__.startswith("cuvee")]

    @cached_property
    def of(self) -> dict[str, str]:
        return {name: said for kind in self._kinds for name, said in _said_of(kind)}


def _said_of(kind: type) -> Iterator[tuple[str, str]]:
    source = textwrap.dedent(inspect.getsource(kind))
    tree, lines = ast.parse(source).body[0], source.splitlines()
    assert isinstance(tree, ast.ClassDef)
    for node, after in pairwise([*tree.body, ast.Pass()]):
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        said = lines[(node.end_lineno or 1) - 1][node.end_col_offset :].partition("#")[2]
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            said = " ".join(str(after.value.value).split())
        yield node.target.id, said.strip()


def members(kind: type, hidden: set[str]) -> Iterator[str]:
    """Public properties and methods that this library wrote, those of the class itself first."""
    properties, methods = [], []
    for name, member in _own(kind).items():
        if name in hidden or (name.startswith("_") and name != "__call__"):
            continue
        plain = getattr(member, "__func__", member)
        if isinstance(member, property | cached_property):
            getter: Any = member.fget if isinstance(member, property) else member.func
            back = _words(getter.__annotations__.get("return", ""))
            doc = _first(inspect.getdoc(getter))
            properties.append(f"- `{name}: {back}`" + (f": {doc}" if doc else ""))
        elif inspect.isfunction(plain):
            methods.append((name, plain, isinstance(member, staticmethod)))
    if properties:
        yield "Properties:"
        yield "\n".join(properties)
    for name, function, static in methods:
        yield from call(function, f".{name}", not static)
        yield from rendered(inspect.getdoc(function))


def _own(kind: type) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for cls in kind.__mro__:
        if cls.__module__.startswith("cuvee"):
            for name, member in vars(cls).items():
                found.setdefault(name, member)
    return found


def _first(doc: str | None) -> str:
    return " ".join((doc or "").split("\n\n")[0].split())


def _fenced(code: str, language: str = "python") -> str:
    return f"```{language}\n{code.strip(chr(10))}\n```"


if __name__ == "__main__":
    made = page()
    if sys.argv[1:] != ["--check"]:
        PAGE.write_text(made, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != made:
        sys.exit("docs/api.md is not what the docstrings say: make docs")
