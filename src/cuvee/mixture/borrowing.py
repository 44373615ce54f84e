"""Let targets learn from each other which candidates do well (empirical Bayes).

With 20 labelled rows, cross-validation hardly tells a good mixture from one that was lucky. Targets
of one table are often alike in this: pooling is good for most of them, or hardly any source is of
use. So how much a candidate weighs beforehand for one target comes from the shares that it has for
the *others*: none of a target's own rows count twice, and a target that is alone keeps its shares.

Every candidate remembers the share that the target's own rows give it (`Candidate.own_share`). All
this starts from those, so that it may be done again when more targets are known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from cuvee.problem import Array
from cuvee.results import Candidate, Floats, Mixtures

EVEN = 1.0  # beforehand, candidates weigh as if so many more targets had found them equally good
ROUNDS = 3  # of letting shares and what they weigh beforehand follow from each other


def across(parts: Sequence[Mixtures]) -> list[Mixtures]:
    """Return the parts with shares in which all their targets had a say, and the α of these shares.

    Targets borrow from those for which the same candidates were tried. A target without shares of
    its own, such as one without labels, neither gives nor takes.
    """
    names = [tuple(c.name for c in part.candidates) for part in parts]
    result = list(parts)
    for tried in dict.fromkeys(name for name in names if name):
        alike = [p for p, name in enumerate(names) if name == tried]
        own = np.concatenate([own_shares(parts[p]) for p in alike])  # (M, G)
        known = np.asarray(np.isfinite(own).all(1))
        if known.sum() < 2:
            continue
        share = own.copy()
        share[known] = borrowed(own[known])
        ends = np.cumsum([len(parts[p].targets) for p in alike])[:-1]
        chunks = zip(alike, np.split(share, ends), np.split(known, ends), strict=True)
        for p, of_part, which in chunks:
            result[p] = _with_shares(parts[p], of_part, which)
    return result


def alone(mix: Mixtures) -> Mixtures:
    """Return the mixtures as each target would have them if it had been alone."""
    if not mix.candidates:
        return mix
    own = own_shares(mix)
    return _with_shares(mix, own, np.asarray(np.isfinite(own).all(1)))


def borrowed(own: Floats) -> Floats:
    """Return shares (M, G) ∝ own share · what the candidate weighs for the other targets.

    For G candidates that weight is ∝ EVEN/G + Σ of the other targets' shares. A candidate that no
    target has a share of, such as a matched blend without unlabelled rows, is not counted in G.
    """
    G = max(1, int((own > 0).any(0).sum()))
    share = own
    for _ in range(ROUNDS if len(own) > 1 else 0):
        others = (EVEN / G + share.sum(0) - share).clip(min=0.0)
        share = own * others
        share = share / share.sum(1, keepdims=True)
    return share


def own_shares(mix: Mixtures) -> Floats:
    """Return the shares (M, G) that each target's own rows give the candidates."""
    return np.stack([c.own_share for c in mix.candidates], 1)


def _with_shares(mix: Mixtures, share: Floats, known: Array) -> Mixtures:
    """Return the mixtures with these shares (M, G), and their α, for the targets that are known."""
    alpha = np.stack([c.alpha for c in mix.candidates], 1)  # (M, G, columns)
    averaged = np.einsum("mg,mgj->mj", share, alpha)
    candidates: list[Candidate] = [
        replace(c, share=np.where(known, share[:, g], c.share))
        for g, c in enumerate(mix.candidates)
    ]
    return replace(
        mix,
        alpha=np.where(known[:, None], averaged, mix.alpha),
        candidates=tuple(candidates),
    )
