"""Changes in, tables out: case by case, and again after a crash at any step."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest
from pyspark.sql import Column, DataFrame, SparkSession

from restante.spark.jobs.analytical_batches import apply
from restante.spark.jobs.analytical_changes import messages_of, states
from restante.spark.jobs.analytical_store import Options
from restante.spark.jobs.analytical_tables import Tables, create_tables, tables_at
from restante.spark.schemas import CHANGES
from restante.spark.tables import Table, settings
from tests.spark.given_then import Case, cases, check_rows, frame_of, named

CASES = cases("analytical-store")
STEPS = {
    "released-into-its-place": [("deliveries", "append_once"), ("deliveries", "replace_newer")],
    "released-to-the-end": [("deliveries", "append_once"), ("deliveries", "replace_newer")],
    "erased": [("deliveries", "append_once"), ("messages", "delete"), ("deliveries", "delete")],
    "documents-well-defined": [("mismatches", "append_once")],
}
"""The commits of a case in which a crash can come, beside the first."""


class PowerFailure(Exception):
    """The driver is gone."""


class Failing(Table):
    """A table whose commits of one kind do not come about."""

    step = ""

    def _fail(self) -> NoReturn:
        raise PowerFailure

    def append_once(self, rows: DataFrame, *, application: str, version: int, new_columns: bool = False) -> None:
        if self.step == "append_once":
            self._fail()
        super().append_once(rows, application=application, version=version, new_columns=new_columns)

    def replace_newer(self, rows: DataFrame, *, same: str, newer: str) -> None:
        if self.step == "replace_newer":
            self._fail()
        super().replace_newer(rows, same=same, newer=newer)

    def delete(self, condition: Column) -> None:
        if self.step == "delete":
            self._fail()
        super().delete(condition)


def failing(tables: Tables, name: str, step: str) -> Tables:
    table: Table = getattr(tables, name)
    kind = type("FailingAtOneStep", (Failing,), {"step": step})
    return replace(tables, **{name: kind(table.spark, table.path)})


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Case], Tables]:
    """Empty tables in a folder. Delta takes its time to make them, so they are made once, and copied."""
    patterns: dict[str, Path] = {}

    def copied(folder: str, case: Case) -> Tables:
        schema = case.options(Options).schema
        if schema not in patterns:
            patterns[schema] = tmp_path_factory.mktemp(schema)
            create_tables(tables_at(spark, str(patterns[schema])), schema, versions_hours=168)
        shutil.copytree(patterns[schema], folder, dirs_exist_ok=True)
        return tables_at(spark, folder)

    return copied


def case_of(name: str) -> Case:
    (case,) = (case for case in CASES if named(case) == name)
    return case


def check(case: Case, tables: Tables) -> None:
    for name in case.tables:
        shown = states(tables.messages.frame(), tables.deliveries.frame()) if name == "states" else None
        case.check(name, getattr(tables, name).frame() if shown is None else shown)


@pytest.mark.parametrize("case", CASES, ids=named)
def test_changes_become_the_rows_of_the_tables(
    case: Case, spark: SparkSession, tables: str, made: Callable[[str, Case], Tables]
) -> None:
    made_tables = made(tables, case)
    for number, changes in enumerate(case.given_in_turn(spark, "changes", CHANGES)):
        apply(made_tables, changes, number=number, fidelity=case.options(Options).schema)
    check(case, made_tables)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] * (place > 0)) for place, name in enumerate(STEPS)]
)
def test_a_batch_that_was_cut_off_at_any_commit_is_finished_by_the_next_try(
    name: str, spark: SparkSession, tables: str, made: Callable[[str, Case], Tables]
) -> None:
    """Each batch is tried once for each step that fails, then as a whole; and the last once more, for nothing."""
    case = case_of(name)
    made_tables = made(tables, case)
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


def test_what_became_of_stored_messages_is_there_before_they_are(
    spark: SparkSession, tables: str, made: Callable[[str, Case], Tables]
) -> None:
    """The hub may have removed one of them when the batch is tried again: then it must not look as if it waited."""
    case = case_of("bootstrap")
    made_tables = made(tables, case)
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
