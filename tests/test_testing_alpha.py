"""`check_alpha_method` passes what keeps its word, and says in a sentence what does not."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import cuvee
from builders import make_problem
from cuvee.components import ALL
from cuvee.mixture import registry
from cuvee.mixture.method import AlphaMethod, Estimate, closed_form, with_own
from cuvee.testing import check_alpha_method
from cuvee.testing.alpha_methods import EFFECTS
from cuvee.testing.subject import problem_of

pytestmark = pytest.mark.sample(4)


@pytest.mark.parametrize("name", registry.names())
def test_every_alpha_method_of_ours_passes(name):
    check_alpha_method(name)


def test_a_problem_and_a_hypothesis_may_be_given_for_an_alpha_method():
    problem = make_problem((20, 24), (6, 7), shape=(3,))
    check_alpha_method("konstantinov_lampert", problem, cuvee.Ridge(0.1))


def alike(request):
    """Return how unlike the losses of a target and the sources are for a few models, (M, N)."""
    components, M = request.components, len(request.components.own_counts)
    w = components.space.start(8, request.settings.run.seed).repeat(M, 1, 1)
    losses = components.values(w, ALL)
    return np.asarray((losses[..., :-1] - losses[..., -1:]).square().sum(1))


def nearest(best=np.argmin, steps=5, **changes):
    """Return a method that gives all weight to the nearest source, or to what `best` says."""

    def estimate(request):
        apart = alike(request)
        alpha = np.eye(apart.shape[1])[best(apart, 1)]
        alpha = with_own(alpha, 0.0) if request.settings.own else alpha
        return closed_form(alpha)

    return replace(
        AlphaMethod("nearest", estimate, "All weight on the nearest source.", steps), **changes
    )


def answering(change, steps=0):
    """Return a method that answers with uniform weights, changed."""

    def estimate(request):
        J = request.components.counts.numel() + int(request.settings.own)
        alpha = np.full((request.components.own_counts.numel(), J), 1.0 / J)
        answer = change(alpha)
        return answer if isinstance(answer, Estimate) else closed_form(answer)

    return AlphaMethod("mine", estimate, "Weights of my own.", steps)


def test_an_alpha_method_of_ones_own_passes_and_is_forgotten_again():
    check_alpha_method(nearest())
    check_alpha_method(nearest(steps=0))
    assert "nearest" not in registry.names()


def without_last_column(alpha):
    return np.full((len(alpha), len(EFFECTS)), 1.0 / len(EFFECTS))


def leaning_on_neighbours(alpha):
    return np.eye(alpha.shape[1])[[len(alpha) - 1] * len(alpha)]


RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (nearest(np.argmax), "copies of sources .2, 0. get most weight on sources"),
        (answering(lambda alpha: 2 * alpha), "own=False are not on the simplex"),
        (answering(lambda alpha: alpha * np.nan), "a weight is not finite"),
        (answering(without_last_column), r"shape \(2, 3\) with own=True; they must have \(2, 4\)"),
        (answering(leaning_on_neighbours), "other weights alone than among others"),
        (answering(lambda alpha: RANDOM.dirichlet(alpha[0], len(alpha))), "the same call|alone"),
        (
            answering(lambda alpha: replace(
                closed_form(alpha), status=(cuvee.Status.CONVERGED,) * len(alpha))),
            "steps is 0, but a status is",
        ),
        (
            answering(lambda alpha: np.delete(alpha, 2, 1) / 0 if alpha.shape[1] < 3 else alpha),
            "was raised when it was checked that one source and the own sample",
        ),
        (nearest(summary="The nearest"), "summary must be one sentence"),
        (nearest(name="the nearest"), "name must be a word"),
        (nearest(name="agp"), "another method is registered by this name"),
    ],
    ids=["sign", "sum", "nan", "own", "company", "noise", "status", "one source", "summary",
         "name", "taken"],
)  # fmt: skip
def test_an_alpha_method_that_breaks_its_word_is_told(wrong, sentence):
    names = registry.names()
    with pytest.raises(AssertionError) as told:
        check_alpha_method(wrong)
    assert re.search(sentence, str(told.value)), told.value
    assert str(told.value).startswith("α method ")
    assert registry.names() == names


def test_no_method_is_asked_about_no_targets():
    def never(alpha):
        raise AssertionError("asked")

    registry.register(method := answering(never))
    try:
        with pytest.raises(cuvee.OptionError, match="no targets"):
            cuvee.estimate(
                cuvee.Problem(problem_of("quantities").sources), cuvee.Ridge(), method=method.name
            )
    finally:
        registry.unregister(method.name)
