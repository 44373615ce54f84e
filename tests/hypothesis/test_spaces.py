from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis.extra.numpy import arrays
from scipy.special import logsumexp
from torch import nn

from builders import CASES, Case, Wrapped, log_cosh, make_problem, mlp, models, slow_scores
from cuvee.components import ALL, LocalComponents
from cuvee.errors import DomainError, OptionError
from cuvee.hypothesis import Logistic, Network, Ridge
from cuvee.hypothesis.stacked import ELEMENTWISE
from cuvee.problem import Domain, Problem
from cuvee.testing import check_hypothesis
from hypothesis import given, settings
from hypothesis import strategies as st
from rounding import assert_rounded

pytestmark = pytest.mark.sample(12)

properties = settings(derandomize=True, deadline=None, max_examples=20)
every_case = pytest.mark.parametrize("case", CASES, ids=repr)
LINEAR = [case for case in CASES if not isinstance(case.hypothesis, Network)]
every_linear = pytest.mark.parametrize("case", LINEAR, ids=repr)
every_loss = pytest.mark.parametrize("kind", ["trained", "bounded"])

X = np.arange(6.0).reshape(3, 2)


@every_case
@properties
@given(M=st.integers(1, 3), Q=st.integers(1, 3), rows=st.integers(1, 6), seed=st.integers(0, 99))
def test_scores_are_single_models_one_by_one(case, M, Q, rows, seed):
    space = case.hypothesis.bind(case.problem().facts)
    w = models(space, M, Q, seed=seed)
    raw = torch.as_tensor(np.random.default_rng(seed).normal(size=(rows, *case.shape)))
    slow = torch.stack(
        [
            torch.stack([slow_scores(case.hypothesis, w[i, q], raw) for q in range(Q)])
            for i in range(M)
        ]
    )
    scores = space.scores(w, space.prepare(raw))
    assert scores.shape == (M, Q, space.n_outputs, rows)
    torch.testing.assert_close(scores, slow, rtol=1e-11, atol=1e-11)
    torch.testing.assert_close(
        space.scores(w[0, 0], space.prepare(raw)), slow[0, 0], rtol=1e-11, atol=1e-11
    )


