"""The page as text: well-formed, closed to the outside, and no number other than those found."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from html import unescape
from html.parser import HTMLParser

import numpy as np
import pytest

from cuvee.report.page import render
from cuvee.report.scoring import scores
from cuvee.report.summary import summary
from report_builders import HOSTILE, SHAPES, findings, rescored, with_constant

VOID = {"meta", "link", "br", "img", "hr", "input"}


class Outline(HTMLParser):
    """Raises on a tag that is not closed, and keeps what the tests ask about."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.attributes, self.words = [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-3:]}"
        self.open.pop()

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.words.append(data)


@cache
def page(shape):
    return render(SHAPES[shape]())


def outline(html):
    parser = Outline()
    parser.feed(html)
    parser.close()
    assert not parser.open
    return parser


def words(html):
    return " ".join(" ".join(outline(html).words).split())


@pytest.mark.parametrize("shape", SHAPES)
def test_it_is_well_formed_and_nothing_leads_out(shape):
    html = page(shape)
    found = outline(html)
    assert "script" not in found.tags and "iframe" not in found.tags and "img" not in found.tags
    assert not re.search(r"(https?:)?//[a-z0-9]", html.replace("&#34;", '"'), re.IGNORECASE), (
        "an address in the page"
    )
    policy = [
        v for t, n, v in found.attributes if t == "meta" and n == "content" and "default-src" in v
    ]
    assert policy == ["default-src 'none'; style-src 'unsafe-inline'; img-src data:"]
    assert not [n for _, n, _ in found.attributes if n.startswith("on")]
    assert all(
        v.startswith(("#", "data:,")) for _, n, v in found.attributes if n in ("href", "src")
    )
    html.encode("utf-8")  # no half of a character is left


@pytest.mark.parametrize("shape", SHAPES)
def test_every_figure_has_a_title_and_a_label(shape):
    html = page(shape)
    drawn = re.findall(r"<svg[^>]*>", html)
    assert drawn
    for opening, inside in zip(drawn, re.findall(r"<svg[^>]*>(<[a-z]+>)", html), strict=True):
        assert (
            'role="img"' in opening
            and re.search(r'aria-label="[^"]+"', opening)
            and inside == "<title>"
        )
    assert "nan" not in re.findall(r"[a-z]+", " ".join(re.findall(r'="([^"]*)"', html)))
    assert not re.search(r"\b(nan|inf|None)\b", words(html))


@pytest.mark.parametrize("shape", SHAPES)
def test_sections_come_in_order_and_the_summary_is_sentences(shape):
    html, f = page(shape), SHAPES[shape]()
    places = [html.index(f'<section id="{name}">') for name in (
        "scores", "worries", "weights", "targets", "columns", "sensitivity", "certificates", "convergence", "again",
    )]  # fmt: skip
    assert places == sorted(places) and html.index('id="summary"') < places[0]
    said = summary(f)
    assert len(said) == 5 and all(s.endswith(".") and s[0] != " " for s in said)
    if shape != "hostile":
        assert " ".join(" ".join(said).split()) in words(html)
        assert not any(re.search(r"[a-z)]\. [A-Z]", s) for s in said)


def test_the_summary_says_what_the_task_was_and_what_was_chosen():
    own, plain = summary(findings(4, 3)), summary(findings(1, 3, own=False))
    assert own[0].endswith(" sources and 4 targets.")
    assert own[1].startswith("The task was to predict “readmitted” (classification) for ")
    assert own[2].endswith(
        "For each target cuvee chose how much to learn from each source and from the target's own "
        "rows."
    )
    assert plain[2].endswith("For it cuvee chose how much to learn from each source.")


def test_the_baseline_that_is_one_answer_is_named():
    f = with_constant(findings(3, 2, regression=True), accuracy=9.0)
    assert "“own mean” always predicts the mean of the target's labels." in scores(f)["text"]
    f = with_constant(findings(3, 2))
    assert "“majority class” always predicts the most frequent class" in scores(f)["text"]


def test_hostile_names_are_words_and_nothing_else():
    html = page("hostile")
    for name in HOSTILE:
        assert name not in html or not set(name) & set("<>'\"&")
    found = outline(html)
    assert "<script>alert(1)</script>" in words(html)  # as text
    assert (
        found.tags.count("style") == 1
        and "b" in found.tags
        and "\x00" not in html
        and "\u202e" not in html
    )
    assert "{{ 7 * 7 }}" in unescape(html)  # data are not templates
    assert max(len(w) for w in words(html).split()) < 700  # names of thousands of letters are cut
    assert "(no name)" in html


def test_numbers_are_those_that_were_found():
    f = SHAPES["ten"]()
    html = page("ten")
    section = unescape(html[html.index('id="weights"') : html.index('id="targets"')])
    cells = dict(re.findall(r"<title>([^<]+ ← [^<]+): (\S+)</title>", section))
    for i, target in enumerate(f.targets):
        for j, source in enumerate((*f.columns[:-1], "own rows")):
            said = cells[f"{target} ← {source}"].lstrip("<")
            assert float(said) == pytest.approx(
                f.alpha[i, j], abs=0.0101 if "<" in cells[f"{target} ← {source}"] else 0.0051
            )
    assert len(cells) == (len(f.targets) + 1) * len(f.columns)  # and their means
    text = words(html)
    for k, method in enumerate(f.methods):
        mean, rank, low, high = f.mean[k, 0], f.mean_rank[k], *f.mean[k, 1:]
        assert f"{method} {mean:.3f} {low:.3f} to {high:.3f} {rank:.3g}" in text
    for i, target in enumerate(f.targets):
        row = " ".join(f"{v:.3f} {low:.3f} to {high:.3f}" for v, low, high in f.scores[i])
        assert f"{target} {f.test_rows[i]:.0f} {row}" in text
        bounds = re.search(rf"{target} solved (\S+) (\S+) (\S+)", text).groups()
        wanted = (f.distance[i], f.excess_risk[i], f.gradient[i])
        assert [_parsed(b) for b in bounds] == pytest.approx(wanted, rel=0.06)
        assert (
            f"{f.learn_rows[i]:.0f} rows to learn from, {f.test_rows[i]:.0f} rows for scores"
            in text
        )


