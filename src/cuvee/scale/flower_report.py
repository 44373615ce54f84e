"""Write what a federated run found, and a page that says what left each site."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from cuvee.scale.flower_run import Federation

WORDS = {
    "meet": "names and kinds of columns, and what the labels look like",
    "introduce": "names of categories and classes, counts, means and variances of columns",
    "facts": "means and variances of encoded columns, second moments around them, classes",
    "values": "mean losses of models",
    "own_values": "mean losses of models",
    "pull": "gradients of mean losses",
    "pull_with_second": "gradients of mean losses, and their curvature in the intercepts",
    "hessians": "Hessians of mean losses",
    "source_grams": "sums of products of columns (Gram matrices)",
    "own_grams": "sums of products of columns (Gram matrices)",
    "own_grams_of": "the same of half of the rows",
    "own_grams_in_folds": "the same without each fold of the rows",
    "statistics": "the labels' part of a gradient",
    "mean_squares": "mean squares of columns",
    "rows_of_kind": "rows of each class",
    "own_rows_of_kind": "rows of each class",
    "label_sizes": "the mean size of labels",
    "own_label_sizes": "the mean size of labels",
    "largest": "the largest number in any column (one number)",
    "longest_row": "the length of the longest row (one number)",
    "spread": "the largest distance of a row from the mean, and the largest spread (two numbers)",
    "own_spread": "the largest distance of a row from the mean, and the spread (two numbers)",
    "roundings": "how many sums an answer takes",
    "keep": "that the model was kept",
}

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>What left each site</title>
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;margin:.5rem 0 1.5rem}td,th{padding:.2rem .8rem;text-align:left;
border-bottom:1px solid #ccc}td.n,th.n{text-align:right}</style></head><body>
<h1>What left each site</h1>
<p>{{ rounds }} rounds: {% for stage, n in stages.items() %}{{ stage }} {{ n }}{{ ", " if not
loop.last }}{% endfor %}. No row left a site. Each answer is a sum, a mean, a count or a largest
length over at least as many rows as the site asks for.</p>
<table><tr><th>site</th><th>role</th><th class="n">rows</th><th class="n">least rows</th>
<th class="n">rows kept out</th><th class="n">bytes sent</th><th class="n">bytes received</th>
<th>status</th></tr>
{% for s in sites %}<tr><td>{{ s.name }}</td><td>{{ s.role }}</td><td class="n">{{ s.rows }}</td>
<td class="n">{{ s.min_rows }}</td><td class="n">{{ s.kept_out }}</td>
<td class="n">{{ s.sent }}</td>
<td class="n">{{ s.received }}</td><td>{{ s.status }}</td></tr>{% endfor %}</table>
{% for s in sites %}<h2>{{ s.name }}</h2>
<table><tr><th>what</th><th class="n">times</th><th>question</th></tr>
{% for what, question, times in s.answers %}<tr><td>{{ what }}</td><td class="n">{{ times }}</td>
<td>{{ question }}</td></tr>{% endfor %}</table>
<table><tr><th>stage</th><th class="n">rounds</th><th class="n">bytes sent</th></tr>
{% for stage, n, sent in s.stages %}<tr><td>{{ stage }}</td><td class="n">{{ n }}</td>
<td class="n">{{ sent }}</td></tr>{% endfor %}</table>{% endfor %}
</body></html>
"""


def what_left(federation: Federation) -> list[dict[str, Any]]:
    """Return for every site what it sent and received: bytes, and how often it answered what."""
    names = dict.fromkeys([*federation.sites, *(n for r in federation.rounds for n in r.questions)])
    return [_of_site(federation, name) for name in names]


def _of_site(federation: Federation, name: str) -> dict[str, Any]:
    site, asked = federation.sites.get(name), Counter[str]()
    stages: dict[str, list[int]] = {}
    for one in federation.rounds:
        if name in one.received:
            asked.update(one.questions[name])
            count = stages.setdefault(one.stage, [0, 0])
            count[0], count[1] = count[0] + 1, count[1] + one.received[name]
    status, why = federation.left_out.get(name, ("took part", ""))
    return {
        "name": name, "role": site.role if site else "", "rows": site.rows if site else "",
        "min_rows": site.min_rows if site else "", "kept_out": site.left_out if site else "",
        "sent": sum(one.received.get(name, 0) for one in federation.rounds),
        "received": sum(one.sent.get(name, 0) for one in federation.rounds),
        "status": f"left out ({status}): {why}" if why else status,
        "answers": [(WORDS.get(q, q), q, n) for q, n in asked.most_common()],
        "stages": [(stage, n, sent) for stage, (n, sent) in stages.items()],
    }  # fmt: skip


def page(federation: Federation) -> str:
    """Return the page "What left each site" as one HTML file."""
    from jinja2 import Environment

    template = Environment(autoescape=True).from_string(PAGE)
    return template.render(
        rounds=len(federation.rounds), stages=federation.rounds_by_stage,
        sites=what_left(federation),
    )  # fmt: skip


def as_dict(federation: Federation) -> dict[str, Any]:
    """Return the result as plain JSON."""
    mixtures, solution = federation.mixtures, federation.solution
    return {
        "columns": list(mixtures.columns), "targets": list(mixtures.targets),
        "alpha": mixtures.alpha.tolist(), "alpha_status": [str(s) for s in mixtures.status],
        # what α's largest F may be above its least, as a share of it
        "alpha_gap": (mixtures.gap / mixtures.objective).tolist(),
        "features": list(federation.agreement.encoder.names), "w": solution.w.tolist(),
        "offset": federation.offset.tolist(),
        "status": [str(s) for s in solution.status],
        "distance": solution.certificate.distance.tolist(),
        "encoder": federation.agreement.encoder.as_dict(),
        "task": str(federation.agreement.inferred.task),
        "rounds": federation.rounds_by_stage,
        "bytes_per_round": [
            {"stage": r.stage, "sent": dict(r.received), "received": dict(r.sent)}
            for r in federation.rounds
        ],
        "sites": what_left(federation), "left_out": dict(federation.left_out),
    }  # fmt: skip


def write(federation: Federation, out: Path) -> None:
    """Write `result.json` and `what_left_each_site.html` into a folder."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "what_left_each_site.html").write_text(page(federation), encoding="utf-8")
    unfinished = out / "result.json.unfinished"
    unfinished.write_text(json.dumps(as_dict(federation), indent=1), encoding="utf-8")
    unfinished.replace(out / "result.json")