@every_case
@properties
@given(M=st.integers(1, 3), Q=st.integers(1, 3), rows=st.integers(1, 6), seed=st.integers(0, 99))
def test_own_scores_are_single_models_on_their_own_rows(case, M, Q, rows, seed):
    space = case.hypothesis.bind(case.problem().facts)
    w = models(space, M, Q, seed=seed)
    raw = torch.as_tensor(np.random.default_rng(seed).normal(size=(M, rows, *case.shape)))
    slow = torch.stack(
        [
            torch.stack([slow_scores(case.hypothesis, w[i, q], raw[i]) for q in range(Q)])
            for i in range(M)
        ]
    )
    scores = space.own_scores(w, space.prepare(raw))
    assert scores.shape == (M, Q, space.n_outputs, rows)
    torch.testing.assert_close(scores, slow, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("case", [c for c in CASES if isinstance(c.hypothesis, Network)], ids=repr)
def test_network_parameters_lie_as_torch_flattens_them(case):
    problem = case.problem()
    space = case.hypothesis.bind(problem.facts)
    (w,) = models(space, 1)
    module = deepcopy(case.hypothesis.module)
    nn.utils.vector_to_parameters(w, module.parameters())
    raw = torch.as_tensor(problem.sources[0].X)
    torch.testing.assert_close(space.scores(w, raw), module(raw).detach().T)
    torch.testing.assert_close(
        space.start(1, seed=0)[0],
        nn.utils.parameters_to_vector(case.hypothesis.module.parameters()).detach(),
    )


def numpy_trained(case: Case, scores: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(outputs, rows), (rows,) -> (rows,)."""
    if case.classes and len(scores) == 1:
        return np.logaddexp(0.0, np.where(y == 1, -scores[0], scores[0]))
    if case.classes:
        return logsumexp(scores, axis=0) - scores[y, np.arange(len(y))]
    if case.name == "net-custom":
        r = np.abs(scores[0] - y)
        return r + np.log1p(np.exp(-2 * r)) - np.log(2) + 0.1 * scores[1] ** 2
    return 0.5 * (scores[0] - y) ** 2


def labels_for(case: Case, rows: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.integers(0, case.classes, rows) if case.classes else rng.normal(size=rows)


def label_variance(problem):
    """Around the mean of the sources' means, every source counting alike."""
    centre = np.mean([s.y.mean() for s in problem.sources])
    return np.mean([np.mean((s.y - centre) ** 2) for s in problem.sources])


@every_case
@properties
@given(
    spread=st.sampled_from([1e-3, 1.0, 5.0, 15.0]), rows=st.integers(1, 7), seed=st.integers(0, 99)
)
def test_losses_are_their_formulas(case, spread, rows, seed):
    problem = case.problem()
    space = case.hypothesis.bind(problem.facts)
    y = labels_for(case, rows, seed)
    scores = np.random.default_rng(seed).uniform(
        -spread, spread, size=(2, 3, space.n_outputs, rows)
    )
    trained = np.array([[numpy_trained(case, scores[i, q], y) for q in range(3)] for i in range(2)])
    bounded = (
        -np.expm1(-trained)
        if case.classes
        else trained / (1 + 2 * trained / label_variance(problem))
    )
    for kind, expected in (("trained", trained), ("bounded", bounded)):
        row_losses = space.loss(kind, torch.as_tensor(scores), torch.as_tensor(y))
        np.testing.assert_allclose(row_losses.numpy(), expected, rtol=1e-9, atol=1e-14)


@every_case
def test_what_every_hypothesis_must_keep(case):
    """Own labels, gradients, the projection, fast sums over rows, certificates: all by name."""
    check_hypothesis(case.hypothesis, case.problem((20, 26, 23), (6, 5), weighted=True))


@pytest.mark.parametrize("score", [-20.5, 20.5])
def test_binary_cross_entropy_is_exact_for_sure_scores(score):
    space = Logistic().bind(make_problem(classes=2).facts)
    for label in (0, 1):
        loss = space.trained(
            torch.tensor([[score]], dtype=torch.float64), torch.tensor([label])
        ).item()
        assert loss == pytest.approx(np.logaddexp(0.0, score if label == 0 else -score), rel=1e-12)


@every_case
@properties
@given(spread=st.sampled_from([1e-6, 1.0, 30.0, 1e4, 1e9]), seed=st.integers(0, 99))
def test_bounded_loss_keeps_its_bounds_and_follows_the_trained(case, spread, seed):
    problem = case.problem()
    space = case.hypothesis.bind(problem.facts)
    y = torch.as_tensor(labels_for(case, 60, seed))
    scores = torch.as_tensor(
        np.random.default_rng(seed).normal(size=(space.n_outputs, 60)) * spread
    )
    if case.name == "net-custom":
        scores = scores.clamp(-300, 300)  # its own cosh overflows beyond
    trained, bounded = space.trained(scores, y), space.bounded(scores, y)
    most = 1.0 if case.classes else label_variance(problem) / 2
    assert trained.isfinite().all()
    assert (trained >= 0).all()
    assert (bounded >= 0).all()
    assert (bounded <= most * (1 + 1e-12)).all()
    rounding = 1e-14 * (1 + spread)
    assert (bounded <= trained + rounding).all()
    assert (bounded[trained.argsort()].diff() >= -rounding).all()


@pytest.mark.parametrize("case", [c for c in CASES if c.name in ("ridge", "net-squared")], ids=repr)
def test_bounded_loss_survives_overflow(case):
    space = case.hypothesis.bind(case.problem().facts)
    scores = torch.tensor([[1e160]], dtype=torch.float64)
    assert space.bounded(scores, torch.zeros(1, dtype=torch.float64)).isfinite().all()


@every_case
@properties
@given(
    radius=st.sampled_from([1e-3, 0.5, 1.0, 7.0, 1e3]),
    scale=st.sampled_from([0.0, 1e-6, 0.1, 1.0, 1e4, 1e30]),
    seed=st.integers(0, 99),
)
def test_project_is_the_nearest_point_of_the_ball(case, radius, scale, seed):
    space = replace(case.hypothesis, radius=radius).bind(case.problem().facts)
    w = models(space, 2, 3, seed=seed, scale=scale)
    p = space.project(w)
    norm = torch.linalg.vector_norm(p, dim=-1)
    assert (norm <= radius * (1 + 1e-12)).all()
    # p is nearest exactly when no u of the ball has (w − p)·(u − p) > 0; the worst u is r (w −
    # p)/‖w − p‖.
    away = w - p
    worst = radius * torch.linalg.vector_norm(away, dim=-1) - (away * p).sum(-1)
    assert (worst <= 1e-9 * (1 + scale) * radius).all()
    inside = torch.linalg.vector_norm(w, dim=-1) < radius * (1 - 1e-12)
    assert torch.equal(p[inside], w[inside])


@every_case
@pytest.mark.parametrize("standardised", [False, True])
def test_starts_lie_in_the_ball_apart_and_depend_on_seed_and_row_alone(case, standardised):
    space = case.hypothesis.bind(case.problem().facts, standardised=standardised)
    w = space.start(4, seed=3)
    assert w.shape == (4, space.n_params)
    assert_rounded(space.start(6, seed=3)[:4], w)
    assert torch.equal(space.project(w), w)
    assert (torch.pdist(w) > 1e-3).all()
    # a network's row 0 is the module as given, whatever the seed
    given = int(isinstance(case.hypothesis, Network))
    assert (torch.linalg.vector_norm(w - space.start(4, seed=4), dim=-1)[given:] > 1e-3).all()
    assert space.start(0, seed=0).shape == (0, space.n_params)


def test_start_leaves_the_global_generator_alone():
    case = next(c for c in CASES if c.name == "net-squared")
    space = case.hypothesis.bind(case.problem().facts)
    before = torch.random.get_rng_state()
    space.start(3, seed=5)
    assert torch.equal(torch.random.get_rng_state(), before)


def first_squared(scores: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (scores[0] - y).square()


def layers(draw) -> nn.Sequential:
    """A random stack of linear layers and activations for rows of 3 numbers."""
    activations = st.sampled_from([*ELEMENTWISE, lambda: nn.ReLU(inplace=True), None])
    widths = [3, *draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))]
    parts: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        parts.append(nn.Linear(inputs, outputs, bias=draw(st.booleans())))
        if (activation := draw(activations)) is not None:
            parts.append(activation())
    return nn.Sequential(*parts).double()


@properties
@given(st.data())
def test_stacked_layers_are_vmap(data):
    module = layers(data.draw)
    problem = make_problem()
    stacked, mapped = (
        Network(m, loss=first_squared).bind(problem.facts) for m in (module, Wrapped(module))
    )
    assert stacked._stack is not None
    assert mapped._stack is None
    M, Q, rows = (data.draw(st.integers(1, 3)) for _ in range(3))
    w = models(stacked, M, Q, seed=data.draw(st.integers(0, 99)))
    shared = torch.as_tensor(np.random.default_rng(1).normal(size=(rows, 3)))
    own = torch.as_tensor(np.random.default_rng(2).normal(size=(M, rows, 3)))
    torch.testing.assert_close(
        stacked.scores(w, shared), mapped.scores(w, shared), rtol=1e-10, atol=1e-10
    )
    torch.testing.assert_close(
        stacked.own_scores(w, own), mapped.own_scores(w, own), rtol=1e-10, atol=1e-10
    )
    assert torch.equal(stacked.start(3, seed=1), mapped.start(3, seed=1))


def test_more_than_a_stack_is_left_to_vmap():
    linear, other = nn.Linear(3, 3), nn.Linear(3, 3)
    hooked = nn.Sequential(nn.Linear(3, 1))
    hooked[0].register_forward_hook(lambda module, rows, out: out * 2)
    for module in (
        nn.Sequential(linear, linear),
        nn.Sequential(nn.ReLU(), linear),
        nn.Sequential(linear, nn.Softmax(-1)),
        nn.Sequential(linear, nn.LayerNorm(3)),
        nn.Sequential(linear, nn.PReLU(), other),
        hooked,
    ):
        module = module.double()
        hypothesis = Network(module, loss=log_cosh if module is not hooked else "squared")
        space = hypothesis.bind(make_problem().facts)
        (w,), rows = models(space, 1), torch.as_tensor(np.random.default_rng(0).normal(size=(4, 3)))
        copied = deepcopy(module)
        nn.utils.vector_to_parameters(w, copied.parameters())
        torch.testing.assert_close(space.scores(w, space.prepare(rows)), copied(rows).detach().T)


def test_tied_layers_share_their_parameters():
    module = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3)).double()
    module[2].weight = module[0].weight
    space = Network(module, loss=log_cosh).bind(make_problem().facts)
    (w,), rows = models(space, 1), torch.as_tensor(np.random.default_rng(0).normal(size=(4, 3)))
    nn.utils.vector_to_parameters(w, module.parameters())
    torch.testing.assert_close(space.scores(w, rows), module(rows).detach().T)


