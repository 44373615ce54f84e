"""Plain rows are encoded as the encoder does it, and all others are left to it."""

from __future__ import annotations

import pandas as pd
import pytest

from cuvee.data.encode import Encoder
from cuvee.data.plain_rows import PlainRows
from rounding import assert_rounded

FRAME = pd.DataFrame({
    "age": [20, 40, 33.5], "sex": ["f", "m", "f"], "same": [7, 7, 7], "one": ["x", "x", "x"],
    "code": ["1", "2", "3"], "far": [1e6, 1e6 + 1, 1e6 + 3],
})  # fmt: skip


@pytest.mark.parametrize("features", [[*FRAME], ["age"], ["sex"], ["code", "age", "far"]])
@pytest.mark.parametrize("impute", [False, True])
def test_plain_rows_are_encoded_as_in_a_frame(features, impute):
    encoder = Encoder.fit(FRAME, features, impute=impute)
    rows = [
        {**row, "more": None}
        for row in FRAME.sample(20, replace=True, random_state=0).to_dict("records")
    ]
    encoded = PlainRows(encoder)(rows)
    assert_rounded(encoded, encoder(pd.DataFrame(rows)))


@pytest.mark.parametrize(
    "change",
    [
        {"age": None}, {"age": "20"}, {"age": True}, {"age": float("nan")}, {"age": float("inf")}, {"age": 2**53},
        {"age": 10**400}, {"age": [1]}, {"sex": "x"}, {"sex": 1}, {"sex": None}, {"sex": ["f"]}, {"code": 1},
    ],
)  # fmt: skip
def test_other_rows_are_left_to_the_encoder(change):
    encode, row = PlainRows(Encoder.fit(FRAME, [*FRAME])), FRAME.to_dict("records")[0]
    assert encode([row, {**row, **change}]) is None
    gone = {name: value for name, value in row.items() if name not in change}
    assert encode([gone]) is None
