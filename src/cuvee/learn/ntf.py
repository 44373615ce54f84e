"""Fit the network of Algorithm 2 linearised at its start, as a map.

It is least squares in the network's own random features.
"""

from __future__ import annotations

from cuvee.learn.choose import Candidate, Chosen, best
from cuvee.learn.kernel import NTFPredictor, fit_ntf
from cuvee.learn.material import Material
from cuvee.learn.method import Map
from cuvee.learn.network import check_layers, width_of
from cuvee.learn.options import Options


def fit(material: Material, options: Options) -> Chosen:
    """Fit least squares in the network's own features, judged on labels that were held out."""
    check_layers(material, options)
    width, trunk = width_of(options), options.trunk

    def fitted(rows: slice) -> NTFPredictor:
        return fit_ntf(
            material.inside[rows],
            width=width,
            trunk=trunk,
            seed=options.seed,
            solver=options.solver,
        )

    return best(
        material, [Candidate(f"linearised network of width {width}, {trunk} layers", fitted)]
    )


MAP = Map(
    name="ntf",
    summary="The network linearised where it starts.",
    fit=fit,
    predictors=(NTFPredictor,),
    options=("width", "trunk", "solver"),
)
