"""Algorithm 4 once more, plain and slow, as the paper's box reads; every variant of `OnlineMap`
must do the same.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations_with_replacement
from math import ceil, comb, sqrt
from unittest.mock import patch

import numpy as np
import pytest
import torch

import cuvee
from cuvee import Logistic, OnlineMap, Ridge, erm
from cuvee.learn.settings import label_tol
from learn_builders import make_sources
from rounding import ROUNDING, assert_rounded

pytestmark = pytest.mark.sample(4)

N = 3
UNIFORM = np.full(N, 1 / N)


def algorithm_4(variant, alphas, label, ask, epsilon, prior, centre=False):
    """Centres S, predictions ŵ_t and flips Z_t; label(α) -> w, dw*/dα; ask(t, paid, α, ŵ, near) ->
    Z_t.

    A centre is a dict with its α, the radius it was opened at, and its rounds T. `centre` is what
    precedes the paper's box for prior="centre": a round 0, labelled, of the uniform mixture; the
    nearest ball that knows something speaks.
    """
    S, labels, paid = [], {}, 0  # centres; round -> (α, w, dw*/dα)
    predictions, flips, curvature = [], [], None

    def distance(alpha, s):
        return sqrt(((alpha - s["alpha"]) ** 2).sum())

    def labelled(s):
        return [labels[t] for t in s["T"] if t in labels]

    def knows(s):
        return bool(s["T"] if variant == "paper" else labelled(s))

    def says(s, alpha):
        if variant == "paper":  # a round without a label is a vector of zeros
            return sum(labels[t][1] if t in labels else 0.0 * prior for t in s["T"]) / len(s["T"])
        if variant == "paper_repaired":
            return sum(w for _, w, _ in labelled(s)) / len(labelled(s))
        w = sum(w + (alpha - a) @ slopes for a, w, slopes in labelled(s)) / len(labelled(s))
        if curvature is None:
            return w
        bend = curvature(alpha, s["alpha"])
        step = np.linalg.norm(w - sum(w for _, w, _ in labelled(s)) / len(labelled(s)))
        return w + bend * min(1.0, 0.5 * step / max(np.linalg.norm(bend), 1e-300))

    for t, alpha in enumerate(alphas if not centre else [UNIFORM, *alphas], 0 if centre else 1):
        if not S and variant != "curved":
            S.append({"alpha": alpha, "epsilon": epsilon(max(t, 1)), "T": []})
        s, far = None, np.inf
        if S:
            s = min(S, key=lambda s: distance(alpha, s))
            far = distance(alpha, s)
            clear(
                far, epsilon(max(t, 1)), *(distance(alpha, other) for other in S if other is not s)
            )
        near = s is not None and far <= epsilon(max(t, 1)) and knows(s)
        speakers = (
            [s] if s is not None and knows(s) else [s for s in S if knows(s)] if centre else []
        )
        w = says(min(speakers, key=lambda s: distance(alpha, s)), alpha) if speakers else prior

        if variant == "curved":  # a ball around every label
            s = s if far == 0 else {"alpha": alpha, "epsilon": 0.0, "T": []}
        elif far <= epsilon(max(t, 1)):
            s["T"].append(t)
        else:
            S.append(
                {"alpha": alpha, "epsilon": epsilon(t), "T": [] if variant == "paper" else [t]}
            )

        Z = t == 0 or ask(t, paid, alpha, w, near)
        if Z:
            labels[t] = (alpha, *label(alpha))
            paid += 1
        if Z and variant == "curved":
            s["T"].append(t)
            S += [] if far == 0 else [s]
            curvature = shared_curvature(S, labels, curvature)
        if t:
            predictions.append(w)
            flips.append(Z)
    return S, np.array(predictions), flips, paid


def clear(at: float, *others: float) -> None:
    """Raise if rounding alone would decide which of two numbers is smaller; those that are equal
    are so exactly.
    """
    assert all(at == other or abs(at - other) > 1e-9 for other in others)


def shared_curvature(S, labels, before):
    """What "curved" knows beyond first order: g fitted to every label and its slopes, less its
    tangent plane.
    """
    n, at = len(S), np.array([s["alpha"] for s in S])
    fitted = 0 if before is None else before.labels
    degree = next((d for d in (4, 3, 2) if 2 * comb(N + d - 1, d) <= n * N), None)
    if degree is None or n < ceil(1.1 * fitted) or n == fitted:
        return before
    monomials = [*combinations_with_replacement(range(N), degree)]

    def value(alpha):
        return np.array([np.prod([alpha[j] for j in f]) for f in monomials])

    def derivative(alpha, direction):  # by the product rule
        return np.array(
            [
                sum(
                    direction[f[i]] * np.prod([alpha[j] for j in (*f[:i], *f[i + 1 :])])
                    for i in range(degree)
                )
                for f in monomials
            ]
        )

    mean = [[labels[t] for t in s["T"]] for s in S]
    w = [
        sum(w + (a - b) @ slopes for b, w, slopes in some) / len(some)
        for a, some in zip(at, mean, strict=True)
    ]
    slopes = [sum(slopes for *_, slopes in some) / len(some) for some in mean]
    tangents = np.eye(N) - 1 / N
    typical = sqrt(((at - at.mean(0)) ** 2).mean())
    A = [value(a) for a in at] + [typical * derivative(a, v) for a in at for v in tangents]
    Y = list(w) + [typical * (v @ dw) for dw in slopes for v in tangents]
    g = np.linalg.lstsq(np.array(A), np.array(Y), rcond=None)[0]

    def bend(alpha, near):
        return (value(alpha) - value(near) - derivative(near, alpha - near)) @ g

    bend.labels = n
    return bend


# ---- the two side by side ------------------------------------------------------------------------

PROBLEMS = {"ridge": (0, Ridge(0.1)), "binary": (2, Logistic(0.1)), "softmax": (3, Logistic(0.1))}


@cache
def sources(name):
    return make_sources(PROBLEMS[name][0], N)


@cache
def label_of(name, alpha, tol):
    row = np.frombuffer(alpha)[None]
    w = cuvee.solve(sources(name), PROBLEMS[name][1], row, tol=tol).w
    return w[0], cuvee.sensitivity(sources(name), PROBLEMS[name][1], row, w)[0]


def stream(T, seed):
    """Random mixtures, some of them again, vertices, edges, and some very near to others."""
    rng = np.random.default_rng(seed)
    alphas = list(rng.dirichlet(np.ones(N), size=T))
    for t in range(1, T):
        kind, before = rng.integers(8), alphas[rng.integers(t)]
        if kind == 0:
            alphas[t] = before.copy()
        elif kind == 1:
            alphas[t] = np.eye(N)[rng.integers(N)]
        elif kind == 2:
            alphas[t] = 0.5 * np.eye(N)[rng.integers(N)] + 0.5 * np.eye(N)[rng.integers(N)]
        elif kind == 3:
            alphas[t] = 0.999 * before + 0.001 * alphas[t]
    return np.array(alphas)


class Unstarted:
    """An oracle whose labels depend on α alone, not on where the solver starts."""

    def __init__(self, oracle):
        self.oracle = oracle

    def solve(self, alpha, *, tol, start=None):
        return self.oracle.solve(alpha, tol=tol)

    def __getattr__(self, name):
        return getattr(self.oracle, name)


def run(online, alphas):
    predictions, flips = [], []
    for alpha in alphas:
        predictions.append(online.predict_one(alpha))
        flips.append(online.wants_label(alpha))
        if flips[-1]:
            assert online.learn_one(alpha).status is not cuvee.Status.DIVERGED
    return np.array(predictions), flips


def coin(p, seed):
    return lambda t, *_: np.random.Generator(np.random.Philox(key=seed, counter=t)).random() < p


def budget(p):
    return lambda t, paid, alpha, w, near: paid < ceil(p * t) and not near


def certificate(p, name, tol):
    def ask(t, paid, alpha, w, near):
        if paid >= ceil(p * t):
            return False
        proof = cuvee.certify(sources(name), PROBLEMS[name][1], alpha[None], w[None])
        clear(proof.gradient_norm[0], tol)
        return not proof.gradient_norm[0] <= tol

    return ask


def paper_radius(t):
    return t ** (-1 / (1 + N))


# g has a trace of ridge; the other variants differ from the box by rounding alone
PRECISION = {"curved": 1e-7}
LABEL_TOL = 1e-9  # of tol=1e-6


def compare(
    name,
    alphas,
    ask,
    radius=None,
    prior="auto",
    exact_labels=True,
    label=None,
    atol=None,
    **options,
):
    variant = options["variant"]
    family = erm.family
    with patch.object(
        erm,
        "family",
        lambda *a, **k: Unstarted(family(*a, **k)) if exact_labels else family(*a, **k),
    ):
        online = OnlineMap(
            sources(name),
            PROBLEMS[name][1],
            radius="paper" if radius is None else radius,
            prior=prior,
            **options,
        )
    P = len(online._state.regressor.prior)
    S, w, flips, paid = algorithm_4(
        variant,
        alphas,
        label or (lambda alpha: label_of(name, alpha.tobytes(), label_tol(online.settings.tol))),
        ask,
        paper_radius if radius is None else radius if callable(radius) else lambda t: float(radius),
        {"paper": np.full(P, 1 / P), "zero": np.zeros(P)}.get(prior, online._state.regressor.prior)
        if isinstance(prior, str)
        else prior,
        online.settings.centre,
    )
    predicted, asked = run(online, alphas)
    assert asked == flips
    np.testing.assert_array_equal(
        online._state.regressor.S.points, np.array([s["alpha"] for s in S]).reshape(-1, N)
    )
    assert_rounded(online._state.regressor.radii.values, [s["epsilon"] for s in S])
    assert_rounded(predicted, w, PRECISION.get(variant, ROUNDING) if atol is None else atol)
    ledger = online.ledger
    assert ledger.labels == paid and ledger.failed == 0 and ledger.centres == len(S)
    np.testing.assert_array_equal(np.diff(ledger.labels_at, prepend=online.settings.centre), flips)
    return online


@pytest.mark.parametrize(
    ("seed", "p"), [(0, 0.0), (0, 0.2), (1, 0.2), (2, 0.7), (3, 0.7), (2, 1.0)]
)
@pytest.mark.parametrize("variant", ["paper", "paper_repaired", "first_order"])
@pytest.mark.filterwarnings("ignore:label_budget=0")
def test_a_coin(variant, p, seed):
    prior = ("paper", "zero", "auto", "auto")[seed]
    compare(
        "ridge",
        stream(70, seed),
        coin(p, seed),
        variant=variant,
        policy="coin",
        label_budget=p,
        seed=seed,
        prior=prior if p else "zero",
    )


@pytest.mark.parametrize("variant", ["paper", "paper_repaired", "first_order", "curved"])
@pytest.mark.parametrize("name", ["binary", "softmax"])
def test_other_hypotheses(name, variant):
    compare(
        name,
        stream(24, 5),
        coin(0.5, 7),
        variant=variant,
        policy="coin",
        label_budget=0.5,
        seed=7,
        tol=1e-6,
        prior="zero",
    )


@pytest.mark.parametrize("prior", ["paper", "zero", "centre", "given"])
@pytest.mark.parametrize("variant", ["paper", "paper_repaired", "first_order", "curved"])
def test_priors(variant, prior):
    given = np.arange(4.0) if prior == "given" else prior
    compare(
        "ridge",
        stream(50, 3),
        coin(0.3, 1),
        variant=variant,
        policy="coin",
        label_budget=0.3,
        seed=1,
        prior=given,
    )


@pytest.mark.parametrize("p", [0.1, 0.25, 1.0])
@pytest.mark.parametrize("variant", ["paper", "paper_repaired", "first_order", "curved"])
def test_a_budget(variant, p):
    compare("ridge", stream(80, 11), budget(p), variant=variant, policy="budget", label_budget=p)


@pytest.mark.parametrize("p", [0.25, 1.0])
@pytest.mark.parametrize("variant", ["paper", "paper_repaired", "first_order", "curved"])
def test_a_certificate(variant, p):
    ask = certificate(p, "binary", 1e-2)
    online = compare(
        "binary",
        stream(28, 12),
        ask,
        variant=variant,
        policy="certificate",
        label_budget=p,
        tol=1e-2,
        radius=0.3,
    )
    assert 2 < online.ledger.labels < 28 or variant.startswith("paper")


@pytest.mark.parametrize(
    "radius",
    [0.0, 0.05, 2.0, lambda t: 1 / t, lambda t: sqrt(0.5) if t % 3 else 0.0],
    ids=["0", "0.05", "2", "1/t", "jumps"],
)
@pytest.mark.parametrize("variant", ["paper", "paper_repaired", "first_order"])
def test_radii_of_ones_own(variant, radius):
    """√½ is how far a vertex is from the middle of an edge: on the sphere is inside."""
    compare(
        "ridge",
        stream(60, 4),
        coin(0.5, 2),
        radius,
        variant=variant,
        policy="coin",
        label_budget=0.5,
        seed=2,
    )


@pytest.mark.parametrize("variant", ["paper", "paper_repaired", "first_order", "curved"])
def test_labels_as_the_solver_gives_them(variant):
    """Started at ŵ_t, they are as near to w* as the label's tolerance allows."""
    compare(
        "binary",
        stream(30, 6),
        coin(0.5, 3),
        variant=variant,
        policy="coin",
        label_budget=0.5,
        seed=3,
        tol=1e-6,
        prior="zero",
        exact_labels=False,
        atol=1e-5 if variant == "curved" else 1e-6,
    )


