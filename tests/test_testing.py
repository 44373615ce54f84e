"""`cuvee.testing` passes what keeps its word, and says in a sentence what does not."""

from __future__ import annotations

import importlib
import re
import sys
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import cuvee
from builders import make_problem, mlp
from cuvee.hypothesis.poisson import PoissonSpace
from cuvee.hypothesis.ridge import RidgeSpace
from cuvee.learn import registry
from cuvee.learn.choose import Chosen, untried
from cuvee.learn.method import Map
from cuvee.mixture import registry as alpha_registry
from cuvee.testing import (
    alpha_methods,
    check_hypothesis,
    check_map,
    hypotheses,
    maps,
    structure,
)
from cuvee.testing.subject import problem_of, subjects
from erm.test_convex import PseudoHuber, PseudoHuberSpace

pytestmark = pytest.mark.sample(4)

GOOD = {
    "ridge": cuvee.Ridge(0.1),
    "ridge in a ball": cuvee.Ridge(radius=0.5, intercept=False),
    "logistic": cuvee.Logistic(),
    "poisson": cuvee.Poisson(),
    "network": cuvee.Network(mlp(3, 3)),
    "network of quantities": cuvee.Network(mlp(3, 1), loss="squared"),
    "network in float32 with kinks": cuvee.Network(
        torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    ),
    "pseudo-huber, which declares nothing": PseudoHuber(),
    "pseudo-huber in a ball": PseudoHuber(radius=1.0),
}


@pytest.mark.parametrize("hypothesis", GOOD.values(), ids=GOOD)
def test_what_keeps_its_word_passes(hypothesis):
    check_hypothesis(hypothesis)


def test_a_space_may_have_a_scale_and_a_mean_of_its_own():
    class Mine(RidgeSpace):
        def __init__(self, *given):
            super().__init__(*given)
            self._scale = self._mean = self._standardised = self._started = 1.0

    check_hypothesis(Bent(Mine, cuvee.Ridge(0.1)))
    cuvee.estimate(problem_of("quantities"), Bent(Mine, cuvee.Ridge(0.1)), method="agp", steps=2)


def test_logistic_is_checked_with_two_and_three_classes():
    assert [s.labels for s in subjects(cuvee.Logistic(), None)] == ["two classes", "three classes"]


def test_a_problem_may_be_given_with_weighted_rows():
    check_hypothesis(
        cuvee.Poisson(0.1),
        cuvee.Problem([
            cuvee.Poisson.domain(s.name, s.X, s.y, np.linspace(0.5, 2.0, s.n_rows))
            for s in problem_of("amounts of 0 or more").sources
        ]),
    )  # fmt: skip
    check_hypothesis(cuvee.Logistic(), make_problem((20, 24), (6,), classes=3, weighted=True))


def test_a_hypothesis_for_other_tables_asks_for_a_problem():
    with pytest.raises(AssertionError, match=r"refuses every table .* pass problem="):
        check_hypothesis(cuvee.Network(mlp(5, 2)))
    check_hypothesis(cuvee.Network(mlp(5, 2)), make_problem((20, 24), (6,), shape=(5,), classes=2))


@dataclass(frozen=True)
class Bent:
    """A hypothesis whose space is one of ours with something wrong in it."""

    space: type
    spec: object
    radius: float | None = None

    def bind(self, facts, *, standardised=False):
        if issubclass(self.space, PseudoHuberSpace):
            return self.space(facts, self.spec)
        return self.space(facts, self.spec, standardised)


def bent(base=PseudoHuberSpace, **wrong):
    spec = {RidgeSpace: cuvee.Ridge(0.1), PoissonSpace: cuvee.Poisson(0.1)}.get(base, PseudoHuber())
    return Bent(type(f"Wrong{base.__name__}", (base,), wrong), spec)


class Sign(torch.autograd.Function):
    """A loss with a backward of its own that forgets half the slope."""

    @staticmethod
    def forward(ctx, r):
        ctx.save_for_backward(r)
        return r.square()

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0]


