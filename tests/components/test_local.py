from __future__ import annotations

import os

import numpy as np
import pytest
import torch
from torch import Tensor

from builders import CASES, Case, make_problem, mlp, models, slow_scores
from cuvee.components import ALL, Batch, Folds, LocalComponents, QuadraticComponents, quadratic
from cuvee.components.rows import deal_folds, hold_out
from cuvee.components.sampling import RowStream
from cuvee.hypothesis import Network, Ridge, Space
from cuvee.problem import Domain, Problem
from hypothesis import given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.sample(16)

properties = settings(derandomize=True, deadline=None, max_examples=15)
every_case = pytest.mark.parametrize("case", CASES, ids=repr)
every_loss = pytest.mark.parametrize("kind", ["trained", "bounded"])
RIDGES = [case for case in CASES if isinstance(case.hypothesis, Ridge)]
SHAPES = {
    "unequal": {"sources": (5, 7, 4), "targets": (3, 2)},
    "equal": {"sources": (4, 4), "targets": (3, 3, 3)},
    "weighted": {"sources": (5, 3), "targets": (1, 4, 3), "weighted": True},
    "one target": {"sources": (3, 6), "targets": (4,), "weighted": True},
}
every_shape = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)


def slow_loss(case: Case, space: Space, kind: str, domain: Domain, w: Tensor, rows=None) -> Tensor:
    """f of one domain and one model; with `rows`, its estimate from those draws, each a uniform
    one.
    """
    rows = np.arange(domain.n_rows) if rows is None else rows
    weight = np.ones(domain.n_rows) if domain.weight is None else domain.weight
    share = (weight / weight.sum())[rows] * domain.n_rows / len(rows)
    scores = slow_scores(case.hypothesis, w, torch.as_tensor(domain.X[rows]))
    by_row = space.loss(kind, scores, torch.as_tensor(domain.y[rows]))
    return sum(s * loss for s, loss in zip(share, by_row, strict=True))


def slow_losses(
    case: Case, problem: Problem, space: Space, kind: str, w: Tensor, draws=None
) -> Tensor:
    """(M, Q, P) -> (M, Q, N+1), domain by domain and model by model."""
    table = []
    for i, target in enumerate(problem.targets):
        domains = {
            **{f"source {s.name}": s for s in problem.sources},
            f"target {target.name}": target,
        }
        for model in w[i]:
            rows = {name: None if draws is None else draws(name, d) for name, d in domains.items()}
            table += [
                slow_loss(case, space, kind, d, model, rows[name]) for name, d in domains.items()
            ]
    return torch.stack(table).view(*w.shape[:2], problem.n_sources + 1)


def drawn(step: int, size: int, seed: int):
    """What the row streams promise: rows from the seed, the domain's name, and the step alone."""
    return lambda name, d: (
        RowStream([name], torch.tensor([d.n_rows]), seed).draw(step, size)[0].numpy()
    )


def finite_differences(components, w: Tensor, rows, v: Tensor, h: float = 1e-5) -> Tensor:
    """(M, Q, P) of Σ_j v_j f_j by central differences, all coordinates stacked along Q."""
    M, Q, P = w.shape
    step = h * torch.eye(P, dtype=w.dtype)
    ends = [
        components.values((w[:, :, None] + sign * step).reshape(M, Q * P, P), rows)
        for sign in (1, -1)
    ]
    slopes = ((ends[0] - ends[1]) / (2 * h)).view(M, Q, P, -1)
    return (slopes * v[:, :, None]).sum(-1)


def close(actual: Tensor, expected: Tensor, tolerance: float = 1e-11) -> None:
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


def weights(*shape: int, seed: int = 5) -> Tensor:
    return torch.as_tensor(np.random.default_rng(seed).normal(size=shape))


@every_case
@every_loss
@every_shape
def test_losses_and_pullback_are_the_slow_loop(case, kind, shape):
    problem = case.problem(**shape)
    space = case.hypothesis.bind(problem.facts)
    components = LocalComponents(problem, space, kind)
    w = models(space, problem.n_targets, 2)
    leaf = w.clone().requires_grad_()
    slow = slow_losses(case, problem, space, kind, leaf)
    v = weights(*slow.shape)
    losses, pullback = components.losses(w, ALL)
    close(losses, slow.detach())
    close(components.values(w, ALL), slow.detach())
    close(pullback(v), torch.autograd.grad(slow, leaf, v)[0])
    assert not losses.requires_grad
    assert w.grad is None


