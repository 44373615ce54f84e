"""Learning the model map α → w*(α) from solved mixtures, and saying how far each prediction can be trusted."""

from cuvee.learn import auto, kernel, meta, network, surface
from cuvee.learn.registry import register

for each in (auto.MAP, network.MAP, kernel.LINEARISED, kernel.MAP, surface.MAP, meta.MAP):  # a line for a new one
    register(each)