def residual(scores: Tensor, y: Tensor) -> Tensor:
    return scores.squeeze(-2) - y


WRONG = {
    "no gradient": (
        bent(trained=lambda self, s, y: residual(s.detach(), y).square()),
        "torch finds no gradient of trained.*without detach",
    ),
    "half the gradient": (
        bent(trained=lambda self, s, y: Sign.apply(residual(s, y))),
        "gradient of trained is not its slope.*backward of your own",
    ),
    "a lie about convexity": (
        bent(trained=lambda self, s, y: residual(s, y).square().log1p()),
        "convex is True, but the risk half-way.*set convex = False",
    ),
    "a lie about being quadratic": (
        bent(
            RidgeSpace, trained=lambda self, s, y: residual(s, y).square().add(1).sqrt() - 1
        ),
        "quadratic is True, but second differences.*leave quadratic out",
    ),
    "twice the squared loss": (
        bent(RidgeSpace, trained=lambda self, s, y: residual(s, y).square()),
        "trained losses of a whole source differ from the mean over its rows",
    ),
    "a lie about being linear": (
        bent(linear=True, scores=lambda self, w, X: (w @ X.T).unsqueeze(-2) + 1.0,
             own_scores=lambda self, w, X: (w @ X.mT).unsqueeze(-2) + 1.0),
        "linear is True, but",
    ),
    "scores without outputs": (
        bent(scores=lambda self, w, X: w @ X.T),
        r"scores of w \(2, 3, P\) have shape \(2, 3, 30\); they must have \(\.\.\., outputs, rows",
    ),
    "scores of one model alone": (
        bent(scores=lambda self, w, X: torch.mv(X, w)[None]),
        "RuntimeError was raised when it was checked that scores have their shape",
    ),
    "own scores of the first target": (
        bent(own_scores=lambda self, w, X: (w @ X[0].T).unsqueeze(-2)),
        "own_scores differs from scores",
    ),
    "models that see each other": (
        bent(scores=lambda self, w, X: ((w - w.mean()) @ X.T).unsqueeze(-2)),
        "no model may depend on its neighbours",
    ),
    "a loss below 0": (
        bent(trained=lambda self, s, y: residual(s, y).square() - 1),
        "trained is below 0",
    ),
    "one loss for all rows": (
        bent(trained=lambda self, s, y: residual(s, y).square().mean(-1)),
        "one loss per model and row",
    ),
    "a bounded loss without a bound": (
        bent(bounded=lambda self, s, y: residual(s, y).abs()),
        "bounded grows from .* it must have a bound",
    ),
    "random starts": (
        bent(start=lambda self, n, seed: torch.rand(n, self.n_params).double()),
        "start gives other parameters for the same seed",
    ),
    "starts that depend on their number": (
        bent(start=lambda self, n, seed: torch.as_tensor(
            np.random.default_rng([seed, n]).normal(size=(n, self.n_params)))),
        r"row k of start must depend on seed and k alone",
    ),
    "a projection that moves": (
        bent(project=lambda self, w: 0.5 * w),
        "start lies outside W|project moves parameters",
    ),
    "predictions of the wrong shape": (
        bent(decide=lambda self, scores: np.asarray(scores)),
        r"decide gives shape \(2, 3, 1, 30\)",
    ),
    "a penalty that is forgotten": (
        bent(penalised=property(lambda self: torch.ones(2))),
        "penalised must hold a 0 or a 1 for each of the 3 parameters",
    ),
    "a mean that is none": (
        bent(PoissonSpace, mean_=lambda self, scores: scores.exp() + 1),
        "mean_.* is not the gradient of trained",
    ),
    "another curvature": (
        bent(PoissonSpace, curvature=lambda self, mean, output: mean / 2),
        "curvature.* is not the derivative of mean a",
    ),
    "a curvature with a limit": (bent(PoissonSpace, sharpness=0.1), "sharpness is 0.1, but"),
    "too small a concordance": (
        bent(PoissonSpace, concordance=0.5), "changes faster .* than concordance = 0.5",
    ),
    "row bounds too small": (
        bent(PoissonSpace, score_bounds=lambda self, loss, length, y, radius: (
            0 * length, 0.0, 0 * length)),
        "score_bounds.* is exceeded",
    ),
    "a second derivative that overflows": (
        bent(RidgeSpace, quadratic=False, trained=lambda self, s, y: torch.logaddexp(
            1e3 * residual(s, y), -1e3 * residual(s, y)) / 1e3 - np.log(2) / 1e3,
            score_bounds=lambda self, loss, length, y, radius: (
                length + 9, 1.0, 9 * length + 9 + y.abs())),
        "torch finds no finite second derivative of trained: .* softplus instead of logaddexp",
    ),
    "a curvature range too small": (
        bent(PoissonSpace, curvature_range=lambda self, reach, y: (0 * reach, 0 * reach + 1.0)),
        r"curvature_range\(reach, y\) does not hold",
    ),
    "a private name of the base taken": (
        bent(RidgeSpace, _column_scale=property(lambda self: 2.0, lambda self, value: None)),
        "AttributeError was raised when it was checked that .* standardised coordinates",
    ),
    "standardised labels that are lost": (
        bent(RidgeSpace, encode=lambda self, y, name: y * (np.nan if self._columns_scaled else 1)),
        "with standardised=True, trained is not finite",
    ),
    "starts that estimate cannot use": (
        bent(start=lambda self, n, seed: PseudoHuberSpace.start(self, n, seed)[:6]),
        "was raised when it was checked that cuvee.estimate finds weights",
    ),
    "a lie about how steep it gets": (bent(steepening=1.0), "steepening is 1, but the risk bends"),
    "a loss that overflows far out": (
        bent(trained=lambda self, s, y: (5 * residual(s, y)).cosh().log() / 25,
             bounded=lambda self, s, y: residual(s, y).atan().square()),
        "with labels 100 times as large cuvee.solve does not end well",
    ),
    "a class for a space": (
        bent(RidgeSpace, encode=None), "without encode: derive it from cuvee.hypothesis.Space",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("hypothesis", "sentence"), WRONG.values(), ids=WRONG)
def test_what_breaks_its_word_is_told(hypothesis, sentence):
    with pytest.raises(AssertionError) as told:
        check_hypothesis(hypothesis)
    assert re.search(sentence, str(told.value)), told.value
    assert str(told.value).startswith("Bent (")


def test_classes_probabilities_and_decisions_must_agree():
    class Wrong(type(cuvee.Logistic().bind(problem_of("two classes").facts))):
        def decide(self, scores):
            return self.classes[np.asarray((scores[..., 0, :] < 0).long())]

    with pytest.raises(AssertionError, match="decide must give the likeliest class"):
        check_hypothesis(Bent(Wrong, cuvee.Logistic()))


def test_bounds_that_do_not_hold_are_told(monkeypatch):
    """A solver that certifies too much is caught beside a tighter solve."""
    certify = structure.api.certify

    def boastful(*given):
        bound = certify(*given)
        return replace(bound, distance=bound.distance * 0.01)

    monkeypatch.setattr(structure.api, "certify", boastful)
    with pytest.raises(AssertionError, match="certified distance does not hold"):
        check_hypothesis(cuvee.Ridge(0.1))


def test_every_check_says_what_it_checks():
    for check in (
        *(*hypotheses.CHECKS, *maps.CHECKS, *alpha_methods.CHECKS),
        *(maps.check_record, alpha_methods.check_record),
    ):
        assert check.__doc__.startswith("Check that "), check


# ---- maps ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", registry.names())
def test_every_map_of_ours_passes(name):
    check_map(name)


def test_options_problem_and_hypothesis_may_be_given():
    fit = partial(cuvee.learn, method="surface", degree=1, n_labels=20, n_calibration=20)
    check_map(fit, problem_of("quantities"), cuvee.Ridge(0.1))
    check_map("kernel", problem_of("three classes"), PseudoHuber())


@dataclass(frozen=True)
class Line:
    """w is linear in α."""

    slopes: Tensor  # (N, P)

    def __call__(self, alpha: Tensor) -> Tensor:
        return alpha @ self.slopes


class Mean(Line):
    def __call__(self, alpha):
        return self.slopes.mean(0).expand(len(alpha), -1)


class Unnamed(Line):
    """A predictor that its map does not name."""


class Neighbours(Line):
    def __call__(self, alpha):
        return alpha @ self.slopes + 0.01 * alpha.square().sum()


class Transposed(Line):
    def __call__(self, alpha):
        return (alpha @ self.slopes)[:, :2]


class Infinite(Line):
    def __call__(self, alpha):
        return torch.full((len(alpha), self.slopes.shape[1]), torch.nan)


def line(kind: type = Line, named: type | None = None, noise: bool = False, **changes) -> Map:
    def fit(material, options):
        labels = material.inside
        slopes = torch.linalg.pinv(labels.alpha) @ labels.w
        if noise:
            slopes = slopes + 0.01 * torch.rand_like(slopes)
        return Chosen(kind(slopes), material.subspace, "a line", (untried("a line", 0.0),))

    return replace(Map("line", fit, "A line through the labels.", (named or kind,)), **changes)


def test_a_map_of_ones_own_passes_and_is_forgotten_again():
    check_map(line())
    assert "line" not in registry.names()


def test_a_map_that_no_file_can_hold_refuses_cleanly_and_passes():
    check_map(line(Unnamed, named=Line))


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (line(Mean), "no nearer .* than their mean"),
        (line(Neighbours), "another model alone than in a batch"),
        (line(Transposed), "map α .* to w|w of shape|was raised when it was checked"),
        (line(Infinite), "no nearer"),
        (line(noise=True), "learning twice with the same seed"),
        (line(summary="A line"), "summary must be one sentence"),
        (line(options=("colour",)), "options names .'colour'."),
        (line(predictors=(int,)), "must be frozen dataclasses"),
    ],
    ids=["mean", "batch", "shape", "nan", "noise", "summary", "options", "predictors"],
)
def test_a_map_that_breaks_its_word_is_told(wrong, sentence):
    with pytest.raises(AssertionError) as told:
        check_map(wrong)
    assert re.search(sentence, str(told.value)), told.value
    assert "line" not in registry.names()