class Bare(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(3, dtype=torch.float64))

    def forward(self, rows):
        return rows @ self.w


def test_starts_of_bare_parameters_are_apart():
    w = Network(Bare(), loss="squared").bind(make_problem().facts).start(3, seed=0)
    assert (torch.pdist(w) > 1e-3).all()


def test_a_zero_module_gets_a_usable_ball():
    module = mlp(3, 1)
    nn.utils.vector_to_parameters(
        torch.zeros(sum(p.numel() for p in module.parameters())).double(), module.parameters()
    )
    space = Network(module, loss="squared").bind(make_problem().facts, standardised=True)
    assert space.radius > 0
    assert space.start(2, seed=0).isfinite().all()


def test_a_module_may_return_one_number_per_row():
    space = Network(Bare(), loss="squared").bind(make_problem().facts)
    w, raw = models(space, 2, 2), torch.as_tensor(np.random.default_rng(0).normal(size=(5, 3)))
    torch.testing.assert_close(space.scores(w, raw), (w @ raw.T)[:, :, None])
    own = torch.as_tensor(np.random.default_rng(1).normal(size=(2, 5, 3)))
    torch.testing.assert_close(space.own_scores(w, own), (w @ own.mT)[:, :, None])


def test_binding_leaves_the_module_alone():
    module = (
        nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 1))
        .double()
        .train()
    )
    before = {name: value.clone() for name, value in module.state_dict().items()}
    problem = make_problem()
    space = Network(module, loss="squared").bind(problem.facts)
    components = LocalComponents(problem, space)
    values = components.values(models(space, 2, 2), ALL)
    assert torch.equal(components.values(models(space, 2, 2), ALL), values)
    assert module.training
    assert all(p.requires_grad for p in module.parameters())
    for name, value in module.state_dict().items():
        assert torch.equal(value, before[name])


