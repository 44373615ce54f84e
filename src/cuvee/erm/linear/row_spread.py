"""How far rows lie around a reference row, per source and mixed: what the logistic certificates
know of the data.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from cuvee.components import LinearSums
from cuvee.components.quadratic import nearest_to_zero
from cuvee.erm.certificate import Spread


@dataclass(frozen=True)
class Spreads:
    """The spread of every source's rows; own samples' are asked for when they are needed."""

    reference: Tensor  # (features,) near the sources' means
    reach: Tensor  # (N,)
    second_moment: Tensor  # (N,)

    @classmethod
    def of(cls, components: LinearSums) -> Spreads:
        reference = nearest_to_zero(components.means())
        return cls(reference, *components.spread(reference))

    def of_mixtures(self, alpha: Tensor, components: LinearSums) -> Spread:
        """Return the spread of the rows in mixtures α (M, N or N+1).

        Reach is a maximum over what is mixed; second moments add up.
        """
        N = len(self.reach)
        shares = alpha[:, :N]
        reach = torch.where(shares > 0, self.reach, 0.0).amax(-1)
        # some may have overflowed
        second_moment = torch.where(shares > 0, shares * self.second_moment, 0.0).sum(-1)
        if alpha.shape[1] > N:
            own_reach, own_moment = components.own_spread(self.reference)
            reach = torch.maximum(reach, torch.where(alpha[:, N] > 0, own_reach, 0.0))
            second_moment = second_moment + alpha[:, N] * own_moment
        return Spread(self.reference, reach, second_moment)