def test_a_map_that_takes_any_weights_is_told():
    class Careless:
        def __init__(self, atlas):
            self.atlas, self.labels, self.save = atlas, atlas.labels, atlas.save

        def __call__(self, alpha, **options):
            alpha = np.abs(np.nan_to_num(np.asarray(alpha, float)))
            return self.atlas(alpha / alpha.sum(1, keepdims=True), **options)

    def careless(problem, hypothesis):
        return Careless(cuvee.learn(problem, hypothesis, n_labels=20, n_calibration=20))

    with pytest.raises(AssertionError, match="a negative weight is answered"):
        check_map(careless)


# ---- what CONTRIBUTING.md shows ------------------------------------------------------------------

PAGE = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)


@pytest.fixture
def forgotten():
    """Forget afterwards what a page registers."""
    kept = [(each, each.names()) for each in (registry, alpha_registry)]
    yield
    for each, names in kept:
        for new in set(each.names()) - set(names):
            each.unregister(new)


@pytest.mark.usefixtures("forgotten")
@pytest.mark.parametrize("block", BLOCKS, ids=["hypothesis", "method", "map"])
def test_what_a_newcomer_copies_runs(block, tmp_path, monkeypatch):
    script = tmp_path / "mine.py"
    script.write_text(block, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.import_module("mine")
    del sys.modules["mine"]
