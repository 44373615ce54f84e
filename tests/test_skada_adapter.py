"""The adapter inside `skada.make_da_pipeline`: its weights are the mixture, and a weighted
estimator its minimiser.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import cuvee
from cuvee.errors import MissingExtra
from cuvee.sklearn import CuveeClassifier, TargetSplit

needs_skada = pytest.mark.skipif(
    importlib.util.find_spec("skada") is None, reason="skada is not installed: [skada]"
)
SIZES = {1: 60, 2: 50, 3: 70, -4: 20, -5: 15}
EFFECT = {1: 2.0, 2: 0.0, 3: -3.0, -4: 1.8, -5: -2.5}
L2 = 1e-2


@pytest.fixture
def skada():
    """skada turns metadata routing on for the whole process; here it is off again afterwards."""
    with sklearn.config_context(enable_metadata_routing=True):
        import skada

        import cuvee.skada  # noqa: F401

        yield skada


def table(kind: str = "classes"):
    rng = np.random.default_rng(0)
    domain = rng.permutation(np.repeat(list(SIZES), list(SIZES.values())))
    X = rng.normal(size=(len(domain), 3))
    y = (
        X @ [1.0, -1.0, 0.0]
        + X[:, 2] * [EFFECT[d] for d in domain]
        + 0.3 * rng.normal(size=len(domain))
    )
    return X, (y > 0).astype(int) if kind == "classes" else y, domain


def weighted(kind: str, rows: int):
    """The scikit-learn estimator whose weighted risk is cuvee's with l2=L2, weights being 1 in the
    mean over `rows`.
    """
    if kind == "numbers":
        return Ridge(alpha=L2 * rows).set_fit_request(sample_weight=True)
    return LogisticRegression(C=1 / (L2 * rows), tol=1e-9, max_iter=5000).set_fit_request(
        sample_weight=True
    )


def problem_of(X, y, domain, targets) -> cuvee.Problem:
    def part(d):
        return cuvee.Domain(str(d), X[domain == d], y[domain == d])

    return cuvee.Problem([part(d) for d in (1, 2, 3)], [part(d) for d in targets])


@needs_skada
@pytest.mark.parametrize("kind", ["classes", "numbers"])
def test_the_pipeline_ends_at_the_minimiser_of_the_targets_mixture(skada, kind):
    X, y, domain = table(kind)
    rows = int(np.sum(domain != -5))
    adapter = cuvee.skada.CuveeReweightAdapter(target=-4, l2=L2)
    pipe = skada.make_da_pipeline(adapter, weighted(kind, rows), mask_target_labels=False)
    pipe.fit(X, y.copy(), sample_domain=domain)
    problem = problem_of(X, y, domain, [-4])
    hypothesis = cuvee.Logistic(l2=L2) if kind == "classes" else cuvee.Ridge(l2=L2)
    mix = cuvee.estimate(problem, hypothesis)
    model = cuvee.solve(problem, hypothesis, mix)
    found = pipe[-1].get_estimator()
    np.testing.assert_allclose(np.append(found.coef_, found.intercept_), model.w[0], atol=1e-5)
    own = domain == -4
    said, wanted = pipe.predict(X[own], sample_domain=domain[own]), model.predict(X[own])[0]
    if kind == "classes":
        # or the last digits would choose a class
        assert np.abs(found.decision_function(X[own])).min() > 1e-3
    np.testing.assert_allclose(said, wanted, atol=1e-4)
    weight = pipe[0].get_estimator().sample_weight_
    for d, alpha in zip((1, 2, 3, -4), mix.alpha[0], strict=True):
        np.testing.assert_allclose(weight[domain == d], rows * alpha / SIZES[d])
    assert not weight[domain == -5].any()


@needs_skada
def test_several_targets_are_averaged_and_unlabelled_rows_weigh_nothing(skada):
    X, y, domain = table("numbers")
    hidden = (domain < 0) & (np.arange(len(y)) % 3 == 0)
    y[hidden] = np.nan
    adapter = cuvee.skada.CuveeReweightAdapter()
    pipe = skada.make_da_pipeline(
        StandardScaler(), adapter, weighted("numbers", 1), mask_target_labels=False
    )
    pipe.fit(X, y, sample_domain=domain)
    fitted = pipe[1].get_estimator()
    alpha, weight = fitted.mixtures_.alpha, fitted.sample_weight_
    assert fitted.mixtures_.targets == ("-5", "-4") and not weight[hidden].any()
    n = np.sum(~hidden)
    assert weight.sum() == pytest.approx(n)
    assert weight[domain == 3].sum() == pytest.approx(n * alpha[:, 2].mean())
    assert weight[domain == -4].sum() == pytest.approx(n * alpha[1, -1] / 2)


@needs_skada
@pytest.mark.parametrize("estimator", [None, DecisionTreeClassifier(max_depth=3)])
def test_the_classifier_itself_ends_a_pipeline(skada, estimator):
    X, y, domain = table()
    method = "uniform" if estimator is None else "path"  # whose mixtures the estimator judges
    model = CuveeClassifier(method=method, estimator=estimator)
    clf = clone(model).set_fit_request(sample_domain=True).set_predict_request(sample_domain=True)
    pipe = skada.make_da_pipeline(StandardScaler(), clf, mask_target_labels=False).fit(
        X, y, sample_domain=domain
    )
    direct = model.fit(StandardScaler().fit_transform(X), y, sample_domain=domain)
    rows = domain < 0
    scaled = StandardScaler().fit(X).transform(X[rows])
    if estimator is None:  # no row is near a tie
        assert np.abs(direct.decision_function(scaled, sample_domain=domain[rows])).min() > 1e-6
    else:
        assert len(direct.estimators_) == 2 and len(direct.choices_[0].names) > 3
    expected = direct.predict(scaled, sample_domain=domain[rows])
    np.testing.assert_array_equal(pipe.predict(X[rows], sample_domain=domain[rows]), expected)


@needs_skada
def test_copies_of_a_pipeline_learn_from_labels_with_the_selector_of_the_page(skada):
    X, y, domain = table()

    class Unmasked(skada.Shared):
        def __init__(self, base_estimator, mask_target_labels=False, **settings):
            super().__init__(base_estimator, mask_target_labels=False, **settings)

    steps = cuvee.skada.CuveeReweightAdapter(target=-4), weighted("classes", 1)
    first = skada.make_da_pipeline(*steps, mask_target_labels=False).fit(X, y, sample_domain=domain)
    with pytest.raises(cuvee.DomainError, match="copies of a pipeline, which searches make, forg"):
        clone(first).fit(X, y.copy(), sample_domain=domain)
    pipe = skada.make_da_pipeline(*steps, default_selector=Unmasked)
    again = clone(pipe).fit(X, y, sample_domain=domain)[-1].get_estimator()
    np.testing.assert_array_equal(again.coef_, first[-1].get_estimator().coef_)
    folds = list(TargetSplit(n_splits=3).split(X, y, groups=domain))
    grid = {"cuveereweightadapter__method": ["uniform", "pooled_own"]}
    search = GridSearchCV(pipe, grid, cv=folds, error_score="raise")
    search.fit(X, y, sample_domain=domain)
    np.testing.assert_array_equal(y, table()[1])  # nothing was written over
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


@needs_skada
def test_bad_input(skada):
    X, y, domain = table()
    adapter = cuvee.skada.CuveeReweightAdapter
    masking = skada.make_da_pipeline(adapter(), weighted("classes", 1))
    with pytest.raises(
        cuvee.DomainError, match="pass mask_target_labels=False to make_da_pipeline"
    ):
        masking.fit(X, y.copy(), sample_domain=domain)
    with pytest.raises(cuvee.OptionError, match="target -7 is not among the targets"):
        adapter(target=-7).fit(X, y, sample_domain=domain)
    with pytest.raises(cuvee.OptionError, match="pass y and sample_domain"):
        adapter().fit(X, y)
    with pytest.raises(cuvee.OptionError, match="task must be one of"):
        adapter(task="both").fit(X, y, sample_domain=domain)
    few = np.where((domain == -5) & (np.cumsum(domain == -5) > 3), -1, y)
    with pytest.raises(cuvee.DomainError, match="target '-5' has 3 labelled rows, and needs 5"):
        adapter(strict=True).fit(X, few, sample_domain=domain)


@needs_skada
def test_small_sources_are_pooled_and_excluded_rows_weigh_nothing(skada):
    X, y, domain = table()
    source = np.max(domain)
    huts = domain.copy()
    rows = np.flatnonzero(domain == source)[:3]
    huts[rows] = [101, 102, 103]
    adapter = cuvee.skada.CuveeReweightAdapter
    with pytest.warns(cuvee.errors.CuveeWarning, match="pooled into one source, '.small sources.'"):
        weights = adapter(method="uniform").fit(X, y, sample_domain=huts).sample_weight_
    assert np.ptp(weights[rows]) == 0.0 and weights[rows[0]] > 0.0
    huts[rows] = 101
    same = adapter(method="uniform").fit(X, y, sample_domain=huts).sample_weight_
    np.testing.assert_allclose(weights, same)
    weights = adapter(method="uniform", exclude=[101]).fit(X, y, sample_domain=huts).sample_weight_
    assert (weights[rows] == 0.0).all()


@pytest.mark.slow
def test_without_skada_the_extra_is_named():
    code = "import sys; sys.modules['skada'] = None\nimport cuvee.skada"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (
        f"{MissingExtra.__name__}: cuvee.skada needs skada: pip install 'cuvee[skada]'"
        in ended.stderr
    )
