"""What everybody makes of a case: scikit-learn as its users tune it, skada's reweighting, and this
project.

A method takes a case and gives, target by target, what it predicts for the test rows and the
seconds it took to fit. Seconds of what serves several targets at once are divided among them.

skada's methods see the features of all rows of the target, test rows too, as they are meant to; no
labels of these. They ignore the labels that the target has, so each stands here three times: as it
comes ("KMM"), with those rows added, each of weight 1 as a source's is on average ("KMM + own"),
and so without a look at other rows of the target, which is what this project is given ("KMM + own
(20 rows)").
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import sklearn
from experiments._lab import seed_of
from experiments._peers_tables import Case
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV, Ridge, RidgeCV
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, KFold

import cuvee
from cuvee.problem import Array
from cuvee.results import Floats

Found = tuple[Array, float]  # predictions for the test rows of a target, and seconds
Method = Callable[[Case], Iterator[Found]]
L2 = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)  # tried, per row, where l2 is tuned
FEW_L2 = (1e-3, 1e-2, 1e-1)  # the same, where a share is tuned besides
SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)  # of all weight that the target's rows may have together
FOLDS = 5
ROUNDS = 500  # of L-BFGS
# need a kernel of all pairs of source rows, so that they get no more than
KERNELS = ("density", "KMM", "MMDTarS")
KERNEL_ROWS = 1_000  # of these, at random
FEW_FEATURES = 100  # that trees are grown on: pixels and word counts take minutes, and few would
OURS = "cuvee"
LABELLED_ONLY = " (20 rows)"  # of a name: weights are from the target's labelled rows, no others


def default(case: Case) -> Iterator[Found]:
    """This project, unattended."""
    began = time.perf_counter()
    mix = cuvee.estimate(case.problem, case.hypothesis)
    solution = cuvee.solve(case.problem, case.hypothesis, mix)
    spent = time.perf_counter() - began
    for model, (X, _) in zip(solution.models, case.test, strict=True):
        yield model.predict(X), spent / len(case.test)


def own_rows(case: Case) -> Iterator[Found]:
    """The target's labelled rows alone."""
    for target, (X, _) in zip(case.problem.targets, case.test, strict=True):
        began = time.perf_counter()
        model = _tuned(case, target.X, target.y)
        spent = time.perf_counter() - began
        yield model.predict(X), spent


def pooled(case: Case) -> Iterator[Found]:
    """All rows of sources, once for all targets."""
    began = time.perf_counter()
    model = _tuned(case, *case.pooled())
    spent = time.perf_counter() - began
    for X, _ in case.test:
        yield model.predict(X), spent / len(case.test)


def pooled_and_own(case: Case) -> Iterator[Found]:
    """The target's rows among them, each like any other."""
    for i, (X, _) in enumerate(case.test):
        began = time.perf_counter()
        model = _tuned(case, *_joined(case, i))
        spent = time.perf_counter() - began
        yield model.predict(X), spent


def up_weighted(case: Case) -> Iterator[Found]:
    """The target's rows have a share of all weight; share and l2 are those that predict its
    held-out rows best.

    A classifier's l2 is that of the case: fifteen fits a fold are more than users wait for.
    """
    Xs, ys = case.pooled()
    choices = [(share, l2) for share in SHARES for l2 in (FEW_L2 if case.quantity else (case.l2,))]
    for target, (X, _) in zip(case.problem.targets, case.test, strict=True):
        began = time.perf_counter()
        losses = np.zeros(len(choices))
        for train, held in KFold(FOLDS, shuffle=True, random_state=0).split(target.X):
            for k, (share, l2) in enumerate(choices):
                model = _shared(case, Xs, ys, target.X[train], target.y[train], share, l2)
                losses[k] += _loss(case, model, target.X[held], target.y[held])
        share, l2 = choices[int(np.argmin(losses))]
        model = _shared(case, Xs, ys, target.X, target.y, share, l2)
        spent = time.perf_counter() - began
        yield model.predict(X), spent


def boosted(case: Case) -> Iterator[Found]:
    """Gradient-boosted trees on the same rows, as they come."""
    kind = HistGradientBoostingRegressor if case.quantity else HistGradientBoostingClassifier
    for i, (X, _) in enumerate(case.test):
        began = time.perf_counter()
        model = kind(random_state=0).fit(*_joined(case, i))
        spent = time.perf_counter() - began
        yield model.predict(X), spent


SKLEARN: dict[str, Method] = {
    "target only": own_rows,
    "pooled": pooled,
    "pooled + own": pooled_and_own,
    "pooled + own, weighted": up_weighted,
    "boosted trees": boosted,
}


def adapters(features: int, quantity: bool) -> dict[str, Callable[[], Any]]:
    """skada's, with kernels as wide as many features ask for; its own default width of 1 is for
    very few.

    MMDTarS takes minutes for a quantity, with as many unknowns as rows and twice as many
    constraints.
    """
    # skada turns metadata routing on for everybody: put back what was
    with sklearn.config_context():
        import skada

    wide = 1.0 / features
    found: dict[str, Callable[[], Any]] = {
        "density": skada.DensityReweightAdapter,
        "Gaussian": skada.GaussianReweightAdapter,
        "discriminator": skada.DiscriminatorReweightAdapter,
        "KLIEP": lambda: skada.KLIEPReweightAdapter([0.1 * wide, wide, 10 * wide], random_state=0),
        "nearest": skada.NearestNeighborReweightAdapter,
        "KMM": lambda: skada.KMMReweightAdapter(gamma=wide),
    }
    if not quantity:
        found["MMDTarS"] = lambda: skada.MMDTarSReweightAdapter(gamma=wide, reg=1e-6)
    return found


