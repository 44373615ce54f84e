"""Say what was asked and what was found, in a few sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from cuvee.api import OWN
from cuvee.report.findings import CONSTANT, CUVEE, FEW_TARGETS, Findings
from cuvee.report.formatting import article, count, number, score
from cuvee.results import Floats, Status


def summary(findings: Findings) -> tuple[str, ...]:
    """Return what was asked, the comparison, and what is proven, a sentence each."""
    return *_asked(findings), _compared(findings), _proven(findings)


def best_baseline(findings: Findings, without: Sequence[str] = ()) -> int | None:
    """Return the baseline with the best mean score, the simplest of equals, or None.

    None means that nothing is scored.
    """
    if CUVEE not in findings.methods or not np.isfinite(
        findings.mean[findings.methods.index(CUVEE), 0]
    ):
        return None
    excluded = (CUVEE, *without)
    baselines = [
        k
        for k, m in enumerate(findings.methods)
        if m not in excluded and np.isfinite(findings.mean[k, 0])
    ]
    values = {k: float(findings.mean[k, 0]) for k in baselines}
    return best_of(values, findings.methods, findings.higher_is_better)


def best_of(
    values: Mapping[int, float], methods: Sequence[str], higher_is_better: bool
) -> int | None:
    """Return the method with the best value, the simplest of equals; None where there is none.

    One that always gives the same answer is the simplest; of others the first counts.
    """
    sign = 1.0 if higher_is_better else -1.0
    key = {k: (sign * value, methods[k] in CONSTANT) for k, value in values.items()}
    return max(key, key=lambda k: key[k], default=None)


def constant(findings: Findings) -> int | None:
    """Return the method that always gives the same answer, or None if it has no score."""
    scored = (
        k
        for k, m in enumerate(findings.methods)
        if m in CONSTANT and np.isfinite(findings.mean[k, 0])
    )
    return next(scored, None)


def means_also(findings: Findings) -> dict[str, Floats]:
    """Return the mean scores beside the metric (methods,) over targets that have them."""
    complete = {name: values[np.isfinite(values).all(1)] for name, values in findings.also.items()}
    return {name: values.mean(0) for name, values in complete.items() if len(values)}


def partly(findings: Findings, name: str) -> str:
    """Return " (2 of 3 targets)" where a mean beside the metric is over some targets alone."""
    n, of = int(np.isfinite(findings.also[name]).all(1).sum()), n_scored(findings)
    return f" ({n:,} of {of:,} targets)" if n < of else ""


def n_scored(findings: Findings) -> int:
    """Return the number of targets that have scores."""
    return int(np.isfinite(findings.scores[..., 0]).any(1).sum()) if findings.scores.size else 0


def n_sources(findings: Findings) -> int:
    return len(findings.columns) - (findings.columns[-1:] == (OWN,))


def settled(findings: Findings) -> list[bool]:
    """Return for each target whether its weights can be used as they are.

    Those of the path are an average by cross-validated loss of all that was tried. It does not
    matter that one search along the path ran out of steps.
    """
    averaged = [t is not None for t in (*findings.tried, *[None] * len(findings.targets))]
    status = zip(findings.alpha_status, averaged, strict=False)
    return [not is_bad(s) or (average and s == str(Status.STEP_LIMIT)) for s, average in status]


def is_bad(status: str) -> bool:
    """Return whether a status, maybe of another version, is one not to rely on."""
    try:
        return not Status(status).ok
    except ValueError:
        return True


def rows(findings: Findings) -> float | None:
    """Return the number of rows of the table, or None where the run did not record it."""
    n = (findings.about.get("data") or {}).get("rows")
    return float(n) if isinstance(n, (int, float)) and not isinstance(n, bool) else None


def _asked(findings: Findings) -> tuple[str, str, str]:
    n, total = n_sources(findings), rows(findings)
    size = (
        f" ({count(total, 'row')}, {count(findings.n_features, 'feature')})"
        if total is not None
        else ""
    )
    who = count(len(findings.targets), "target")
    names = f"“{findings.domain}” names {count(n, 'source')} and {who}"
    if len(findings.targets) > 1 and set(findings.targets) <= set(findings.columns):
        part = f"{len(findings.targets):,} of them in turn targets"
        turn = "each in turn a target" if len(findings.targets) == n else part
        names = f"“{findings.domain}” names {count(n, 'domain')}, {turn} of the others"
    own = " and from the target's own rows" if findings.columns[-1:] == (OWN,) else ""
    whom = "it" if len(findings.targets) == 1 else "each target"
    return (
        f"In {findings.title}{size}, {names}.",
        f"The task was to predict “{findings.label}” ({findings.task}) for {who}, with "
        f"{findings.hypothesis}.",
        f"For {whom} cuvee chose how much to learn from each source{own}.",
    )


def _compared(findings: Findings) -> str:
    scored = n_scored(findings)
    best = best_baseline(findings)
    if not scored or CUVEE not in findings.methods:
        return (
            "No target has labelled rows to spare for a score, so nothing is known about how well "
            "the models predict."
        )
    us, metric = findings.methods.index(CUVEE), findings.metric
    value = score(float(findings.mean[us, 0]), metric)
    if scored == 1:
        i = int(np.argmax(np.isfinite(findings.scores[..., 0]).any(1)))
        test_rows = count(float(findings.test_rows[i]), "test row")
        mean = (
            f"On the {test_rows} of “{findings.targets[i]}”, cuvee has "
            f"{article(metric)} {metric} of {value}"
        )
    else:
        mean = f"Over {scored:,} targets with test rows, cuvee reaches a mean {metric} of {value}"
    if best is None:
        return f"{mean}, and there was no baseline to compare it with."
    gain, low, high = (float(v) for v in findings.gain[best])
    name, other_score = findings.methods[best], score(float(findings.mean[best, 0]), metric)
    if score(abs(gain), metric) == score(0.0, metric):
        verdict = "which is the same"
    else:
        verdict = f"which is {score(abs(gain), metric)} {'better' if gain > 0 else 'worse'}"
    if np.isfinite(low) and np.isfinite(high):
        span = f"95 % interval of the gain {score(low, metric)} to {score(high, metric)}"
        span += ", for these targets alone" if 1 < scored < FEW_TARGETS else ""
        span += ", so it may be chance" if gain != 0 and low <= 0 <= high else ""
    else:
        span = "too few targets for an interval"
    if scored > 1:
        our_rank, other_rank = (number(float(findings.mean_rank[k])) for k in (us, best))
        span += f"; mean rank {our_rank} against {other_rank}, 1 being the best"
    return f"{mean} against {other_score} for the best baseline, “{name}”, {verdict} ({span})."


def _proven(findings: Findings) -> str:
    proven = np.isfinite(findings.distance)
    M = len(findings.targets)
    if not proven.any():
        who, kind = ("model", "its") if M == 1 else (f"{M:,} models", "their")
        return f"Nothing is proven about how close the {who} came to the best of {kind} kind."
    risk = findings.excess_risk[proven]
    bound = (
        f", at an excess risk of at most {number(float(risk.max()), 2)}"
        if np.isfinite(risk).all()
        else ""
    )
    if proven.all():
        who = {1: "The model is", 2: "Both models are"}.get(M, f"All {M:,} models are")
    else:
        who = f"{proven.sum():,} of {M:,} models {'is' if proven.sum() == 1 else 'are'}"
    unproven = "" if proven.all() else "; nothing is proven about the others"
    best = "its mixture" if M == 1 else "their mixtures"
    within = f"‖w\u00a0−\u00a0w*‖\u00a0≤\u00a0{number(float(findings.distance[proven].max()), 2)}"
    return f"{who} proven to lie within {within} of the best for {best}{bound}{unproven}."
