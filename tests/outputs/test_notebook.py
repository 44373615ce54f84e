"""What a notebook shows: small tables that escape what they show."""

from __future__ import annotations

import numpy as np

import cuvee
from cuvee.learn.planner import Line, Plan
from cuvee.outputs.notebook import html_table

NAME = "<script>alert(1)</script>"


def domain(name, rows=30):
    rng = np.random.default_rng(list(name.encode()))
    X = rng.normal(size=(rows, 2))
    return cuvee.Domain(name, X, X[:, 0] + rng.normal(size=rows) > 0)


def test_tables_escape_everything():
    html = html_table((NAME,), [(NAME, 1)], NAME)
    assert NAME not in html and html.count("&lt;script&gt;") == 3 and "<td" in html
    assert "<table" not in html_table((), [], "note")


def test_mixtures_and_solutions():
    problem = cuvee.Problem([domain(NAME), domain("b")], [domain(f"{NAME} {i}") for i in range(25)])
    mix = cuvee.estimate(problem, cuvee.Logistic(0.1), method="uniform")
    html = mix._repr_html_()
    assert (
        NAME not in html
        and "&lt;script&gt;" in html
        and html.count("<tr>") == 21
        and "and 5 more" in html
    )
    sol = cuvee.solve(problem, cuvee.Logistic(0.1), mix.alpha)
    html = sol._repr_html_()
    assert (
        "25 models" in html
        and "solved" in html
        and html.count("<tr>") == 21
        and "and 5 more" in html
    )


def test_plans():
    plan = Plan("solve", 50, 1e-3, 64, "kernel", Line(0.1, 0.01), Line(np.inf, 1e-4), (), True, 0.1)
    html = plan._repr_html_()
    assert "Solve all 50 models" in html and "1,000,000" in html


def test_maps():
    atlas = cuvee.learn([domain("a"), domain("b")], cuvee.Logistic(0.1), n_labels=16, tol=1e-2)
    html = atlas._repr_html_()
    assert "ModelMap of 2 sources" in html and "<div>" in html
