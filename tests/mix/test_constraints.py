"""Constraints are never violated, and those that clash are named."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from cuvee.errors import OptionError
from cuvee.mix.constraints import EXACT, Constraints, InfeasibleError
from hypothesis import assume, given, settings
from hypothesis import strategies as st

NAMES = ("a", "b", "c", "d")
share = st.floats(0, 1).map(lambda x: round(x, 3))
some = st.dictionaries(st.sampled_from(NAMES), share, max_size=3)
groups = st.dictionaries(
    st.sampled_from(["g", "h"]),
    st.tuples(st.lists(st.sampled_from(NAMES), min_size=2, max_size=3, unique=True), share, share),
    max_size=2,
)
tokens = st.dictionaries(st.sampled_from(NAMES), st.floats(0, 50), max_size=3)
wishes = st.builds(
    Constraints,
    tokens=tokens,
    budget=st.just(20.0),
    repeat=st.sampled_from([1.0, 2.0, 4.0]),
    fixed=st.dictionaries(st.sampled_from(NAMES), share, max_size=1),
    minimum=some,
    maximum=some,
    groups=groups,
)


def kept(limits, alpha, tolerance=EXACT):
    """Whether mixtures (m, 4) satisfy the constraints as a reader of their words would check."""
    place = {name: j for j, name in enumerate(NAMES)}
    good = (alpha >= 0).all(1) & (np.abs(alpha.sum(1) - 1) <= tolerance)
    for name, value in limits.minimum.items():
        good &= alpha[:, place[name]] >= value - tolerance
    for name, value in limits.maximum.items():
        good &= alpha[:, place[name]] <= value + tolerance
    for name, value in limits.fixed.items():
        good &= np.abs(alpha[:, place[name]] - value) <= tolerance
    for name, value in limits.tokens.items():
        good &= alpha[:, place[name]] * limits.budget <= value * limits.repeat + 20 * tolerance
    for members, least, most in limits.groups.values():
        total = alpha[:, [place[m] for m in members]].sum(1)
        good &= (total >= least - tolerance) & (total <= most + tolerance)
    return good


@settings(max_examples=60, deadline=None)
@given(wishes, st.integers(0, 5))
def test_what_is_drawn_or_repaired_satisfies_everything(limits, seed):
    try:
        polytope = limits.polytope(NAMES)
    except InfeasibleError:
        assume(False)
    wild = np.random.default_rng(seed).normal(size=(20, 4)) * 2
    for alpha in (polytope.draws(40, seed), polytope.repaired(wild), polytope.centre[None]):
        assert kept(limits, alpha).all()
        assert (polytope.violation(alpha) <= EXACT).all()


GRID = np.array([x for x in product(range(21), repeat=4) if sum(x) == 20]) / 20


@settings(max_examples=60, deadline=None)
@given(wishes)
def test_what_the_program_calls_infeasible_has_no_point_on_a_grid(limits):
    rounded = kept(limits, GRID)
    try:
        limits.polytope(NAMES)
    except InfeasibleError:
        assert not rounded.any()


coarse = st.integers(0, 20).map(lambda i: i / 20)


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(st.sampled_from(NAMES), coarse, max_size=4),
    st.dictionaries(st.sampled_from(NAMES), coarse, max_size=4),
)
def test_limits_on_the_grid_are_feasible_exactly_where_the_grid_has_a_point(minimum, maximum):
    limits = Constraints(minimum=minimum, maximum=maximum)
    try:
        limits.polytope(NAMES)
        feasible = True
    except InfeasibleError:
        feasible = False
    assert feasible == bool(kept(limits, GRID).any())


def test_only_the_constraints_that_clash_are_named():
    limits = Constraints(
        minimum={"a": 0.6, "b": 0.5}, maximum={"c": 0.3}, budget=10, tokens={"d": 100}
    )
    with pytest.raises(
        InfeasibleError, match=r"minimum share 0.6 of 'a'; minimum share 0.5 of 'b'"
    ) as e:
        limits.polytope(NAMES)
    assert len(e.value.clash) == 2


def test_too_few_tokens_are_named_with_their_repetition():
    limits = Constraints(budget=100, tokens=dict.fromkeys(NAMES, 10), repeat=2)
    with pytest.raises(
        InfeasibleError, match="10 tokens of 'a', seen at most 2 times, in a budget"
    ):
        limits.polytope(NAMES)


def test_a_group_and_its_members_clash():
    limits = Constraints(groups={"code": (("a", "b"), 0.0, 0.2)}, fixed={"a": 0.3})
    with pytest.raises(InfeasibleError, match=r"fixed share 0.3 of 'a'; share of group 'code'"):
        limits.polytope(NAMES)


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (
            Constraints(minimum={"x": 0.1}),
            r"--minimum \(minimum=\) names the domain 'x', which is not one of",
        ),
        (
            Constraints(tokens={"a": 3}),
            r"\(tokens=\) limits shares only together with --budget \(budget=\)",
        ),
        (
            Constraints(maximum={"a": -0.1}),
            r"value of 'a' in --maximum .* must be a finite number at least 0",
        ),
        (Constraints(groups={"g": (("a", "y"), 0, 1)}), "names the domain 'y'"),
        (Constraints(groups={"g": (["a"], float("nan"), 1)}), r"groups\['g'\] must be a list of"),
        (Constraints(groups={"g": (["a", "b"], 0, "x")}), r"groups\['g'\] must be a list of domai"),
        (Constraints(groups={"g": ("a", 0, 1)}), r"groups\['g'\] must be a list of domains"),
        (Constraints(groups={"g": (["a"], 0)}), r"groups\['g'\] must be a list of domains"),
        (
            Constraints(maximum={"a": "much"}),
            r"value of 'a' in --maximum .* must be a finite number at least 0",
        ),
        (Constraints(minimum="much"), r"--minimum .* must be a finite number at least 0"),
        (Constraints(fixed=0.2), r"--fixed \(fixed=\) must be given by name"),
    ],
)
def test_wrong_constraints_are_refused_in_words(limits, words):
    with pytest.raises(OptionError, match=words):
        limits.polytope(NAMES)
