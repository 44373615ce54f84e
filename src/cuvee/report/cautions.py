"""What to worry about: rules over what was found, each a sentence that names who, and
what to do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from cuvee.report.findings import BALANCED, CONSTANT, CUVEE, LOG_LOSS, MAJORITY, Findings
from cuvee.report.formatting import count, named, number, score
from cuvee.report.summary import (
    best_baseline,
    constant,
    is_bad,
    means_also,
    n_scored,
    n_sources,
    settled,
)

ALONE = "target only"  # the method that learns from own rows
FEW = 10  # labelled rows
UNUSED = 0.01  # α below which nobody uses a source
ALMOST_ALL = 0.9  # α of one column
MANY = 0.5  # share of targets
IMBALANCED = 0.75  # share of test rows that are of their target's most frequent class
FLATTERED = 0.1  # what an accuracy may be above that of classes counted alike
Flags = npt.NDArray[np.bool_]


def worries(findings: Findings) -> list[str]:
    """Every rule that has something to say, the gravest first."""
    rules = (
        *(unsolved, unmixed, unlearnt, flattered, chance, unhelped),
        *(self_reliant, few_rows, unscored, unproven, leaning, unused),
    )
    return [sentence for rule in rules for sentence in rule(findings)]


def unsolved(findings: Findings) -> Iterator[str]:
    """Models that did not end well."""
    bad = [is_bad(s) for s in findings.model_status]
    if any(bad):
        how = ", ".join(
            dict.fromkeys(s for s, b in zip(findings.model_status, bad, strict=True) if b)
        )
        yield (
            f"{_who(findings, bad)} got a model that is not solved ({how}): "
            "look at its certificate before using it, and try more l2 or rescaled columns."
        )


def unmixed(findings: Findings) -> Iterator[str]:
    """Mixtures that did not converge, or are not there at all."""
    bad = [not good for good in settled(findings)]
    missing: Flags = np.asarray(np.isnan(findings.alpha).all(1))
    if missing.any():
        yield (
            f"{_who(findings, missing)} got no mixture at all: look for what its rows have that no "
            "source has."
        )
    late: Flags = np.array(bad, dtype=bool) & ~missing
    if late.any():
        how = ", ".join(
            dict.fromkeys(s for s, b in zip(findings.alpha_status, late, strict=True) if b)
        )
        yield (
            f"The weights of {_who(findings, late, first='')} had not settled when the search "
            f"ended ({how}): "
            "they can be used, but compare them with those of the method path before reading much "
            "into them."
        )


def unlearnt(findings: Findings) -> Iterator[str]:
    """Models that predict no better than one answer for all."""
    best = constant(findings)
    if best is None or CUVEE not in findings.methods or findings.gain[best, 0] > 0:
        return
    us, metric = findings.methods.index(CUVEE), findings.metric
    ours, theirs = (score(float(findings.mean[k, 0]), metric) for k in (us, best))
    if findings.methods[best] != MAJORITY:
        yield (
            f"cuvee's {metric}, {ours}, is no better than that of always answering the mean of a "
            "target's own "
            f"labels, {theirs}: the columns say little about “{findings.label}”, so check them "
            "before using the models."
        )
        return
    others = {name: float(v[us]) for name, v in means_also(findings).items() if name != LOG_LOSS}
    advice = (
        " and ".join(f"{name} ({score(value, metric)})" for name, value in others.items())
        or "the columns"
    )
    rare = (
        "most labels are of one class, so that accuracy says little; "
        if findings.mean[best, 0] >= IMBALANCED
        else ""
    )
    yield (
        f"cuvee's {metric}, {ours}, is no better than that of always answering a target's most "
        "frequent class, "
        f"{theirs}: {rare}look at {advice}, and label more rows of the rarer classes."
    )


def flattered(findings: Findings) -> Iterator[str]:
    """An accuracy that owes much to one frequent class."""
    best, beside = constant(findings), means_also(findings)
    if (
        best is None
        or BALANCED not in beside
        or findings.methods[best] != MAJORITY
        or findings.gain[best, 0] <= 0
    ):
        return
    us, metric = findings.methods.index(CUVEE), findings.metric
    ours, most, fair = (
        float(findings.mean[us, 0]),
        float(findings.mean[best, 0]),
        float(beside[BALANCED][us]),
    )
    if most >= IMBALANCED and ours - fair >= FLATTERED:
        yield (
            f"An {metric} of {score(ours, metric)} flatters, as always answering the most frequent "
            "class has "
            f"{score(most, metric)}: with every class counted alike cuvee has "
            f"{score(fair, metric)}, so look at the "
            "rare classes before relying on it, and label more rows of them."
        )


def chance(findings: Findings) -> Iterator[str]:
    """A comparison that cuvee loses, or that says little; one answer for all is a matter of its
    own.
    """
    best = best_baseline(findings, without=CONSTANT)
    if best is None:
        return
    gain, low, high = (float(v) for v in findings.gain[best])
    name = findings.methods[best]
    mean = "" if n_scored(findings) == 1 else " on average"
    if high < 0:
        yield (
            f"cuvee does worse than {name} by {score(-gain, findings.metric)}{mean}, which is more "
            "than chance: "
            f"use {name} here."
        )
    elif gain <= 0:
        yield f"cuvee is no better than {name}{mean}: the simpler {name} serves as well here."
    elif not low > 0:
        yield (
            f"That cuvee is better than {name} may be chance, for the interval of the gain "
            "includes 0: "
            "score more targets, or keep more test rows."
        )


def unhelped(findings: Findings) -> Iterator[str]:
    """Targets for which cuvee's model predicts no better than one from own rows."""
    if ALONE not in findings.methods or CUVEE not in findings.methods:
        return
    ours, alone = (findings.scores[:, findings.methods.index(m), 0] for m in (CUVEE, ALONE))
    with np.errstate(invalid="ignore"):
        bad = (ours <= alone) if findings.higher_is_better else (ours >= alone)
    if bad.any():
        yield (
            f"{_who(findings, bad)} gained nothing from other sources over learning from own rows "
            "only: "
            "look for sources more like it, or use the simpler model."
        )


