"""First runs tell more than random ones, and next runs find better mixtures."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import cuvee
from cuvee.mix import design
from cuvee.mix.average import folds_of, shares
from cuvee.mix.front import not_dominated
from mix_builders import mixtures


def test_first_runs_are_on_the_simplex_within_limits_and_differ():
    limits = cuvee.Constraints(maximum=0.6, minimum={"web": 0.1})
    plan = cuvee.first_runs(["web", "code", "books"], 10, constraints=limits)
    np.testing.assert_allclose(plan.alpha.sum(1), 1)
    assert (plan.alpha <= 0.6 + 1e-9).all() and (plan.alpha[:, 0] >= 0.1 - 1e-9).all()
    assert len(np.unique(plan.alpha.round(6), axis=0)) == 10


@pytest.mark.parametrize(
    ("domains", "words"),
    [
        (["web", "web"], "there is a domain 'web' already"),
        ([], "a mixture needs at least two domains; got 0"),
        (["web"], "a mixture needs at least two domains; got 1"),
        ([1, 2], "the name of a domain is a text, such as 'web'; got 1"),
        (["web", "run"], "a domain cannot be called 'run'"),
        ("web", "domains must be a list of names, or how many; got 'web'"),
        (2.5, "domains must be a list of names, or how many; got 2.5"),
        (1, "domains must be a whole number of at least 2"),
    ],
)
def test_wrong_domains_are_refused_in_words(domains, words):
    with pytest.raises(cuvee.InputError, match=words):
        cuvee.first_runs(domains, 3)


def test_a_number_of_domains_may_be_that_of_an_array():
    assert cuvee.first_runs(np.int64(3), 2).alpha.shape == (2, 3)


def test_one_mixture_alone_is_no_plan():
    limits = cuvee.Constraints(fixed={"web": 0.3, "code": 0.7})
    with pytest.raises(cuvee.InputError, match="the constraints allow one mixture alone"):
        cuvee.first_runs(["web", "code"], 3, constraints=limits)
    assert len(cuvee.first_runs(["web", "code"], 1, constraints=limits)) == 1


def test_a_domain_called_reason_keeps_its_shares():
    plan = cuvee.first_runs(["web", "reason"], 3)
    frame = plan.to_frame()
    np.testing.assert_array_equal(frame["reason"], plan.alpha[:, 1])
    assert list(frame["reason (in words)"]) == list(plan.reasons)


def test_the_first_run_is_the_prior():
    prior = {"web": 0.7, "code": 0.2, "books": 0.1}
    plan = cuvee.first_runs(list(prior), 3, prior=prior)
    np.testing.assert_allclose(plan.alpha[0], [0.7, 0.2, 0.1])


def test_first_runs_leave_less_unknown_than_random_ones():
    def left(alpha):
        pool = cuvee.Constraints().polytope([f"d{j}" for j in range(6)]).draws(400, 99)
        K = design._usual_gram(torch.as_tensor(np.concatenate([pool, alpha]))).numpy()
        n = len(pool)
        known = np.linalg.solve(K[n:, n:] + 0.1 * np.eye(len(alpha)), K[n:, :n])
        return (K[:n, :n].diagonal() - (K[:n, n:] * known.T).sum(1)).mean()

    ours = left(cuvee.first_runs(6, 12).alpha)
    random = np.mean([left(np.random.default_rng(s).dirichlet(np.ones(6), 12)) for s in range(5)])
    assert ours < 0.8 * random


def test_equal_mixtures_are_in_one_fold():
    alpha = torch.as_tensor(np.repeat(mixtures(9, 3), 3, axis=0))
    folds = folds_of(alpha, 0).reshape(9, 3)
    assert (folds == folds[:, :1]).all() and len(folds.unique()) == 9


def test_shares_go_to_the_candidate_that_is_right():
    from cuvee.mix.average import Judged
    from mix_builders import noisy, standard

    alpha = mixtures(50, 3)
    swarm = standard(alpha, noisy(alpha))
    right, wrong = swarm.y + 0.01 * torch.randn(50, 2, dtype=torch.float64), -swarm.y
    judged = Judged((), torch.zeros(50), torch.stack([wrong, right]), torch.zeros(2, 50, 2))
    share = shares(judged, swarm)
    torch.testing.assert_close(share.sum(0), torch.ones(2, dtype=torch.float64))
    assert (share[1] > 0.95).all()


def test_not_dominated_is_what_pairwise_comparison_says():
    values = np.random.default_rng(0).integers(0, 6, (40, 2)).astype(float)
    kept = {tuple(values[i]) for i in not_dominated(values)}
    expected = {
        tuple(a) for a in values if not any((b <= a).all() and (b < a).any() for b in values)
    }
    assert kept == expected


@pytest.mark.slow
def test_chosen_runs_lead_to_better_proposals_than_as_many_random_ones():
    """Domains help and disturb each other, so that where to look next matters."""
    swarms = pytest.importorskip("benchmarks.swarms", reason="run from the repository's root")
    chosen, random = [], []
    for seed in range(6):  # cuvee bench mix reports others
        swarm = swarms.swarm("interactions", seed, 10, 4)
        (weights,) = swarm.objectives()["regret"]
        start = swarm.design(24, 40)
        metrics = swarm.runs(start, 40)
        surface = cuvee.fit_surface(start, metrics)
        goal = dict(zip(surface.metrics, weights.tolist(), strict=True))
        ends = (surface.next_runs(24, minimise=goal).alpha, swarm.design(24, 41))
        for more, regrets in zip(ends, (chosen, random), strict=True):
            alpha = np.concatenate([start, more])
            grown = np.concatenate([metrics, swarm.runs(more, 42)])
            best = cuvee.fit_surface(alpha, grown).best(minimise=goal).alpha
            regrets.append(swarm.regret(best, weights))
    assert np.mean(chosen) <= 0.7 * np.mean(random)


def test_a_plan_names_domains_that_a_mixture_is_mostly_of_and_no_crumbs():
    for plan in (cuvee.first_runs(["code", "forums", "web"], 12), cuvee.first_runs(30, 6)):
        for alpha, reason in zip(plan.alpha[1:], plan.reasons[1:], strict=True):
            head = reason.split(":")[0]
            named = [a for name, a in zip(plan.domains, alpha, strict=True) if name in head.split()]
            assert all(a >= 0.1 for a in named)
            assert head.startswith("Mostly ") or head == "Small shares of many domains"