@pytest.mark.parametrize("K", [8])
@pytest.mark.parametrize("variant", ["paper", "paper_repaired", "first_order", "curved"])
def test_labels_by_gradient_descent(variant, K):
    """GD(0, α, K) by hand, in the steps that the map takes: the gradient of a mixture of logistic
    losses.
    """
    name, hypothesis = "binary", PROBLEMS["binary"][1]
    L = [1 / _first_step(name, np.eye(N)[j]) for j in range(N)]

    def descended(alpha):
        w, gamma = np.zeros(4), 1 / (alpha @ L)
        for _ in range(K):
            w = w - gamma * _gradient(name, alpha, w)
        return w, cuvee.sensitivity(sources(name), hypothesis, alpha[None], w[None])[0]

    compare(
        name,
        stream(25, 8),
        coin(0.5, 4),
        variant=variant,
        policy="coin",
        label_budget=0.5,
        seed=4,
        K=K,
        prior="paper",
        label=descended,
        atol=1e-7 if variant == "curved" else 1e-10,
    )


def _gradient(name, alpha, w):
    total = 0.1 * w * [1, 1, 1, _penalised_intercept(name)]
    for a, source in zip(alpha, sources(name), strict=True):
        X = np.column_stack([source.X, np.ones(len(source.X))])
        total = total + a * X.T @ (1 / (1 + np.exp(-X @ w)) - source.y) / len(X)
    return total


