"""`cuvee.estimate` at its edge: what it refuses, what it says, what it loads."""

from __future__ import annotations

import copy
import subprocess
import sys

import numpy as np
import pytest
import torch

import cuvee
from cuvee.data.synthetic import grouped_classes

BAD_OPTIONS = {
    "C": [0.0, -1.0, float("nan"), float("inf"), "10"],
    "c": [0.0, -1e-4, float("nan")],
    "beta": [0.0, 1.5, -0.1],
    "eta": [0.0, -1.0, float("inf")],
    "gamma": [0.0, float("nan")],
    "tol": [0.0, -1.0],
    "steps": [0, -5, 1.5],
    "batch_size": [0, 2.5],
    "adversaries": [0, "many"],
    "folds": [1, 0],
    "method": ["newton"],
    "discrepancy": ["max"],
    "loss": ["hinge"],
    "seed": [-1, 1.5],
}


@pytest.mark.parametrize(
    ("name", "value"), [(n, v) for n, values in BAD_OPTIONS.items() for v in values]
)
def test_an_option_out_of_range_is_named_before_any_work(name, value):
    with pytest.raises(cuvee.OptionError, match=rf"\b{name}\b"):
        cuvee.estimate(grouped_classes(0), cuvee.Logistic(), **{name: value})


WRONG_CALLS = {
    "a list of domains": (
        lambda p: cuvee.estimate(list(p.sources), cuvee.Logistic()),
        "problem must be",
    ),
    "a class for a hypothesis": (lambda p: cuvee.estimate(p, cuvee.Logistic), "hypothesis must be"),
    "a bare module": (lambda p: cuvee.estimate(p, torch.nn.Linear(6, 2)), "hypothesis must be"),
    "own as text": (lambda p: cuvee.estimate(p, cuvee.Logistic(), own="no"), "own must be"),
    "a device that is none": (
        lambda p: cuvee.estimate(p, cuvee.Logistic(), device="gpu"),
        "device 'gpu'",
    ),
    "no seed": (lambda p: cuvee.estimate(p, cuvee.Logistic(), seed=None), "seed must be"),
    "a seed beyond 64 bits": (
        lambda p: cuvee.estimate(p, cuvee.Logistic(), seed=2**63),
        "seed must be",
    ),
    "a loss without rows": (
        lambda p: cuvee.estimate(
            p, cuvee.Network(torch.nn.Linear(6, 1), loss=lambda s, y: (s[0] - y).square().mean())
        ),
        r"one number per row",
    ),
    "a module that vmap cannot stack": (
        lambda p: cuvee.estimate(p, cuvee.Network(Recurrent())),
        "as a stack",
    ),
}


