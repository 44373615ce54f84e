"""`cuvee.learn` and `cuvee.load_map`: maps that predict models instead of training them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import torch

from cuvee.api.checks import check_device, check_hypothesis, check_memory, check_whole
from cuvee.api.learning import Method, Progress, Settings, bind, check_sources, learn_map, relearn, sources_part
from cuvee.api.model_map import ModelMap, Selection
from cuvee.errors import InputError, OptionError, check_choice, check_number
from cuvee.hypothesis.base import Hypothesis
from cuvee.learn import store
from cuvee.learn.choose import Options
from cuvee.learn.kernel import Solver
from cuvee.learn.mixtures import Mixes
from cuvee.learn.network import Trunk
from cuvee.problem import Domain, Problem, as_problem
from cuvee.results import Status

LEAST_LABELS = 4
USES: dict[Method, tuple[str, ...]] = {
    "auto": ("degree",),
    "network": ("width", "steps", "eta", "K", "trunk"),
    "ntf": ("width", "trunk", "solver"),
    "kernel": ("solver",),
    "surface": ("degree", "order"),
    "meta": ("steps",),
}


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
    """A map α -> w*(α), learnt from solved mixtures and calibrated on others: models for new mixtures in no time.

    Args:
        data: sources, or a problem.
        hypothesis: `Ridge`, `Logistic` or `Network`.
        method: "auto" takes the cheapest map within `tol`, or else the most accurate; "network" is Algorithm 2 of the
            paper, "ntf" the same linearised where it starts, "kernel" its limit for infinite width; "surface" is the
            best of polynomials and Taylor pieces; "meta" is one start, `steps` gradient steps from every mixture.
        n_labels: mixtures to solve and learn from.
        tol: on ‖∇‖∞, as in `cuvee.solve`.
        mixtures: (K, N), a sample like the mixtures to come; `Mixtures` and data frames are matched by the names of
            their columns, and a column `cuvee.OWN` is left out. By default they are drawn from a symmetric Dirichlet
            law with this `concentration`; 1 is uniform on the simplex, and far from the sparse mixtures that
            `cuvee.estimate` finds: for those give a sample, or less than 1.
        n_calibration: further mixtures, solved to measure errors on.
        level: share of mixtures, like those, that keep to a calibrated bound.
        degree: of a polynomial surface; order: 1 or 2, of Taylor pieces. By default held-out error chooses.
        width: m, hidden units per layer; 256, or 4,096 in one layer for all outputs.
        steps: T of Algorithm 2, by default 2,000; gradient steps of "meta", by default 5.
        eta: η of Algorithm 2; by default the largest that is stable.
        K: gradient steps that refine every label between two steps of Algorithm 2.
        trunk: "own" is a hidden layer per output, as in the paper; "shared" is one for all, whose labels are solved
            first, in the subspace they span: for many parameters.
        solver: of "kernel" and "ntf": "exact", or "descent" with early stopping.
        seed: the same seed gives the same map, to the bit on the same machine, with the same number of threads and the
            same versions of torch and NumPy.
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
    check_choice("method", method, get_args(Method))
    check_choice("trunk", trunk, get_args(Trunk))
    check_choice("solver", solver, get_args(Solver))
    check_number("tol", tol, above=0.0)
    check_number("concentration", concentration, above=0.0)
    check_number("level", level, least=0.5, most=0.999)
    for name, whole, least in (
        ("n_labels", n_labels, LEAST_LABELS),
        ("n_calibration", n_calibration, 0),
        ("degree", degree, 1),
        ("order", order, 1),
        ("width", width, 2),
        ("steps", steps, 1),
        ("K", K, 1),
        ("seed", seed, 0),
    ):
        if whole is not None or name in ("n_labels", "n_calibration", "K", "seed"):
            check_whole(name, whole, least)
    if order is not None and order > 2:
        raise OptionError(f"order must be 1 or 2; got {order}")
    if degree is not None and order is not None:
        raise OptionError("degree= is of a polynomial and order= of Taylor pieces: give one of them")
    if width is not None and width % 2:
        raise OptionError(f"width must be even, every hidden unit starts beside its copy; got {width}")
    if eta is not None:
        check_number("eta", eta, above=0.0)
    given: dict[str, Any] = {"degree": degree, "order": order, "width": width, "steps": steps, "eta": eta}
    given |= {"K": None if K == 10 else K, "trunk": None if trunk == "own" else trunk}
    given |= {"solver": None if solver == "exact" else solver}
    unused = [name for name, value in given.items() if value is not None and name not in USES[method]]
    if unused:
        raise OptionError(f"method={method!r} has no use for {', '.join(unused)}: leave it out")
    check_hypothesis(hypothesis)
    check_device(device)
    options = Options(
        tol=float(tol),
        degree=_whole(degree),
        order=_whole(order),
        width=_whole(width),
        steps=_whole(steps),
        eta=None if eta is None else float(eta),
        trunk=trunk,
        solver=solver,
        seed=int(seed),
    )
    settings = Settings(
        method=method,
        n_labels=int(n_labels),
        n_calibration=int(n_calibration),
        concentration=float(concentration) if mixtures is None else None,
        level=float(level),
        K=int(K),
        options=options,
        device=device,
        memory=check_memory(memory, device),
    )
    problem = as_problem(data)
    check_sources(problem)
    if mixtures is None:
        mixes = Mixes.drawn(n_labels, n_calibration, problem.n_sources, concentration, seed)
    else:
        mixes = Mixes.given(sources_part(mixtures, problem), n_labels, n_calibration, seed, LEAST_LABELS)
    return learn_map(bind(problem, hypothesis, settings), mixes, settings, progress or _silent)


def load_map(
    path: str | Path, data: Problem | Sequence[Domain], hypothesis: Hypothesis, *, device: str = "cpu"
) -> ModelMap:
    """A map that `ModelMap.save` wrote, with the data it was learnt from: certificates and corrections need them."""
    check_hypothesis(hypothesis)
    check_device(device)
    parts, notes = store.read(Path(path), device)
    try:
        settings = Settings.restored(notes["settings"], device, check_memory(None, device))
        bound = bind(as_problem(data), hypothesis, settings)
        if notes["fingerprint"] != bound.fingerprint:
            raise InputError(f"{path} was learnt from other data or another hypothesis: learn it again")
        atlas = ModelMap(
            bound=bound,
            **parts,
            plan=Selection.restored(notes["plan"]),
            settings=settings,
            status=Status[notes["status"]],
            relearn=relearn,
        )
        centre = torch.full((1, atlas.n_sources), 1.0 / atlas.n_sources, dtype=torch.float64, device=device)
        atlas.calibration.bounds(centre)
        if atlas.predict(centre).shape != (1, bound.space.n_params):
            raise InputError(f"{path} holds a map to other models than the hypothesis has")
        return atlas
    except (AttributeError, IndexError, KeyError, TypeError, RuntimeError) as error:
        raise InputError(f"{path} cannot be read as a cuvee map: {error!r}") from None


def _whole(value: int | None) -> int | None:
    """A plain number, whatever kind of integer came."""
    return None if value is None else int(value)


def _silent(what: str, done: int, total: int) -> None:
    """No progress wanted."""