@every_linear
def test_the_intercept_is_not_penalised(case):
    space = case.hypothesis.bind(case.problem().facts)
    per_output = [1.0, 1.0, 1.0] + [0.0] * case.hypothesis.intercept
    assert space.penalised.tolist() == per_output * space.n_outputs


@pytest.mark.parametrize(
    "labels",
    [["no", "yes"], [-1, 1], [3.0, 7.0], [False, True], ["a", "b", "c"], [10, 20, 30]],
    ids=str,
)
@pytest.mark.parametrize("network", [False, True])
def test_predictions_come_in_the_users_own_labels(labels, network):
    labels = np.array(labels)
    rng = np.random.default_rng(0)
    number = np.arange(30) % len(labels)
    source = Domain("s", rng.normal(size=(30, 3)), labels[number])
    hypothesis = Network(mlp(3, 1 if len(labels) == 2 else len(labels))) if network else Logistic()
    space = hypothesis.bind(Problem([source]).facts)
    assert space.encode(source.y, "s").tolist() == number.tolist()
    w, rows = models(space, 2, 6), torch.as_tensor(source.X)
    scores = np.array(
        [[slow_scores(hypothesis, w[i, q], rows).numpy() for q in range(6)] for i in range(2)]
    )
    winner = (scores[:, :, 0] > 0).astype(int) if len(labels) == 2 else scores.argmax(2)
    ahead = np.abs(scores) if len(labels) == 2 else np.diff(np.sort(scores, 2)[:, :, -2:], axis=2)
    assert ahead.min() > 1e-9  # or rounding would choose a label
    assert set(winner.ravel()) == set(range(len(labels)))
    assert space.predict(w.numpy(), source.X).tolist() == labels[winner].tolist()


def test_a_module_may_have_more_outputs_than_classes():
    problem = make_problem(classes=2)
    space = Network(mlp(3, 4)).bind(problem.facts)
    predictions = space.predict(models(space, 5, scale=3.0), problem.sources[0].X)
    assert set(predictions.ravel().tolist()) <= {0, 1}


