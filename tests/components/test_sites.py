"""The seam: algorithms never touch a row, and sources in processes of their own give the same α and
the same w.
"""

from __future__ import annotations

import multiprocessing
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import cuvee
from cuvee import Domain, Problem, Ridge
from cuvee.components import ALL, Batch, Folds, bind
from cuvee.components.answering import Answerer
from cuvee.components.sites import RemoteDomain
from cuvee.errors import DomainError
from cuvee.run.judge import coded
from site_builders import HYPOTHESES, METHODS, ask_everything, learn_everything, problem_of

PACKAGE = Path(cuvee.__file__).parent
ROOMS = tuple(str(PACKAGE / room) for room in ("components", "problem.py", "facts.py"))
"""Where rows may be read: the components, and where a domain checks itself and says what is known
of it.
"""
CLOSE = {"rtol": 1e-9, "atol": 1e-10}


class Guarded(Domain):
    """A domain that raises when anybody outside of ROOMS looks at its rows."""

    def __getattribute__(self, name):
        if name in ("X", "y", "unlabelled"):
            caller = sys._getframe(1).f_code.co_filename
            ours = caller.startswith(str(PACKAGE))
            if ours and not caller.startswith(ROOMS):
                raise AssertionError(f"{Path(caller).relative_to(PACKAGE)} read .{name}")
        return super().__getattribute__(name)


@pytest.mark.sample(3)
@pytest.mark.parametrize("kind", HYPOTHESES)
def test_nobody_outside_the_components_reads_a_row(kind):
    guarded, plain = (ask_everything(problem_of(kind, make), kind) for make in (Guarded, Domain))
    for name, answer in plain.items():
        np.testing.assert_allclose(guarded[name], answer, **CLOSE, err_msg=name)


@pytest.mark.slow
def test_maps_and_streams_read_no_row_either():
    guarded, plain = (
        learn_everything(problem_of("logistic", make), "logistic") for make in (Guarded, Domain)
    )
    for name, answer in plain.items():
        np.testing.assert_allclose(guarded[name], answer, **CLOSE, err_msg=name)


def test_streams_of_targets_read_no_row_either():
    alphas = []
    for make in (Guarded, Domain):
        problem = problem_of("ridge", make)
        stream = cuvee.OnlineMixtures(problem.without_targets(), Ridge())
        stream.learn_one(problem.targets[0])
        alphas.append(stream.predict_one(problem.targets[1]))
    np.testing.assert_allclose(*alphas, **CLOSE)


def test_the_guard_guards():
    problem = problem_of("ridge", Guarded)
    with pytest.raises(AssertionError, match=r"run/judge.py read .y"):
        coded(problem.sources[0], None)


# ---- each source in a process of its own ---------------------------------------------------------


def answer_questions(pipe, given):
    """Run in the source's process: answer until the other end hangs up."""
    torch.set_num_threads(1)
    answerer = Answerer(Domain(*given))
    while True:
        try:
            question = pipe.recv()
        except EOFError:
            return
        try:
            answer = answerer.answer(*question)
        except Exception as error:
            answer = error
        pipe.send(answer)


class ProcessSite:
    """A site behind a pipe: questions and parameters go in, sums come out."""

    def __init__(self, source):
        self._pipe, other = multiprocessing.Pipe()
        given = (source.name, source.X, source.y, source.weight)
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["cuvee"])  # imported once, for all of them
        self.process = context.Process(target=answer_questions, args=(other, given))
        self.process.start()
        other.close()
        self._X, self.given_away = source.X, []

    def ask(self, question, *arguments):
        self._pipe.send((question, *arguments))
        answer = self._pipe.recv()
        if isinstance(answer, Exception):
            raise answer
        if any(np.isin(part, self._X).any() for part in arrays(answer)):
            self.given_away.append(question)
        return answer

    def close(self):
        self._pipe.close()
        self.process.join(10)


def arrays(answer):
    """Yield every array of numbers in an answer."""
    if isinstance(answer, torch.Tensor | np.ndarray | float):
        yield np.asarray(answer)
    elif isinstance(answer, tuple | list):
        for part in answer:
            yield from arrays(part)
    elif hasattr(answer, "__dict__"):
        yield from arrays(list(vars(answer).values()))


