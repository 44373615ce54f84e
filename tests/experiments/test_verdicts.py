"""Verdicts on made-up numbers: good ones hold, bad ones do not, and fits find what was put in."""

from __future__ import annotations

from itertools import product
from math import inf, isnan

import numpy as np
import pandas as pd
import pytest
from experiments import lipschitz, online, regimes
from experiments._fit import Exponent, exponent, mean_interval
from experiments._verdict import Verdict, of_parts

# ---- fits and parts ------------------------------------------------------------------------------


def test_exponent_covers_the_truth_as_often_as_it_says():
    x, rng = np.geomspace(10, 1_000, 8), np.random.default_rng(0)
    hits = 0
    for _ in range(400):
        y = 3.0 * x**-0.7 * np.exp(0.3 * rng.normal(size=(5, 1)) + 0.2 * rng.normal(size=(5, 8)))
        found = exponent(x, y)
        hits += found.low <= -0.7 <= found.high
    assert 0.92 <= hits / 400 <= 0.98


def test_exponent_of_one_replicate_is_a_regression_and_of_two_points_knows_no_interval():
    found = exponent([1, 2, 4, 8], [1.0, 0.51, 0.24, 0.13])
    assert found.low < found.value < found.high and found.replicates == 1
    assert found.value == pytest.approx(-1.0, abs=0.05)
    alone = exponent([1, 10], [1.0, 0.1])
    assert (alone.value, alone.low, alone.high) == (pytest.approx(-1.0), -inf, inf)


@pytest.mark.parametrize(
    ("x", "y"), [([1.0], [1.0]), ([1, 2], [1, 0]), ([1, 2, 3], [1, 2]), ([1, 2], [1, np.nan])]
)
def test_exponent_refuses_what_has_none(x, y):
    with np.errstate(divide="ignore"), pytest.raises(ValueError, match="two points or more"):
        exponent(x, y)


def test_mean_interval():
    mean, low, high = mean_interval([1.0, 2.0, 3.0])
    assert (mean, round(low, 3), round(high, 3)) == (2.0, -0.484, 4.484)
    assert isnan(mean_interval([1.0])[1])


def test_parts_make_a_verdict():
    assert [of_parts(p) for p in ([True], [True, False], [False, False])] == [True, "partly", False]
    with pytest.raises(ValueError, match="something to judge"):
        of_parts([])
    assert [Verdict(h, "", {}).word for h in (True, "partly", False)] == [
        "held",
        "held in part",
        "did not hold",
    ]


# ---- Lemma 1 -------------------------------------------------------------------------------------


def lemma(ratio=1.0):
    """Problems in which w* moves `ratio` times as fast as the smallest κ* allows."""
    grid = product(["ridge", "logistic"], [2, 4, 8], [0.01, 0.1], range(3))
    rows = [{"kind": k, "N": N, "l2": l2, "seed": s, "mu": l2} for k, N, l2, s in grid]
    found = pd.DataFrame(rows)
    found["kappa_star_met"] = np.sqrt(found["N"]) / found["mu"]
    found["kappa_star"] = 3 * found["kappa_star_met"]
    found["ratio"] = found["slope"] = ratio * found["kappa_star_met"]
    return found


def test_lemma_holds_below_its_constant_and_not_above():
    good = lipschitz.judge(lemma(0.5))
    assert good.held is True and good.numbers["above"] == 0
    assert good.numbers["kappa_star_over_ratio"]["least"] == pytest.approx(6.0)
    growth = good.numbers["growth"]["ridge"]["largest"]
    assert growth["N"]["exponent"] == pytest.approx(0.5) and growth["mu"][
        "exponent"
    ] == pytest.approx(-1.0)
    steeper = lemma(0.5)
    steeper["kappa_star"] *= steeper["N"]  # κ* by itself
    assert lipschitz.judge(steeper).numbers["growth"]["ridge"]["kappa_star"]["N"][
        "exponent"
    ] == pytest.approx(1.5)
    bad = lemma(0.5)
    bad.loc[4, "slope"] = 1.01 * bad.loc[4, "kappa_star_met"]
    assert lipschitz.judge(bad).held is False
    assert lipschitz.judge(bad).sentence.startswith("In 1 of 36 problems")


def test_slopes_are_taken_along_the_simplex():
    # all sources pull the same way: no step on the simplex moves the model
    ones = np.ones((1, 3, 2))
    assert lipschitz.along_the_simplex(ones)[0] == pytest.approx(0.0, abs=1e-12)
    apart = np.array([[[1.0], [-1.0]]])
    assert lipschitz.along_the_simplex(apart)[0] == pytest.approx(np.sqrt(2))  # (1, −1)/√2


def test_pairs_are_mixtures_and_differ():
    one, other = lipschitz.pairs(4, 30, seed=0)
    assert len(one) == len(other) == 30 + 6
    np.testing.assert_allclose(one.sum(1), 1.0)
    np.testing.assert_allclose(other.sum(1), 1.0)
    assert (np.linalg.norm(one - other, axis=1) > 0).all() and (other >= 0).all()