NUMBERS, TWO, TEXT = [0.5, 1.5, -2.0], [0, 1, 1], ["a", "b", "b"]


def single(labels, target=None) -> Problem:
    targets = [] if target is None else [Domain("east", X + 1, target)]
    return Problem([Domain("north", X, labels)], targets)


def images() -> Problem:
    return make_problem(shape=(3, 4), classes=2)


def bind(hypothesis, labels, target=None):
    return lambda: hypothesis.bind(single(labels, target).facts)


BAD_BINDINGS = {
    "class only in a target": (
        bind(Logistic(), TWO, [0, 1, 2]),
        DomainError,
        r"'east': label .*2.* at row 2 .*no source",
    ),
    "text only in a target": (
        bind(Logistic(), TEXT, ["a", "z", "b"]),
        DomainError,
        r"'east': label .*z.* at row 1",
    ),
    "text against numbers": (
        bind(Logistic(), TWO, TEXT),
        DomainError,
        r"'east' has labels like 'a', but 'north' has labels like 0",
    ),
    "numbers against text": (
        bind(Logistic(), TEXT, TWO),
        DomainError,
        r"'east' has labels like 0, but 'north' has labels like 'a'",
    ),
    "network, class only in a target": (
        bind(Network(mlp(2, 3)), TWO, [1, 5, 0]),
        DomainError,
        r"'east': .*5.* at row 1",
    ),
    "fractions for logistic": (
        bind(Logistic(), [0.0, 1.0, 0.5]),
        DomainError,
        r"'north': label .*0.5.* at row 2 .*Ridge",
    ),
    "fractions in a target": (
        bind(Logistic(), TWO, [0.0, 0.25, 1.0]),
        DomainError,
        r"'east': label .*0.25.* at row 1",
    ),
    "fractions for a network": (
        bind(Network(mlp(2, 3)), [0.0, 1.0, 0.5]),
        DomainError,
        r"'north': label .*0.5.* at row 2",
    ),
    "one class": (bind(Logistic(), [1, 1, 1]), DomainError, r"two classes"),
    "mixed labels": (bind(Logistic(), np.array([0, "a", 1], object)), DomainError, r"mix labels"),
    "text for ridge": (
        bind(Ridge(), TEXT),
        DomainError,
        r"'north': label 'a' at row 0 is not a number",
    ),
    "text for ridge in a target": (
        bind(Ridge(), NUMBERS, TEXT),
        DomainError,
        r"'east': label 'a' at row 0 is not a number",
    ),
    "text for squared": (
        bind(Network(mlp(2, 1), loss="squared"), TEXT),
        DomainError,
        r"'north': label 'a' at row 0 is not a number",
    ),
    "text in a target for squared": (
        bind(Network(mlp(2, 1), loss="squared"), NUMBERS, TEXT),
        DomainError,
        r"'east': label 'a' at row 0 is not a number",
    ),
    "too few outputs": (bind(Network(mlp(2, 2)), [0, 1, 2]), OptionError, r"3 classes.* 2 outputs"),
    "one output for three classes": (
        bind(Network(mlp(2, 1)), [0, 1, 2]),
        OptionError,
        r"3 classes.* 1 output",
    ),
    "wrong input size": (
        bind(Network(mlp(5, 2)), TWO),
        DomainError,
        r"rows of shape \(2,\) \(source 'north'\)",
    ),
    "table for a conv net": (
        bind(Network(nn.Conv2d(1, 2, 3)), TWO),
        DomainError,
        r"rows of shape \(2,\) \(source 'north'\)",
    ),
    "a score per pixel": (
        lambda: Network(nn.Linear(4, 2)).bind(images().facts),
        OptionError,
        r"must return \(rows,\) or",
    ),
    "images for ridge": (
        lambda: Ridge().bind(images().facts),
        DomainError,
        r"shape \(3, 4\).*flatten",
    ),
    "images for logistic": (
        lambda: Logistic().bind(images().facts),
        DomainError,
        r"shape \(3, 4\).*flatten",
    ),
}


@pytest.mark.parametrize(("make", "error", "message"), BAD_BINDINGS.values(), ids=BAD_BINDINGS)
def test_bad_binding_is_named(make, error, message):
    with pytest.raises(error, match=message):
        make()


