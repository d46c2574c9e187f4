"""A case of a job is a folder: the tables that are given, the options, and the tables that then must be there.

    cases/<job>/<case>/given/<table>.jsonl      a row a line; a column that is left out is null
                       options.json             of the job, if it has any but the defaults
                       then/<table>.jsonl       the rows in any order; only columns that are named somewhere are compared

Times are texts in UTC (`2026-03-01T08:00:00Z`). Bytes are texts, or any other JSON, which stands for its shortest text.
Several files of a table that are given one after the other, as micro-batches are, have numbers: `changes.1.jsonl`.

A micro-batch costs seconds, however few its rows, so `CasesAtOnce` gives several cases as one: the first micro-batch has
the first rows of every case, and so on. Their partitions tell them apart: those of each case begin `PARTITIONS_APART`
after those of the case before it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import UTC, date, datetime
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType, StructType, TimestampType, VariantType, VariantVal

Row = dict[str, Any]
Options = TypeVar("Options", bound=msgspec.Struct)
PARTITIONS_APART = 100
"""Between the first partitions of two cases that are given at once."""
_CASES = Path(__file__).parent / "cases"


@dataclass(frozen=True)
class Case:
    """One folder."""

    folder: Path

    def options(self, kind: type[Options]) -> Options:
        file = self.folder / "options.json"
        return msgspec.json.decode(file.read_bytes() if file.exists() else b"{}", type=kind)

    def given(self, spark: SparkSession, table: str, schema: StructType) -> DataFrame:
        """The table of this name; without rows if there is no file of it."""
        return frame_of(spark, _rows(self.folder / "given" / f"{table}.jsonl"), schema)

    def given_in_turn(self, spark: SparkSession, table: str, schema: StructType) -> list[DataFrame]:
        """The tables `table.1`, `table.2` and so on, or just the one without a number."""
        return [frame_of(spark, rows, schema) for rows in self.rows_in_turn(table)]

    def rows_in_turn(self, table: str) -> list[list[Row]]:
        folder = self.folder / "given"
        files = sorted(folder.glob(f"{table}.*.jsonl"), key=lambda file: int(file.suffixes[0][1:]))
        return [_rows(file) for file in files or [folder / f"{table}.jsonl"]]

    @property
    def tables(self) -> list[str]:
        """The names of those that must be there then."""
        return sorted(file.stem for file in (self.folder / "then").glob("*.jsonl"))

    def check(self, table: str, frame: DataFrame) -> None:
        """The frame has exactly the rows of this table."""
        check_rows(frame, self.then(table))

    def then(self, table: str) -> list[Row]:
        """The rows that the table must have."""
        return _rows(self.folder / "then" / f"{table}.jsonl", required=True)


@dataclass(frozen=True)
class CasesAtOnce:
    """Several cases of changes whose micro-batches are given as one, each case with partitions of its own."""

    cases: Sequence[Case]

    def given_in_turn(self, spark: SparkSession, table: str, schema: StructType) -> list[DataFrame]:
        """Micro-batches of what is stored come before all others, and are theirs alone: so the stream gives them."""
        stored, others = [], []
        for first, case in self._placed():
            turns = [_moved(rows, first) for rows in case.rows_in_turn(table)]
            stored.append([rows for rows in turns if _is_of_stored(rows)])
            others.append([rows for rows in turns if not _is_of_stored(rows)])
        turns = [list(chain(*turn)) for each in (stored, others) for turn in zip_longest(*each, fillvalue=())]
        return [frame_of(spark, rows, schema) for rows in turns]

    @property
    def tables(self) -> list[str]:
        return sorted({table for case in self.cases for table in case.tables})

    def check(self, table: str, frame: DataFrame) -> None:
        """The frame has exactly the rows of this table of each case that has one."""
        expected = {first: case.then(table) for first, case in self._placed() if table in case.tables}
        shown = _shown(frame, {"partition", *(name for rows in expected.values() for row in rows for name in row)})
        for first, rows in expected.items():
            own = [row for row in shown if first <= row["partition"] < first + PARTITIONS_APART]
            names = {name for row in rows for name in row}
            found = [{name: row[name] for name in names} for row in _moved(own, -first)]
            _check_same(found, rows, names)

    def _placed(self) -> list[tuple[int, Case]]:
        return [(place * PARTITIONS_APART, case) for place, case in enumerate(self.cases)]


def cases(job: str) -> list[Case]:
    """All cases of a job, by name. For `pytest.mark.parametrize("case", cases("…"), ids=named)`."""
    found = [Case(folder) for folder in sorted((_CASES / job).iterdir()) if folder.is_dir()]
    assert found, f"there are no cases of {job}"
    return found


def named(case: Case) -> str:
    return case.folder.name


def frame_of(spark: SparkSession, rows: Iterable[Mapping[str, Any]], schema: StructType) -> DataFrame:
    """A frame of plain rows, as they stand in a case's files; of Arrow, so no Python worker has to start for it."""
    shaped = [_shaped(row, schema) for row in rows]
    table = pa.Table.from_pylist(shaped, schema=to_arrow_schema(schema, timezone="UTC"))
    return spark.createDataFrame(table, schema=schema)


def check_rows(frame: DataFrame, expected: Sequence[Mapping[str, Any]]) -> None:
    """Exactly these rows, in any order, by the columns that any of them names."""
    names = {name for row in expected for name in row}
    _check_same(_shown(frame, names or set(frame.columns)), expected, names)


def _shown(frame: DataFrame, names: Set[str]) -> list[Row]:
    missing = sorted(names - set(frame.columns))
    assert not missing, f"columns {missing} are not among {frame.columns}"
    rows = frame.select(*sorted(names)).collect()
    return [{name: _plain(value) for name, value in row.asDict(recursive=True).items()} for row in rows]


def _check_same(shown: Sequence[Row], expected: Sequence[Mapping[str, Any]], names: Set[str]) -> None:
    assert _sorted(shown) == _sorted({name: row.get(name) for name in names} for row in expected)


def _moved(rows: Iterable[Row], partitions: int) -> list[Row]:
    return [row | {"partition": row["partition"] + partitions} for row in rows]


def _is_of_stored(rows: Sequence[Row]) -> bool:
    return bool(rows) and rows[0]["change"] == "stored"


def _rows(file: Path, *, required: bool = False) -> list[Row]:
    if not required and not file.exists():
        return []
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]


def _shaped(row: Mapping[str, Any], schema: StructType) -> Row:
    unknown = set(row) - set(schema.names)
    assert not unknown, f"{sorted(unknown)} are no columns of {schema.names}"
    return {field.name: _typed(row.get(field.name), field.dataType) for field in schema.fields}


def _typed(value: Any, kind: object) -> Any:
    if value is None:
        return None
    if isinstance(kind, TimestampType):
        return datetime.fromisoformat(value)
    if isinstance(kind, BinaryType):
        return (value if isinstance(value, str) else _shortest(value)).encode()
    assert not isinstance(kind, VariantType), "a variant cannot be given; make it in the test"
    return value


def _plain(value: Any) -> Any:
    """As it would stand in a file; times and bytes as texts, and bytes of JSON that is no text as that JSON."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, bytes | bytearray):
        return _of_bytes(bytes(value))
    if isinstance(value, VariantVal):
        return json.loads(value.toJson())
    return value.isoformat() if isinstance(value, date) else value


def _of_bytes(value: bytes) -> Any:
    text = value.decode()
    try:
        told = json.loads(text)
    except ValueError:
        return text
    return text if isinstance(told, str) else told


def _shortest(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _sorted(rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True, ensure_ascii=False))
