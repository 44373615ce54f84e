"""Any scikit-learn estimator that takes row weights, fitted on each target's mixture.

α comes from `cuvee.estimate` on a linear surrogate. Here the estimator itself judges a few of the
mixtures that were tried there, and is fitted on their average:

    weights.py      α as weights of rows
    routing.py      an estimator or pipeline that is fitted with row weights
    surrogate.py    what the linear model sees of X
    candidates.py   the few mixtures that are worth a fit in every fold
    folds.py        candidates × folds, fitted and judged side by side
    choose.py       shares of the candidates, the averaged α, and the model of a target
    auto.py         linear models, trees or a forest for a whole run
    blended.py      all targets of a table, and every source alone
    bins.py         columns in bins, so that boosting need not look for weighted quantiles
    named.py        what `cuvee adapt --model` names
    files.py        fitted models as bytes, without pickle
    nodes.py        trees from a file, whose nodes must not lead outside them
"""