@every_case
@every_loss
@pytest.mark.parametrize("size", [1, 3, 8])
@pytest.mark.parametrize(
    "shape", [SHAPES["weighted"], SHAPES["one target"]], ids=["three targets", "one target"]
)
def test_minibatch_losses_and_pullback_are_the_slow_loop_over_its_draws(case, kind, shape, size):
    problem = case.problem(**shape)
    space = case.hypothesis.bind(problem.facts)
    components = LocalComponents(problem, space, kind, seed=11)
    leaf = models(space, problem.n_targets, 2).requires_grad_()
    slow = slow_losses(case, problem, space, kind, leaf, drawn(step=6, size=size, seed=11))
    v = weights(*slow.shape)
    losses, pullback = components.losses(leaf.detach(), Batch(6, size))
    close(losses, slow.detach())
    close(pullback(v), torch.autograd.grad(slow, leaf, v)[0])


@every_case
@every_loss
@pytest.mark.parametrize(
    "shape", [SHAPES["unequal"], SHAPES["one target"]], ids=["two targets", "one target"]
)
@pytest.mark.parametrize("full", [True, False], ids=["full data", "minibatch"])
def test_pullback_is_the_slope_of_the_losses(case, kind, shape, full):
    problem = case.problem(**shape)
    space = case.hypothesis.bind(problem.facts)
    components = LocalComponents(problem, space, kind)
    rows = ALL if full else Batch(2, 5)
    w = models(space, problem.n_targets, 2)
    losses, pullback = components.losses(w, rows)
    v = weights(*losses.shape)
    close(pullback(v), finite_differences(components, w, rows, v), tolerance=1e-6)


@properties
@given(
    sources=st.lists(st.integers(2, 9), min_size=1, max_size=4),
    targets=st.lists(st.integers(1, 6), min_size=1, max_size=3),
    Q=st.integers(1, 3),
    case=st.sampled_from([c for c in CASES if c.classes < 3]),
    kind=st.sampled_from(["trained", "bounded"]),
    weighted=st.booleans(),
    seed=st.integers(0, 99),
)
def test_losses_of_any_shape_are_the_slow_loop(sources, targets, Q, case, kind, weighted, seed):
    problem = case.problem(sources, targets, weighted=weighted, seed=seed)
    space = case.hypothesis.bind(problem.facts)
    components = LocalComponents(problem, space, kind, seed=seed)
    w = models(space, len(targets), Q, seed=seed)
    close(components.values(w, ALL), slow_losses(case, problem, space, kind, w))
    slow = slow_losses(case, problem, space, kind, w, drawn(step=seed, size=4, seed=seed))
    close(components.values(w, Batch(seed, 4)), slow)
    assert components.counts.tolist() == sources
    assert components.own_counts.tolist() == targets


@every_case
def test_without_targets_there_is_a_column_per_source(case):
    whole = case.problem()
    problem = Problem(whole.sources)
    space = case.hypothesis.bind(whole.facts)
    w = models(space, 2, 3)
    alone, both = LocalComponents(problem, space), LocalComponents(whole, space)
    losses, pullback = alone.losses(w, ALL)
    close(losses, both.values(w, ALL)[..., :-1])
    v = weights(*losses.shape)
    _, pull_both = both.losses(w, ALL)
    close(pullback(v), pull_both(torch.cat([v, torch.zeros(2, 3, 1)], -1)))
    close(alone.values(w, Batch(1, 4)), both.values(w, Batch(1, 4))[..., :-1])


def with_sources(problem: Problem, *sources: Domain) -> Problem:
    return Problem(sources, problem.targets)


def repeated(domain: Domain, times) -> Domain:
    return Domain(domain.name, np.repeat(domain.X, times, axis=0), np.repeat(domain.y, times))


@every_case
@every_loss
def test_duplicating_the_rows_of_a_source_changes_nothing(case, kind):
    problem = case.problem()
    first, *rest = problem.sources
    doubled = with_sources(problem, repeated(first, 2), *rest)
    assert_same_losses(problem, doubled, case.hypothesis.bind(problem.facts), kind)


