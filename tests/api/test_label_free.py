"""Targets without any label: weights from inputs alone, models from sources alone."""

from __future__ import annotations

import numpy as np
import pytest

import cuvee
from builders import mlp
from cuvee import OWN, Domain, Logistic, Network, Poisson, Problem, Ridge, Status
from cuvee.errors import DomainError, MixtureError, OptionError

CENTRES = 2.0 * np.eye(3)


def made(bare=(1,), kind="quantity", seed=0):
    """Return three sources apart in inputs and three targets like the first, some without labels."""
    rng = np.random.default_rng(seed)

    def rows(j, n):
        X = CENTRES[j] + rng.normal(size=(n, 3))
        y = X @ [1.0, -1.0, 0.5] + rng.normal(size=n)
        if kind == "classes":
            y = (y > 0).astype(int)
            y[:2] = 0, 1
        return X, np.abs(y).round() if kind == "counts" else y

    sources = [Domain(f"s{j}", *rows(j, 60 + 5 * j)) for j in range(3)]
    labelled = [Domain(f"t{i}", *rows(0, 12 + i), unlabelled=rows(0, 80)[0]) for i in range(3)]
    return Problem(
        sources,
        [
            Domain(t.name, None, None, unlabelled=t.unlabelled) if i in bare else t
            for i, t in enumerate(labelled)
        ],
    )


def test_a_target_without_labels_is_matched_and_the_others_get_what_they_did():
    mix = cuvee.estimate(made(bare=(1,)), Ridge())
    assert mix.targets == ("t0", "t1", "t2") and mix.columns[-1] == OWN
    assert mix.status[1] is Status.LABEL_FREE and mix.status[1].ok
    assert mix.alpha[1, -1] == 0.0 and mix.alpha[1, 0] > 0.6
    whole = cuvee.estimate(made(bare=()), Ridge())
    np.testing.assert_allclose(mix.alpha[[0, 2]], whole.alpha[[0, 2]], atol=1e-9)
    (matched,) = (c for c in mix.candidates if c.name == "matched inputs")
    assert matched.share[1] == 1.0
    np.testing.assert_allclose(matched.alpha[1], mix.alpha[1])


def test_all_targets_may_be_without_labels():
    mix = cuvee.estimate(made(bare=(0, 1, 2)), Ridge())
    assert mix.status == (Status.LABEL_FREE,) * 3
    solved = cuvee.solve(made(bare=(0, 1, 2)), Ridge(), mix)
    alone = cuvee.solve(made().sources, Ridge(), mix.alpha[:, :3])
    np.testing.assert_allclose(solved.w, alone.w, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("hypothesis", "kind"),
    [
        (Ridge(), "quantity"),
        (Logistic(), "classes"),
        (Poisson(), "counts"),
        (Network(mlp(3, 3, 2).double(), radius=5.0), "classes"),
    ],
    ids=["ridge", "logistic", "poisson", "network"],
)
def test_models_of_such_targets_come_from_sources_alone(hypothesis, kind):
    problem, rng = made(kind=kind), np.random.default_rng(0)
    alpha = rng.dirichlet(np.ones(4), size=3)
    alpha[1] = *alpha[1, :3] / alpha[1, :3].sum(), 0.0
    steps = 30 if kind == "classes" and not isinstance(hypothesis, Logistic) else None
    solved = cuvee.solve(problem, hypothesis, alpha, steps=steps)
    assert np.isfinite(solved.w).all()
    if steps is None:  # a network's training depends on who is trained beside it
        alone = cuvee.solve(problem.sources, hypothesis, alpha[1:2, :3])
        np.testing.assert_allclose(solved.w[1], alone.w[0], atol=1e-5)
        assert solved.certificate.distance.max() < 1e-3
        others = cuvee.sensitivity(problem, hypothesis, alpha, solved.w)
        assert np.isfinite(others).all()


def test_its_own_sample_can_have_no_weight():
    with pytest.raises(MixtureError, match=r"'t1' has no labelled row.* give it 0"):
        cuvee.solve(made(), Ridge(), np.full((3, 4), 0.25))


def test_methods_that_need_labels_say_so():
    with pytest.raises(
        OptionError, match=r"'t1' has no labelled row, and method='cuts' .*path, matching"
    ):
        cuvee.estimate(made(), Ridge(), method="cuts")


def test_a_source_needs_labels():
    with pytest.raises(DomainError, match=r"source 's' has no labelled row"):
        Problem([Domain("s", None, None, unlabelled=[[0.0]])])
