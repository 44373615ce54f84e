"""Orders, scales, names and numbers that the figures are made of."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from cuvee import OWN
from cuvee.report import bars, courses, formatting, heatmap, intervals, svg
from cuvee.report.findings import Convergence
from cuvee.report.layout import clustered, layout, spread
from report_builders import findings, in_turn, rescored


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (5, 1), (2, 2), (40, 7), (0, 3), (3, 0)])
def test_clustering_is_a_permutation_whatever_the_shape(shape):
    rng = np.random.default_rng(0)
    assert sorted(clustered(rng.uniform(size=shape))) == list(range(shape[0]))
    assert sorted(clustered(np.zeros(shape))) == list(range(shape[0]))


def test_likes_stand_beside_likes():
    values = np.repeat(np.eye(3), 5, axis=0)[np.random.default_rng(1).permutation(15)]
    kinds = values[clustered(values)].argmax(1)
    assert (np.diff(kinds) != 0).sum() == 2


def test_layout_keeps_own_apart_and_sums_the_light():
    f = findings(100, 50)
    drawn = layout(f)
    assert (
        drawn.own == 50
        and len(drawn.rows) == 60
        and len(drawn.columns) == 40
        and len(drawn.others) == 10
    )
    total = f.alpha.sum(0)
    assert total[drawn.others].max() <= total[drawn.columns].min()
    assert not {drawn.own} & {*drawn.columns, *drawn.others}
    assert layout(replace(f, alpha=np.full_like(f.alpha, np.nan))).own == 50
    assert layout(findings(3, 2, own=False)).own is None


def test_every_domain_in_turn_has_one_order():
    f = in_turn()
    drawn = layout(f)
    assert [f.targets[i] for i in drawn.rows] == [f.columns[j] for j in drawn.columns]


def test_spread_is_even_and_has_both_ends():
    assert spread(np.arange(10), 4).tolist() == [0, 3, 6, 9] and spread(
        np.arange(3), 4
    ).tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("low", "high"), [(0.0, 1.0), (-3e-7, 2e-7), (0.71, 0.93), (1e6, 3e8), (2.0, 2.0)]
)
def test_ticks_are_round_and_inside(low, high):
    found = svg.ticks(low, high)
    assert 1 <= len(found) <= 9 and all(low - 1e-12 <= t <= high + 1e-12 for t in found)
    assert svg.ticks(np.nan, np.nan) == []


def test_parts_add_up_to_what_they_are_parts_of():
    f = findings(4, 12)
    parts = bars.parts_of(f.columns, f.alpha[0], 12)
    assert parts.names[0] == "own rows" and parts.names[-1] == "7 others" and len(parts.names) == 7
    assert (
        parts.summed(f.alpha[0]).sum() == pytest.approx(1.0)
        and parts.summed(f.alpha[0])[0] == f.alpha[0, 12]
    )
    assert (np.diff(parts.summed(f.alpha[0])[1:-1]) <= 0).all()
    few = bars.parts_of((*"abcdef", OWN), np.full(7, 1 / 7), 6)
    assert "1 others" not in few.names and len(few.names) == 7


def test_the_path_is_in_the_order_of_its_points():
    f = findings(1, 3)
    tried = f.tried[0]
    order = np.random.default_rng(0).permutation(len(tried.names))
    mixed = replace(tried, names=tuple(tried.names[g] for g in order), alpha=tried.alpha[order])
    parts = bars.parts_of(f.columns, f.alpha[0], 3)
    assert bars.along_path(parts, mixed) == bars.along_path(parts, tried) is not None
    assert (
        bars.along_path(
            parts, replace(tried, names=tuple("x" * g for g in range(len(tried.names))))
        )
        is None
    )


def test_cells_are_coloured_by_stated_classes():
    values = np.array([[0.0, 0.01, 0.3, 1.0, np.nan]])
    drawn = heatmap.heat_map(["t"], list("abcde"), values, "label").cells
    assert re.findall(r'<rect[^>]*class="(q\d)"', drawn) == ["q0", "q1", "q5", "q8", "q0"]
    assert drawn.count('class="void"') == 1


@pytest.mark.parametrize("unit", [m * 10.0**k for k in range(-9, 9) for m in (1, 2, 5)])
def test_a_legend_has_one_format_and_its_numbers_do_not_touch(unit):
    legend = heatmap.heat_map(
        ["t"], ["s"], np.ones((1, 1)), "label", look=heatmap.Look(unit, "")
    ).legend
    found = {
        float(x): said for x, said in re.findall(r'<text x="([\d.]+)"[^>]*>([^<]+)</text>', legend)
    }
    said = [found[x] for x in sorted(found)]
    edges, means = said[: len(heatmap.EDGES)], said[len(heatmap.EDGES) :]
    assert (
        not any("×" in said for said in edges)
        and max(formatting.ems(said) for said in edges) * 11 < 36
    )
    factor = _power(means[0]) if means else 1.0
    assert [float(said) * factor for said in edges] == pytest.approx(
        [edge * unit for edge in heatmap.EDGES]
    )


def _power(said):
    return 10.0 ** int(
        said.removeprefix("×10").translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789"))
    )


def test_cells_that_are_too_narrow_for_their_numbers_print_none():
    values = np.full((1, 20), 2e-4)
    drawn = heatmap.heat_map(
        ["t"], list("abcdefghijklmnopqrst"), values, "label", look=heatmap.Look(2e-4)
    ).cells
    assert 'class="on' not in drawn
    assert (
        'class="on'
        in heatmap.heat_map(["t"], ["a"], values[:, :1], "label", look=heatmap.Look(2e-4)).cells
    )


def test_one_target_has_its_heaviest_source_first():
    f = findings(1, 6)
    assert (np.diff(f.alpha[0, layout(f).columns]) <= 0).all()


@pytest.mark.parametrize(
    ("low", "high", "wanted"),
    [
        (0.0, 1e5, ["0", "40,000", "80,000"]),
        (900.0, 1e5, ["40,000", "80,000"]),
        (0.0004, 0.0011, ["0.0004", "0.0006", "0.0008", "0.0010"]),
        (-1.2, 0.6, ["−1.0", "−0.5", "0", "0.5"]),
    ],
)
def test_numbers_of_an_axis_are_alike_and_do_not_touch(low, high, wanted):
    drawn = "".join(bars.grid(svg.Scale(low, high, 100, 282), 50))
    assert re.findall(r">([^<]+)</text>", drawn) == wanted


def test_what_is_far_worse_does_not_set_the_scale():
    f = findings(4, 3, regression=True)
    assert f'"{intervals.EDGE} ' not in intervals.by_target(f, range(4), 3, range(4))
    scores = f.scores.copy()
    scores[:, 1] *= 30
    scores[2, 2] *= 30
    far = rescored(f, scores)
    drawn = intervals.by_target(far, range(4), 3, range(4))
    assert re.findall(rf'"{intervals.EDGE} (\w+)', drawn) == ["other"] * 4
    said = re.findall(rf'"{intervals.EDGE} other"><title>([^<]+)', drawn)
    assert (
        "target 1, uniform: " in said[0]
        and "target 3, uniform: " in said[2]
        and "target 3, pooled: " in said[2]
    )
    places = [float(x) for x in re.findall(r'<circle cx="([\d.]+)"', drawn)]
    assert max(places) - min(places) > 40  # cuvee's own differences can be seen
    for plot in (intervals.means(far), intervals.gains(far)):
        assert plot.count(f'"{intervals.EDGE} ') >= 1 and ": " in plot


def test_the_best_baseline_is_drawn_over_its_equals():
    f = findings(4, 3, regression=True)
    scores = f.scores.copy()
    scores[:, 2:] = scores[:, 1:2]
    drawn = intervals.by_target(rescored(f, scores), range(4), 1, range(4))
    ticks = re.findall(r'class="(rival|other)"', drawn)
    assert ticks.count("rival") == 4 and ticks[len(ticks) // 4 - 1 :: len(ticks) // 4] == (
        ["rival"] * 4
    )


def test_differences_of_nothing_do_not_set_a_scale():
    f = findings(4, 3, regression=True)
    scores = f.scores.copy()
    scores[:, 3] = scores[:, 0] * (1 + 1e-16)
    same = rescored(f, scores)
    assert f'"{intervals.EDGE} ' not in intervals.gains(same)
    intervals.gains(replace(same, gain=same.gain * 1e-14))


def test_the_slowest_are_named_first_and_lines_are_limited():
    step = np.arange(500.0)
    runs = [Convergence(step, step, np.full(500, 0.1 * i)) for i in range(100)]
    chosen = courses.slowest([None, *runs])
    assert chosen[:3] == [100, 99, 98] and len(chosen) == courses.LINES
    drawn = courses.course(
        [str(i) for i in chosen], [runs[i - 1] for i in chosen], "objective", log=False
    )
    assert drawn.count("<polyline") == courses.LINES and len(drawn) < 120_000
    one = Convergence(np.zeros(1), np.ones(1), np.zeros(1))
    assert "<circle" in courses.course(["a"], [one], "objective", log=False)
    assert courses.course(["a"], [one], "gap", log=True) is None  # 0 has no logarithm


@pytest.mark.parametrize(
    ("x", "wanted"),
    [
        (np.nan, "–"),
        (np.inf, "∞"),
        (0.0, "0"),
        (12345.0, "12,345"),
        (-0.25, "−0.25"),
        (2.1e-10, "2.10×10⁻¹⁰"),
        (3.0, "3"),
    ],
)
def test_numbers(x, wanted):
    assert formatting.number(x) == wanted


def test_names_are_cut_in_the_middle_and_cleaned():
    assert formatting.short("north", 20) == "north"
    cut = formatting.short("a very long name of a clinic in the north", 16)
    assert (
        cut.startswith("a ver")
        and cut.endswith("rth")
        and "…" in cut
        and formatting.ems(cut) <= 0.6 * 16
    )
    assert (
        formatting.ems(formatting.short("北" * 100, 16)) <= 0.6 * 16
        and formatting.ems(formatting.short("W" * 100, 16)) <= 0.6 * 16
    )
    f = formatting.cleaned(replace(findings(2, 2), targets=("a\x00\ud800b", "\u202e\n ")))
    assert f.targets == ("a\\x00\\ud800b", "\\u202e") and f.columns[-1] == OWN
    assert (
        formatting.named(["a", "b", "c", "d"]) == "a, b, c and 1 more"
        and formatting.named(["a", "b"]) == "a and b"
    )