class Twin(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 1)

    def forward(self, rows):
        return self.layer(rows), self.layer(rows)


def text_beside_numbers():
    Logistic().bind(Problem([Domain("north", X, TWO), Domain("south", X, ["0", "1", "1"])]).facts)


MORE_BAD_BINDINGS = {
    "three outputs for squared": (
        bind(Network(mlp(2, 3), loss="squared"), NUMBERS),
        OptionError,
        r"one output, not 3",
    ),
    "module returns a pair": (bind(Network(Twin()), TWO), OptionError, r"must return"),
    "module raises ValueError": (
        bind(Network(nn.Sequential(nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(2, 1))), TWO),
        DomainError,
        r"rows of shape \(2,\) \(source 'north'\)",
    ),
    "text beside numbers": (text_beside_numbers, DomainError, r"mix|text"),
    "text in row 2 for ridge": (
        bind(Ridge(), np.array([0.5, 1.5, "x"], object)),
        DomainError,
        r"'north': label 'x' at row 2 is not a number",
    ),
    "fractions as objects": (
        bind(Logistic(), np.array([0.5, 1, 2], object)),
        DomainError,
        r"0.5.* at row 0",
    ),
}


@pytest.mark.parametrize(
    ("make", "error", "message"), MORE_BAD_BINDINGS.values(), ids=MORE_BAD_BINDINGS
)
def test_bad_binding_should_be_named(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_an_unknown_label_is_named_when_encoding():
    space = Logistic().bind(single(TEXT).facts)
    with pytest.raises(DomainError, match=r"'later': label .*c.* at row 1 .*classes: a, b"):
        space.encode(np.array(["a", "c", "c"]), "later")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Ridge(l2=-1.0), "l2 must be .*at least 0; got -1.0"),
        (lambda: Ridge(radius=0.0), "radius must be .*at least 1e-50 and at most 1e.50; got 0.0"),
        (lambda: Logistic(l2=float("nan")), "l2 must be a finite number"),
        (lambda: Logistic(radius=float("inf")), "radius must be a finite number"),
        (lambda: Logistic(l2="1"), "l2 must be a finite number"),
        (lambda: Network(mlp(2, 1), l2=-1e-9), "l2"),
        (lambda: Network(mlp(2, 1), radius=-1.0), "radius"),
        (lambda: Network(mlp(2, 1), loss="hinge"), "loss must be .*'hinge'"),
        (lambda: Network(lambda rows: rows), "Module; got function"),
        (lambda: Network(nn.ReLU()), "no parameters"),
    ],
)
def test_bad_setting_is_named(make, message):
    with pytest.raises(OptionError, match=message):
        make()


@pytest.mark.parametrize("value", [np.float32(0.5), np.int64(1)])
def test_numpy_numbers_are_numbers(value):
    assert Ridge(l2=value).l2 == value


def rescaled(problem: Problem, scale, shift, unit=1.0, zero=0.0) -> Problem:
    def one(domain: Domain) -> Domain:
        y = domain.y if domain.y.dtype.kind == "i" else domain.y * unit + zero
        return Domain(domain.name, domain.X * scale + shift, y)

    return Problem([one(s) for s in problem.sources], [one(t) for t in problem.targets])


def standardised_losses(
    case: Case, problem: Problem, kind: str
) -> tuple[torch.Tensor, torch.Tensor]:
    space = case.hypothesis.bind(problem.facts, standardised=True)
    components = LocalComponents(problem, space, kind)
    w = models(space, problem.n_targets, 3)
    scores = space.scores(w, components._all(space.dtype).X)
    return scores, components.values(w, ALL)


scales = arrays(np.float64, 3, elements=st.floats(1e-4, 1e4))
shifts = arrays(np.float64, 3, elements=st.floats(-100, 100))


@every_linear
@every_loss
@properties
@given(
    scale=scales,
    shift=shifts,
    unit=st.floats(1e-3, 1e3),
    zero=st.floats(-50, 50),
    seed=st.integers(0, 9),
)
def test_standardised_losses_do_not_depend_on_units(case, kind, scale, shift, unit, zero, seed):
    """Labels too have units for ridge; without an intercept a shift makes other functions, so there
    is none.
    """
    problem = case.problem(seed=seed)
    if not case.hypothesis.intercept:
        shift, zero = 0.0, 0.0
    again = rescaled(problem, scale, shift, unit, zero)
    wide = float(np.max(np.abs(shift) / scale))  # what a shift costs in digits
    for before, after in zip(
        standardised_losses(case, problem, kind),
        standardised_losses(case, again, kind),
        strict=True,
    ):
        torch.testing.assert_close(
            after, before, rtol=1e-9 + 1e-14 * wide, atol=1e-9 + 1e-14 * wide
        )