@cache
def _penalised_intercept(name):
    """1 if l2 is on the intercept as well: the gradient at a w* says which."""
    w = cuvee.solve(sources(name), PROBLEMS[name][1], UNIFORM[None], tol=1e-10).w[0]
    X = np.concatenate([s.X for s in sources(name)])
    y = np.concatenate([s.y for s in sources(name)])
    slope = (1 / (1 + np.exp(-X @ w[:3] - w[3])) - y).mean()
    return int(abs(slope) > 1e-6)


def _first_step(name, alpha):
    """γ of one step from 0 at α, seen from outside: it ought to be the inverse of a curvature."""
    online = OnlineMap(
        sources(name), PROBLEMS[name][1], variant="paper_repaired", label_budget=1.0, K=1
    )
    online.predict_one(alpha)
    online.learn_one(alpha)
    w, g = online.predict_one(alpha), _gradient(name, alpha, np.zeros(4))
    X = np.column_stack([sources(name)[int(alpha.argmax())].X, np.ones(50)])
    curvature = np.linalg.eigvalsh(X.T @ X / len(X) / 4 + 0.1 * np.eye(4))[-1]
    gamma = float(-w @ g / (g @ g))
    np.testing.assert_allclose(w, -gamma * g, rtol=1e-9)
    assert 0.5 / curvature < gamma <= 1.001 / curvature
    return gamma


