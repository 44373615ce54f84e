"""What a site says instead of an answer: nothing of its table."""

import json

import numpy as np
import pytest

from cuvee.scale.flower_site import Desk
from cuvee.scale.flower_table import SiteConfig
from cuvee.scale.flower_wire import Packet, packed, unpacked
from flower_builders import Recorder, run, tables, written

STRAY = "Jane Doe, HIV+"


def stray(frame):
    frame["x"] = frame["x"].astype(object)
    frame.loc[17, "x"] = STRAY


def infinite(frame):
    frame.loc[17, "x"] = np.inf


def dates(frame):
    frame["born"] = [f"1950-03-{day % 28 + 1:02}" for day in range(len(frame))]


@pytest.mark.parametrize(
    ("spoil", "quoted"), [(stray, STRAY), (infinite, "row 17"), (dates, "1950-03-01")]
)
@pytest.mark.parametrize("call", [("meet",), ("introduce", (), None)])
def test_no_cell_leaves_in_a_sentence(tmp_path, spoil, quoted, call):
    frame = tables()["ash"]
    spoil(frame)
    frame.to_csv(tmp_path / "ash.csv", index=False)
    desk = Desk(SiteConfig(str(tmp_path / "ash.csv"), "ash", "cost"))
    reply = desk.answer(packed({"calls": [call]}))
    said = unpacked(reply)["failed"]
    assert said == "its table cannot be used as it is: the site's own log says why"
    for word in (quoted, "row", "17", str(tmp_path), "ash.csv", "born", '"x"'):
        assert word not in reply.text
    (line,) = map(json.loads, (tmp_path / "ash.csv.sent.jsonl").open())
    assert quoted in line["answered"][0]


def test_a_category_that_an_encoder_lacks_is_not_quoted(tmp_path):
    desks = written(tmp_path, tables())
    _, transport = run(desks)
    sent = next(s for node, s, _ in transport.messages if node == "node 0" and "facts" in s.text)
    reply = desks["node 0"].answer(Packet(sent.text.replace("heart", "lung")))
    assert "failed" not in unpacked(reply)  # such cells count as another category
    assert "heart" not in reply.text


class Odd(Exception):
    """Something that no library is expected to raise."""


def test_whatever_happens_the_site_answers(tmp_path, monkeypatch):
    (desk,) = written(tmp_path, {"ash": tables()["ash"]}).values()

    def fail(*given):
        raise Odd(STRAY)

    monkeypatch.setattr(desk, "_answer", fail)
    reply = unpacked(desk.answer(packed({"calls": [("meet",)]})))
    assert reply["failed"] == "it could not answer: the site's own log says why"
    assert STRAY in (tmp_path / "ash.csv.sent.jsonl").read_text()


def test_sentences_for_the_coordinator_pass(tmp_path):
    frames = tables()
    frames["bay"] = frames["bay"].head(4)
    desks = written(tmp_path, frames)
    desks["node 8"] = Desk(SiteConfig(str(tmp_path / "ash.csv"), "yew", "price"))
    desks["node 9"] = Desk(SiteConfig(str(tmp_path / "none.csv"), "oak", "cost"))
    federation, _ = run(desks, Recorder(desks))
    why = {site: why for site, (_, why) in federation.left_out.items()}
    assert why["node 8"] == "its table has no column 'price'"
    assert "cannot be used as it is" in why["node 9"]
    assert "fewer labelled rows without rare values than the 5" in why["bay"]
