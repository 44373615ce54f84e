"""Sources whose rows lie in shards at several workers give the same α and the same w."""

from __future__ import annotations

import gc

import numpy as np
import pytest
import torch

import cuvee
from cuvee import Domain, Problem, Ridge
from cuvee.components import ALL, Batch, Half, bind
from cuvee.components.sharded import sharded
from cuvee.components.shards import Plain, ShardAnswerer
from cuvee.errors import DomainError
from cuvee.facts import merged
from cuvee.theory import row_constants
from cuvee.theory.risk_constants import risk_constants
from site_builders import HYPOTHESES, ask_everything, learn_everything, problem_of


class CrewHere:
    """Workers in this process; worker k has the rows cuts[k] : cuts[k + 1] of all sources."""

    def __init__(self, problem, cuts):
        ends = np.cumsum([0, *(s.n_rows for s in problem.sources)])
        self.workers = []
        for number, (low, high) in enumerate(zip(cuts, [*cuts[1:], ends[-1]], strict=True)):
            rows = {}
            for source, start in zip(problem.sources, ends, strict=False):
                at = slice(max(0, low - start), max(0, min(high - start, source.n_rows)))
                if at.stop > at.start:
                    weight = None if source.weight is None else source.weight[at]
                    rows[source.name] = Plain(source.X[at], source.y[at], weight)
            whole = {s.name: (s.y, s.weight) for s in problem.sources}
            self.workers.append(
                ShardAnswerer(number, rows, lambda name, whole=whole: lambda: whole[name])
            )

    def ask(self, binding, workers, question, shared, own):
        return [
            self.workers[k].answer(binding, question, *shared, *mine)
            for k, mine in zip(workers, own, strict=True)
        ]

    def release(self, binding):
        for worker in self.workers:
            worker.release(binding.key)


def in_shards(problem, cuts=(0, 11, 41, 90)):
    crew = CrewHere(problem, cuts)
    introductions = [worker.introduce() for worker in crew.workers]
    return Problem(sharded(crew, introductions, problem.source_names), problem.targets)


@pytest.mark.parametrize("kind", HYPOTHESES)
def test_facts_of_shards_are_those_of_the_whole(kind):
    problem = problem_of(kind)
    for far, near in zip(in_shards(problem).sources, problem.sources, strict=True):
        far, near = far.facts, near.facts.known()
        assert (far.name, far.n_rows, far.labels.first) == (
            near.name,
            near.n_rows,
            near.labels.first,
        )
        assert far.labels.not_whole == near.labels.not_whole
        assert (far.labels.least, far.labels.least_row) == (
            near.labels.least,
            near.labels.least_row,
        )
        np.testing.assert_allclose(far.worth, near.worth, rtol=1e-12)
        np.testing.assert_array_equal(far.classes.values, near.classes.values)
        np.testing.assert_array_equal(far.classes.rows, near.classes.rows)
        for one, other in ((far.columns, near.columns), (far.quantity, near.quantity)):
            np.testing.assert_allclose(one.mean, other.mean, rtol=1e-12, atol=1e-14)
            np.testing.assert_allclose(one.deviation, other.deviation, rtol=1e-12)
        for name in ("gram", "cross", "square"):
            parts = getattr(far.within, name), getattr(near.within, name)
            np.testing.assert_allclose(*parts, rtol=1e-11, atol=1e-13, err_msg=name)


def test_facts_of_text_labels_are_merged():
    X = np.arange(12.0).reshape(6, 2)
    y = np.array(["b", "a", "b", "c", "a", "c"])
    parts = [Domain("d", X[at], y[at]).facts.known() for at in (slice(0, 4), slice(4, 6))]
    facts = merged(parts, [4 / 6, 2 / 6])
    assert facts.labels.text and facts.labels.not_number == (0, "b")
    assert facts.classes.values.tolist() == ["a", "b", "c"]
    assert facts.classes.rows.tolist() == [1, 0, 3]


@pytest.mark.parametrize("kind", HYPOTHESES)
@pytest.mark.parametrize("loss", ["trained", "bounded"])
def test_every_batch_means_the_same_rows_in_shards(kind, loss):
    problem = problem_of(kind)
    remote = in_shards(problem)
    space = HYPOTHESES[kind].bind(problem.facts)
    far, near = bind(remote, space, loss, seed=3), bind(problem, space, loss, seed=3)
    w = space.start(6, 0).view(2, 3, -1)
    v = torch.as_tensor(np.random.default_rng(0).normal(size=(2, 3, 4)))
    batches = [ALL, Batch(5, 4, own_whole=True), Batch(1, 1)]
    batches += [Batch(part=part) for part in ("training", "held out", Half(0, 0), Half(0, 1))]
    batches += [Batch(7, 4, part="training"), Batch(8, 3, part=Half(2, 1))]
    for batch in batches:
        (f, back), (g, plain) = far.losses(w, batch), near.losses(w, batch)
        torch.testing.assert_close(f, g, rtol=1e-9, atol=1e-10, check_dtype=False)
        torch.testing.assert_close(back(v), plain(v), rtol=1e-8, atol=1e-9, check_dtype=False)
    moments = zip(far.source_moments(w[0], 20), near.source_moments(w[0], 20), strict=True)
    for one, other in moments:
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10, check_dtype=False)


