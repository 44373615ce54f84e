"""Remember about which rows a site has answered, and refuse rows that differ from these by few.

Two answers about almost the same rows differ by what the few others hold. Which rows take part
depends on what the coordinator asks for: columns that are to be text, and whether labels are
classes. The site's own log keeps the rows that were answered about, so that a site which was
restarted knows them too.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from cuvee.problem import Array
from cuvee.scale.flower_guard import Refused


@dataclass(frozen=True)
class Part:
    """Hold which rows of a file take part, as the log has it."""

    table: str  # digest of the file
    rows: str  # a bit for each row, packed

    @classmethod
    def of(cls, table: str, rows: Array) -> Part:
        """Return the part that holds the rows marked in (rows of the file,)."""
        return cls(table, base64.b64encode(zlib.compress(np.packbits(rows).tobytes())).decode())

    def differs_by(self, other: Part) -> int:
        """Return how many rows are in one of the two and not in the other."""
        if self.table != other.table:
            return 0
        one, two = (
            int.from_bytes(zlib.decompress(base64.b64decode(part.rows))) for part in (self, other)
        )
        return (one ^ two).bit_count()


@dataclass(eq=False)
class Given:
    """Know the parts of a site's table that were answered about, from its log and since then."""

    log: Path
    new: list[Part] = field(default_factory=list)  # in the answer that is being made
    _known: set[Part] = field(default_factory=set)

    def allow(self, part: Part, min_rows: int) -> None:
        """Raise `Refused` where these rows differ by few from others that were answered about."""
        if part in self._known or part in self.new:
            return
        self._known |= set(_written(self.log))
        for other in (*self._known, *self.new):
            apart = part.differs_by(other)
            if 0 < apart < min_rows:
                raise Refused(
                    f"its rows would differ by {apart} from those that it has answered about "
                    f"before, and so give these away; {min_rows} are the least. Ask with the task "
                    "and the columns of text that were asked with before"
                )
        self.new.append(part)

    def was_sent(self) -> None:
        """Keep what the answer that was just made is about."""
        self._known |= set(self.new)
        self.new.clear()


def _written(log: Path) -> Iterator[Part]:
    """Yield the parts that a log has; a line that was cut short has none."""
    if not log.exists():
        return
    for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            parts = json.loads(line).get("about", [])
            yield from (Part(str(one["table"]), str(one["rows"])) for one in parts)
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
