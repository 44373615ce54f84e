"""`cuvee.risk_bound`: Theorem 1 term by term, and that what is called proven holds."""

from __future__ import annotations

from math import log, sqrt

import numpy as np
import pytest
import torch

import cuvee
from cuvee import erm, theory
from cuvee.data.synthetic import grouped_classes, squared_loss_instance
from cuvee.mixture.largest import largest_discrepancy
from cuvee.mixture.players import Settings


def test_terms_are_those_of_the_theorem_with_the_own_sample_as_one_more_source():
    problem = grouped_classes(1, n_targets=2)
    hypothesis, N = cuvee.Logistic(radius=2.0), problem.n_sources
    mix = cuvee.estimate(problem, hypothesis, method="pooled_own")
    bound = cuvee.risk_bound(problem, hypothesis, mix, delta=0.1)
    sources, own = theory.rademacher(problem, hypothesis)
    for i, target in enumerate(problem.targets):
        counts = [*(s.n_rows for s in problem.sources), target.n_rows]
        complexities = [*sources, own[i]]
        a = mix.alpha[i]
        complexity = sum(a[j] * complexities[j] for j in range(N + 1))
        assert bound.printed.complexity[i] == pytest.approx(complexity)
        spread = sum(a[j] ** 2 / counts[j] for j in range(N + 1))
        assert bound.printed.sampling[i] == pytest.approx(sqrt(log(40) / 2 * spread))  # b = 1
        assert bound.proven.complexity[i] == pytest.approx(2 * own[i])
        assert bound.proven.sampling[i] == pytest.approx(2 * sqrt(log(20) / (2 * target.n_rows)))
        assert bound.proven.discrepancy[i] == pytest.approx(2 * bound.printed.discrepancy[i])
    assert bound.printed.probability == pytest.approx(0.9) == bound.proven.probability
    assert (
        bound.targets == ("target 0", "target 1")
        and not bound.exact
        and "probability" in bound.loss
    )


def test_the_right_mixture_has_the_smaller_discrepancy():
    problem = grouped_classes(2, n_targets=1, rows=200, target_rows=100)
    right, wrong = np.zeros((2, problem.n_sources))
    right[:3], wrong[3:6] = 1 / 3, 1 / 3
    near, far = (cuvee.risk_bound(problem, cuvee.Logistic(), [a]).printed for a in (right, wrong))
    assert near.discrepancy[0] < 0.7 * far.discrepancy[0]
    assert near.sampling[0] == pytest.approx(far.sampling[0])


def test_all_weight_on_the_own_sample_leaves_no_discrepancy():
    problem = squared_loss_instance(3)
    alpha = np.eye(problem.n_sources + 1)[-1:]
    bound = cuvee.risk_bound(problem, cuvee.Ridge(), alpha)
    assert bound.exact and bound.printed.discrepancy[0] == pytest.approx(0.0, abs=1e-9)
    assert "variance" in bound.loss


def test_what_is_proven_holds_on_fresh_rows():
    """Models minimise the very loss in the very W; many fresh rows stand for the distribution."""
    rng = np.random.default_rng(0)
    hypothesis, broken = cuvee.Ridge(l2=0.0, intercept=False, radius=1.0), 0

    def rows(n, shift):
        X = np.clip(rng.normal(size=(n, 2)), -2, 2)
        return X, np.clip(X @ [0.5, shift] + 0.3 * rng.normal(size=n), -2, 2)

    for _ in range(20):
        sources = [cuvee.Domain("a", *rows(60, 0.3)), cuvee.Domain("b", *rows(80, -0.2))]
        problem = cuvee.Problem(sources, [cuvee.Domain("t", *rows(25, 0.1))])
        alpha = np.array([[0.7, 0.3]])
        X, y = rows(20_000, 0.1)
        w = cuvee.solve(problem, hypothesis, alpha).w[0]
        fresh = [cuvee.Domain("T", X, y), cuvee.Domain("unused", X[:9], y[:9])]
        best = cuvee.solve(fresh, hypothesis, [[1.0, 0.0]]).w[0]
        loss, least = (0.5 * ((X @ v - y) ** 2).mean() for v in (w, best))
        broken += loss > least + cuvee.risk_bound(problem, hypothesis, alpha).proven.excess[0]
    assert broken == 0  # 1 in 20 would be allowed; it is loose


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"alpha": [[0.5] * 9]}, "does not sum to 1"),
        ({"alpha": np.full((3, 9), 1 / 9)}, "3 rows, but there are 1 targets: one row each"),
        ({"delta": 0.0}, "delta"),
        ({"discrepancy": "max"}, "discrepancy must be one of"),
        ({"hypothesis": cuvee.Network(torch.nn.Linear(6, 2))}, "only for Ridge and Logistic"),
        ({"adversaries": 1}, "adversaries"),
    ],
)
def test_what_cannot_be_is_refused(change, message):
    given = {"hypothesis": cuvee.Logistic(), "alpha": np.full((1, 9), 1 / 9), **change}
    with pytest.raises(cuvee.InputError, match=message):
        cuvee.risk_bound(grouped_classes(0, n_targets=1), **given)


def test_a_problem_without_targets_has_nothing_to_bound():
    with pytest.raises(cuvee.OptionError, match="no targets"):
        cuvee.risk_bound(cuvee.Problem(grouped_classes(0).sources), cuvee.Logistic(), [[1.0]])


@pytest.mark.parametrize("intercept", [True, False])
def test_a_wide_table_has_the_discrepancy_of_all_its_columns(intercept):
    rng = np.random.default_rng(0)

    def domain(name, rows):
        X = rng.normal(size=(rows, 120))
        return cuvee.Domain(name, X, X[:, :3].sum(1) + rng.normal(size=rows))

    sources, targets = ([domain(f"{k}{i}", 8) for i in range(n)] for k, n in (("s", 3), ("t", 7)))
    problem, hypothesis = cuvee.Problem(sources, targets), cuvee.Ridge(1e-2, intercept=intercept)
    alpha = rng.dirichlet(np.ones(4), 7)
    said = cuvee.risk_bound(problem, hypothesis, alpha)
    space = hypothesis.bind(problem.facts, standardised=True)
    whole = erm.components(problem, space, "trained", seed=0, device="cpu")
    wanted, _ = largest_discrepancy(whole, torch.as_tensor(alpha), "mixture", Settings())
    assert erm.rows_space.targets_at_a_time(problem, space) in range(1, 7)  # several batches
    np.testing.assert_allclose(said.printed.discrepancy, wanted, rtol=1e-8)
