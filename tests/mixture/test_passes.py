"""`passes=` of `cuvee.estimate`: so many passes over the data one after the other, and no more."""

import numpy as np
import pytest

import cuvee
from cuvee.components import Batch, bind
from cuvee.data.synthetic import grouped_classes
from cuvee.errors import OptionError
from cuvee.mixture import panel, path
from cuvee.mixture.objective import Objective, inverse_counts
from cuvee.mixture.players import Settings


def test_passes_are_shared_out_among_adversaries_and_cross_validation():
    run = path.within(60, Settings(steps=12))
    assert run.steps * run.climbs + path.FITTING + 2 == 60
    assert run.whole and run.adversaries > Settings().adversaries
    assert path.within(1000, Settings(steps=12)).steps * run.climbs == 96  # as without a limit


def test_every_step_is_a_pass_over_all_rows_so_that_it_gives_cuts(monkeypatch):
    problem = grouped_classes(0, n_targets=1)
    space = cuvee.Logistic().bind(problem.facts, standardised=True)
    components = bind(problem, space, "bounded")
    objective = Objective("mixture", 0.01, 0.0, inverse_counts(components))
    monkeypatch.setattr(panel, "LARGE", 10)  # rows from which on there are minibatches
    many = panel.of(components, objective, Settings(steps=12))
    few = panel.of(components, objective, path.within(60, Settings(steps=12)))
    assert many._batch(3).step == 3 and few._batch(3) == Batch()


def test_quantities_need_no_limit():
    rng = np.random.default_rng(0)
    domains = [
        cuvee.Domain(str(j), X := rng.normal(size=(30, 2)), X @ [1.0, 0.1 * j]) for j in range(4)
    ]
    problem = cuvee.Problem(domains[:3], domains[3:])
    free = cuvee.estimate(problem, cuvee.Ridge()).alpha
    assert np.array_equal(cuvee.estimate(problem, cuvee.Ridge(), passes=60).alpha, free)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"passes": 20}, "passes"),
        ({"passes": 60, "steps": 3}, "give one of them"),
        ({"passes": 60, "method": "cuts"}, "method='path'"),
    ],
)
def test_what_cannot_be_limited(given, words):
    with pytest.raises(OptionError, match=words):
        cuvee.estimate(grouped_classes(0), cuvee.Logistic(), **given)


def test_a_column_that_is_always_0_does_not_stop_the_quick_solver():
    from cuvee.erm.linear import solver

    problem = grouped_classes(0, n_targets=1)

    def widened(d):
        return cuvee.Domain(d.name, np.column_stack([d.X, np.zeros(d.n_rows)]), d.y)

    wide = cuvee.Problem([*map(widened, problem.sources)], [*map(widened, problem.targets)])
    steps = []
    original = solver.newton.minimise
    try:
        solver.newton.minimise = lambda task, w, **how: (
            steps.append(len(w)) or original(task, w, **how)
        )
        cuvee.estimate(wide, cuvee.Logistic())
    finally:
        solver.newton.minimise = original
    assert steps == []