def weights(name: str, Xs: Array, ys: Array, Xt: Array) -> Floats:
    """(rows,) of the sources, 1 in the mean.

    skada 0.6 gives its nearest neighbours the wrong rows to look from (~ of indices, where a mask
    was meant): they are asked one step further in.
    """
    adapter = adapters(Xs.shape[1], quantity=False)[name]()
    if name == "nearest":
        found = adapter._get_weights(Xs, Xt)
    else:
        X, domain = np.concatenate([Xs, Xt]), np.repeat([1, -2], [len(Xs), len(Xt)])
        hidden = np.full(len(Xt), np.nan if ys.dtype.kind == "f" else -1, dtype=ys.dtype)
        _, given = adapter.fit_transform(X, np.concatenate([ys, hidden]), sample_domain=domain)
        found = given["sample_weight"][: len(Xs)]
    found = np.nan_to_num(np.asarray(found, dtype=float), nan=0.0, posinf=0.0).clip(min=0.0)
    total = found.sum()
    return found * (len(found) / total) if total > 0 else np.ones(len(found))


def reweighted(
    name: str, case: Case, levelled: Case | None
) -> Iterator[tuple[str, bool, int, Found]]:
    """Linear models with the case's l2 on rows weighted by skada, as (peer, levels taken out,
    target, what it found).

    Weights come from features, so that one set of them serves all models; its seconds count in
    each.
    """
    Xs, ys = case.pooled()
    some = np.arange(len(Xs))
    if name in KERNELS and len(Xs) > KERNEL_ROWS:
        some = np.sort(
            np.random.default_rng(seed_of("rows", len(Xs))).choice(
                len(Xs), KERNEL_ROWS, replace=False
            )
        )
    for i, (target, (X, _)) in enumerate(zip(case.problem.targets, case.test, strict=True)):
        for seen, Xt in (("", np.concatenate([target.X, X])), (LABELLED_ONLY, target.X)):
            began = time.perf_counter()
            found = weights(name, Xs[some], ys[some], Xt)
            spent = time.perf_counter() - began
            for levels, of in enumerate([case] if levelled is None else [case, levelled]):
                rows, labels, mine = Xs[some], of.pooled()[1][some], of.problem.targets[i]
                joined = np.concatenate([rows, mine.X]), np.concatenate([labels, mine.y])
                began = time.perf_counter()
                model = _fitted(of, *joined, np.concatenate([found, np.ones(len(mine.X))]), of.l2)
                took = spent + time.perf_counter() - began
                yield f"{name} + own{seen}", bool(levels), i, (model.predict(X), took)
                if not seen:
                    began = time.perf_counter()
                    model = _fitted(of, rows, labels, found, of.l2)
                    took = spent + time.perf_counter() - began
                    yield name, bool(levels), i, (model.predict(X), took)


def _joined(case: Case, i: int) -> tuple[Array, Array]:
    (X, y), target = case.pooled(), case.problem.targets[i]
    return np.concatenate([X, target.X]), np.concatenate([y, target.y])


def _tuned(case: Case, X: Array, y: Array) -> Any:
    """l2 by cross-validation on these rows; with few of them a class may be missing from a fold."""
    if case.quantity:
        return RidgeCV(alphas=np.array(L2) * len(X)).fit(X, y)
    if len(np.unique(y)) < 2:  # nothing to learn: always that one
        return DummyClassifier().fit(X, y)
    C = 1.0 / (np.array(L2) * len(X))
    folds = KFold(FOLDS, shuffle=True, random_state=0)
    if len(X) < 100:
        return GridSearchCV(LogisticRegression(max_iter=ROUNDS), {"C": C}, cv=folds).fit(X, y)
    return LogisticRegressionCV(Cs=C, cv=folds, max_iter=ROUNDS).fit(X, y)


def _shared(case: Case, Xs: Array, ys: Array, Xt: Array, yt: Array, share: float, l2: float) -> Any:
    rows = len(Xs) + len(Xt)
    weight = np.repeat([(1 - share) * rows / len(Xs), share * rows / len(Xt)], [len(Xs), len(Xt)])
    return _fitted(case, np.concatenate([Xs, Xt]), np.concatenate([ys, yt]), weight, l2)


def _fitted(case: Case, X: Array, y: Array, weight: Floats, l2: float) -> Any:
    """The minimiser of the weighted mean loss and l2/2‖w‖², as everywhere in this project."""
    total = float(weight.sum())
    model = (
        Ridge(alpha=l2 * total)
        if case.quantity
        else LogisticRegression(C=1.0 / (l2 * total), max_iter=ROUNDS)
    )
    kept = weight > 0
    if not case.quantity and len(np.unique(y[kept])) < 2:
        kept = np.ones(len(y), dtype=bool)  # one class is nothing to learn
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X[kept], y[kept], sample_weight=weight[kept])


def _loss(case: Case, model: Any, X: Array, y: Array) -> float:
    """Summed over rows."""
    if case.quantity:
        return float(((model.predict(X) - y) ** 2).sum())
    return float(log_loss(y, model.predict_proba(X), labels=model.classes_, normalize=False))
