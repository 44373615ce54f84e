"""Format numbers and names for the page."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import fields, replace
from functools import lru_cache
from math import floor, isinf, isnan, log10
from typing import Any

from cuvee.data.metrics import METRICS
from cuvee.outputs.visible import visible
from cuvee.report.findings import Findings

UNKNOWN = "–"
LONGEST = 100  # average characters of a name, anywhere on the page
_NARROW, _WIDE = set("ijltfrI.,;:'|!()[]- 1"), set("mwMW@%—…")


def number(x: float, digits: int = 3) -> str:
    """Return x with significant digits and a real minus sign; – for NaN, ∞ for infinity."""
    if isnan(x):
        return UNKNOWN
    if isinf(x):
        return "∞" if x > 0 else "−∞"
    if x != 0 and not 1e-3 <= abs(x) < 1e7:
        mantissa, exponent = f"{x:.{digits - 1}e}".split("e")
        text = f"{mantissa}×{power(int(exponent))}"
    else:
        text = f"{x:,.0f}" if abs(x) >= 1000 or x == int(x) else f"{x:.{digits}g}"
    return text.replace("-", "−", 1)


def alike(marks: Sequence[float]) -> list[str]:
    """Return evenly spaced marks of an axis as text, all with the decimals that they need."""
    step = marks[1] - marks[0] if len(marks) > 1 else 0.0
    decimals = max(0, -floor(log10(step) + 1e-9)) if step > 0 else 9
    if decimals > 5 or max(map(abs, marks), default=0.0) >= 1e7:
        return [number(mark) for mark in marks]
    return ["0" if mark == 0 else f"{mark:,.{decimals}f}".replace("-", "−") for mark in marks]


def power(exponent: int) -> str:
    """Return 10 to the power of `exponent`, in superscript digits."""
    return "10" + str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def score(x: float, metric: str) -> str:
    """Return shares with three decimals, so that columns line up, and errors as numbers."""
    if isnan(x) or isinf(x) or not METRICS[metric].higher_is_better:
        return number(x)
    return f"{x:.3f}".replace("-", "−")


def article(metric: str) -> str:
    return "an" if metric[0] in "aeiouAR" else "a"  # an AUC, an R²


def signed(x: float, metric: str) -> str:
    return score(x, metric) if isnan(x) or x <= 0 else "+" + score(x, metric)


def weight(x: float) -> str:
    """Return an α with two decimals; a small weight is never written as 0.00."""
    return UNKNOWN if isnan(x) else "0" if x == 0 else "<0.01" if x < 0.005 else f"{x:.2f}"


def seconds(s: float) -> str:
    if isnan(s):
        return UNKNOWN
    return f"{s / 60:,.1f} min" if s >= 120 else f"{s:.3g} s" if s >= 1 else f"{s * 1000:.0f} ms"


def count(n: float, one: str, many: str | None = None) -> str:
    """Return words such as "1 target" or "1,200 targets"."""
    return f"{UNKNOWN if isnan(n) else format(n, ',.0f')} {one if n == 1 else many or one + 's'}"


def named(names: Sequence[str], most: int = 3) -> str:
    """Return words such as "a, b, c and 4 more"."""
    shown = [short(name, 32) for name in names[:most]]
    if len(names) > most:
        return ", ".join(shown) + f" and {len(names) - most:,} more"
    return (
        shown[0]
        if len(shown) == 1
        else ", ".join(shown[:-1]) + " and " + shown[-1]
        if shown
        else "none"
    )


@lru_cache(10_000)
def ems(text: str) -> float:
    """Return about how wide a text is, in units of its font's size; rather too wide."""
    return sum(
        0.4
        if c in _NARROW
        else 0.95
        if c in _WIDE
        else 1.05
        if unicodedata.east_asian_width(c) in "WF"
        else 0.62
        for c in text
    )


@lru_cache(10_000)
def short(name: str, most: float) -> str:
    """Return a name in at most `most` average characters, its middle left out."""
    room = 0.6 * most
    if ems(name) <= room:
        return name
    head, tail = name[: len(name) // 2][:200], name[len(name) // 2 :][-200:]
    while ems(head) + ems(tail) + 0.95 > room and (head or tail):
        head, tail = (head[:-1], tail) if len(head) > len(tail) else (head, tail[1:])
    return f"{head}…{tail}"


def cleaned(findings: Findings) -> Findings:
    """Return the findings with special characters escaped and long names cut, for the page."""
    f: Findings = replace(
        findings, **{f.name: _clean(getattr(findings, f.name)) for f in fields(findings)}
    )
    return replace(
        f,
        title=_name(f.title),
        domain=_name(f.domain),
        label=_name(f.label),
        hypothesis=_name(f.hypothesis),
        columns=tuple(_name(c) for c in f.columns),
        targets=tuple(_name(t) for t in f.targets),
        notes=tuple(short(note, 4 * LONGEST) for note in f.notes),
    )


def _name(name: str) -> str:
    return short(name.strip(), LONGEST) or "(no name)"


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return visible("".join(" " if c.isspace() else c for c in value))
    if isinstance(value, dict):
        return {_clean(k): _clean(v) for k, v in value.items()}
    if isinstance(value, (tuple, list)) and type(value) in (tuple, list):
        return type(value)(_clean(v) for v in value)
    return value
