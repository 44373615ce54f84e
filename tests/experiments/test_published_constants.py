"""The constants and needs in docs/paper are those that `cuvee.theory` gives today."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from experiments._game import game
from experiments.lipschitz import SETTINGS
from experiments.stationarity import SETTINGS as GAMES

import cuvee
from cuvee import theory
from cuvee.data.synthetic import shifted_sources
from cuvee.simplex import sample

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(("kind", "N", "l2"), [("ridge", 3, 0.01), ("logistic", 2, 0.1)])
def test_the_published_constants_of_lemma_1_are_these(kind, N, l2):
    stored = pd.read_csv(ROOT / "docs" / "paper" / "lipschitz" / "raw.csv")
    row = stored.query("kind == @kind and N == @N and l2 == @l2 and seed == 0").iloc[0]
    full = SETTINGS["full"]
    sources = shifted_sources(N, full["rows"], full["features"], seed=0, quantity=kind == "ridge")
    hypothesis = (cuvee.Ridge if kind == "ridge" else cuvee.Logistic)(l2, intercept=False)
    w = cuvee.solve(sources, hypothesis, np.concatenate([sample(50, N), np.eye(N)]), tol=1e-9).w
    k = theory.risk_constants(sources, hypothesis, w=w, radius=float(row.D))
    assert (k.mu_f, k.G_f, k.kappa_star) == pytest.approx((row.mu, row.G, row.kappa_star), rel=1e-9)
    assert k.G_f_met <= row.G_met * (1 + 1e-9)  # it met fewer mixtures here


@pytest.mark.parametrize("kind", ["logistic", "ridge"])
def test_the_published_numbers_of_theorem_2_are_these(kind):
    stored = pd.read_csv(ROOT / "docs" / "paper" / "stationarity" / "raw.csv")
    row = stored[(stored.part == "theory") & (stored.kind == kind) & (stored.seed == 10)].iloc[0]
    of = game(kind, 10, GAMES["full"])
    B_g, F_max = of.largest
    needs = theory.stationarity_needs(of.constants, row.eps, B_g=B_g, F_max=F_max)
    k, steps = of.constants, needs.steps
    numbers = (k.L, k.mu, steps.eta, steps.gamma, needs.T, needs.B)
    wanted = (row.L, row.mu, row.eta_theory, row.gamma_theory, row.T_theory, row.B_theory)
    assert numbers == pytest.approx(wanted, rel=1e-9)