@pytest.mark.parametrize("variant", ["paper", "paper_repaired", "first_order"])
@pytest.mark.slow
def test_long_streams(variant):
    for seed in range(10):
        compare(
            "ridge",
            stream(1500, 100 + seed),
            coin(0.3, seed),
            variant=variant,
            policy="coin",
            label_budget=0.3,
            seed=seed,
        )
        compare(
            "ridge",
            stream(600, 200 + seed),
            coin(0.3, seed),
            0.02,
            variant=variant,
            policy="coin",
            label_budget=0.3,
            seed=seed,
        )


@pytest.mark.slow
def test_long_streams_with_curvature():
    for seed in range(5):
        compare(
            "binary",
            stream(300, 300 + seed),
            coin(0.3, seed),
            variant="curved",
            policy="coin",
            label_budget=0.3,
            seed=seed,
            atol=1e-6,
        )


def test_torch_tensors_lists_and_arrays_are_the_same_stream():
    alphas = stream(30, 9)
    options = {"variant": "first_order", "policy": "coin", "label_budget": 0.5}
    said = [
        run(OnlineMap(sources("ridge"), Ridge(0.1), **options), given)
        for given in (alphas, torch.as_tensor(alphas), alphas.tolist())
    ]
    for other in said[1:]:
        assert_rounded(other[0], said[0][0])
        assert other[1] == said[0][1]