def test_how_weights_were_found_is_said_in_words():
    f = replace(findings(3, 4), alpha_status=("converged", "step limit", "diverged"))
    text = words(render(f))
    assert text.count("for scores; weights averaged over the 12 mixtures tried") == 2
    assert "step limit" not in text and "diverged; gap 0.0" in text
    text = words(render(replace(f, tried=(None,) * 3, gap=np.array([0.01, 0.02, np.nan]))))
    assert "for scores; step limit; gap 0.02" in text and "diverged; gap" not in text


def test_scores_beside_accuracy():
    f = SHAPES["one answer"]()
    text = words(page("one answer"))
    assert (
        "mean balanced accuracy mean AUC (5 of 6 targets) mean log loss" in text
        and "Where all test rows are of one class" in text
    )
    for k, method in enumerate(f.methods):
        auc = np.nanmean(f.also["AUC"][:, k])
        assert re.search(rf"{re.escape(method)} 0\.\d+ .* 0.500 {auc:.3f} 0.4", text)
    assert f"0.500 {f.also['AUC'][1, 0]:.3f} 0.4" in text
    assert "mean balanced accuracy" not in words(page("ten"))
    f.also["AUC"][:] = np.nan  # more than two classes
    text = words(render(f))
    assert (
        "AUC" not in text
        and "Where all test rows are of one class" not in text
        and "Balanced accuracy" in text
    )


def _parsed(said):
    mantissa, exponent = said.split("×10")
    return float(mantissa) * 10.0 ** int(
        exponent.translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789"))
    )


def test_500_targets_stay_below_two_megabytes_and_it_says_what_is_left_out():
    html = page("many")
    assert len(html.encode()) < 2_000_000
    text = words(html)
    assert "60 of 500 targets are drawn" in text and "The 40 sources with most weight" in text
    assert "the other 20 are summed" in text and "first 30 of 500 targets" in text
    assert "alpha.csv" in text and "candidates.parquet" in text
    assert "The 30 largest and the 30 smallest of 500" in text and "The first 200 of 500" in text
    assert html.count("<details>") == 30 - 4 + 1


def test_what_was_not_computed_is_said_and_not_drawn():
    text = words(page("bare"))
    assert (
        "was not computed" in text
        and "No course was recorded" in text
        and "C becomes smaller" not in text
    )
    text = words(page("nothing known"))
    assert (
        "there is nothing to compare" in text and "Nothing is proven" in text and "failed" in text
    )
    f = replace(findings(3, 2), sensitivity=np.full((3, 3), np.nan))
    assert "was not computed" in words(render(f))


@pytest.mark.parametrize(
    ("shift", "wanted"),
    [
        (0.5, r"which is 0\.\d+ better \(95 % interval"),
        (-0.5, r"which is 0\.\d+ worse \(95 % interval"),
    ],
)
def test_the_summary_says_who_is_ahead(shift, wanted):
    f = findings(12, 4)
    scores = f.scores.copy()
    scores[:, 0] += shift
    assert re.search(wanted, summary(rescored(f, scores))[-2])
    assert "chance" not in summary(rescored(f, scores))[-2]


def test_the_summary_says_chance_one_target_and_no_baseline():
    f = findings(12, 4)
    scores = f.scores.copy()
    scores[:, 0] = scores[:, 3] + np.where(np.arange(12) % 2, 0.03, -0.029)[:, None]
    assert "so it may be chance" in summary(rescored(f, scores))[-2]
    scores[:, 0] = scores[:, 3]
    assert "which is the same" in summary(rescored(f, scores))[-2]
    assert "too few targets for an interval" in summary(findings(1, 1))[-2]
    first = {name: getattr(f, name)[:1] for name in ("mean", "gain", "mean_rank")}
    alone = replace(f, methods=("cuvee",), scores=f.scores[:, :1], **first)
    assert "no baseline" in summary(alone)[-2]
    outline(render(alone))


def test_one_target_has_no_means():
    text = words(page("one"))
    assert not re.search(
        r"\bmean (over|score|rank|accuracy)|on average|on each target|1 targets",
        text,
        re.IGNORECASE,
    )
    test_rows = int(SHAPES["one"]().test_rows[0])
    assert (
        f"Accuracy on {test_rows} labelled rows of target 1 that no scored model has learnt from"
        in text
    )
    assert "labelled rows of 10 targets that no scored model has learnt from" in words(page("ten"))


def test_it_says_what_lies_beyond_a_scale():
    f = findings(4, 3, regression=True)
    scores = f.scores.copy()
    scores[:, 1] *= 30
    assert "A triangle" in words(render(rescored(f, scores))) and "A triangle" not in words(
        render(f)
    )


def test_notes_are_on_the_page():
    text = words(page("ten"))
    assert "column 'ward' has one value and is left out" in text[text.index("Noted on the way") :]


def test_options_are_in_words():
    said = {"drop": ["id", "day"], "text": [], "exclude": None, "strict": False, "seed": 3}
    text = words(render(replace(SHAPES["one"](), about={"options": said})))
    assert "drop id, day text none exclude none strict no seed 3" in text


def test_lower_is_better_for_errors():
    said = summary(SHAPES["regression"]())[-2]
    assert (
        "root mean squared error" in said
        and "best baseline, “pooled_own”" in said
        and "better" in said
    )
