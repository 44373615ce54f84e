"""α as a CSV: any separator is read, and every name comes back as it was."""

from __future__ import annotations

import numpy as np
import pytest

from cuvee.errors import InputError, MixtureError
from cuvee.run.alpha_file import from_csv, given, to_csv

WANTED = [[0.5, 0.25, 0.25], [0.125, 0.875, 0.0]]


@pytest.mark.parametrize("separator", [";", "\t", "|", ","])
@pytest.mark.parametrize("comma", [False, True])
@pytest.mark.parametrize("named", [False, True])
def test_other_separators(tmp_path, separator, comma, named):
    if comma and separator == ",":
        return
    cells = [[repr(a).replace(".", "," if comma else ".") for a in row] for row in WANTED]
    rows = [["north", "east, far", "south"], *cells]
    if named:
        rows = [[name, *row] for name, row in zip(("target", "t 1", "t 2"), rows, strict=True)]
    if separator == ",":
        rows[0] = [f'"{cell}"' for cell in rows[0]]
    path = tmp_path / "alpha.csv"
    path.write_text("".join(separator.join(row) + "\n" for row in rows))
    targets, columns, alpha = from_csv(path.read_text(), "alpha.csv")
    assert targets == (("t 1", "t 2") if named else ()) and columns == (
        "north",
        "east, far",
        "south",
    )
    assert alpha.tolist() == WANTED
    columns, alpha = given(path, ("t 1", "t 2"), ("east, far", "south", "north"))
    assert columns == ("east, far", "south", "north") and alpha.tolist() == [
        [0.25, 0.25, 0.5],
        [0.875, 0.0, 0.125],
    ]


def test_a_decimal_comma_between_commas_is_refused():
    with pytest.raises(MixtureError, match="line 2 has 4 cells, the first line 3"):
        from_csv("target,a,b\nt,0,5,1\n", "alpha.csv")
    with pytest.raises(MixtureError, match="line 2 holds no weights"):
        from_csv('target,a,b\nt,"0,5",0.5\n', "alpha.csv")


def test_names_with_separators_do_not_mislead():
    columns = ("a;b", "c;d", "e|f\tg")
    targets = ("x;y", "z|;")
    assert from_csv(to_csv(targets, columns, np.array(WANTED)).decode(), "here")[:2] == (
        targets,
        columns,
    )


def test_another_encoding_is_said_in_words(tmp_path):
    path = tmp_path / "alpha.csv"
    path.write_bytes("target,süd,nord\nt,0.5,0.5\n".encode("latin-1"))
    with pytest.raises(InputError, match=r"alpha.csv is not UTF-8; save the weights as CSV in UTF"):
        given(path, ["süd", "nord"], ["t"])
