"""Files of tables: found, recognised by their first bytes, read batch by batch."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice, product
from pathlib import Path
from typing import Any, Literal

from cuvee.data.arrow_frames import to_frame
from cuvee.data.dates import ORDERS
from cuvee.data.encoding import UTF8, check_encoding, undecodable
from cuvee.data.notation import Surveyed, parse_dates, survey
from cuvee.data.notes import Cell, Told
from cuvee.data.row_places import line_of, placed
from cuvee.errors import DomainError, InputError

HEAD = 1 << 20  # bytes that tell what a file is; no line may be longer
WHOLE = re.compile(r"0|-?[1-9]\d{0,17}")  # numbers that int64 writes as they were read
ROWS = 1 << 16  # per batch
BINARY = {
    ".parquet": "Parquet",
    ".pq": "Parquet",
    ".feather": "Feather",
    ".arrow": "Feather",
    ".ipc": "Feather",
}
TEXT = (".csv", ".tsv", ".txt")
PACKED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
MAGIC = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\x28\xb5\x2f\xfd": "zstd"}
# what lies beside tables and is none; any other file in a folder of tables is read or refused
BESIDE = re.compile(
    r"[._~].*|.*\.(md|rst|html?|pdf|docx?|png|jpe?g|svg|py|ipynb|r|sh|sql|log|ya?ml|toml|bib|md5|sha\d+)"
    r"|readme|thumbs\.db|desktop\.ini|licen[cs]e|copying|notice|citation|makefile|md5sums?|sha\d+sums?",
    re.IGNORECASE,
)
SEPARATORS = ",;\t|"
UTF16 = (b"\xff\xfe", b"\xfe\xff")  # the marks that such a file begins with


def files(path: Path, encoding: str = UTF8) -> list[tuple[File, str | None]]:
    """Return the file at a path, or those of a folder, each with the domain that it holds.

    `encoding` is that of text; the domain of a single file is None.
    """
    check_encoding(encoding)
    with understood(path):
        if not path.exists():
            raise InputError(f"{path} does not exist; is the name right?")
        if path.is_file():
            return [(_recognised(path, encoding), None)]
        paths = sorted(p for p in path.iterdir() if _is_table(p))
    if not paths:
        raise InputError(
            f"{path} holds no table; put a CSV, Parquet or Feather file per domain into it"
        )
    names = [_unpacked(p.name).rpartition(".")[0] for p in paths]
    for i, name in enumerate(names):
        if name in names[:i]:
            raise InputError(f"{path} holds two files for domain {name!r}; keep one, or rename it")
    return [(_recognised(p, encoding), name) for p, name in zip(paths, names, strict=True)]


def _is_table(path: Path) -> bool:
    """Return whether what lies in a folder is a table; raise `InputError` where it may hold one.

    No domain is left out without a word because cuvee cannot read its file.
    """
    if path.is_file():
        if _suffix(path) in (*BINARY, *TEXT) and path.name[0] != ".":
            return True
        if BESIDE.fullmatch(path.name):
            return False
        why = "is no table that cuvee reads: write it as CSV (also .gz, .bz2, .zst) or Parquet"
    elif BESIDE.fullmatch(path.name) or (path.is_dir() and not _holds_tables(path)):
        return False
    elif path.is_dir():
        why = "is a folder of tables in a folder of tables: write one file per domain"
    else:
        why = "is a link to nothing" if path.is_symlink() else "is no file"
        why += ": put the file there that it stands for"
    raise InputError(f"{path} {why}, or move it elsewhere")


def _holds_tables(folder: Path) -> bool:
    """Return whether tables lie in a folder; those that cuvee itself wrote are no data."""
    names = [p.name for p in folder.iterdir()]
    return "manifest.json" not in names and any(
        _suffix(Path(name)) in (*BINARY, *TEXT) and not BESIDE.fullmatch(name) for name in names
    )


def _unpacked(name: str) -> str:
    """Return the name of a file without the ending that says how it is packed."""
    stem, dot, packed = name.rpartition(".")
    return stem if f"{dot}{packed}".lower() in PACKED else name


def _suffix(path: Path) -> str:
    return Path(_unpacked(path.name)).suffix.lower()


def _recognised(path: Path, encoding: str) -> File:
    """Look at the first bytes: they tell more than the name."""
    import pyarrow as pa
    from pyarrow import ipc, parquet

    with understood(path):
        with path.open("rb") as file:
            magic = file.read(8)
        if magic[:4] == b"PAR1":
            return File(path, "Parquet", tuple(parquet.read_schema(path).names))
        if magic[:6] == b"ARROW1":
            with pa.memory_map(str(path)) as mapped:
                return File(path, "Feather", tuple(ipc.open_file(mapped).schema.names))
        if (wanted := BINARY.get(_suffix(path))) and magic:
            raise InputError(f"{path} is not a {wanted} file, or a broken one; write it again")
        packed = next((name for begin, name in MAGIC.items() if magic.startswith(begin)), None)
        with pa.input_stream(str(path), compression=packed) as stream:
            head = stream.read(HEAD)
        return _of_text(File(path, "text", (), packed=packed, encoding=encoding), head)


def in_memory(content: bytes, name: str) -> File:
    """Return the file of a text that is on no disk, in UTF-8; errors call it by this name."""
    return _of_text(File(Path(name), "text", (), content=content), content[:HEAD])


def _of_text(file: File, head: bytes) -> File:
    """Return a text file that begins with `head`, with its separator and its columns."""
    path, encoding = file.path, file.encoding
    if not head.strip():
        raise InputError(f"{path} is empty")
    text = head.decode("utf-8-sig" if encoding == UTF8 else encoding, errors="replace")
    if head[:2] in UTF16 and encoding == UTF8:
        raise InputError(
            f"{path} is UTF-16; save the table as UTF-8, or say --encoding utf-16 "
            '(encoding="utf-16" in Python)'
        )
    if head[:2] == b"PK" or "\0" in text:
        raise InputError(f"{path} is not text; save the table as CSV in UTF-8, or as Parquet")
    if len(head) == HEAD and not {"\n", "\r"} & {*text}:
        raise InputError(
            f"{path}: its first line has more than {HEAD:,} bytes, which is too long for the names "
            "of columns; give it fewer or shorter ones"
        )
    file = replace(file, delimiter=separator_of(text))
    with understood(path, file), file.opened() as reader:
        return replace(file, columns=tuple(reader.schema.names))


def separator_of(head: str) -> str:
    """Return the separator that splits the first lines into the most cells, all of them alike."""
    scores = {}
    for delimiter in SEPARATORS:
        try:
            lines = list(islice(csv.reader(io.StringIO(head, newline=""), delimiter=delimiter), 21))
        except csv.Error:
            continue
        # the last line may be cut
        widths = [len(line) for line in lines if line][: max(1, len(lines) - 1)]
        scores[delimiter] = (
            (widths[0] > 1, len(set(widths)) == 1, widths[0]) if widths else (False, False, 0)
        )
    return max(scores, key=lambda delimiter: scores[delimiter], default=",")


@contextmanager
def understood(path: Path, text: File | None = None) -> Iterator[None]:
    """Raise what pyarrow and the system say about a file as an `InputError` of one sentence.

    `text` is the file if it is one of text.
    """
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, ValueError, EOFError) as error:
        if isinstance(error, InputError):
            raise
        if reason := getattr(error, "strerror", None):
            raise InputError(f"{path} cannot be read: {reason}") from None
        reason = str(error).strip().partition("\n")[0][:200].rstrip(".") or type(error).__name__
        if text is not None and (isinstance(error, UnicodeDecodeError) or "UTF8" in reason):
            raise undecodable(path, text.source(), text.packed, text.encoding) from None
        raise InputError(f"{path} cannot be read as a table ({reason}); is it complete?") from None


@dataclass(frozen=True)
class File:
    """A table on disk, or a text in memory: what kind it is, and its columns."""

    path: Path
    kind: Literal["Parquet", "Feather", "text"]
    columns: tuple[str, ...]
    delimiter: str = ","
    packed: str | None = None  # with "gzip", "bz2" or "zstd"
    encoding: str = UTF8
    groups: tuple[int, ...] | None = None  # row groups of a Parquet file; None: all
    first: int = 0  # number of its first row, where it is a part of a table
    content: bytes | None = None  # where it is on no disk, so that `path` is but a name

    def batches(self, names: Sequence[str], rows: int = ROWS) -> Iterator[Any]:
        """Yield pyarrow Tables of about `rows` rows with these columns alone.

        The columns of a text file are all text.
        """
        import pyarrow as pa
        from pyarrow import ipc, parquet

        with understood(self.path, self if self.kind == "text" else None):
            if self.kind == "text":
                yield from self._texts(names, rows)
            elif self.kind == "Parquet":
                with parquet.ParquetFile(self.path, pre_buffer=False, buffer_size=HEAD) as file:
                    for batch in file.iter_batches(
                        rows, self.groups, columns=list(names), use_threads=False
                    ):
                        yield _sound(pa.Table.from_batches([batch]).select(names))
            else:
                with pa.memory_map(str(self.path)) as mapped, ipc.open_file(mapped) as file:
                    for i in range(file.num_record_batches):
                        table = _sound(pa.Table.from_batches([file.get_batch(i)]).select(names))
                        yield from (table.slice(low, rows) for low in range(0, len(table), rows))

    def texts(self, names: Sequence[str]) -> list[str]:
        """Return those of these columns that may hold text, by their type."""
        import pyarrow as pa
        from pyarrow import parquet

        if self.kind != "Parquet":
            return list(names)
        with understood(self.path):
            types = {field.name: field.type for field in parquet.read_schema(self.path)}
        kinds = (pa.types.is_string, pa.types.is_large_string)
        return [name for name in names if any(is_text(types[name]) for is_text in kinds)]

    def dates(self, names: Sequence[str], text: Collection[str]) -> list[Told]:
        """Return those of these columns that hold dates by their type, `text` aside."""
        import pyarrow as pa

        aside = {*text} if self.kind != "text" else {*names}
        wanted = [name for name in names if name not in aside]
        found = []
        for table, name in product(islice(self.batches(wanted, 1), len(wanted[:1])), wanted):
            kind = table.schema.field(name).type
            if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
                cell = next((c for c in table[name].to_pylist() if c is not None), "")
                found.append(Told(name, ORDERS[0], Cell(0, str(cell))))
        return found

    def source(self) -> Path | io.BytesIO:
        """Return what can be read: where it is, or a stream of what it holds."""
        return self.path if self.content is None else io.BytesIO(self.content)

    def opened(self, **convert: Any) -> Any:
        """Return pyarrow's reader of a text file."""
        import pyarrow as pa
        from pyarrow import csv as arrow_csv

        return arrow_csv.open_csv(
            pa.input_stream(
                str(self.path) if self.content is None else pa.py_buffer(self.content),
                compression=self.packed,
            ),
            # Small blocks: the reader is many of them ahead.
            arrow_csv.ReadOptions(
                block_size=HEAD, encoding="utf8" if self.encoding == UTF8 else self.encoding
            ),
            arrow_csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
            arrow_csv.ConvertOptions(**convert),
        )

    def _texts(self, names: Sequence[str], rows: int) -> Iterator[Any]:
        import pyarrow as pa

        columns = {
            "include_columns": list(names),
            "column_types": dict.fromkeys(names, pa.string()),
        }
        with self.opened(strings_can_be_null=True, null_values=[""], **columns) as file:
            held: list[Any] = []
            for batch in file:
                held.append(batch)
                if sum(map(len, held)) >= rows:
                    yield pa.Table.from_batches(held)
                    held.clear()
            if held:
                yield pa.Table.from_batches(held)

    def survey(
        self,
        tables: Iterable[Any],
        text: Collection[str],
        unchecked: Collection[str] = (),
        missing: Collection[str] = (),
    ) -> Surveyed:
        """Return what the columns of text hold.

        One batch tells little, so all of them are looked at before any is converted.
        """
        typed = self.kind != "text"
        kinds, remarks = survey(
            tables,
            text,
            unchecked,
            where=f"{self.path}: ",
            comma=self.delimiter == ";",
            typed=typed,
            missing=missing,
        )
        return (
            Surveyed({**dict.fromkeys(text, "text"), **kinds}, remarks)
            if typed
            else Surveyed(kinds, remarks)
        )

    def load(
        self,
        names: Sequence[str],
        text: Collection[str],
        unchecked: Collection[str] = (),
        missing: Collection[str] = (),
    ) -> tuple[Any, list[Told]]:
        """Return a frame of these columns, and what is worth saying of it.

        The columns `text` are taken as text, and the `unchecked` are not looked into: in a text
        file they stay as they are written, whole numbers of int64 apart. `missing` are words for
        empty cells.
        """
        import pyarrow as pa

        tables = list(self.batches(names))
        if not tables:
            raise DomainError(f"{self.path}: there are no rows")
        table = pa.concat_tables(tables)
        with placed(self.line):
            kinds, remarks = self.survey([table], text, unchecked, missing)
        kept = {*unchecked} - {*text} if self.kind == "text" else set()
        frame = to_frame(table, {**kinds, **dict.fromkeys(kept, "text")}, missing=missing)
        with placed(self.line):
            parse_dates(frame, kinds, str(self.path), missing)
        for name in kept:
            if all(isinstance(v, str) and WHOLE.fullmatch(v) for v in frame[name]):
                frame[name] = frame[name].astype("int64")
        return frame, remarks

    def line(self, row: int) -> str:
        """Return where a row of a text file stands, in words; nothing for files of other kinds."""
        return (
            line_of(self.source(), row, self.delimiter, self.packed, self.encoding, self.path.name)
            if self.kind == "text"
            else ""
        )

    def size(self) -> int:
        """Return the number of rows."""
        return sum(len(table) for table in self.batches(self.columns[:1]))


def _sound(table: Any) -> Any:
    """Return the table after a check of its text and offsets.

    Arrow trusts what a file says, and pandas trusts Arrow.
    """
    table.validate(full=True)
    return table