@every_case
@every_loss
def test_integer_row_weights_are_repeated_rows(case, kind):
    problem = case.problem()
    times = [3, 1, 0, 2, 5]
    first, *rest = problem.sources
    weighted = with_sources(problem, Domain(first.name, first.X, first.y, weight=times), *rest)
    repeats = with_sources(problem, repeated(first, times), *rest)
    assert_same_losses(weighted, repeats, case.hypothesis.bind(problem.facts), kind)


def test_integer_row_weights_of_a_target_are_repeated_rows():
    case = CASES[0]
    problem = case.problem()
    first, second = problem.targets
    weighted = Problem(
        problem.sources, [Domain(first.name, first.X, first.y, weight=[2, 1, 4]), second]
    )
    repeats = Problem(problem.sources, [repeated(first, [2, 1, 4]), second])
    assert_same_losses(weighted, repeats, case.hypothesis.bind(problem.facts), "trained")


@every_case
def test_only_relative_row_weights_matter(case):
    problem = case.problem(weighted=True)
    scaled = [Domain(s.name, s.X, s.y, s.weight * 1e3) for s in problem.sources]
    assert_same_losses(
        problem, with_sources(problem, *scaled), case.hypothesis.bind(problem.facts), "trained"
    )


def assert_same_losses(one: Problem, other: Problem, space: Space, kind: str) -> None:
    w = models(space, one.n_targets, 2)
    a, b = LocalComponents(one, space, kind), LocalComponents(other, space, kind)
    (losses, pullback), (again, pull_again) = a.losses(w, ALL), b.losses(w, ALL)
    close(again, losses)
    v = weights(*losses.shape)
    close(pull_again(v), pullback(v))


@pytest.mark.parametrize("change", ["duplicate", "weight"])
@pytest.mark.parametrize(
    ("case", "standardised", "kind"),
    [(CASES[0], False, "bounded"), (CASES[0], True, "trained"), (CASES[2], True, "trained")],
    ids=["ridge bounded", "ridge standardised", "logistic standardised"],
)
def test_duplicates_and_weights_change_nothing_when_bound_anew(case, standardised, kind, change):
    problem = case.problem()
    first, *rest = problem.sources
    times = [3, 1, 1, 2, 5]
    if change == "weight":
        problem = with_sources(problem, Domain(first.name, first.X, first.y, weight=times), *rest)
    again = with_sources(problem, repeated(first, times if change == "weight" else 2), *rest)
    values = []
    for each in (problem, again):
        space = case.hypothesis.bind(each.facts, standardised=standardised)
        components = LocalComponents(each, space, kind)
        values.append(components.values(models(space, 2, 2), ALL))
    close(values[1], values[0])


@pytest.mark.parametrize(
    "case", [c for c in CASES if c.name in ("ridge", "softmax", "net-squared")], ids=repr
)
@pytest.mark.parametrize(
    "shape", [SHAPES["weighted"], SHAPES["one target"]], ids=["three targets", "one target"]
)
def test_minibatches_are_unbiased(case, shape):
    problem = case.problem(**shape)
    space = case.hypothesis.bind(problem.facts)
    components = LocalComponents(problem, space)
    w = models(space, problem.n_targets, 1)
    draws = torch.stack([components.values(w, Batch(step, 4)) for step in range(1500)])
    full = components.values(w, ALL)
    error = draws.std(0) / len(draws) ** 0.5
    assert ((draws.mean(0) - full).abs() < 4.5 * error + 1e-12).all()
    assert (error < 0.1 * full + 1e-12).all()


def test_a_minibatch_depends_on_seed_and_step_alone():
    problem = make_problem()
    space = Ridge().bind(problem.facts)
    w = models(space, 2, 1)
    one, other, third = (LocalComponents(problem, space, seed=seed) for seed in (3, 3, 4))
    values = one.values(w, Batch(5, 6))
    Batch(9, 6)
    assert torch.equal(one.values(w, Batch(5, 6)), values)
    assert torch.equal(other.values(w, Batch(5, 6)), values)
    assert not torch.equal(one.values(w, Batch(6, 6)), values)
    assert not torch.equal(third.values(w, Batch(5, 6)), values)