@pytest.mark.parametrize("kind", ["logistic", "softmax", "poisson"])
def test_every_sum_of_linear_models_is_the_same_in_shards(kind):
    problem = problem_of(kind)
    space = HYPOTHESES[kind].bind(problem.facts)
    far, near = bind(in_shards(problem), space), bind(problem, space)
    for name in (
        "statistics", "largest", "longest_row", "mean_squares", "rows_of_kind", "label_sizes",
        "own_rows_of_kind", "own_label_sizes", "counts", "own_counts",
    ):  # fmt: skip
        parts = torch.as_tensor(getattr(far, name)), torch.as_tensor(getattr(near, name))
        torch.testing.assert_close(*parts, rtol=1e-12, atol=1e-13, msg=name)
    reference = near.means().mean(0)
    torch.testing.assert_close(far.means(), near.means(), rtol=1e-12, atol=1e-13)
    for one, other in zip(far.spread(reference), near.spread(reference), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)
    w, v = space.start(4, 1).view(2, 2, -1), torch.rand(2, 2, 4, dtype=torch.float64)
    torch.testing.assert_close(far.hessians(w, v, ALL), near.hessians(w, v, ALL))
    torch.testing.assert_close(far.hessian_times(w, w, v, ALL), near.hessian_times(w, w, v, ALL))
    for one, other in zip(*(c.pull_with_second(w, v, ALL) for c in (far, near)), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("kind", ["ridge", "logistic"])
def test_bounds_for_theorems_are_the_same_in_shards(kind):
    problem, hypothesis = problem_of(kind), HYPOTHESES[kind]
    remote, alpha = in_shards(problem), np.array([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]])
    far, near = (cuvee.risk_bound(p, hypothesis, alpha) for p in (remote, problem))
    for name in ("discrepancy", "complexity", "sampling", "largest_loss"):
        parts = getattr(far.printed, name), getattr(near.printed, name)
        np.testing.assert_allclose(*parts, rtol=1e-9, err_msg=name)
    far, near = (row_constants(p, hypothesis) for p in (remote, problem))
    np.testing.assert_allclose([far.G_f, far.L_f], [near.G_f, near.L_f], rtol=1e-12)
    far, near = (risk_constants(p.sources, hypothesis, radius=2.0) for p in (remote, problem))
    np.testing.assert_allclose([far.L_f, far.mu_f], [near.L_f, near.mu_f], rtol=1e-9)


@pytest.mark.parametrize(
    "kind",
    [pytest.param(k, marks=[pytest.mark.slow] if k == "network" else []) for k in HYPOTHESES],
)
def test_sources_in_shards_give_the_same_weights_and_models(kind):
    methods = ("path", "scgda", "cuts") if kind == "ridge" else ("path",)
    problem = problem_of(kind)
    far, near = (ask_everything(p, kind, methods) for p in (in_shards(problem), problem))
    for name, answer in near.items():
        # Hundreds of Adam's steps, along the path of a network, make more of the last bits.
        tolerance = 1e-5 if (kind, name) == ("network", "estimate path") else 1e-8
        np.testing.assert_allclose(far[name], answer, rtol=tolerance, atol=tolerance, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ridge", "logistic"])
def test_maps_of_sources_in_shards(kind):
    problem = problem_of(kind)
    far, near = (learn_everything(p, kind, ("auto",)) for p in (in_shards(problem), problem))
    for name, answer in near.items():
        np.testing.assert_allclose(far[name], answer, rtol=1e-5, atol=1e-6, err_msg=name)


def test_levels_are_taken_out_where_the_rows_are():
    problem = problem_of("ridge")
    levels = (0.5, -2.0, 7.0)
    far, near = (
        Problem([s.lowered(u) for s, u in zip(p.sources, levels, strict=True)], p.targets)
        for p in (in_shards(problem), problem)
    )
    for one, other in zip(far.facts.sources, near.facts.sources, strict=True):
        np.testing.assert_allclose(one.quantity.mean, other.quantity.mean, atol=1e-13)
        np.testing.assert_allclose(one.labels.least, other.labels.least, atol=1e-13)
    answers = [cuvee.estimate(p, Ridge(), adversaries=4).alpha for p in (far, near)]
    np.testing.assert_allclose(*answers, atol=1e-8)


def test_rows_of_weight_zero_may_fill_a_shard():
    problem = problem_of("ridge")
    first = problem.sources[0]
    weight = np.r_[np.zeros(11), np.ones(first.n_rows - 11)]
    weighed = Problem(
        [Domain("a", first.X, first.y, weight), *problem.sources[1:]], problem.targets
    )
    space = Ridge().bind(problem.facts)
    far, near = bind(in_shards(weighed), space, "bounded"), bind(weighed, space, "bounded")
    w = space.start(4, 0).view(2, 2, -1)
    for batch in (ALL, Batch(3, 6), Batch(part="training"), Batch(4, 6, part=Half(0, 0))):
        torch.testing.assert_close(far.values(w, batch), near.values(w, batch))


def test_a_worker_answers_no_other_question_and_forgets_what_is_not_asked_again():
    problem = problem_of("ridge")
    remote = in_shards(problem)
    components = bind(remote, Ridge().bind(problem.facts))
    crew = remote.sources[0].crew
    assert components.source_grams().A.shape[0] == 3
    assert all(len(worker._bound) == 1 for worker in crew.workers)
    with pytest.raises(DomainError, match="does not answer '_rows'"):
        crew.workers[0].answer(components._binding, "_rows")
    narrowed = components.narrow(torch.tensor([0]))
    del components
    gc.collect()
    assert all(len(worker._bound) == 1 for worker in crew.workers)
    del narrowed
    gc.collect()
    assert not any(worker._bound for worker in crew.workers)
    with pytest.raises(DomainError, match="some sources are at workers and some elsewhere"):
        bind(Problem([remote.sources[0], problem.sources[1]]), Ridge().bind(problem.facts))