class Recurrent(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = torch.nn.GRU(6, 2, batch_first=True)

    def forward(self, X):
        return self.gru(X[:, None])[0][:, 0]


@pytest.mark.parametrize(("call", "message"), WRONG_CALLS.values(), ids=WRONG_CALLS)
def test_a_wrong_call_is_one_sentence(call, message):
    with pytest.raises(cuvee.OptionError, match=message):
        call(grouped_classes(0))


def test_whole_numbers_may_be_numpys():
    mix = cuvee.estimate(
        grouped_classes(0), cuvee.Logistic(), method="agp", steps=np.int64(3), seed=np.int32(4)
    )
    assert mix.alpha.shape == (3, 9)


def test_the_gap_of_a_float32_network_is_that_of_float64():
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
    tiny = {
        "method": "agp",
        "eta": 1e-8,
        "gamma": 1e-8,
        "steps": 5,
        "adversaries": 1,
        "average": False,
    }
    double = cuvee.estimate(
        grouped_classes(0), cuvee.Network(copy.deepcopy(module).double()), **tiny
    )
    single = cuvee.estimate(grouped_classes(0), cuvee.Network(module), **tiny)
    np.testing.assert_allclose(single.gap, double.gap, rtol=1e-3)
    np.testing.assert_allclose(single.alpha, double.alpha, atol=1e-9)


def test_no_targets_is_said():
    with pytest.raises(cuvee.OptionError, match="M=0"):
        cuvee.estimate(cuvee.Problem(grouped_classes(0).sources), cuvee.Logistic())


def test_one_source_needs_the_own_sample_to_choose_from():
    problem = grouped_classes(0)
    single = cuvee.Problem(problem.sources[:1], problem.targets)
    with pytest.raises(cuvee.OptionError, match=r"group 0, source 0.*N=1"):
        cuvee.estimate(single, cuvee.Logistic(), method="scgda")
    mix = cuvee.estimate(single, cuvee.Logistic(), steps=20)
    assert mix.alpha.shape == (3, 2)


def test_own_sample_cannot_be_left_out_where_it_is_the_method():
    with pytest.raises(cuvee.OptionError, match="own"):
        cuvee.estimate(grouped_classes(0), cuvee.Logistic(), method="path", own=False)


def test_own_sample_joins_algorithm_1_on_request():
    mix = cuvee.estimate(grouped_classes(0), cuvee.Logistic(), method="scgda", own=True, steps=20)
    assert mix.alpha.shape == (3, 10) and mix.columns[-1] == cuvee.OWN
    np.testing.assert_allclose(mix.alpha.sum(1), 1)


def test_a_class_only_the_target_has_is_named():
    problem = grouped_classes(0)
    odd = cuvee.Domain(
        "odd", problem.targets[0].X, np.where(np.arange(20) == 7, 5, problem.targets[0].y)
    )
    with pytest.raises(cuvee.DomainError, match=r"'odd'.*5 at row 7"):
        cuvee.estimate(cuvee.Problem(problem.sources, [odd]), cuvee.Logistic())


def test_the_same_data_as_source_and_target_is_allowed_but_said():
    problem = grouped_classes(0)
    copy = cuvee.Domain("copy", problem.sources[0].X, problem.sources[0].y)
    with pytest.warns(cuvee.CuveeWarning, match="very same data"):
        shared = cuvee.Problem(problem.sources, [copy])
    mix = cuvee.estimate(shared, cuvee.Logistic(), method="agp")
    assert "very same data" in mix.notes[0]
    assert mix.alpha[0].argmax() == 0


def test_network_as_in_the_documentation():
    module = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    mix = cuvee.estimate(
        grouped_classes(0),
        cuvee.Network(module),
        method="scgda",
        discrepancy="sum",
        c=1e-4,
        C=10.0,
        seed=0,
        steps=50,
    )
    assert mix.alpha.shape == (3, 9)
    assert mix.trace.objective.shape == mix.trace.gap.shape == (len(mix.trace.step), 3)
    assert np.isfinite(mix.gap).all()


def test_progress_is_reported_to_the_end():
    seen = []
    cuvee.estimate(
        grouped_classes(0), cuvee.Logistic(), steps=20, progress=lambda *call: seen.append(call)
    )
    last = {what: (done, total) for what, done, total in seen}
    assert list(last) == [
        "α along the path",
        "α along the honest path",
        "cross-validating candidates",
    ]
    assert all(done == total for done, total in last.values())


def test_many_targets_fit_into_memory_and_keep_their_order():
    rng = np.random.default_rng(0)
    sources = [
        cuvee.Domain(f"s{j}", rng.normal(size=(10, 2)), rng.normal(size=10)) for j in range(3)
    ]
    targets = [
        cuvee.Domain(f"t{i}", rng.normal(size=(3, 2)), rng.normal(size=3)) for i in range(3000)
    ]
    mix = cuvee.estimate(cuvee.Problem(sources, targets), cuvee.Ridge(), method="agp", steps=10)
    assert mix.alpha.shape == (3000, 3) and mix.targets[-1] == "t2999"
    np.testing.assert_allclose(mix.alpha.sum(1), 1)


LIGHT = """
import sys, numpy as np, cuvee, cuvee.data.frame, cuvee.data.spool, cuvee.data.task
X = np.random.default_rng(0).normal(size=(40, 3))
sources = [cuvee.Domain("a", X[:20], np.arange(20) % 3), cuvee.Domain("b", X[20:], np.arange(20) % 3)]
sol = cuvee.solve(sources, cuvee.Logistic(), [[0.5, 0.5]])
cuvee.certify(sources, cuvee.Ridge(radius=1.0), [[0.5, 0.5]], np.zeros((1, 4)))
cuvee.sensitivity(sources, cuvee.Logistic(), [[0.5, 0.5]], sol.w)
print(*sys.modules)
"""


def test_imports_and_a_solve_need_numpy_and_torch_alone():
    ended = subprocess.run(
        [sys.executable, "-c", LIGHT], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    loaded = set(ended.stdout.split())
    assert "cuvee.report" not in loaded
    heavy = "pandas sklearn matplotlib typer rich scipy pyarrow mlxtend jinja2 safetensors joblib"
    assert not set(heavy.split()) & {name.split(".")[0] for name in loaded}


def test_repr_and_top_say_the_heaviest_columns():
    mix = cuvee.estimate(grouped_classes(0), cuvee.Logistic(), method="agp")
    assert "target 0" in repr(mix)
    name, weight = mix.top("target 1", 1)[0]
    assert name.startswith("group 1") and weight == mix.alpha[1].max()