# ---- Theorem 4 -----------------------------------------------------------------------------------


def theorem(power_paid=-2.0, power_unpaid=0.0):
    """Regrets that fall as T^(power/(1+N)), for p = 1 and for p < 1 of the printed average."""
    rows = []
    for variant, N, p, seed in product(
        [online.PRINTED, online.REPAIRED], [2, 3], [0.1, 1.0], range(3)
    ):
        power = power_unpaid if p < 1 and variant == online.PRINTED else power_paid
        for T in (100, 1_000, 10_000):
            regret = (1 + 0.01 * seed) * T ** (power * (1 + 0.01 * seed) / (1 + N))
            rows.append(
                {"variant": variant, "N": N, "p": p, "seed": seed, "T": T, "regret": regret}
            )
    return pd.DataFrame(rows).assign(mean_square=1.0, D=1.0)


def test_theorem_holds_where_all_fall_fast_enough():
    assert online.judge(theorem(-2.0, -2.0)).held is True


def test_theorem_holds_in_part_where_unpaid_rounds_stay():
    found = online.judge(theorem(-2.0, 0.0))
    assert found.held == "partly"
    assert found.numbers["exponents"]["paper, N=2, p=0.1"]["fell"] is False
    assert found.numbers["exponents"]["paper, N=2, p=1"]["fell"] is True
    assert found.numbers["floors"]["N=2, p=0.1"]["of_predicted"] == pytest.approx(1.01 / 0.81)


def test_theorem_does_not_hold_where_paid_rounds_fall_too_slowly():
    assert online.judge(theorem(-0.5, 0.0)).held is False


# ---- efficiency regimes --------------------------------------------------------------------------


def regime(power=-0.4, clocked=100.0, paper=1e9):
    """Labels that grow as ε^power, and a crossing on the clock."""
    grid = product(["kernel", "auto"], [2, 3], [1e-2, 1e-3, 1e-4], range(3))
    rows = [{"way": w, "N": N, "eps": eps, "seed": s} for w, N, eps, s in grid]
    cells = pd.DataFrame(rows).assign(least=4, clocked=clocked, paper=paper)
    by_law = -1 - cells["N"] / 2
    cells["labels"] = (
        10 * (1 + 0.02 * cells["seed"]) * cells["eps"] ** (by_law if power == "paper" else power)
    )
    # or the interval is a point
    cells["labels"] *= 1 + 0.03 * np.cos(17 * cells["seed"] - np.log(cells["eps"]))
    return cells.assign(counted=cells["labels"])


@pytest.mark.parametrize(
    ("cells", "held"),
    [
        (regime("paper"), True),
        (regime(-0.4), "partly"),
        (regime(-0.4, clocked=1e12), False),
        (regime("paper", clocked=inf), "partly"),
        (regime().assign(labels=np.nan), False),
    ],
)
def test_regimes_hold_by_their_parts(cells, held):
    assert regimes.judge(cells).held == held


def test_a_law_is_not_followed_by_an_interval_that_says_nothing():
    narrow, wide = Exponent(-1.9, -2.1, -1.7, 5), Exponent(-0.5, -2.5, 1.5, 5)
    assert (
        regimes.follows(narrow, -2.0)
        and not regimes.follows(wide, -2.0)
        and not regimes.follows(narrow, -3.0)
    )


def test_a_law_without_an_interval_is_none():
    one = regime()[lambda c: (c["seed"] == 0) & (c["way"] == "kernel") & (c["N"] == 2)]
    assert regimes.growth(one) is not None
    assert regimes.growth(one[one["eps"] > 1e-4]) is None  # two points
    assert regimes.growth(one.assign(least=1_000)) is None  # all with the least count: only a bound


@pytest.mark.parametrize(
    ("errors", "wanted"),
    [([0.1, 0.001], 16.0), ([0.005, 0.001], 8.0), ([0.1, 0.02], np.nan), ([0.1, 0.01], 32.0)],
)
def test_labels_needed(errors, wanted):
    assert regimes.needed([8, 32], errors, 0.01) == pytest.approx(wanted, nan_ok=True)


def test_crossing_counts_learning_and_predicting():
    solve = {"way": "solve", "N": 2, "eps": 1e-2, "seed": 0, "fixed_s": 0.1, "each_s": 1e-3}
    solve |= {"kappa": 10.0, "kappa_star": 5.0, "P": 3}
    learn = {
        "way": "kernel",
        "N": 2,
        "n": 8,
        "seed": 0,
        "error": 1e-3,
        "fixed_s": 1.0,
        "each_s": 1e-4,
    }
    cells = regimes.crossings(pd.DataFrame([solve, learn]))
    c = 10.0 * np.log(100.0)
    assert cells.loc[0, "clocked"] == pytest.approx(0.9 / 0.9e-3)
    assert cells.loc[0, "counted"] == pytest.approx(8 * c / (c - 1))
    assert cells.loc[0, "paper"] == pytest.approx((25 * 3 / 1e-2) ** 2 * c / (c - 1))