def self_reliant(findings: Findings) -> Iterator[str]:
    """Targets that give almost all weight to their own rows."""
    if n_sources(findings) == len(findings.columns):
        return
    bad = np.nan_to_num(findings.alpha[:, -1]) >= ALMOST_ALL
    if bad.any():
        yield (
            f"{_who(findings, bad)} gave {ALMOST_ALL:.0%} or more of the weight to own rows: "
            "no mixture of these sources helps, so label more rows there or find other sources."
        )


def few_rows(findings: Findings) -> Iterator[str]:
    """Targets with too few rows to learn from."""
    bad = findings.learn_rows < FEW
    if bad.any():
        yield (
            f"{_who(findings, bad)} had fewer than {FEW} labelled rows to learn from: "
            "weights from so few are a guess, so label more."
        )


def unscored(findings: Findings) -> Iterator[str]:
    """Targets that could not be scored."""
    none = ~(findings.test_rows > 0)
    bad = none | ~np.isfinite(findings.scores[..., 0]).any(1) if findings.scores.size else none
    if bad.any():
        yield (
            f"{_who(findings, bad)} had no test rows, so nothing is known about how well the model "
            "predicts: "
            "label more, or keep more of the labelled rows for scores."
        )


def unproven(findings: Findings) -> Iterator[str]:
    """Models without a certificate, where others have one."""
    bad = ~np.isfinite(findings.distance)
    if bad.any() and not bad.all():
        yield (
            f"Nothing is proven about the model of {_who(findings, bad, first='')}: more l2 would "
            "make it provable."
        )


def leaning(findings: Findings) -> Iterator[str]:
    """One source that carries almost all for many targets."""
    alpha = np.nan_to_num(findings.alpha[:, : n_sources(findings)])
    if len(alpha) < 3 or alpha.shape[1] < 2:
        return
    for j in np.flatnonzero((alpha >= ALMOST_ALL).mean(0) >= MANY):
        carried = alpha[:, j] >= ALMOST_ALL
        yield (
            f"Source {named([findings.columns[j]])} carries {ALMOST_ALL:.0%} or more of the weight "
            "for "
            f"{carried.sum():,} of {count(len(alpha), 'target')}: "
            "check that it is no copy of them, and that its labels are right, for its faults are "
            "theirs."
        )


def unused(findings: Findings) -> Iterator[str]:
    """Sources that nobody uses."""
    alpha = findings.alpha[:, : n_sources(findings)]
    known = np.isfinite(alpha).any(0)
    bad = known & (np.nan_to_num(alpha).max(0, initial=0.0) < UNUSED)
    if bad.any():
        who = [c for c, b in zip(findings.columns, bad, strict=False) if b]
        yield (
            f"{count(len(who), 'source')} ({named(who)}) {'is' if len(who) == 1 else 'are'} used "
            "by nobody, "
            f"at most {number(UNUSED)} of any mixture: check the labels and units there, or leave "
            "it out."
        )


def _who(findings: Findings, chosen: Sequence[bool] | Flags, first: str = "Target") -> str:
    """ "Target a", "3 targets (a, b and c)"."""
    names = [t for t, c in zip(findings.targets, chosen, strict=True) if c]
    if len(names) == 1:
        return f"{first} {named(names)}".strip()
    return f"{count(len(names), 'target')} ({named(names)})"
