"""What a site's answers give away together: none is about few rows more or less than another."""

import json
from dataclasses import replace

import numpy as np
import pytest

from cuvee.data.task import Task
from cuvee.scale.flower_given import Part
from cuvee.scale.flower_site import Desk
from cuvee.scale.flower_table import SiteConfig
from cuvee.scale.flower_wire import packed, unpacked
from flower_builders import run, tables, written

COLUMNS = ("x", "y", "z")


def answers(transport, node, question):
    """Return what a node answered to a question, in turn."""
    told = []
    for at, sent, reply in transport.messages:
        calls = unpacked(sent)["calls"] if at == node else []
        found = unpacked(reply).get("answers", [])
        told += [a for call, a in zip(calls, found, strict=False) if call[0] == question]
    return told


def numbers_in(value):
    """Return the numbers that a value holds, however deep."""
    if isinstance(value, dict):
        return [n for one in value.values() for n in numbers_in(one)]
    return [value] if isinstance(value, int | float) else []


def with_a_ward_of_one(frames):
    """Give the sites a column that is text at one of them; elsewhere one patient has ward 9."""
    for j, frame in enumerate(frames.values()):
        frame["ward"] = 1 + np.arange(len(frame)) % 2
        frame.loc[[7], "ward"] = 9
        frame["unit"] = frame["ward"].map({1: "icu", 2: "er", 9: "er"}) if j else frame["ward"]
    return frames


def with_a_rare_grade(frames):
    """Give the sites labels that look like classes at some of them alone."""
    for j, frame in enumerate(frames.values()):
        n = len(frame)
        frame["cost"] = np.arange(n) % 30 if j < 2 else np.arange(n) % 4
        frame.loc[[3, 5], "cost"] = 40 if j < 2 else 4
    return frames


@pytest.mark.parametrize("change", [with_a_ward_of_one, with_a_rare_grade])
def test_a_run_asks_about_one_set_of_rows_at_each_site(tmp_path, change):
    frames = change(tables())
    federation, transport = run(written(tmp_path, frames))
    assert federation.left_out == {}
    for node in transport.desks:
        (greeting,) = answers(transport, node, "meet")
        assert numbers_in(greeting) == [greeting["min_rows"]]
        (introduction,) = answers(transport, node, "introduce")
        (facts,) = answers(transport, node, "facts")
        assert facts["facts"].n_rows == introduction["rows"]
        total = facts["facts"].columns.mean[:3] * introduction["rows"]
        rules = federation.agreement.encoder.columns[:3]
        for name, rule, sum_told in zip(COLUMNS, rules, total, strict=True):
            said = introduction["columns"][name]["mean"] * introduction["rows"]
            by_facts = sum_told * rule.scale + rule.mean * introduction["rows"]
            assert by_facts == pytest.approx(said, abs=1e-8)


def test_labels_that_are_no_classes_at_one_site_are_none_at_all(tmp_path):
    federation, _ = run(written(tmp_path, with_a_rare_grade(tables())))
    assert federation.agreement.inferred.task is Task.regression
    assert "at some sites" in federation.agreement.inferred.why
    assert all(site.left_out == 0 for site in federation.sites.values())


def desk_of(tmp_path, rare=(40,), **changed):
    """Return a desk whose column `visits` has rare values if it is text."""
    frame = tables()["ash"].assign(visits=1 + np.arange(60) % 4)
    frame.loc[: len(rare) - 1, "visits"] = rare
    frame.to_csv(tmp_path / "ash.csv", index=False)
    return Desk(SiteConfig(str(tmp_path / "ash.csv"), "ash", "cost", **changed))


def asked(desk, *calls, **request):
    return unpacked(desk.answer(packed({"calls": list(calls), **request})))


FIRST, SECOND = ("introduce", (), None), ("introduce", ("visits",), None)


def test_an_introduction_that_differs_by_one_row_is_refused(tmp_path):
    desk = desk_of(tmp_path)
    first = asked(desk, FIRST)["answers"][0]
    again = asked(desk, FIRST)["answers"][0]
    assert again["columns"] == first["columns"]
    assert "differ by 1" in asked(desk, SECOND)["refused"]
    assert "answers" in asked(desk, FIRST)


def test_a_site_that_was_restarted_remembers(tmp_path):
    desk = desk_of(tmp_path)
    asked(desk, SECOND)
    log = tmp_path / "ash.csv.sent.jsonl"
    with log.open("a") as file:
        file.write('{"at": "2026-')  # the machine lost power
        file.write("\n")
    assert "differ by 1" in asked(Desk(desk.config), FIRST)["refused"]
    other = Desk(replace(desk.config, min_rows=2, domain="elm"))
    assert "differ by 1" in asked(other, FIRST)["refused"]


def test_it_remembers_within_a_message_and_forgets_what_was_not_sent(tmp_path):
    desk = desk_of(tmp_path)
    assert "differ by 1" in asked(desk, FIRST, SECOND)["refused"]
    assert "answers" in asked(desk, SECOND)
    assert "refused" in asked(desk, FIRST)


def test_other_questions_are_refused_too(tmp_path):
    frames = tables()
    for frame in frames.values():
        frame["visits"] = 1 + np.arange(len(frame)) % 4
    frames["ash"].loc[0, "visits"] = 40
    desks = written(tmp_path, frames)
    _, transport = run(desks)
    facts, grams = (
        next(sent for at, sent, _ in transport.messages if at == "node 0" and word in sent.text)
        for word in ('"facts"', '"source_grams"')
    )
    for packet in (facts, grams):
        request = unpacked(packet)
        assert "answers" in asked(desks["node 0"], *request.pop("calls"), **request)
        request = unpacked(packet)
        request["agreed"] = {**request["agreed"], "text": ("ward", "visits")}
        refused = asked(desks["node 0"], *request.pop("calls"), **request)
        assert "differ by 1" in refused["refused"]


def test_rows_that_differ_by_enough_are_answered(tmp_path):
    desk = desk_of(tmp_path, rare=(40, 41, 42, 43, 44))
    both = [asked(desk, call)["answers"][0]["rows"] for call in (FIRST, SECOND)]
    assert both == [60, 55]


def test_a_table_that_was_written_anew_is_another_table(tmp_path):
    asked(desk_of(tmp_path), FIRST)
    assert "answers" in asked(desk_of(tmp_path, rare=(50,)), SECOND)


def test_rows_are_logged_once(tmp_path):
    desk = desk_of(tmp_path)
    for _ in range(3):
        asked(desk, FIRST)
    lines = [json.loads(line) for line in (tmp_path / "ash.csv.sent.jsonl").open()]
    assert ["about" in line for line in lines] == [True, False, False]


def test_parts_differ_by_the_rows_that_one_of_them_has():
    rows = np.ones(1003, bool)
    fewer = rows.copy()
    fewer[[0, 500, 1002]] = False
    assert Part.of("a", rows).differs_by(Part.of("a", fewer)) == 3
    assert Part.of("a", fewer).differs_by(Part.of("a", fewer)) == 0
    assert Part.of("a", rows).differs_by(Part.of("b", fewer)) == 0
