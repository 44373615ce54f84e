"""`cuvee.learn` and `cuvee.load_map`: maps that predict models instead of training them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from cuvee.api.checks import check_device, check_hypothesis, check_memory
from cuvee.api.learning import Progress, bind, check_sources, learn_map, mixes_of, silent
from cuvee.api.learnt import Selection
from cuvee.api.model_map import ModelMap, as_map
from cuvee.errors import InputError, check_number
from cuvee.hypothesis.base import Hypothesis
from cuvee.learn import registry, store
from cuvee.learn.options import Options, Solver, Trunk
from cuvee.learn.settings import LEAST_LABELS, Settings
from cuvee.names import MapMethod as Method
from cuvee.numerics.parallel import workers
from cuvee.outputs import files
from cuvee.problem import Domain, Problem, as_problem
from cuvee.results import Status


@workers()
def learn(
    data: Problem | Sequence[Domain],
    hypothesis: Hypothesis,
    *,
    method: Method = "auto",
    n_labels: int = 256,
    tol: float = 1e-3,
    mixtures: Any = None,
    concentration: float = 1.0,
    n_calibration: int = 512,
    level: float = 0.95,
    degree: int | None = None,
    order: int | None = None,
    width: int | None = None,
    steps: int | None = None,
    eta: float | None = None,
    K: int = 10,
    trunk: Trunk = "own",
    solver: Solver = "exact",
    seed: int = 0,
    device: str = "cpu",
    memory: int | None = None,
    progress: Progress | None = None,
) -> ModelMap:
    """Return a map α -> w*(α), learnt from solved mixtures and calibrated on others.

    It has models for new mixtures in no time.

    Args:
        data: sources, or a problem.
        hypothesis: `Ridge`, `Logistic`, `Poisson` or `Network`.
        method: the name of a map; docs/maps.md has all of them with the options that each takes.
            "auto" is the cheapest to ask within `tol`, or else the most accurate; "network" is
            Algorithm 2 of the paper.
        n_labels: mixtures to solve and learn from.
        tol: on ‖∇‖∞, as in `cuvee.solve`.
        mixtures: (K, N), a sample like the mixtures to come; `Mixtures` and data frames are matched
            by the names of their columns, and a column `cuvee.OWN` is left out. By default they are
            drawn from a symmetric Dirichlet law with this `concentration`; 1 is uniform on the
            simplex, and far from the sparse mixtures that `cuvee.estimate` finds: for those give a
            sample, or less than 1.
        n_calibration: further mixtures, solved to measure errors on: of the sample, or half of the
            law and half all over the simplex.
        level: share of mixtures that keep to a calibrated bound, among those alike in how evenly,
            and how many, sources they weigh; a mixture unlike all of these gets no bound.
        degree: of a polynomial surface; order: 1 or 2, of Taylor pieces. By default held-out error
            chooses.
        width: m, hidden units per layer; 256, or 4,096 in one layer for all outputs.
        steps: T of Algorithm 2, by default 2,000; gradient steps of "meta", by default 5.
        eta: η of Algorithm 2; by default the largest that is stable.
        K: gradient steps that refine every label between two steps of Algorithm 2.
        trunk: "own" is a hidden layer per output, as in the paper; "shared" is one for all, whose
            labels are solved first, in the subspace they span: for many parameters.
        solver: of "kernel" and "ntf": "exact", or "descent" with early stopping.
        seed: the same seed gives the same map, to the bit on the same machine, with the same number
            of threads and the same versions of torch and NumPy.
        device: a torch device.
        memory: bytes that may be held at a time, as in `cuvee.solve`.
        progress: called with (what, done, total).

    Example:
        >>> import numpy as np, cuvee
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(90, 2))
        >>> sites = [cuvee.Domain(n, X[i::3], X[i::3] @ w) for i, (n, w) in enumerate(
        ...     {"north": [1.0, 0.0], "east": [0.5, 0.5], "south": [0.0, 1.0]}.items())]
        >>> atlas = cuvee.learn(sites, cuvee.Ridge(l2=1e-2), n_labels=32, tol=1e-6)
        >>> atlas([[0.2, 0.3, 0.5]], trust="certified").status[0].value
        'certified'
    """
    options = Options(tol, degree, order, width, steps, eta, trunk, solver, seed, K=K)
    registry.check_given(method, options)
    check_number("concentration", concentration, above=0.0)
    check_hypothesis(hypothesis)
    check_device(device)
    settings = Settings(
        method=method,
        n_labels=n_labels,
        n_calibration=n_calibration,
        concentration=concentration if mixtures is None else None,
        level=level,
        options=options,
        device=device,
        memory=check_memory(memory, device),
    )
    problem = as_problem(data)
    check_sources(problem)
    mixes = mixes_of(problem, mixtures, settings, LEAST_LABELS)
    return as_map(
        learn_map(bind(problem, hypothesis, settings), mixes, settings, progress or silent)
    )


def load_map(
    path: str | Path,
    data: Problem | Sequence[Domain],
    hypothesis: Hypothesis,
    *,
    device: str = "cpu",
) -> ModelMap:
    """Return a map that `ModelMap.save` wrote, bound to the data it was learnt from.

    Certificates and corrections need these data.
    """
    check_hypothesis(hypothesis)
    check_device(device)
    parts, notes = store.read(Path(path), device)
    with files.understood(Path(path), store.WHAT):
        settings = Settings.restored(notes["settings"], device, check_memory(None, device))
        bound = bind(as_problem(data), hypothesis, settings)
        if notes["fingerprint"] != bound.fingerprint:
            raise InputError(
                f"{path} was learnt from other data or another hypothesis: learn it again"
            )
        plan, status = Selection.restored(notes["plan"]), Status[notes["status"]]
        atlas = ModelMap(bound=bound, **parts, plan=plan, settings=settings, status=status)
        centre = torch.full(
            (1, atlas.n_sources), 1.0 / atlas.n_sources, dtype=torch.float64, device=device
        )
        atlas.calibration.bounds(centre)
        if atlas.predicted(centre).shape != (1, bound.space.n_params):
            raise InputError(f"{path} holds a map to other models than the hypothesis has")
        return atlas