@pytest.fixture(scope="module")
def at_sites():
    """A function that puts the sources of a problem into processes; one set of
    processes per kind.
    """
    opened = {}

    def put(kind):
        if kind not in opened:
            problem = problem_of(kind)
            opened[kind] = [ProcessSite(source) for source in problem.sources]
        return Problem(
            [RemoteDomain(site) for site in opened[kind]], problem_of(kind).targets
        ), opened[kind]

    yield put
    for site in (site for sites in opened.values() for site in sites):
        site.close()


DEAR = [
    pytest.param(kind, marks=pytest.mark.slow)
    for kind in ("logistic", "softmax", "poisson", "network")
]


@pytest.mark.parametrize("kind", ["ridge", *DEAR])
def test_sources_in_their_own_processes_give_the_same(kind, at_sites):
    remote, sites = at_sites(kind)
    methods = METHODS if kind == "ridge" else ("path", "scgda", "konstantinov_lampert")
    far, near = (
        ask_everything(remote, kind, methods),
        ask_everything(problem_of(kind), kind, methods),
    )
    for name, answer in near.items():
        # Hundreds of Adam's steps, along the path of a network, make more of the last bits.
        tolerance = 1e-5 if (kind, name) == ("network", "estimate path") else 1e-10
        np.testing.assert_allclose(far[name], answer, rtol=tolerance, atol=tolerance, err_msg=name)
    # no number of any row was sent
    assert not [site.given_away for site in sites if site.given_away]


@pytest.mark.parametrize("kind", ["ridge", pytest.param("logistic", marks=pytest.mark.slow)])
def test_maps_of_sources_in_their_own_processes(kind, at_sites):
    remote, _ = at_sites(kind)
    far, near = (learn_everything(p, kind, ("auto", "kernel")) for p in (remote, problem_of(kind)))
    for name, answer in near.items():
        np.testing.assert_allclose(far[name], answer, rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("kind", ["ridge", *DEAR])
@pytest.mark.parametrize("loss", ["trained", "bounded"])
def test_every_batch_means_the_same_rows_at_sites(kind, loss, at_sites):
    remote, _ = at_sites(kind)
    space = HYPOTHESES[kind].bind(remote.facts)
    far, near = bind(remote, space, loss, seed=3), bind(problem_of(kind), space, loss, seed=3)
    w = space.start(6, 0).view(2, 3, -1)
    v = torch.as_tensor(np.random.default_rng(0).normal(size=(2, 3, 4)))
    folds = Folds(3, torch.arange(3))
    for batch in (
        ALL,
        Batch(5, 4),
        Batch(5, 4, own_whole=True),
        Batch(folds=folds),
        Batch(part="training"),
    ):
        (f, back), (g, plain) = far.losses(w, batch), near.losses(w, batch)
        torch.testing.assert_close(f, g, rtol=1e-9, atol=1e-10, check_dtype=False)
        torch.testing.assert_close(back(v), plain(v), rtol=1e-8, atol=1e-9, check_dtype=False)
    alone = torch.tensor([1])
    torch.testing.assert_close(
        far.narrow(alone).values(w[1:], Batch(2, 4)),
        near.narrow(alone).values(w[1:], Batch(2, 4)),
        rtol=1e-9,
        atol=1e-10,
        check_dtype=False,
    )


def test_a_site_gives_no_rows_away(at_sites):
    remote, sites = at_sites("ridge")
    with pytest.raises(DomainError, match="the rows of 'a' stay at their site"):
        remote.sources[0].X.sum()
    with pytest.raises(DomainError, match="does not answer '_rows'"):
        Answerer(problem_of("ridge").sources[0]).answer("_rows", 0)
    mixed = Problem([remote.sources[0], problem_of("ridge").sources[1]])
    with pytest.raises(DomainError, match="some sources are at sites and some in this process"):
        cuvee.solve(mixed, Ridge(), [[0.5, 0.5]])
    assert len(sites) == 3
