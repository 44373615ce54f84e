"""Verdicts and tables into docs/paper.md, from docs/paper/NAME/verdict.json: `make docs` writes,
`--check` compares.

What stands between `<!-- KIND: NAME -->` and `<!-- end -->` is made here: `word`, whether a claim
held; `verdict`, that and the sentence that says why; `table`, its numbers. Everything else on the
page is written by hand.
"""

from __future__ import annotations

import json
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

PAGE = Path(__file__).with_name("paper.md")
WORDS = {True: "held", False: "did not hold", "partly": "held in part"}
WIDTH = 140
MARK = re.compile(r"(<!-- (word|verdict|table): (\w+) -->).*?(<!-- end -->)", re.DOTALL)
TARGETS = {
    "target 1": "group 1",
    "target 2": "group 2",
    "target 3": "group 3",
    "mix of 1 and 2": "mix of 1 and 2",
}
PAPERS_TABLE_2 = {
    "average ERM": (69.9, 40.0, 34.9, 59.9),
    "pure target training": (69.9, 55.0, 40.0, 55.0),
    "its method": (80.0, 69.9, 55.0, 65.0),
}
Numbers = dict[str, Any]


def filled(page: str) -> str:
    """The page with what the verdicts say now."""
    return MARK.sub(lambda found: found[1] + _said(found[2], found[3]) + found[4], page)


def _said(kind: str, name: str) -> str:
    verdict = json.loads(
        (PAGE.parent / "paper" / name / "verdict.json").read_text(encoding="utf-8")
    )
    if kind == "table":
        return "\n" + TABLES[name](verdict["numbers"]) + "\n"
    word = WORDS[verdict["held"]]
    if kind == "word":
        return word
    text = f"**{word.capitalize()}.** " + verdict["sentence"].replace("*", r"\*")
    return "\n" + textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False) + "\n"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in (head, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]])


def _number(value: float, form: str = "+.2f") -> str:
    return f"{value:{form}}".replace("-", "−").removeprefix("+")


def _interval(found: Numbers, of: str = "exponent") -> str:
    """-1.2 (-1.4 to -1.0), with minus signs."""
    return f"{_number(found[of])} ({_number(found['low'])} to {_number(found['high'])})"


def table_2(numbers: Numbers) -> str:
    """Accuracies beside the paper's, and the default's leads."""
    rows = [[f"*the paper: {m}*", *(f"*{a:.1f}*" for a in of)] for m, of in PAPERS_TABLE_2.items()]
    found = numbers["accuracy"]
    best = {t: max(of[t]["mean"] for of in found.values()) for t in TARGETS}
    for method, of in found.items():
        cells = [
            (f"{100 * of[t]['mean']:.1f} ± {100 * (of[t]['high'] - of[t]['mean']):.1f}", t)
            for t in TARGETS
        ]
        rows.append(
            [method, *(f"**{cell}**" if of[t]["mean"] == best[t] else cell for cell, t in cells)]
        )
    leads = [
        [m, *(_points(numbers["default_minus"][m][t]) for t in TARGETS)]
        for m in ("average ERM", "target only", "average + own")
    ]
    columns = list(TARGETS.values())
    return (
        _table([f"% right, mean of {numbers['seeds']} seeds ± 95 %", *columns], rows)
        + "\n\n"
        + _table(["default, points ahead of (paired, 95 %)", *columns], leads)
    )


def _points(found: Numbers) -> str:
    return " to ".join(f"{100 * found[of]:.1f}" for of in ("low", "high")).join(
        (f"{100 * found['mean']:.1f} (", ")")
    )


def stationarity(numbers: Numbers) -> str:
    """Gaps with the correction over gaps without."""
    ways = numbers["corrected_over_uncorrected"]
    cells = list(next(iter(ways.values())))
    rows = [
        [way, *(_interval(found[cell], "ratio") for cell in cells)] for way, found in ways.items()
    ]
    return _table(["gap with the correction / without", *cells], rows)


def offline(numbers: Numbers) -> str:
    """Exponents of n, map by map."""
    found = numbers["exponents"]
    maps, counts = (
        dict.fromkeys(k.rsplit(", N=", 1)[0] for k in found),
        dict.fromkeys(k.rsplit("=", 1)[1] for k in found),
    )
    claimed = [next(c["claimed"] for k, c in found.items() if k.endswith(f"N={N}")) for N in counts]
    rows = [["claimed", *(_number(c) for c in claimed)]]
    for way in maps:
        cells = [found.get(f"{way}, N={N}") for N in counts]
        rows.append(
            [way, *("" if c is None else _interval(c) + _expected(c["predicted"]) for c in cells)]
        )
    return _table(["exponent of n (95 %) [expected]", *(f"N = {N}" for N in counts)], rows)


def _expected(value: float | None) -> str:
    return "" if value is None else f" [{_number(value) if value else '0'}]"


def online(numbers: Numbers) -> str:
    """Exponents of T, by N and p."""
    found = numbers["exponents"]
    rows = [
        [
            key.removeprefix("paper, "),
            _number(printed["claimed"]),
            _interval(printed),
            _interval(found[f"paper_repaired, {rest}"]),
        ]
        for key, printed in found.items()
        if key.startswith("paper, ") and (rest := key.removeprefix("paper, "))
    ]
    return _table(["exponent of T (95 %)", "claimed", "as printed", "over labelled rounds"], rows)


def peers(numbers: Numbers) -> str:
    """Of every table the best peers by name."""
    rows = []
    for name, of in numbers["tables"].items():
        percent = of["score"] == "accuracy"
        best = [
            f"{peer} {_number(p['lead'], '+.1f')} ({_number(p['low'], '+.1f')} to "
            f"{_number(p['high'], '+.1f')})"
            for peer, p in list(of["peers"].items())[:3]
        ]
        ours = f"{100 * of['ours']:.1f} %" if percent else f"{of['ours']:.3g}"
        rows.append(
            [name, ours, of["state"], "<br>".join(best), f"{of['ours_s_per_target']:.2g} s"]
        )
    return _table(
        [
            "table",
            "this project",
            "",
            "best peers: lead in points, or % of MSE (95 %)",
            "seconds a target",
        ],
        rows,
    )


TABLES: dict[str, Callable[[Numbers], str]] = {
    "table2": table_2,
    "stationarity": stationarity,
    "offline": offline,
    "online": online,
    "peers": peers,
}


def main() -> int:
    page = PAGE.read_text(encoding="utf-8")
    made = filled(page)
    if "--check" not in sys.argv:
        PAGE.write_text(made, encoding="utf-8")
        return 0
    if made == page:
        return 0
    print(
        "docs/paper.md does not say what docs/paper/*/verdict.json say: run `make docs`",
        file=sys.stderr,
    )
    return 1


if __name__ == "__main__":
    sys.exit(main())
