"""Run stochastic gradient descent ascent: Algorithm 1 without its correction (β = 1)."""

from __future__ import annotations

from dataclasses import replace

from cuvee.mixture import scgda
from cuvee.mixture.method import MINIMAX, AlphaMethod, Estimate, Request


def estimate(request: Request) -> Estimate:
    """Return what Algorithm 1 finds when z is the minibatch's own estimate at every step."""
    settings = request.settings
    return scgda.estimate(
        replace(request, settings=replace(settings, run=replace(settings.run, beta=1.0)))
    )


METHOD = AlphaMethod(
    "sgda",
    estimate,
    "Algorithm 1 without its correction (β = 1), to see what it is for.",
    steps=3000,
    takes=(*MINIMAX, "batch_size"),
)
