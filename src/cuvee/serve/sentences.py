"""Sentences of the library for who asks over HTTP, who has no options and no files."""

from __future__ import annotations

import re

from cuvee.data.notation import AS_MISSING

_INSTEAD = (
    (r"; fill them in, drop the columns, or let --impute \(impute=True\) fill them with each "
     r"column's median or most frequent value",
     "; fill them in, or leave these rows out"),
    (r"; correct it or leave it empty; a feature with gaps needs --impute "
     r"\(impute=True\), which fills them",
     "; correct it, or leave the row out"),
    (r"; save the table as UTF-8, or (say|name its encoding, such as) --encoding .*? in Python\)",
     "; send it in UTF-8"),
    (r"; save the table as CSV in UTF-8, or as Parquet", "; send CSV in UTF-8"),
    (r"; if its commas are decimal, .* decimal=\",\"\)", ""),
    (AS_MISSING, ""),
    (r", or drop the column \(--drop\)", ""),
    (r",? or declare the column as text \(--text\) if it holds categories", ""),
    (r"declare the column as text \(--text\) if these are \w+, or ", ""),
    (r", or leave it out with exclude \(--exclude\)", ""),
    (r"^row 0 of alpha ", "alpha "),
    (r" \(1 such row\)", ""),
    (r" \(--[a-z-]+\)", ""),
)  # fmt: skip


def over_http(sentence: str) -> str:
    """Return a sentence of the library without advice that cannot be followed over HTTP.

    >>> over_http("column 'age' is infinite; leave it out with drop (--drop)")
    "column 'age' is infinite; leave it out with drop"
    """
    for pattern, instead in _INSTEAD:
        sentence = re.sub(pattern, instead, sentence)
    return sentence
