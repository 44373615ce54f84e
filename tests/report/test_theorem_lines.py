"""The report's lines about Theorem 1: one per target, with sums and ratios that are right."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape

import numpy as np
import pytest

from cuvee.report.formatting import number
from cuvee.report.page import render
from cuvee.report.theorem import theorem
from report_builders import SHAPES, findings


def test_a_line_per_target_with_its_terms_their_sum_and_how_loose_it_is():
    f = findings(4, 3)
    section = theorem(f)
    t = f.theorem
    assert len(section["table"]["rows"]) == 4 and not section["table"]["note"]
    for i, row in enumerate(section["table"]["rows"]):
        together = t.discrepancy[i] + t.complexity[i] + t.sampling[i]
        times = together / t.held_out[i]
        wanted = (
            t.discrepancy[i],
            t.complexity[i],
            t.sampling[i],
            together,
            t.held_out[i],
            times,
            t.mended[i],
        )
        assert row == (f.targets[i], *map(number, wanted))
    ratios = (t.together / t.held_out)[:3]  # the last has no test rows
    assert row[5:7] == ("–", "–")
    assert (
        f"far too large: {number(ratios.min())} to {number(ratios.max())} times the measured loss."
        in section["text"]
    )
    assert "found by climbing" in section["text"]
    html = unescape(render(f))
    assert html.count("What Theorem 1 promises") == 1
    for i in range(4):
        assert re.search(rf"<td>target {i + 1}</td><td>{number(t.discrepancy[i])}</td>", html)


def test_terms_above_every_loss_are_said_to_say_nothing():
    f = findings(3, 2, regression=True)
    assert "say nothing" not in theorem(f)["text"] and "climbing" not in theorem(f)["text"]
    large = replace(f.theorem, sampling=np.array([0.1, 40.0, 0.1]))
    assert "For target 2 the terms are above any loss" in theorem(replace(f, theorem=large))["text"]


def test_the_first_hundred_are_shown_and_the_others_counted():
    section = theorem(SHAPES["many"]())
    assert len(section["table"]["rows"]) == 100
    assert section["table"]["note"] == "The first 100 of 500 targets."


@pytest.mark.parametrize("shape", ["bare", "nothing known"])
def test_where_nothing_was_worked_out_nothing_is_said(shape):
    f = SHAPES[shape]()
    assert theorem(f) is None and "Theorem 1" not in render(f)


def test_no_loss_at_all_on_test_rows_is_no_ratio_to_speak_of():
    f = findings(2, 2)
    section = theorem(replace(f, theorem=replace(f.theorem, held_out=np.zeros(2))))
    assert section["table"]["rows"][0][6] == "∞" and "“Times”" not in section["text"]
