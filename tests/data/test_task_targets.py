"""What is learnt, and for whom."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pandas as pd
import pytest

from cuvee.data.targets import choose
from cuvee.data.task import Task, check, infer
from cuvee.errors import CuveeError, DomainError, OptionError
from hypothesis import given, settings
from hypothesis import strategies as st

INFERRED = {
    "two whole numbers": ([0, 1, 1], "classification", "label 'y' has 2 values: classification"),
    "two of them": ([5, 7], "classification", "has 2 values"),
    "text": (["a", "b", "c"], "classification", "has 3 values, like 'a': classification"),
    "truth values": ([True, False], "classification", "has 2 values"),
    "digits": (
        list(range(10)) * 5,
        "classification",
        "has 10 different whole numbers, not more than 20",
    ),
    "floats that are digits": (
        np.arange(10.0).repeat(3),
        "classification",
        "has 10 different whole numbers",
    ),
    "exam scores": (
        list(range(1, 71)) * 9,
        "regression",
        "has 70 different whole numbers, more than 20: regression",
    ),
    "few rows": (
        [3, 17, 8, 44, 21],
        "regression",
        "has 5 different whole numbers in only 5 rows: regression",
    ),
    "quantities": ([34.398, 34.9, 1.0], "regression", "has numbers like 34.398: regression"),
    "two quantities": ([0.5, 1.5, 1.5], "regression", "has numbers like 0.5"),
    "missing ones": ([0, None, 1, np.nan], "classification", "has 2 values"),
    "categories": (pd.Categorical(["x", "y", None]), "classification", "has 2 values"),
    "huge": ([2.0**60, 2.0**61, 0.0], "regression", "has numbers like 2305840000000000000"),
}


@pytest.mark.parametrize("case", INFERRED)
def test_tasks(case):
    labels, task, why = INFERRED[case]
    for column in (labels, pd.Series(labels), np.asarray(labels)):
        found = infer(column, "y")
        assert found.task == task and isinstance(found.task, Task) and why in found.why
    assert check(labels, task, "y").task is found.task


def test_labels_that_teach_nothing():
    for labels in ([1, 1, None], ["a"], [2.5, 2.5], [True, True]):
        with pytest.raises(
            DomainError,
            match=r"label 'y' is ('a'|1|2.5|True) in every row; there is nothing to learn",
        ):
            infer(labels, "y")
    for labels in ([], [None, np.nan]):
        with pytest.raises(DomainError, match="'y' is missing in every row"):
            infer(labels, "y")
    with pytest.raises(DomainError, match="'y' is infinite at row 1"):
        infer([1.0, np.inf], "y")
    with pytest.raises(DomainError, match="'y' mixes types"):
        infer([1, 2, "a"], "y")
    with pytest.raises(DomainError, match="not a list of labels"):
        infer(np.zeros((2, 2)), "y")


def test_a_choice_must_be_possible():
    assert check([0, 1, 2] * 9, "regression").task is Task.regression
    assert (
        check(range(70), "classification").why
        == "classification was chosen; label 'label' has 70 values"
    )
    with pytest.raises(DomainError, match="'y' holds text, like 'a'; a regression needs numbers"):
        check(["a", "b"], "regression", "y")
    with pytest.raises(
        DomainError,
        match=r"'y' is 1.5 at row 1; classes are text or whole numbers: choose regression",
    ):
        check([1, 1.5], Task.classification, "y")
    with pytest.raises(DomainError, match="'y' has 2000 different values; more than 1000"):
        check(range(2000), "classification", "y")
    with pytest.raises(
        DomainError, match="one of 'regression', 'classification', 'counts'; got 'ranking'"
    ):
        check([0, 1], "ranking")


NAMES = ["north 1", "north 2", "south", "east,west", "a[1]"]


@pytest.mark.parametrize(
    ("wanted", "chosen"),
    [
        ("south", ["south"]),
        ("south, north 1", ["north 1", "south"]),
        (["south", "north 1"], ["north 1", "south"]),
        ("north*", ["north 1", "north 2"]),
        ("north ?,south,", ["north 1", "north 2", "south"]),
        ("east,west", ["east,west"]),
        ('"east,west"', ["east,west"]),
        ('south,"east,west"', ["south", "east,west"]),
        ('"north*", "a[1]"', ["north 1", "north 2", "a[1]"]),
        ("a[1]", ["a[1]"]),
        ("*th*", ["north 1", "north 2", "south"]),
        ("each", NAMES),
        (["each"], NAMES),
    ],
)
def test_targets(wanted, chosen):
    assert choose(NAMES, wanted) == chosen


@pytest.mark.parametrize(
    ("names", "wanted", "message"),
    [
        (NAMES, "suoth", r"no domain matches 'suoth'; did you mean 'south'\?"),
        (NAMES, "south,x*", r"no domain matches 'x\*'; there are 'north 1'"),
        (NAMES, "NORTH*", r"no domain matches 'NORTH\*'"),
        (NAMES, " , ", "no target is named"),
        (NAMES, [], "no target is named"),
        (NAMES, 'south,"west,east"', "no domain matches 'west,east'; there are"),
        (NAMES, "*", "no source is left: all 5 domains are named as target; name fewer, or 'each'"),
        (["a"], "a", "no source is left: the only domain is named"),
        (["a"], "each", "there is one domain"),
    ],
)
def test_targets_that_are_none(names, wanted, message):
    with pytest.raises(DomainError, match=message):
        choose(names, wanted)


def test_a_list_that_is_none_says_how_to_write_it():
    with pytest.raises(OptionError, match="put double quotes around a name that holds a comma"):
        choose(NAMES, "north\n1,south")


def test_a_domain_may_be_called_each():
    assert choose(["each", "b"], "each") == ["each"]


@settings(max_examples=100, deadline=2000)
@given(st.lists(st.text(max_size=4), min_size=1, max_size=5, unique=True), st.text(max_size=6))
def test_only_our_errors(names, wanted):
    with suppress(CuveeError):
        chosen = choose(names, wanted)
        assert chosen and set(chosen) <= set(names)
    with suppress(CuveeError):
        infer(wanted.split(","))