@every_linear
def test_standardised_columns_have_mean_0_and_variance_1(case):
    problem = rescaled(case.problem(sources=(40, 40)), [1e-3, 1.0, 50.0], [5.0, 0.0, -3.0])
    space = case.hypothesis.bind(problem.facts, standardised=True)
    table = np.concatenate([s.X for s in problem.sources])
    prepared = space.prepare(torch.as_tensor(table)).numpy()
    centre = table.mean(0) if case.hypothesis.intercept else 0.0
    np.testing.assert_allclose(
        prepared[:, :3], (table - centre) / table.std(0), rtol=1e-9, atol=1e-9
    )
    if case.hypothesis.intercept:
        assert (prepared[:, 3] == 1).all()


def test_standardised_ridge_predicts_in_the_labels_own_units():
    problem = make_problem(sources=(9, 9))
    table, y = (
        np.concatenate([s.X for s in problem.sources]),
        np.concatenate([s.y for s in problem.sources]),
    )
    space = Ridge().bind(problem.facts, standardised=True)
    np.testing.assert_allclose(
        np.concatenate([space.encode(s.y, s.name) for s in problem.sources]),
        (y - y.mean()) / y.std(),
        rtol=1e-12,
    )
    (w,) = models(space, 1)
    z = (table - table.mean(0)) / table.std(0)
    np.testing.assert_allclose(
        space.predict(w, table), (z @ w[:3].numpy() + w[3].item()) * y.std() + y.mean(), rtol=1e-9
    )


@pytest.mark.parametrize("case", [c for c in CASES if isinstance(c.hypothesis, Network)], ids=repr)
def test_standardising_leaves_a_network_its_inputs(case):
    problem = case.problem()
    plain, standard = (
        case.hypothesis.bind(problem.facts),
        case.hypothesis.bind(problem.facts, standardised=True),
    )
    raw = torch.as_tensor(problem.sources[0].X)
    w = models(plain, 2, 2)
    assert torch.equal(
        standard.scores(w, standard.prepare(raw)), plain.scores(w, plain.prepare(raw))
    )
    assert standard.radius == pytest.approx(3 * torch.linalg.vector_norm(plain.start(1, 0)).item())
    assert replace(case.hypothesis, radius=2.0).bind(problem.facts, standardised=True).radius == 2.0


@every_linear
def test_a_constant_column_stays_finite_when_standardised(case):
    problem = rescaled(case.problem(), [1.0, 0.0, 1.0], [0.0, 1e6 / 3, 0.0])
    prepared = (
        LocalComponents(problem, case.hypothesis.bind(problem.facts, standardised=True))
        ._all(torch.float64)
        .X
    )
    assert prepared.isfinite().all()
    assert prepared[:, 1].abs().max() <= (1e-6 if case.hypothesis.intercept else 1e6)


@pytest.mark.parametrize(
    "hypothesis", [Ridge(), Network(mlp(2, 1), loss="squared")], ids=["ridge", "network"]
)
def test_equal_labels_have_no_scale(hypothesis):
    assert (
        hypothesis.bind(
            single([0.1, 0.1, 0.1], [0.4, 0.1, 0.2]).facts, standardised=True
        ).label_scale
        == 1.0
    )


def test_standardised_ridge_without_intercept_is_still_linear():
    problem = single([10.0, 11.0, 12.5])
    space = Ridge(intercept=False).bind(problem.facts, standardised=True)
    assert space.predict(torch.zeros(2, dtype=torch.float64), X).tolist() == [0.0, 0.0, 0.0]


def test_tiny_units_are_standardised_too():
    problem = make_problem()
    before = standardised_losses(LINEAR[0], problem, "trained")[1]
    torch.testing.assert_close(
        standardised_losses(LINEAR[0], rescaled(problem, 1e-13, 0.0), "trained")[1], before
    )
