"""Copies trained together: what they learn, when they stop, and that company changes nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import cuvee
from builders import Wrapped, conv_net, make_problem, mlp, transformer
from cuvee.components import Batch, Folds, LocalComponents
from cuvee.components.rows import part_of, row_weights
from cuvee.erm.network import training as network


def checkerboard(sizes, targets=(), seed=0, flip=()):
    """The label is whether x_0 x_1 > 0, which no linear model can tell; the opposite in the domains
    of `flip`.
    """
    rng = np.random.default_rng(seed)

    def domain(name, n):
        X = rng.normal(size=(n, 2))
        return cuvee.Domain(name, X, ((X[:, 0] * X[:, 1] > 0) ^ (name in flip)).astype(int))

    sources = [domain(f"s{j}", n) for j, n in enumerate(sizes)]
    return cuvee.Problem(sources, [domain(f"t{i}", n) for i, n in enumerate(targets)])


def test_learns_what_no_linear_model_can():
    problem, test = checkerboard([200, 300]), checkerboard([400], seed=1).sources[0]
    space = cuvee.Network(mlp(2, 2, 24), l2=1e-4).bind(problem.facts)
    trained = network.train(
        LocalComponents(problem, space), torch.tensor([[0.5, 0.5], [1.0, 0.0], [0.0, 1.0]])
    )
    accuracy = (space.predict(trained.w, test.X) == test.y).mean(-1)
    assert accuracy.min() > 0.9
    assert not trained.diverged.any()
    assert (trained.held_out < 0.35).all()


@pytest.mark.parametrize("own", [False, True])
def test_a_copy_does_not_depend_on_its_company(own):
    problem = checkerboard([60, 40, 50], [20, 7, 3], flip=("s2",))
    space = cuvee.Network(mlp(2, 2, 8)).bind(problem.facts)
    alpha = torch.as_tensor(np.random.default_rng(0).dirichlet(np.ones(3 + own), 3))
    together = network.train(LocalComponents(problem, space), alpha, max_steps=400)
    for i in range(3):
        alone = cuvee.Problem(problem.sources, problem.targets[i : i + 1])
        single = network.train(LocalComponents(alone, space), alpha[i : i + 1], max_steps=400)
        assert single.steps[0] == together.steps[i]
        torch.testing.assert_close(single.w[0], together.w[i], rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(single.gradient[0], together.gradient[i], rtol=1e-5, atol=1e-6)


def test_blocks_of_copies_change_nothing():
    problem = checkerboard([60, 40], [20, 7, 9])
    space = cuvee.Network(mlp(2, 2, 8)).bind(problem.facts)
    alpha = torch.as_tensor(np.random.default_rng(0).dirichlet(np.ones(3), 3))
    whole = network.train(LocalComponents(problem, space), alpha, max_steps=50)
    for memory in (1, 2 * 7 * 8 * space.n_params + 100_000):
        calls: list[tuple[int, int]] = []
        keep = lambda *call, to=calls: to.append(call)  # noqa: E731
        blocks = network.train(
            LocalComponents(problem, space), alpha, max_steps=50, memory=memory, progress=keep
        )
        torch.testing.assert_close(blocks.w, whole.w)
        torch.testing.assert_close(blocks.gradient, whole.gradient)
        assert calls == sorted(calls)
        assert calls[-1] == (3, 3)


def test_stops_early_at_the_best_held_out_point():
    rng = np.random.default_rng(0)
    # Labels that mean nothing: training on them only makes held-out rows worse.
    sources = [
        cuvee.Domain(f"s{j}", rng.normal(size=(60, 10)), rng.integers(0, 2, 60)) for j in range(2)
    ]
    problem = cuvee.Problem(sources)
    space = cuvee.Network(mlp(10, 2, 32), l2=0.0).bind(problem.facts)
    alpha = torch.tensor([[0.5, 0.5], [0.9, 0.1]], dtype=torch.float64)
    trained = network.train(LocalComponents(problem, space), alpha, max_steps=1000)
    assert trained.stopped.all()
    assert (trained.steps < 300).all()
    losses = LocalComponents(problem, space).values(trained.w[:, None], Batch(part="held out"))[
        :, 0
    ]
    torch.testing.assert_close(trained.held_out, (alpha * losses).sum(-1))
    longer = network.train(LocalComponents(problem, space), alpha, max_steps=40)
    assert not longer.stopped.any()
    assert (longer.steps == 40).all()
    assert (trained.held_out <= longer.held_out).all()


def test_own_rows_count():
    problem = checkerboard([150, 150], [120, 120], flip=("t1",))
    space = cuvee.Network(mlp(2, 2, 24), l2=1e-4).bind(problem.facts)
    alpha = torch.tensor([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])
    trained = network.train(LocalComponents(problem, space), alpha)
    test = checkerboard([400], seed=1).sources[0]
    said = space.predict(trained.w, test.X)
    assert (said[0] == test.y).mean() > 0.85
    assert (said[1] != test.y).mean() > 0.85


def test_no_mixtures_give_no_models():
    problem = checkerboard([10, 10])
    trained = network.train(
        LocalComponents(problem, cuvee.Network(mlp(2, 2)).bind(problem.facts)), torch.zeros(0, 2)
    )
    assert trained.w.shape == (0, 22)
    assert trained.gradient.shape == trained.stopped.shape == trained.steps.shape == (0,)


@pytest.mark.parametrize("columns", [1, 3, 4])
def test_mixtures_that_do_not_fit_are_refused(columns):
    problem = checkerboard([10, 10], [5])
    with pytest.raises(ValueError, match="does not fit"):
        network.train(
            LocalComponents(problem, cuvee.Network(mlp(2, 2)).bind(problem.facts)),
            torch.ones(2, columns),
        )


def test_a_diverging_copy_is_flagged_and_spoils_nobody():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    y = X[:, 0] * X[:, 1]
    sources = [cuvee.Domain("sane", X, y), cuvee.Domain("huge", X, y * 1e30)]
    module = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
    problem = cuvee.Problem(sources)
    space = cuvee.Network(module, loss="squared").bind(problem.facts)
    trained = network.train(
        LocalComponents(problem, space), torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    )
    assert trained.diverged.tolist() == [False, True, True]
    assert trained.stopped.all()
    assert trained.w.isfinite().all()
    assert trained.held_out[0] < 0.5 * 0.5 * y.var()
    alone = network.train(LocalComponents(problem, space), torch.tensor([[1.0, 0.0]]))
    torch.testing.assert_close(alone.held_out[0], trained.held_out[0], rtol=0.05, atol=0)


def test_seed_decides_everything():
    problem = checkerboard([40, 30])
    space = cuvee.Network(mlp(2, 2)).bind(problem.facts)
    alpha = torch.tensor([[0.3, 0.7]])
    runs = [
        network.train(LocalComponents(problem, space, seed=seed), alpha, seed=seed, max_steps=40).w
        for seed in (0, 0, 1)
    ]
    assert torch.equal(runs[0], runs[1])
    assert not torch.allclose(runs[0], runs[2])


def test_iterates_stay_in_the_ball():
    problem = checkerboard([40, 30])
    space = cuvee.Network(mlp(2, 2), radius=1.0).bind(problem.facts)
    trained = network.train(
        LocalComponents(problem, space), torch.tensor([[0.3, 0.7]]), max_steps=100
    )
    assert trained.w.norm(dim=-1) <= 1 + 1e-9


@pytest.mark.parametrize(
    ("module", "shape"),
    [
        pytest.param(mlp(3, 3), (3,), id="stacked"),
        pytest.param(Wrapped(mlp(3, 3)), (3,), id="vmap"),
        pytest.param(conv_net(3), (1, 4, 4), id="conv"),
        pytest.param(transformer(dropout=0.0), (5, 8), id="transformer"),
    ],
)
def test_gradient_norm_is_autograds_on_all_rows(module, shape):
    problem = make_problem((9, 12), (7, 4), shape=shape, classes=3, weighted=True)
    space = cuvee.Network(module, l2=0.1).bind(problem.facts)
    alpha = torch.tensor([[0.2, 0.5, 0.3], [0.6, 0.0, 0.4]], dtype=torch.float64)
    trained = network.train(LocalComponents(problem, space), alpha, max_steps=25)
    for i in range(2):
        w = trained.w[i].clone().requires_grad_()
        named, first = {}, 0
        for name, p in module.named_parameters():
            named[name] = w[first : first + p.numel()].view(p.shape)
            first += p.numel()
        risk = 0.05 * w.square().sum()
        for a, domain in zip(alpha[i], [*problem.sources, problem.targets[i]], strict=True):
            scores = torch.func.functional_call(module, named, (torch.as_tensor(domain.X),))
            losses = nn.functional.cross_entropy(
                scores, torch.as_tensor(domain.y), reduction="none"
            )
            risk = risk + a * (losses * torch.as_tensor(row_weights(domain))).sum()
        (gradient,) = torch.autograd.grad(risk, w)
        torch.testing.assert_close(trained.gradient[i], gradient.abs().max())


def parts_of(problem, seed):
    """The held-out rows, and those left to train on, of every source and every target."""
    roles = (("source", problem.sources), ("target", problem.targets))
    return tuple(
        {role: [part_of(role, d, seed, part) for d in domains] for role, domains in roles}
        for part in ("held out", "training")
    )


def test_held_out_rows_are_kept_from_training():
    problem = make_problem((2, 3, 10, 25), (4, 5, 20), classes=2, weighted=True)
    held, training = parts_of(problem, 0)
    assert [h.n_rows for h in held["source"]] == [2, 1, 2, 5]  # two rows stay whole
    assert [h.n_rows for h in held["target"]] == [4, 1, 4]
    assert [s.n_rows for s in training["source"]] == [2, 2, 8, 20]
    assert [t.n_rows for t in training["target"]] == [4, 4, 16]
    both = np.concatenate([training["source"][3].X, held["source"][3].X])
    assert {tuple(r) for r in both} == {tuple(r) for r in problem.sources[3].X}
    components = LocalComponents(problem, cuvee.Logistic().bind(problem.facts))
    for part in ("training", "held out"):
        rows = components._rows(Batch(part=part), torch.float64)
        sums = torch.segment_reduce(rows.weight, "sum", lengths=rows.lengths)
        torch.testing.assert_close(sums, torch.ones(4, dtype=sums.dtype))
        torch.testing.assert_close(rows.own_weight.sum(-1), torch.ones(3, 1, dtype=sums.dtype))
    # Another domain's presence changes nothing; another seed does.
    fewer, _ = parts_of(cuvee.Problem(problem.sources[2:]), 0)
    np.testing.assert_array_equal(fewer["source"][1].X, held["source"][3].X)
    assert not np.array_equal(parts_of(problem, 1)[0]["source"][3].X, held["source"][3].X)


def test_rows_that_weigh_nothing_are_not_held_out():
    weight = np.zeros(10)
    weight[:4] = 1.0
    problem = cuvee.Problem([cuvee.Domain("s", np.eye(10), np.arange(10) % 2, weight)])
    held, training = parts_of(problem, 0)
    assert held["source"][0].n_rows == 1 and held["source"][0].X[0].argmax() < 4
    assert training["source"][0].n_rows == 9


def test_brief_training_is_adam_written_out():
    """For every copy by itself: moments, bias corrections, a cosine, and the mean of the last
    quarter.
    """
    problem = make_problem((30, 20), (9, 12), classes=3)
    space = cuvee.Network(mlp(3, 3), l2=0.1).bind(problem.facts)
    components, steps = LocalComponents(problem, space), 40
    alpha = torch.as_tensor(np.random.default_rng(0).dirichlet(np.ones(3), size=(2, 2)))
    batch = Batch(folds=Folds(3, torch.arange(2)))
    found = network.train_briefly(components, batch, alpha, steps=steps)
    w = space.start(1, 0).expand(2, 2, -1)
    first, second, late = torch.zeros_like(w), torch.zeros_like(w), []
    for t in range(1, steps + 1):
        minibatch = replace(batch, step=t, size=network.BRIEF_BATCH, own_whole=True)
        g = components.losses(w, minibatch)[1](alpha) + 0.1 * w
        first, second = 0.9 * first + 0.1 * g, 0.999 * second + 0.001 * g**2
        rate = network.BRIEF_RATE * (1 + np.cos(np.pi * t / steps)) / 2
        w = w - rate * (first / (1 - 0.9**t)) / ((second / (1 - 0.999**t)).sqrt() + 1e-8)
        late.append(w)
    torch.testing.assert_close(
        found, torch.stack(late[steps * 3 // 4 :]).mean(0), rtol=0, atol=1e-9
    )


# ---- transformers, and modules that come back


@pytest.mark.filterwarnings("error")  # torch warns where vmap falls back to a loop over copies
@pytest.mark.parametrize("kind", ["layer", "encoder", "attention", "frozen"])
def test_transformers_are_trained_and_come_back(kind):
    problem = make_problem((30, 40), (12, 15), shape=(5, 8), classes=3)
    given = transformer(kind)
    before = {name: p.clone() for name, p in given.state_dict().items()}
    hypothesis = cuvee.Network(given)
    alpha = [[0.2, 0.5, 0.3], [0.6, 0.0, 0.4]]
    solution = cuvee.solve(problem, hypothesis, alpha, steps=45)
    assert np.isfinite(solution.w).all()
    certificate = cuvee.certify(problem, hypothesis, alpha, solution.w)
    assert np.isinf(certificate.distance).all() and "not certified" in repr(certificate)
    X = problem.sources[0].X
    for i, target in enumerate(["t0", "t1"]):
        module = solution.module(target)
        assert type(module) is type(given) and not module.training and module is not given
        assert [type(a) for a in module.modules()] == [type(a) for a in given.modules()]
        with torch.no_grad():
            scores = module(torch.as_tensor(X))
        expected = solution.space.scores(
            torch.as_tensor(solution.w[i]), solution.space.prepare(torch.as_tensor(X))
        )
        torch.testing.assert_close(scores, expected.T, rtol=1e-6, atol=1e-8)
        np.testing.assert_array_equal(solution.models[i].predict(X), scores.argmax(1).numpy())
        fresh = transformer(kind).eval()
        fresh.load_state_dict(module.state_dict())
        torch.testing.assert_close(fresh(torch.as_tensor(X)), scores)
    assert not torch.equal(*(next(iter(solution.module(i).parameters())) for i in (0, 1))) or (
        kind == "frozen"
    )
    for name, p in given.state_dict().items():  # nothing happened to what was given
        assert torch.equal(p, before[name])
    assert given.training


def test_a_network_of_transformers_finds_mixtures():
    problem = make_problem((12, 14), (9,), shape=(5, 8), classes=3)
    mix = cuvee.estimate(problem, cuvee.Network(transformer()))
    np.testing.assert_allclose(mix.alpha.sum(1), 1.0)


def test_rows_that_attend_to_each_other_are_refused():
    problem = make_problem((12, 14), shape=(5, 8), classes=3)
    with pytest.raises(cuvee.OptionError, match="change with the rows beside it: rows must come"):
        cuvee.solve(problem, cuvee.Network(transformer(batch_first=False)), [[0.5, 0.5]], steps=1)


def test_modules_and_curves_are_asked_for_by_name_or_row():
    problem = make_problem((30, 40), (12, 15), classes=2)
    network = cuvee.Network(mlp(3, 2))
    solution = cuvee.solve(problem, network, [[0.2, 0.5, 0.3], [0.6, 0.0, 0.4]], steps=40)
    first, same = solution.module("t1").state_dict(), solution.module(-1).state_dict()
    assert all(torch.equal(first[name], same[name]) for name in first)
    for ask in (solution.module, solution.curve):
        with pytest.raises(
            cuvee.OptionError, match="no model belongs to a target 'tt': there is t"
        ):
            ask("tt")
        with pytest.raises(cuvee.OptionError, match="there is no model 2: alpha has 2 rows"):
            ask(2)
    unnamed = cuvee.solve(problem, network, np.eye(2)[[0, 1, 1]], steps=1)
    with pytest.raises(cuvee.OptionError, match="no names, so give the row of alpha"):
        unnamed.module("t0")
    assert len(unnamed.curve(2)["step"]) == 1
    linear = cuvee.solve(problem, cuvee.Logistic(), np.eye(2))
    with pytest.raises(cuvee.OptionError, match="only a Network has a module"):
        linear.module("t0")
    with pytest.raises(cuvee.OptionError, match=r"only networks that cuvee\.solve trained"):
        linear.curve(0)


def test_curves_are_the_losses_on_the_way():
    problem = checkerboard([60, 40], [20, 7, 9])
    space = cuvee.Network(mlp(2, 2, 8)).bind(problem.facts)
    components = LocalComponents(problem, space)
    alpha = torch.as_tensor(np.random.default_rng(0).dirichlet(np.ones(3), 3))
    trained = network.train(components, alpha, max_steps=2000)
    for i in range(3):
        curve = trained.curves[i][~trained.curves[i, :, 0].isnan()]
        assert curve[:, 0].tolist() == list(range(20, int(trained.steps[i]) + 1, 20))
        assert curve[:, 2].min() == trained.held_out[i]
        assert curve.isfinite().all()
        assert curve[-1, 1] < curve[0, 1]  # it learns
    for memory in (1, 2 * 7 * 8 * space.n_params + 100_000):
        blocks = network.train(components, alpha, max_steps=2000, memory=memory)
        torch.testing.assert_close(
            blocks.curves, trained.curves, rtol=1e-4, atol=1e-5, equal_nan=True
        )
    one = network.train(components, alpha, max_steps=1)  # less than a check's steps
    w = space.start(1, 0).expand(3, 1, -1)
    first = Batch(1, network.BATCH // 2, part="training")
    expected = (alpha * components.losses(w, first)[0][:, 0]).sum(-1)
    torch.testing.assert_close(one.curves[:, 0, 1], expected)
