"""The registry of α methods: one more method is one record, and every list of names follows."""

from __future__ import annotations

import re
import runpy
import warnings
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

import cuvee
from cuvee import names
from cuvee.data.options import Options
from cuvee.data.synthetic import grouped_classes
from cuvee.mixture import registry
from cuvee.mixture.method import AlphaMethod, closed_form

ROOT = Path(__file__).resolve().parents[2]


def largest_source(request):
    """Give all weight to the source with the most rows."""
    counts = request.components.counts
    columns = len(counts) + int(request.settings.own)
    alpha = np.zeros((len(request.components.own_counts), columns))
    alpha[:, int(counts.argmax())] = 1.0
    return closed_form(alpha)


@pytest.fixture
def toy():
    registry.register(
        AlphaMethod(
            "largest_source", largest_source, "All weight on the source with the most rows."
        )
    )
    yield
    registry.unregister("largest_source")


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize("own", [False, True])
def test_a_registered_method_works_through_estimate(own):
    problem = grouped_classes(0)
    mix = cuvee.estimate(problem, cuvee.Logistic(), method="largest_source", own=own)
    assert mix.method == "largest_source" and mix.alpha.shape == (3, 9 + own)
    assert mix.columns == problem.source_names + ((cuvee.OWN,) if own else ())
    assert (mix.alpha[:, np.argmax([s.n_rows for s in problem.sources])] == 1.0).all()


@pytest.mark.usefixtures("toy")
def test_the_error_for_a_wrong_name_lists_a_registered_method():
    for call in (
        lambda: cuvee.estimate(grouped_classes(0), cuvee.Logistic(), method="newton"),
        lambda: Options(label="y", method="newton"),
    ):
        with pytest.raises(
            cuvee.OptionError,
            match=r"method must be one of 'path', .*'largest_source'; got 'newton'",
        ):
            call()
    assert Options(label="y", method="largest_source").method == "largest_source"


def test_a_method_that_is_gone_is_not_known():
    with pytest.raises(cuvee.OptionError) as refused:
        cuvee.estimate(grouped_classes(0), cuvee.Logistic(), method="largest_source")
    assert f"{get_args(registry.Method)[-1]!r}; got 'largest_source'" in str(refused.value)


def test_a_name_is_taken_once():
    with pytest.raises(cuvee.OptionError, match="'path' is registered already"):
        registry.register(AlphaMethod("path", largest_source, "Another path."))


def test_every_method_has_a_file_of_its_name_and_a_line_about_it():
    assert registry.names() == get_args(registry.Method)
    for name in registry.names():
        method = registry.find(name)
        assert method.name == name and (ROOT / "src/cuvee/mixture" / f"{name}.py").is_file()
        assert re.fullmatch(r"[A-Z].{20,120}\.", method.summary), method.summary
        assert method.own == (name in names.OWN_JOINS)
        assert (method.steps > 0) == (name in get_args(names.Searching))


def test_the_online_mixer_names_the_methods_that_search():
    last = registry.names(searching=True)[-1]
    with pytest.raises(cuvee.OptionError, match=f"'{last}'; got 'uniform'"):
        cuvee.OnlineMixtures(grouped_classes(0).sources, cuvee.Logistic(), method="uniform")


def test_the_command_line_and_the_page_name_every_method():
    from cuvee.cli.options import Method

    (option,) = Method.__metadata__
    page = (ROOT / "docs" / "choosing.md").read_text(encoding="utf-8")
    for name in registry.names():
        assert name in option.help
        assert f"| `{name}` | {registry.find(name).summary}" in page


def test_the_page_lists_the_methods_as_they_are_now():
    filled = runpy.run_path(str(ROOT / "docs" / "make_methods.py"))["filled"]
    page = (ROOT / "docs" / "choosing.md").read_text(encoding="utf-8")
    assert "<!-- α methods -->" in page and filled(page) == page, "run python docs/make_methods.py"


@pytest.mark.parametrize("method", registry.names())
def test_what_a_method_takes_changes_what_it_returns_and_nothing_else_may_be_given(method):
    """Each option at an unusual value: it is refused, or the result is another."""
    problem, logistic = grouped_classes(3, rows=25), cuvee.Logistic()
    unusual = {
        "discrepancy": "sum", "C": 0.3, "c": 3.0, "loss": "trained", "adversaries": 2, "steps": 3,
        "batch_size": 5, "beta": 0.9, "eta": 0.01, "gamma": 1e-3, "average": False, "tol": 0.5,
        "folds": 3, "passes": 40,
    }  # fmt: skip
    # few rows are looked at whole, and most searches end before their tolerance
    idle = {"tol"} | ({"batch_size"} if method in ("path", "cuts") else set())
    takes = registry.find(method).takes
    assert takes is not None and {*takes} <= {*unusual}

    short = {"steps": 30} if registry.find(method).steps > 100 else {}

    def found(**options):
        mix = cuvee.estimate(problem, logistic, method=method, **short | options)
        return np.concatenate([mix.alpha.ravel(), mix.gap])

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cuvee.CuveeWarning)
        usual = found()
        for option, value in unusual.items():
            if option not in takes:
                with pytest.raises(cuvee.OptionError, match=f"{option}.* (no effect|is for)"):
                    found(**{option: value})
            elif option not in idle:
                assert not np.array_equal(found(**{option: value}), usual, equal_nan=True), option
