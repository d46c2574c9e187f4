"""Changes in, tables out: case by case, and again after a crash at any step."""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

import pytest
from pyspark.sql import Column, DataFrame, SparkSession

from restante.spark.jobs.analytical_batches import apply
from restante.spark.jobs.analytical_changes import states
from restante.spark.jobs.analytical_store import Options
from restante.spark.jobs.analytical_tables import Tables, create_tables, tables_at
from restante.spark.schemas import CHANGES
from restante.spark.tables import Table
from tests.spark.given_then import Case, cases, named

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


def made(spark: SparkSession, folder: str, case: Case) -> Tables:
    tables = tables_at(spark, folder)
    create_tables(tables, case.options(Options).schema, versions_hours=168)
    return tables


def check(case: Case, tables: Tables) -> None:
    for name in case.tables:
        shown = states(tables.messages.frame(), tables.deliveries.frame()) if name == "states" else None
        case.check(name, getattr(tables, name).frame() if shown is None else shown)


@pytest.mark.parametrize("case", CASES, ids=named)
def test_changes_become_the_rows_of_the_tables(case: Case, spark: SparkSession, tables: str) -> None:
    made_tables = made(spark, tables, case)
    for number, changes in enumerate(case.given_in_turn(spark, "changes", CHANGES)):
        apply(made_tables, changes, number=number, fidelity=case.options(Options).schema)
    check(case, made_tables)


@pytest.mark.parametrize("name", STEPS)
def test_a_batch_that_was_cut_off_at_any_commit_is_finished_by_the_next_try(
    name: str, spark: SparkSession, tables: str
) -> None:
    """Each batch is tried once for each step that fails, then as a whole, and once more for nothing."""
    (case,) = (case for case in CASES if named(case) == name)
    made_tables = made(spark, tables, case)
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
