"""The table that the tests of frames and files read."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather

from cuvee.data.frame import Table
from hypothesis import HealthCheck, settings

VISITS = pd.DataFrame(
    {
        "age": [30.5, 41.0, 28.0, 65.25],
        "sex": ["f", "m", "m", "f"],
        "smokes": [True, False, False, True],
        "hospital": ["north", "south", "north", "west"],
        "readmitted": [0, 1, 1, 0],
    }
)
ROLES = {"domain": "hospital", "label": "readmitted"}
FUZZ = settings(
    max_examples=60, deadline=4000, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def written(frame, folder, name):
    path = folder / name
    if name.endswith(".parquet"):
        frame.to_parquet(path)
    elif name.endswith(".feather"):
        pyarrow.feather.write_feather(pa.Table.from_pandas(frame), path)
    else:
        separator = {"tsv": "\t", "txt": ";", "psv": "|"}.get(name.split(".")[1], ",")
        frame.to_csv(
            path, index=False, sep=separator, encoding="utf-8-sig" if "bom" in name else "utf-8"
        )
    return path


def check_visits(table: Table):
    assert table.features == ("age", "sex", "smokes") and table.names == ("north", "south", "west")
    assert list(table.frame.columns) == ["age", "sex", "smokes", "readmitted", "hospital"]
    assert table.frame["age"].tolist() == VISITS["age"].tolist() and table.frame[
        "sex"
    ].tolist() == ["f", "m", "m", "f"]
    assert table.frame["smokes"].dtype == bool and table.frame["readmitted"].dtype == np.int64
    assert table.rows("north").index.tolist() == [0, 2] and table.labelled("west")[
        "readmitted"
    ].tolist() == [0]
