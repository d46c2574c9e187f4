"""The tour with Spark: a small night for real, and what actors would say if their mail were not right."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from restante.samples.spark_night import Document, faults
from restante.spark.sessions.failures import interrupted
from tests.cli.places import run

LINES = [
    Document(readings=2, energy_wh=10, amount_microcents=7, meter_group=0, product=name) for name in ("night", "day")
]
SUMMARY = Document(readings=4, energy_wh=20, amount_microcents=14, documents=2)


def test_a_night_is_computed_delivered_collected_and_told(spark: SparkSession, tmp_path: Path) -> None:
    data = tmp_path / "data"
    result = run("tour", "--once", "--spark", "--readings", "400", "--recipients", "10", "--json", "--data", str(data))
    assert result.exit_code == 0, result.output
    night = json.loads(result.stdout)
    assert night["wrong"] == []
    assert night["readings"] == 400
    assert [step["step"] for step in night["steps"]] == [
        "settle",
        "deliver",
        "pushed live",
        "collect and confirm",
        "fill the tables",
        "report",
    ]
    batch = night["batch"]
    assert (batch["state"], batch["collected"]) == ("complete", night["messages"])
    assert night["messages"] > 10
    assert night["collected"][-1][1] == night["messages"]
    assert sum(row["documents"] for row in night["settlement"]) == night["messages"] - 10
    assert night["report"][0]["waiting"] == 0
    assert spark.read.format("delta").load(str(data / "tables" / "messages")).count() == night["messages"]


def test_ctrl_c_is_known_in_what_spark_raises_after_it() -> None:
    error = Py4JError("no result")
    assert not interrupted(error)
    error.__context__ = ValueError()
    error.__context__.__context__ = KeyboardInterrupt()
    assert interrupted(error)


def test_mail_that_is_right_has_no_faults() -> None:
    assert list(faults([*LINES, SUMMARY])) == []


@pytest.mark.parametrize(
    ("documents", "told"),
    [
        ([], "nothing has come."),
        (LINES, "the summary is not the last that has come."),
        ([SUMMARY, *LINES], "the summary is not the last that has come."),
        ([*reversed(LINES), SUMMARY], "documents came out of order, or more than once."),
        ([*LINES, LINES[1], SUMMARY], "documents came out of order, or more than once."),
        ([LINES[0], SUMMARY], "1 of 2 documents have come."),
        ([*LINES, msgspec.structs.replace(SUMMARY, energy_wh=21)], "the documents do not add up to the summary."),
    ],
)
def test_an_actor_notices_what_is_wrong_with_its_mail(documents: list[Document], told: str) -> None:
    assert next(faults(documents)) == told