@pytest.mark.skipif(
    not os.environ.get("CUVEE_UNALIGNED"), reason="for `make test-anywhere`, with CUVEE_UNALIGNED=1"
)
def test_tables_start_at_odd_addresses_where_that_is_asked_for():
    problem = make_problem(weighted=True)
    rows = LocalComponents(problem, Ridge().bind(problem.facts))._rows(ALL, torch.float64)
    starts = [t.data_ptr() for t in (rows.X, rows.y, rows.weight, torch.as_tensor(np.ones(3)))]
    starts += [array.ctypes.data for array in (problem.sources[0].X, problem.targets[0].weight)]
    assert {start % 16 for start in starts} == {8} and len({start % 64 for start in starts}) > 1


@every_case
@pytest.mark.parametrize("full", [True, False], ids=["full data", "minibatch"])
def test_order_of_sources_and_company_of_targets_do_not_matter(case, full):
    problem = case.problem(targets=(3, 2, 4))
    space = case.hypothesis.bind(problem.facts)
    other = Problem([problem.sources[j] for j in (2, 0, 1)], [problem.targets[i] for i in (2, 0)])
    alone = Problem(problem.sources, problem.targets[:1])
    w = models(space, 3, 2)

    def values(each: Problem, w: Tensor) -> Tensor:
        components = LocalComponents(each, space)
        return components.values(w, ALL if full else Batch(3, 4))

    whole = values(problem, w)
    close(values(other, w[[2, 0]]), whole[[2, 0]][..., [2, 0, 1, 3]])
    close(values(alone, w[:1]), whole[:1])


def test_a_stale_minibatch_never_gives_a_wrong_pullback():
    """Minibatches share a buffer: after the next one, an earlier pullback is right or refuses."""
    for case in CASES:
        problem = case.problem()
        space = case.hypothesis.bind(problem.facts)
        components = LocalComponents(problem, space)
        w = models(space, 2, 2)
        losses, pullback = components.losses(w, Batch(0, 4))
        v = weights(*losses.shape)
        right = pullback(v)
        _, pullback = components.losses(w, Batch(0, 4))
        components.values(w, Batch(1, 4))
        try:
            stale = pullback(v)
        except RuntimeError:
            continue
        close(stale, right)


@every_case
@every_loss
@pytest.mark.parametrize("only_them", [False, True], ids=["left out", "alone"])
def test_held_out_rows_do_not_count(case, kind, only_them):
    problem = case.problem(targets=(4, 3), weighted=True)
    space = case.hypothesis.bind(problem.facts)
    components = LocalComponents(problem, space, kind)
    folds = Folds(3, torch.tensor([2, 0]), only=only_them)
    fold = deal_folds(components._all(space.dtype), 3)[:, None]  # (M, 1, k), −1 for padding
    keep = np.asarray((fold == folds.number[None, :, None]) == only_them)
    leaf = models(space, 2, 2).requires_grad_()
    w = leaf.detach()
    slow = torch.stack(
        [
            slow_loss(case, space, kind, only(target, keep[i, q, : target.n_rows]), leaf[i, q])
            for i, target in enumerate(problem.targets)
            for q in range(2)
        ]
    ).view(2, 2)
    losses, pullback = components.losses(w, Batch(folds=folds))
    close(components.own_values(w, Batch(folds=folds)), losses[..., -1])
    close(losses[..., :-1], components.values(w, ALL)[..., :-1])
    close(losses[..., -1], slow.detach())
    own_column = torch.zeros_like(losses)
    own_column[..., -1] = weights(2, 2)
    close(pullback(own_column), torch.autograd.grad(slow, leaf, weights(2, 2))[0])


def only(domain: Domain, keep) -> Domain:
    return Domain(domain.name, domain.X[keep], domain.y[keep], domain.weight[keep])


