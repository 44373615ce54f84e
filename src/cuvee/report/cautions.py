"""Find what to worry about: each rule yields a sentence that says who and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import get_args

import numpy as np
import numpy.typing as npt

from cuvee.data.metrics import ACCURACY, BALANCED, LOG_LOSS
from cuvee.names import AlphaMethod
from cuvee.report.findings import CONSTANT, CUVEE, MAJORITY, Findings
from cuvee.report.formatting import count, named, number, score
from cuvee.report.label_free import bare, warning
from cuvee.report.summary import (
    best_baseline,
    best_of,
    constant,
    is_bad,
    means_also,
    n_scored,
    n_sources,
    partly,
    settled,
)

FEW = 10  # labelled rows
FEW_TESTS = 30  # test rows of all targets together
FEW_OF_CLASS = 5  # test rows of the rarest class
FEW_PAIRS = 20  # test rows of a target, with fewer of which no baseline is called better
CLEAR = 0.05  # chance of calling any baseline of any target better where none is
UNUSED = 0.01  # a source whose α is below it for every target is unused
ALMOST_ALL = 0.9  # α of one column
MANY = 0.5  # share of targets
MOST_NAMED = 3  # targets that a sentence lists with their scores
IMBALANCED = 0.75  # share of test rows that are of their target's most frequent class
FLATTERED = 0.1  # largest harmless difference of accuracy and balanced accuracy
Flags = npt.NDArray[np.bool_]


def worries(findings: Findings) -> list[str]:
    """Return the sentences of all rules that apply, the gravest first."""
    rules = (
        *(unsolved, unmixed, label_free, few_tests, behind, unlearnt, flattered, chance),
        *(self_reliant, few_rows, unscored, unproven, leaning, unused),
    )
    return [sentence for rule in rules for sentence in rule(findings)]


def gravest(findings: Findings) -> str:
    """Return a sentence on what to worry about most, and how many more there are; or nothing."""
    found = worries(findings)
    more = f" ({len(found) - 1} more in the report)" if len(found) > 1 else ""
    return f"What to worry about: {found[0]}{more}" if found else ""


def unsolved(findings: Findings) -> Iterator[str]:
    """Yield a sentence about models that are not solved."""
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
    """Yield sentences about mixtures that did not converge, or are missing."""
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


def label_free(findings: Findings) -> Iterator[str]:
    """Yield a sentence about targets without labels: what is expected of them, and not known."""
    if names := bare(findings):
        yield warning(findings, names)


def few_tests(findings: Findings) -> Iterator[str]:
    """Yield a sentence about scores that rest on few rows, or on few rows of a class."""
    rows = int(np.nansum(findings.test_rows))
    rarest = min(findings.tested, key=lambda name: findings.tested[name], default=None)
    of_rarest = rows if rarest is None else findings.tested[rarest]
    if not rows or (rows >= FEW_TESTS and of_rarest >= FEW_OF_CLASS):
        return
    targets = count(int((findings.test_rows > 0).sum()), "target")
    among = (
        "" if rarest is None else f", with {of_rarest:,} of class '{named([rarest])}' among them"
    )
    asked = (findings.about.get("options") or {}).get("labelled") is not None
    how = (
        "learn from fewer of them with --labelled"
        if asked
        else "keep more of them for scores with --test"
    )
    yield (
        f"The scores rest on {count(rows, 'test row')} of {targets}{among}: they can be far from "
        f"the truth. Label more rows, or {how}."
    )


def unlearnt(findings: Findings) -> Iterator[str]:
    """Yield a sentence if models predict no better than one answer for all."""
    best = constant(findings)
    if best is None or CUVEE not in findings.methods or findings.gain[best, 0] > 0:
        return
    us, metric = findings.methods.index(CUVEE), findings.metric
    our_score, constant_score = (score(float(findings.mean[k, 0]), metric) for k in (us, best))
    if findings.methods[best] != MAJORITY:
        yield (
            f"cuvee's {metric}, {our_score}, is no better than that of always answering the mean "
            f"of a target's own labels, {constant_score}: the columns say little about "
            f"“{findings.label}”, so check them before using the models."
        )
        return
    advice = (
        " and ".join(
            f"{name} ({score(float(v[us]), metric)}){partly(findings, name)}"
            for name, v in means_also(findings).items()
            if name not in (ACCURACY, LOG_LOSS)
        )
        or "the columns"
    )
    rare = (
        "most labels are of one class, so that accuracy says little; "
        if metric == ACCURACY and findings.mean[best, 0] >= IMBALANCED
        else ""
    )
    yield (
        f"cuvee's {metric}, {our_score}, is no better than that of always answering a target's "
        f"most frequent class, {constant_score}: {rare}look at {advice}, and label more rows of "
        "the rarer classes."
    )


def flattered(findings: Findings) -> Iterator[str]:
    """Yield a sentence about an accuracy that is high because one class is frequent."""
    best, beside = constant(findings), means_also(findings)
    if (
        best is None
        or findings.metric != ACCURACY
        or BALANCED not in beside
        or findings.methods[best] != MAJORITY
        or findings.gain[best, 0] <= 0
    ):
        return
    us, metric = findings.methods.index(CUVEE), findings.metric
    accuracy, most, fair = (
        float(findings.mean[us, 0]),
        float(findings.mean[best, 0]),
        float(beside[BALANCED][us]),
    )
    if most >= IMBALANCED and accuracy - fair >= FLATTERED:
        yield (
            f"An {metric} of {score(accuracy, metric)} is misleading, because always answering the "
            "most frequent class has "
            f"{score(most, metric)}: with every class counted equally cuvee has "
            f"{score(fair, metric)}{partly(findings, BALANCED)}, so look at the rare classes "
            "before relying on it, and label more rows of them."
        )


def chance(findings: Findings) -> Iterator[str]:
    """Yield a sentence about a comparison that cuvee loses, or that may be chance.

    Baselines that give one answer for all have rules of their own.
    """
    best = _rival(findings)
    if best is None:
        return
    gain, low, high = (float(v) for v in findings.gain[best])
    name = findings.methods[best]
    mean = "" if n_scored(findings) == 1 else " on average"
    rows = float(np.nansum(findings.test_rows))
    tests = count(rows, "test row")
    if high < 0 and rows >= FEW_PAIRS:
        yield (
            f"cuvee does worse than “{name}” by {score(-gain, findings.metric)}{mean} on {tests}, "
            f"which is more than chance: use “{name}” here{_by_command(findings, name)}."
        )
    elif gain <= 0:
        yield (
            f"On {tests} no difference in {findings.metric} between cuvee and “{name}” can be "
            f"seen{_by_log_loss(findings, best)}: label more rows, or keep more of them for scores."
        )
    elif not low > 0:
        yield (
            f"That cuvee is better than “{name}” may be chance, because the interval of the gain "
            f"includes 0{_by_log_loss(findings, best)}: "
            "score more targets, or keep more test rows."
        )


def _rival(findings: Findings) -> int | None:
    """Return the baseline with the best mean score; of equals, that with the least log loss."""
    best = best_baseline(findings, without=CONSTANT)
    losses = means_also(findings).get(LOG_LOSS)
    if best is None or losses is None:
        return best
    equals = [
        k
        for k, method in enumerate(findings.methods)
        if method not in (CUVEE, *CONSTANT) and findings.mean[k, 0] == findings.mean[best, 0]
    ]
    return min(equals, key=lambda k: float(losses[k]))


def _by_log_loss(findings: Findings, other: int) -> str:
    """Return what log loss says where another score says little; nothing where there is none."""
    losses = means_also(findings).get(LOG_LOSS)
    if losses is None:
        return ""
    us, name = findings.methods.index(CUVEE), findings.methods[other]
    ours, theirs = (number(float(losses[k])) for k in (us, other))
    if ours == theirs:
        return f", and their {LOG_LOSS} is the same, {ours}"
    better = "cuvee" if losses[us] < losses[other] else f"“{name}”, which is simpler,"
    first, second = (ours, theirs) if better == "cuvee" else (theirs, ours)
    partial = partly(findings, LOG_LOSS)
    return f", but {better} has the better {LOG_LOSS}, {first} against {second}{partial}"


def behind(findings: Findings) -> Iterator[str]:
    """Yield a sentence about targets on which a baseline does clearly better.

    Losses are compared in pairs, row by row, on targets with FEW_PAIRS test rows or more, and by
    Bonferroni's rule a difference has to be the clearer the more comparisons there are.
    """
    if CUVEE not in findings.methods or n_scored(findings) < 2 or findings.chance is None:
        return
    us, sign = findings.methods.index(CUVEE), 1.0 if findings.higher_is_better else -1.0
    values = findings.scores[..., 0]  # (M, methods)
    able = np.isfinite(findings.chance) & (findings.test_rows >= FEW_PAIRS)[:, None]
    able[:, us] = False
    with np.errstate(invalid="ignore"):
        better = sign * (values - values[:, [us]]) > 0
        lost = able & better & (findings.chance * able.sum() < CLEAR)
    if not lost.any():
        return
    each, advised = [], []
    for i in np.flatnonzero(lost.any(1)):
        there = {int(k): float(values[i, k]) for k in np.flatnonzero(lost[i])}
        k = best_of(there, findings.methods, findings.higher_is_better)
        assert k is not None  # as this target has such a baseline
        theirs, own = (score(float(values[i, m]), findings.metric) for m in (k, us))
        tests = count(float(findings.test_rows[i]), "test row")
        name = findings.methods[k]
        each.append(f"{findings.targets[i]} ({name} {theirs} against {own} on {tests})")
        advised += [name] if name not in CONSTANT else []
    who = ", ".join(each[:MOST_NAMED])
    who += f" and {len(each) - MOST_NAMED:,} more targets" if len(each) > MOST_NAMED else ""
    how = _by_command(findings, *dict.fromkeys(advised))
    yield (
        f"A simple baseline does clearly better than cuvee on {who}: row by row that is more than "
        f"chance, with {count(int(able.sum()), 'comparison')} allowed for. Use it there{how}, or "
        "label more rows."
    )


def _by_command(findings: Findings, *names: str) -> str:
    """Return in brackets how to use baselines; nothing where they are no way to find weights."""
    names = tuple(name for name in names if name in get_args(AlphaMethod))  # older runs have others
    if not names:
        return ""
    levels = findings.task != "classification" and (findings.about.get("options") or {}).get(
        "levels"
    )
    options = f"--method {' or '.join(names)}{' --no-levels' if levels else ''}"
    return f" (the same command with {options} and another --out)"


def self_reliant(findings: Findings) -> Iterator[str]:
    """Yield a sentence about targets that give almost all weight to their own rows."""
    if n_sources(findings) == len(findings.columns):
        return
    bad = np.nan_to_num(findings.alpha[:, -1]) >= ALMOST_ALL
    if bad.any():
        yield (
            f"{_who(findings, bad)} gave {ALMOST_ALL:.0%} or more of the weight to own rows: "
            "these sources help this model little: label more rows there, find other sources, or "
            "try another kind of model."
        )


def few_rows(findings: Findings) -> Iterator[str]:
    """Yield a sentence about targets with too few rows to learn from."""
    bad = (findings.learn_rows > 0) & (findings.learn_rows < FEW)
    if bad.any():
        yield (
            f"{_who(findings, bad)} had fewer than {FEW} labelled rows to learn from: "
            "weights from so few are a guess, so label more."
        )


def unscored(findings: Findings) -> Iterator[str]:
    """Yield a sentence about targets that could not be scored."""
    untested = ~(findings.test_rows > 0)
    bad = (
        untested | ~np.isfinite(findings.scores[..., 0]).any(1)
        if findings.scores.size
        else untested
    )
    bad &= findings.learn_rows != 0  # those without labels have a sentence of their own
    if bad.any():
        define = "" if untested[bad].all() else f" that define the {findings.metric}"
        yield (
            f"{_who(findings, bad)} had no test rows{define}, so nothing is known about how well "
            "the model predicts: "
            "label more, or keep more of the labelled rows for scores."
        )


def unproven(findings: Findings) -> Iterator[str]:
    """Yield a sentence about models without a certificate, where others have one."""
    bad = ~np.isfinite(findings.distance)
    if bad.any() and not bad.all():
        yield (
            f"Nothing is proven about the model of {_who(findings, bad, first='')}: more l2 would "
            "make it provable."
        )


def leaning(findings: Findings) -> Iterator[str]:
    """Yield a sentence per source that carries almost all weight for many targets."""
    alpha = np.nan_to_num(findings.alpha[:, : n_sources(findings)])
    if len(alpha) < 3 or alpha.shape[1] < 2:
        return
    for j in np.flatnonzero((alpha >= ALMOST_ALL).mean(0) >= MANY):
        carried = alpha[:, j] >= ALMOST_ALL
        yield (
            f"Source {named([findings.columns[j]])} carries {ALMOST_ALL:.0%} or more of the weight "
            "for "
            f"{carried.sum():,} of {count(len(alpha), 'target')}: "
            "check that it is not a copy of them, and that its labels are right, because its "
            "errors become theirs."
        )


def unused(findings: Findings) -> Iterator[str]:
    """Yield a sentence about sources that no target uses."""
    alpha = findings.alpha[:, : n_sources(findings)]
    finite = np.isfinite(alpha).any(0)
    bad = finite & (np.nan_to_num(alpha).max(0, initial=0.0) < UNUSED)
    if bad.any():
        who = [c for c, b in zip(findings.columns, bad, strict=False) if b]
        they = "it" if len(who) == 1 else "they"
        yield (
            f"{count(len(who), 'source')} ({named(who)}) {'is' if len(who) == 1 else 'are'} used "
            f"by no target, at most {number(UNUSED)} of any mixture: if {they} should be of "
            "use, check the labels and units there."
        )


def _who(findings: Findings, chosen: Sequence[bool] | Flags, first: str = "Target") -> str:
    """Return words such as "Target a" or "3 targets (a, b and c)"."""
    names = [t for t, c in zip(findings.targets, chosen, strict=True) if c]
    if len(names) == 1:
        return f"{first} {named(names)}".strip()
    return f"{count(len(names), 'target')} ({named(names)})"
