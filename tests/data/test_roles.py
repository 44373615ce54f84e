"""The rule for small and unwanted domains, by itself."""

from __future__ import annotations

import numpy as np
import pytest

from cuvee.data import roles
from cuvee.errors import DomainError


def test_domains_with_a_row_each_are_pooled():
    sizes = {"a": 9, "b": 1, "c": 1, "d": 2, "e": 0}
    found = roles.pool(sizes)
    assert found.names == ("b", "c") and found.unused == ("e",)
    assert found.resized(sizes) == {"a": 9, "d": 2, "e": 0, roles.SMALL: 2}
    assert len(found.notes) == 2
    for lonely in ({"a": 9, "b": 1}, {"a": 9, "b": 1, "c": 1, roles.SMALL: 4}):
        found = roles.pool(lonely)
        assert not found.names and found.resized(lonely) == lonely and "left out" in found.notes[0]
    assert roles.pool({"a": 9, "b": 2}) == roles.Pool((), (), ())
    with pytest.raises(DomainError, match="source 'b' has 1 labelled row, and needs 2"):
        roles.pool(sizes, strict=True)


def test_many_small_domains_are_one_note_of_one_line():
    found = roles.pool({f"hut {i}": 1 for i in range(10_000)})
    assert len(found.names) == 10_000 and len(found.notes) == 1
    assert (
        "10,000 domains ('hut 0', 'hut 1', 'hut 2', 'hut 3', 'hut 4' and 9,995 more)"
        in found.notes[0]
    )


def test_targets_need_five_rows():
    assert roles.enough({"a": 5, "b": 9}, ["a", "b"]) == (["a", "b"], [])
    assert roles.enough({"a": 5}, []) == ([], [])
    kept, (note,) = roles.enough({"a": 4, "b": 9}, ["a", "b"])
    assert kept == ["b"] and note == "domain 'a' has fewer than 5 labelled rows: it gets no model"
    with pytest.raises(
        DomainError,
        match="target 'a' has 4 labelled rows, and needs 5: label more, or leave it out",
    ):
        roles.enough({"a": 4, "b": 9}, ["a", "b"], strict=True)
    with pytest.raises(
        DomainError, match="none of the 2 targets has labelled rows enough: target 'a' has 4"
    ):
        roles.enough({"a": 4, "b": 1}, ["a", "b"])


def test_who_is_excluded():
    names = ["north 1", "north 2", "a, b", "south"]
    assert roles.excluded(names, ()) == []
    assert roles.excluded(names, ["south", "north*"]) == ["north 1", "north 2", "south"]
    assert roles.excluded(names, ["a, b"]) == ["a, b"]
    assert roles.excluded(names, ["south,north 1"]) == ["north 1", "south"]
    with pytest.raises(
        DomainError,
        match="exclude: no domain matches 'west'; there are 'north 1', 'north 2', 'a, b'",
    ):
        roles.excluded(names, ["west"])
    with pytest.raises(DomainError, match="exclude names no domain; there are"):
        roles.excluded(names, [" , "])


@pytest.mark.parametrize("kind", [int, float, bool, str, object])
def test_rows_of_known_classes(kind):
    labels, classes = np.array([0, 1, 1, 0, 1, 1, 0]).astype(kind), np.array([0, 1]).astype(kind)
    rows, notes = roles.teachable("t", labels, classes)
    assert rows.all() and not notes
    if kind is not bool:
        labels[2] = 7 if kind is not str else "7"
        rows, (note,) = roles.teachable("t", labels, classes, at=np.arange(10, 17))
        assert rows.tolist() == [True, True, False, True, True, True, True]
        assert "1 row of class" in note and "first at row 12" in note
        rows, (note,) = roles.teachable("t", labels[:5], classes)
        assert not rows.any() and "it gets no model" in note
    rows, (note,) = roles.teachable("t", labels, classes[:1])
    assert not rows.any() and "every row of its sources is of class" in note
