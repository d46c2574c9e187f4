"""Changes in, tables out: case by case, and again after a crash at any step."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import msgspec
import pytest
from pyspark.sql import Column, DataFrame, SparkSession

from restante.spark.analytical.analytical_batches import ByFiles, apply
from restante.spark.analytical.analytical_changes import messages_of, states
from restante.spark.analytical.analytical_files import Filed, FilingWish, filed, whole_of
from restante.spark.analytical.analytical_tables import Tables, create_tables, folders_of, tables_at
from restante.spark.documents import Fidelity
from restante.spark.jobs.analytical_store import Options
from restante.spark.source.schemas import CHANGES
from restante.spark.tables.table_files import NewFile
from restante.spark.tables.tables import StoredTable, settings
from tests.spark.given_then import Case, CasesAtOnce, cases, check_rows, frame_of, named

Make = Callable[..., Tables]
CASES = cases("analytical-store")
FILED = ("batch-completed", "bootstrap", "erased", "published-and-collected")
"""Cases of plain messages in which files are committed; the others go the way of rows in any case."""
STEPS = {
    "released-to-the-end": [("deliveries", "append_once"), ("deliveries", "replace_newer")],
    "released-into-its-place": [("deliveries", "append_once"), ("deliveries", "replace_newer")],
    "erased": [("deliveries", "append_once"), ("messages", "delete"), ("deliveries", "delete")],
    "documents-well-defined": [("mismatches", "append_once")],
}
"""The commits of a case in which a crash can come, beside the first."""


class PowerFailure(Exception):
    """The driver is gone."""


class Failing(StoredTable):
    """A table whose commits of one kind do not come about."""

    step = ""

    def _fail(self) -> NoReturn:
        raise PowerFailure

    def append_once(self, rows: DataFrame, *, application: str, version: int, new_columns: bool = False) -> None:
        if self.step == "append_once":
            self._fail()
        super().append_once(rows, application=application, version=version, new_columns=new_columns)

    def add_files(self, files: Sequence[NewFile], *, application: str, version: int) -> None:
        if self.step == "add_files":
            self._fail()
        super().add_files(files, application=application, version=version)

    def replace_newer(self, rows: DataFrame, *, same: str, newer: str) -> None:
        if self.step == "replace_newer":
            self._fail()
        super().replace_newer(rows, same=same, newer=newer)

    def delete(self, condition: Column) -> None:
        if self.step == "delete":
            self._fail()
        super().delete(condition)


def failing(tables: Tables, name: str, step: str) -> Tables:
    table: StoredTable = getattr(tables, name)
    kind = type("FailingAtOneStep", (Failing,), {"step": step})
    return replace(tables, **{name: kind(table.spark, table.path)})


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Make:
    """Empty tables in a folder. Delta takes its time to make them, so they are made once, and copied."""
    patterns: dict[Fidelity, Path] = {}

    def copied(folder: str, schema: Fidelity = Fidelity.NONE) -> Tables:
        if schema not in patterns:
            patterns[schema] = tmp_path_factory.mktemp(schema)
            create_tables(tables_at(spark, str(patterns[schema])), schema, versions_hours=168)
        shutil.copytree(patterns[schema], folder, dirs_exist_ok=True)
        return tables_at(spark, folder)

    return copied


def case_of(name: str) -> Case:
    (case,) = (case for case in CASES if named(case) == name)
    return case


def schema_of(case: Case) -> Fidelity:
    return case.options(Options).schema


def at_once(names: Iterable[str]) -> CasesAtOnce:
    return CasesAtOnce([case_of(name) for name in names])


def check(case: Case | CasesAtOnce, tables: Tables) -> None:
    for name in case.tables:
        shown = states(tables.messages.frame(), tables.deliveries.frame()) if name == "states" else None
        case.check(name, getattr(tables, name).frame() if shown is None else shown)


PLAIN = [named(case) for case in CASES if schema_of(case) is Fidelity.NONE]
OTHERS = [name for name in PLAIN if name not in FILED]
DOCUMENTS = [case for case in CASES if schema_of(case) is not Fidelity.NONE]
TOGETHER = [
    pytest.param(at_once(FILED), Fidelity.NONE, id="settled", marks=pytest.mark.long),
    pytest.param(at_once(OTHERS), Fidelity.NONE, id="set aside and released"),
    *(pytest.param(case, schema_of(case), id=named(case)) for case in DOCUMENTS),
]
"""Every case: those without documents in two groups, given at once; those with documents infer columns of their own."""


@pytest.mark.parametrize(("case", "schema"), TOGETHER)
def test_changes_become_the_rows_of_the_tables(
    case: Case | CasesAtOnce, schema: Fidelity, spark: SparkSession, tables: str, made: Make
) -> None:
    made_tables = made(tables, schema)
    for number, changes in enumerate(case.given_in_turn(spark, "changes", CHANGES)):
        apply(made_tables, changes, number=number, fidelity=schema)
    check(case, made_tables)


def file_here(changes: DataFrame, number: int, wish: FilingWish) -> Filed:
    """What tasks do with a micro-batch of the source, done with the rows of a frame."""
    batches = changes.toArrow().to_batches(max_chunksize=3)
    told = msgspec.json.encode(wish).decode()
    rows = [row for batch in batches for row in filed(iter([batch]), told, "part")]
    return whole_of(msgspec.json.decode(row.column("data")[0].as_py(), type=Filed) for row in rows)


def by_files(tables: Tables) -> ByFiles:
    folders = folders_of(tables)
    assert folders is not None, "they lie on this machine"
    return ByFiles(tables, folders, file=file_here)


def test_tasks_that_write_the_files_themselves_make_the_same_tables(
    spark: SparkSession, tables: str, made: Make
) -> None:
    case = at_once(FILED)
    made_tables = made(tables)
    own = by_files(made_tables)
    for number, changes in enumerate(case.given_in_turn(spark, "changes", CHANGES)):
        own.apply(changes, number=number)
    check(case, made_tables)


@pytest.mark.long
def test_tasks_that_do_not_hear_of_the_files_cost_nothing_but_the_gain(
    spark: SparkSession, tables: str, made: Make
) -> None:
    """A frame that our source does not read gives its rows, whatever it is told: they go the way of rows."""
    case = case_of("published-and-collected")
    made_tables = made(tables, schema_of(case))
    folders = folders_of(made_tables)
    assert folders is not None, "they lie on this machine"
    own = ByFiles(made_tables, folders)
    for number, changes in enumerate(case.given_in_turn(spark, "changes", CHANGES)):
        own.apply(changes, number=number)
    check(case, made_tables)


@pytest.mark.long
def test_what_lies_aside_is_compared_only_when_something_happens_to_it(
    spark: SparkSession, tables: str, made: Make
) -> None:
    made_tables = made(tables)
    own = by_files(made_tables)

    def row_of(number: int, change: str, of: int) -> dict[str, object]:
        row = {"partition": 0, "sequence_number": number, "change": change, "message_sequence_number": of}
        return row | {"at": "2026-03-01T08:00:00Z", "recipient": "ada"}

    def happen(number: int, *changes: tuple[str, int]) -> int:
        """How many commits deliveries have after this."""
        rows = [row_of(10 * number + place, change, of) for place, (change, of) in enumerate(changes)]
        own.apply(frame_of(spark, rows, CHANGES), number=number)
        return made_tables.deliveries.frame().select("_metadata.file_path").distinct().count()

    for number, state in enumerate(("set_aside", None, "collected"), start=98):
        stored = [] if state is None else [row_of(number, "stored", number) | {"state": state}]
        own.apply(frame_of(spark, stored, CHANGES), number=number)
    happen(101, ("set_aside", 1), ("collected", 2))
    before = happen(102, ("collected", 3), ("expired", 4))
    assert happen(103, ("collected", 5)) == before + 1, "a file of its own, and the others as they were"
    happen(104, ("released", 1), ("collected", 6))
    happen(105, ("collected", 1))
    found = made_tables.deliveries.frame().select("message_sequence_number", "state", "settled").collect()
    told = {1: "collected", 2: "collected", 3: "collected", 4: "expired", 5: "collected", 6: "collected"}
    assert {row[0]: row[1] for row in found} == told | {98: "set_aside", 100: "collected"}
    assert [row[0] for row in found if not row[2]] == [98]


def test_files_that_were_not_committed_do_not_count(spark: SparkSession, tables: str, made: Make) -> None:
    case = case_of("published-and-collected")
    made_tables = made(tables)
    for number, changes in enumerate(case.given_in_turn(spark, "changes", CHANGES)):
        for table in ("messages", "deliveries"):
            with pytest.raises(PowerFailure):
                by_files(failing(made_tables, table, "add_files")).apply(changes, number=number)
        own = by_files(made_tables)
        facts = own.apply(changes, number=number)
        assert facts == own.apply(changes, number=number), "the same again is known, and counted the same"
    check(case, made_tables)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] * (place > 0)) for place, name in enumerate(STEPS)]
)
def test_a_batch_that_was_cut_off_at_any_commit_is_finished_by_the_next_try(
    name: str, spark: SparkSession, tables: str, made: Make
) -> None:
    """Each batch is tried once for each step that fails, then as a whole; and the last once more, for nothing."""
    case = case_of(name)
    made_tables = made(tables, schema_of(case))
    fidelity, failed = case.options(Options).schema, set()
    for number, changes in enumerate(case.given_in_turn(spark, "changes", CHANGES)):
        for step in STEPS[name]:
            try:
                apply(failing(made_tables, *step), changes, number=number, fidelity=fidelity)
            except PowerFailure:
                failed.add(step)
        apply(made_tables, changes, number=number, fidelity=fidelity)
    apply(made_tables, changes, number=number, fidelity=fidelity)
    check(case, made_tables)
    assert failed == set(STEPS[name])


def test_what_became_of_stored_messages_is_there_before_they_are(spark: SparkSession, tables: str, made: Make) -> None:
    """The hub may have removed one of them when the batch is tried again: then it must not look as if it waited."""
    case = case_of("bootstrap")
    made_tables = made(tables, schema_of(case))
    stored, _ = case.given_in_turn(spark, "changes", CHANGES)
    with pytest.raises(PowerFailure):
        apply(failing(made_tables, "messages", "append_once"), stored, number=0, fidelity=case.options(Options).schema)
    left = stored.where("sequence_number != 2")
    apply(made_tables, left, number=0, fidelity=case.options(Options).schema)
    shown = states(made_tables.messages.frame(), made_tables.deliveries.frame())
    told = {1: "waiting", 3: "expired", 4: "withdrawn", 5: "set_aside"}
    check_rows(shown, [{"sequence_number": number, "state": state} for number, state in told.items()])
    assert made_tables.deliveries.frame().count() == 4, "of the one that is gone, too"


def test_a_day_is_one_of_utc_whatever_the_zone_of_the_session(spark: SparkSession) -> None:
    changes = [
        {"partition": 0, "sequence_number": 1, "change": "published", "at": "2026-03-01T23:30:00Z"},
        {"partition": 0, "sequence_number": 2, "change": "published", "at": "1969-12-31T23:59:59.5Z"},
    ]
    with settings(spark, {"spark.sql.session.timeZone": "Asia/Tokyo"}):
        rows = messages_of(frame_of(spark, changes, CHANGES)).select("published_on").collect()
    assert [row["published_on"].isoformat() for row in rows] == ["2026-03-01", "1969-12-31"]