def test_holding_nothing_out_changes_nothing():
    problem = make_problem(weighted=True)
    space = Ridge().bind(problem.facts)
    rows = LocalComponents(problem, space)._all(space.dtype)
    close(hold_out(rows, torch.ones(2, 1, 3)).own_weight, rows.own_weight)
    assert hold_out(rows, torch.ones(2, 4, 3)).own_weight.shape == (2, 4, 3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_holding_everything_out_leaves_0(dtype):
    problem = make_problem()
    space = Network(mlp(3, 1).to(dtype), loss="squared").bind(problem.facts)
    components = LocalComponents(problem, space)
    rows = hold_out(components._all(dtype), torch.zeros(2, 1, 3))
    assert (components._forward(models(space, 2, 1).to(dtype), rows)[..., -1] == 0).all()


def test_a_float32_module_keeps_its_precision():
    problem = make_problem(classes=3, weighted=True)
    space = Network(mlp(3, 3).float()).bind(problem.facts)
    exact = Network(mlp(3, 3)).bind(problem.facts)
    w = models(exact, 2, 2)
    small, big = LocalComponents(problem, space), LocalComponents(problem, exact)
    for rows, big_rows in ((ALL, ALL), (Batch(1, 4), Batch(1, 4))):
        losses, pullback = small.losses(w.float(), rows)
        expected, pull_exact = big.losses(w, big_rows)
        assert losses.dtype == torch.float32
        close(losses.double(), expected, tolerance=1e-5)
        v = weights(*losses.shape)
        close(pullback(v.float()).double(), pull_exact(v), tolerance=1e-4)


def test_float32_tables_are_used_in_full_precision_by_ridge():
    problem = make_problem()
    rounded = [
        [Domain(d.name, d.X.astype(np.float32), d.y) for d in role]
        for role in (problem.sources, problem.targets)
    ]
    widened = [[Domain(d.name, d.X.astype(np.float64), d.y) for d in role] for role in rounded]
    space = Ridge().bind(problem.facts)
    assert_same_losses(Problem(*rounded), Problem(*widened), space, "trained")


@pytest.mark.parametrize("case", RIDGES, ids=repr)
@pytest.mark.parametrize("standardised", [False, True], ids=["plain", "standardised"])
@properties
@given(
    sources=st.lists(st.integers(2, 9), min_size=1, max_size=4),
    targets=st.lists(st.integers(1, 6), min_size=1, max_size=3),
    Q=st.integers(1, 3),
    weighted=st.booleans(),
    block=st.integers(1, 10),
    seed=st.integers(0, 99),
)
def test_grams_say_what_the_rows_say(
    case, standardised, sources, targets, Q, weighted, block, seed
):
    problem = case.problem(sources, targets, weighted=weighted, seed=seed)
    space = case.hypothesis.bind(problem.facts, standardised=standardised)
    fast, slow = (
        QuadraticComponents(problem, space, seed=seed),
        LocalComponents(problem, space, seed=seed),
    )
    w = models(space, len(targets), Q, seed=seed, scale=2.0)
    folds = Folds(3, torch.as_tensor(np.random.default_rng(seed).integers(0, 3, Q)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quadratic, "BLOCK", block)
        for batch in (ALL, Batch(seed, 4), Batch(folds=folds), Batch(seed, 4, folds=folds)):
            losses, pullback = fast.losses(w, batch)
            expected, pull_slow = slow.losses(w, batch)
            v = weights(*losses.shape, seed=seed)
            close(losses, expected, tolerance=1e-10)
            close(pullback(v), pull_slow(v), tolerance=1e-10)
            close(fast.values(w, batch), expected, tolerance=1e-10)


def test_grams_are_their_sums():
    problem = make_problem(weighted=True)
    space = Ridge().bind(problem.facts)
    sources, own = QuadraticComponents(problem, space).grams
    for grams, domains in ((sources, problem.sources), (own, problem.targets)):
        for j, domain in enumerate(domains):
            X = np.column_stack([domain.X, np.ones(domain.n_rows)])
            p = domain.weight / domain.weight.sum()
            np.testing.assert_allclose(
                grams.A[j], sum(p[i] * np.outer(X[i], X[i]) for i in range(len(X))), rtol=1e-12
            )
            np.testing.assert_allclose(grams.b[j], (p * domain.y) @ X, rtol=1e-12)
            np.testing.assert_allclose(grams.r[j], 0.5 * (p * domain.y**2).sum(), rtol=1e-12)


def test_grams_do_without_targets():
    problem = Problem(make_problem().sources)
    space = Ridge().bind(problem.facts)
    fast, slow = QuadraticComponents(problem, space), LocalComponents(problem, space)
    w = models(space, 2, 3)
    close(fast.values(w, ALL), slow.values(w, ALL))


def test_grams_refuse_or_honour_the_bounded_loss():
    problem = make_problem()
    space = Ridge().bind(problem.facts)
    slow = LocalComponents(problem, space, "bounded")
    w = models(space, 2, 2)
    try:
        fast = QuadraticComponents(problem, space, "bounded")
    except (ValueError, TypeError):
        return
    close(fast.values(w, ALL), slow.values(w, ALL))
