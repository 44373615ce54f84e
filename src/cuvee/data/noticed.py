"""What the owner of a table should know of: gaps that are filled, ids, labels spelt twice or
very skewed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from cuvee.data.columns import count, is_number, listed, short
from cuvee.data.dates import made_of
from cuvee.problem import Array

IDS = 50  # rows, from which on as many different whole numbers are most likely ids
MOST = 10  # columns that a sentence names
SKEWED = 2.0  # times the median, from which on a mean shows that a few labels are very large
REPEATED, OFTEN = 0.05, 0.2  # share of test rows whose id is known: one called so, one like an id
ONCE = 0.01  # of a domain's rows: where fewer repeat a value, they have one each, as ids do
CALLED = re.compile(
    r"\b(account|client|customer|employee|household|ids?|key|member|nr|participant|patient|person|"
    r"pupil|respondent|student|subject|user|uu?id|worker)\b"
)
FAR = 50.0  # times the median, from which on the largest label shows the same


def noticed(
    columns: Mapping[str, Any], features: Sequence[str], label: str, impute: bool
) -> list[str]:
    """Return sentences about tidy columns, name -> values (rows,)."""
    gaps = {name: int(columns[name].isna().sum()) for name in features} if impute else {}
    return [*filled(gaps), *_ids(columns, features), *_spellings(columns[label], label)]


def skewed(labels: Any) -> list[str]:
    """Return a sentence about a quantity (rows,) that is above 0 and has a few very large values.

    The errors of such a quantity are mostly those of its few large values, and a model that is
    linear in it predicts values below 0.
    """
    values = labels.dropna().to_numpy(dtype=np.float64)
    if not len(values) or values.min() <= 0:
        return []
    unit = values / np.median(values)  # a plain sum may overflow
    if unit.mean() <= SKEWED and unit.max() <= FAR:
        return []
    return [
        "all labels are above 0 and a few are very large: hypothesis poisson keeps predictions "
        "above 0 (--hypothesis poisson), or take the label's logarithm"
    ]


def filled(gaps: Mapping[str, int]) -> list[str]:
    """Return a sentence about the columns whose gaps are filled, or none."""
    of_columns = {made_of(name): n for name, n in gaps.items() if n}
    named = [f"{name!r} ({count(n, 'gap')})" for name, n in of_columns.items()]
    if not named:
        return []
    more = f" and {len(named) - MOST} more" if len(named) > MOST else ""
    return [
        "gaps are filled, numbers with the column's median and categories with the most "
        f"frequent value: {', '.join(named[:MOST])}{more}"
    ]


def homeless_note(homeless: int, of: int, domain: str, first: int | None = None) -> list[str]:
    """Return a sentence about rows that name no domain, or none; `first` is one of them."""
    row = "" if first is None else f" (first at row {first})"
    said = f"{homeless:,} of {of:,} rows left out, as column {domain!r} names no domain there{row}"
    return [said] if homeless else []


def bare_note(bare: int, of: int, whose: str) -> list[str]:
    """Return a sentence about rows without a label that nobody learns from, or none."""
    whose = f" of {whose}" if whose else ""
    return [f"{bare:,} of {of:,} rows{whose} have no label: they are left out"] if bare else []


def others(unseen: Mapping[str, tuple[int, Any]], what: str = "row") -> list[str]:
    """Return a sentence about values that no training row has, or none.

    `unseen` has the columns with such values, in how many rows they are, and one of them.
    """
    named = [f"{name!r} ({count(n, what)}, like {short(v)})" for name, (n, v) in unseen.items()]
    more = f" and {len(named) - MOST} more" if len(named) > MOST else ""
    shown = f"{', '.join(named[:MOST])}{more}"
    return [f"categories that no training row has count as 'other': {shown}"] if named else []


def _ids(columns: Mapping[str, Any], features: Sequence[str]) -> Iterator[str]:
    for name in features:
        values = columns[name]
        if not is_number(values) or len(values) < IDS:
            continue
        # a few tell most measurements from ids; to look at all for repeats takes long
        if _whole(values.iloc[:IDS]) and _whole(values) and values.is_unique:
            yield (
                f"column {name!r} has a different whole number in every row: if it is an id, leave "
                f"it out (--drop {name})"
            )


def _whole(values: Any) -> bool:
    numbers = values.to_numpy(dtype=np.float64, na_value=np.nan)
    return bool(np.isfinite(numbers).all() and (numbers == np.round(numbers)).all())


def _spellings(labels: Any, name: str) -> Iterator[str]:
    if is_number(labels):
        return
    for alike in spelt_alike(map(str, labels.dropna().unique())):
        yield (
            f"label {name!r} has {listed(alike, MOST)}, which differ in case or spaces alone "
            "and are classes of their own: correct the table if they are the same"
        )


def domains_alike(names: Iterable[str]) -> list[str]:
    """Return a sentence for each set of domains whose names differ in case or spaces alone."""
    return [
        f"domains {listed(alike, MOST)} differ in case or spaces alone and are domains of their "
        "own: correct the table if they are the same"
        for alike in spelt_alike(names)
    ]


def spelt_alike(names: Iterable[str]) -> list[list[str]]:
    """Return the names that differ from one another in case or spaces alone, sorted.

    >>> spelt_alike(["fir", "oak", "Fir "])
    [['Fir ', 'fir']]
    """
    spelt: dict[str, list[str]] = {}
    for name in names:
        spelt.setdefault(" ".join(name.split()).casefold(), []).append(name)
    return [sorted(alike) for alike in spelt.values() if len(alike) > 1]


def called_id(name: str) -> bool:
    """Return whether a column is called as ids are.

    >>> [called_id(name) for name in ("person", "patientId", "USER_NR", "idle", "width")]
    [True, True, True, False, False]
    """
    words = re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", name)
    return CALLED.search(words.casefold()) is not None


def repeated_ids(
    columns: Mapping[str, Any], domains: Array, taught: Array, learnt: Array, tested: Array
) -> Iterator[str]:
    """Yield a sentence about each id that test rows share with rows that models learn from.

    A person who is there in several years, say, is known to models of other years.

    Args:
        columns: name -> values (rows,).
        domains: (rows,) number of each row's domain.
        taught: (rows,) whether the row is one of a source.
        learnt: (rows,) whether a target learns from this row of its own.
        tested: (rows,) whether the row is for a target's scores.
    """
    import pandas as pd

    n_domains = int(domains.max(initial=0)) + 1
    for name, values in columns.items():
        called = called_id(name)
        if not called and is_number(values) and not _whole(values.iloc[:IDS]):
            continue
        code, unique = pd.factorize(values)
        if not called and (len(unique) < IDS or (is_number(values) and not _whole(values))):
            continue
        often = np.bincount(code + 1)[1:] - n_domains
        if not called and often.clip(0).sum() > ONCE * len(code):  # a quick look
            continue
        # of each row: its domain and value, and how many rows of its domain have that value
        _, pair, n = np.unique(
            domains * (len(unique) + 1) + code, return_inverse=True, return_counts=True
        )
        if not called and (n[pair] > 1)[code >= 0].mean() > ONCE:
            continue
        there = np.bincount(code[taught & (code >= 0)], minlength=len(unique) + 1)
        here, own = (np.bincount(pair, weights=mask) for mask in (taught, learnt))
        known = (there[code] - here[pair] + own[pair] > 0) & (code >= 0)
        share = known[tested].mean() if tested.any() else 0.0
        if share >= (REPEATED if called else OFTEN):
            yield (
                f"{share:.0%} of the test rows have a value of column {name!r} that rows to learn "
                "from have too: if it is an id, such as a person in several years, scores are too "
                "good for new ids; leave these ids out of the sources, or trust the scores for "
                "known ids alone"
            )
