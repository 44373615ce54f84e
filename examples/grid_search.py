"""Which method, which l2? A grid search over a table of shops, scored on the rows of the two new
shops alone.
"""

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from cuvee.sklearn import CuveeRegressor, TargetScorer, TargetSplit

rng = np.random.default_rng(0)
# of the last column
taste = {"dock": 2.0, "hill": 0.0, "mill": 1.5, "park": -3.0, "north": 1.8, "south": -2.5}
shop = np.repeat(list(taste), [150, 150, 150, 150, 30, 30])
X = rng.normal(size=(len(shop), 4)) * [1, 10, 100, 1]
spent = X @ [1, -0.1, 0, 0] + X[:, 3] * [taste[s] for s in shop] + rng.normal(size=len(shop))
visits = pd.DataFrame(X, columns=["age", "day", "way", "sweet"]).assign(shop=shop)

new = ["north", "south"]
scaler = make_column_transformer(
    (StandardScaler(), ["age", "day", "way", "sweet"]), remainder="passthrough"
)
scaler.set_output(transform="pandas")  # so that the column of shops keeps its name
model = make_pipeline(scaler, CuveeRegressor(domain="shop", target_domains=new))
grid = {"cuveeregressor__method": ["uniform", "path"], "cuveeregressor__l2": [1e-3, 1e-1]}
folds = TargetSplit(new, 3, domain="shop")  # a source is never held out
search = GridSearchCV(model, grid, cv=folds, scoring=TargetScorer("r2")).fit(visits, spent)

for settings, score in zip(
    search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True
):
    print(*settings.values(), f"R² {score:.2f}")
best = search.best_estimator_  # scaler and model, fitted on all rows
print(best.predict(visits[-3:]).round(2))
for name, alpha in zip(best[-1].targets_, best[-1].alpha_, strict=True):
    print(name, dict(zip(best[-1].alpha_columns_, alpha.round(2).tolist(), strict=True)))
print(best[-1].certificate_)
