"""What to expect of a target without labels: the interval holds about as often as it says."""

from __future__ import annotations

import numpy as np
import pytest

from cuvee.data.metrics import ACCURACY, RMSE
from cuvee.run.expected import as_metrics, expected, unknown


def inside(n, rows, spread, rng, times=400):
    """Return how often the interval from n targets holds the true accuracy of one more."""
    held = 0
    for _ in range(times):
        true = np.clip(rng.normal(0.8, spread, n + 1), 0.0, 1.0)
        wrong = 1.0 - rng.binomial(rows, true[:n]) / rows
        error = np.sqrt(wrong * (1.0 - wrong) / (rows - 1))
        _, low, high = expected(wrong, error, ACCURACY)
        held += low <= true[n] <= high
    return held / times


@pytest.mark.parametrize("n", [3, 6, 20])
@pytest.mark.parametrize("rows", [20, 200])
@pytest.mark.parametrize("spread", [0.02, 0.08])
def test_the_interval_holds_about_as_often_as_it_says(n, rows, spread):
    assert inside(n, rows, spread, np.random.default_rng(0)) >= 0.9


def test_the_luck_of_few_rows_is_not_taken_for_a_difference_of_targets():
    """With many targets of few rows each, the interval is shorter than their scores spread."""
    rng = np.random.default_rng(0)
    wrong = 1.0 - rng.binomial(20, 0.8, 200) / 20
    error = np.sqrt(wrong * (1.0 - wrong) / 19)
    middle, low, high = expected(wrong, error, ACCURACY)
    assert middle == pytest.approx(0.8, abs=0.02)
    assert 0.5 < (high - low) / (2 * 1.96 * wrong.std()) < 0.8


def test_errors_are_compared_as_logarithms():
    loss, error = np.array([1.0, 4.0, 16.0]), np.zeros(3)
    middle, low, high = expected(loss, error, RMSE)
    assert middle == pytest.approx(2.0) and middle / low == pytest.approx(high / middle)
    scaled = expected(loss * 100.0, error, RMSE)
    np.testing.assert_allclose(scaled, 10.0 * np.array([middle, low, high]))


def test_of_one_target_there_is_no_interval_and_of_none_nothing():
    one = expected(np.array([0.25]), np.array([0.1]), ACCURACY)
    assert one[0] == 0.75 and np.isnan(one[1:]).all()
    assert np.isnan(expected(np.zeros(0), np.zeros(0), ACCURACY)).all()
    assert as_metrics(unknown(2), np.full(2, np.nan), (), ACCURACY) == {}


def test_labels_are_compared_on_the_same_targets():
    """The third target has no test rows, the fourth no labels."""
    nan = np.nan
    values = np.array([[0.2, 0.1, 0.3], [0.4, 0.1, 0.5], [0.3, 0.1, nan], [nan, nan, nan]])
    entry = as_metrics(values, np.array([0.1, 0.1, nan, nan]), ("d",), ACCURACY)["label_free"]
    assert entry["judged_on"] == 3 and entry["tested_on"] == 2
    assert entry["without_labels"] == pytest.approx(0.6)
    assert entry["with_labels"] == pytest.approx(0.9)
    middle, low, high = entry["gain_of_labels"]
    assert middle == pytest.approx(0.3) and low < 0.3 < high
    assert entry["scores"][:3] == pytest.approx([0.8, 0.6, 0.7]) and entry["scores"][3] is None
