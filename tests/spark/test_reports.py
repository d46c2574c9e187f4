"""Reports: what they say of given tables, how they are kept, and how they come into mailboxes."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from restante.errors import InvalidRequest
from restante.limits import REPORT_PAGE_BYTES_TARGET
from restante.spark.jobs import collection_report, leaderboard
from restante.spark.jobs.work import Work
from restante.spark.reports import kept_reports
from restante.spark.reports.posted_reports import letters
from restante.spark.reports.report_run import moment_of
from restante.spark.tables import cleanup as cleaning
from tests.spark.given_then import Case, cases, named
from tests.spark.report_tables import fill, given_tables
from tests.spark.served import SparkHub

BEFORE = datetime(2026, 3, 1, tzinfo=UTC)
FIRST = datetime(2026, 3, 2, tzinfo=UTC)
SECOND = datetime(2026, 3, 3, tzinfo=UTC)
ALICE, BOB = {"recipient": "alice"}, {"recipient": "bob"}


@pytest.mark.parametrize("case", cases("collection-report"), ids=named)
def test_the_collection_report_counts(case: Case, spark: SparkSession) -> None:
    moment = moment_of(case.options(collection_report.Options))
    case.check(
        "report",
        collection_report.transform(
            *given_tables(case, spark), as_of=moment.as_of, since=moment.since, until=moment.until
        ),
    )


@pytest.mark.parametrize("case", cases("leaderboard"), ids=named)
def test_the_leaderboard_ranks(case: Case, spark: SparkSession) -> None:
    options = case.options(leaderboard.Options)
    moment = moment_of(options)
    board = leaderboard.transform(*given_tables(case, spark), as_of=moment.as_of, top=options.top)
    case.check("report", board)
    ranks = [(row.of, row.kind, row.list, row["rank"]) for row in board.collect()]
    assert ranks[:4] == [
        ("recipient", None, "most", 1),
        ("recipient", None, "most", 1),
        ("recipient", None, "fastest", 1),
        ("recipient", None, "fastest", 2),
    ]


@pytest.fixture(scope="module")
def template(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables with three messages, made once."""
    folder = tmp_path_factory.mktemp("template") / "tables"
    fill(spark, str(folder), BOB, ALICE, BOB)
    return folder


@pytest.fixture
def work(spark: SparkSession, template: Path, tmp_path: Path) -> Work:
    """With tables of one's own."""
    folder = tmp_path / "tables"
    shutil.copytree(template, folder)
    return Work(spark=spark, tables=str(folder))


def test_a_run_is_kept_and_replaced_by_one_for_the_same_moment(work: Work) -> None:
    first = collection_report.run(work, collection_report.Options(as_of=FIRST))
    assert first.figures["rows"] == 2
    assert first.table is not None
    assert first.table.column("recipient").to_pylist() == ["alice", "bob"]
    collection_report.run(work, collection_report.Options(as_of=SECOND))
    collection_report.run(work, collection_report.Options(as_of=FIRST))
    assert _kept(work) == [(FIRST, "alice"), (FIRST, "bob"), (SECOND, "alice"), (SECOND, "bob")]


@pytest.mark.long
def test_only_the_newest_runs_are_kept_and_others_leave_the_disk(work: Work) -> None:
    for moment in (FIRST, SECOND):
        collection_report.run(work, collection_report.Options(as_of=moment, keep=1, versions_hours=0))
    assert _kept(work) == [(SECOND, "alice"), (SECOND, "bob")]
    files = Path(work.place("reports", "collection-report")).glob("*.parquet")
    days = {f"{moment:%Y-%m-%d}" for file in files for moment in pq.read_table(file)["computed_at"].to_pylist()}
    assert days == {"2026-03-03"}


@pytest.mark.long
def test_many_runs_leave_few_files(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleaning, "_EVERY_SECONDS", 0)
    report = work.spark.range(1, numPartitions=1).selectExpr("id AS number")
    counts = []
    for day in (1, 2):
        moment = datetime(2026, 3, day, tzinfo=UTC)
        kept_reports.keep(work, "numbers", report, computed_at=moment, runs=0, versions_hours=1)
        place = work.place("reports", "numbers")
        counts.append(len(work.spark.read.format("delta").load(place).inputFiles()))
    assert counts == [1, 1]


def test_a_report_comes_into_mailboxes_once(work: Work, hub: SparkHub) -> None:
    sending = replace(work, url=hub.url)
    options = collection_report.Options(as_of=FIRST, deliver_to=("operations",), deliver_each=True)
    outcomes = [collection_report.run(sending, options) for _ in range(2)]
    key = f"report-collection-report-{FIRST.isoformat()}"
    assert [(one.figures["messages"], one.figures["consignment"]) for one in outcomes] == [(3, key)] * 2
    assert [(told["part"], _counts(told)) for told in _mail(hub, "operations")] == [("whole", {"alice": 1, "bob": 2})]
    assert [(told["part"], _counts(told)) for told in _mail(hub, "alice")] == [("own", {"alice": 1})]
    (bobs,) = _mail(hub, "bob")
    assert (bobs["report"], bobs["computed_at"]) == ("collection-report", FIRST.isoformat())
    assert (bobs["page"], bobs["pages"]) == (1, 1)
    assert bobs["rows"][0]["collect_seconds_p50"] is None
    assert bobs["rows"][0]["oldest_waiting_at"] == "2026-03-01T08:00:00.000Z"


def test_an_empty_report_says_so_to_those_who_get_all_of_it(work: Work, hub: SparkHub) -> None:
    sending = replace(work, url=hub.url)
    each = collection_report.Options(as_of=FIRST, until=BEFORE, deliver_each=True)
    assert collection_report.run(sending, each).figures["messages"] == 0
    with hub.connect() as connected:
        assert list(connected.consignments()) == [], "nobody is in the report, so nothing is sent"
    whole = leaderboard.Options(as_of=FIRST, until=BEFORE, deliver_to=("operations",))
    assert leaderboard.run(sending, whole).figures["messages"] == 1
    assert [told["rows"] for told in _mail(hub, "operations")] == [[]]


def test_a_long_report_is_several_messages_in_order(spark: SparkSession) -> None:
    size = REPORT_PAGE_BYTES_TARGET * 4 // 5
    rows: DataFrame = spark.range(3, numPartitions=2).selectExpr(
        "timestamp'2026-03-02' AS computed_at", "id AS place", f"concat(id, repeat('x', {size})) AS text"
    )
    written = letters(rows, name="long", computed_at=FIRST, whole=["a", "b"], each=False)
    pages: dict[str, list[dict[str, Any]]] = {"a": [], "b": []}
    for letter in written.orderBy("page").collect():
        pages[letter.recipient].append(json.loads(letter.data))
    assert pages["a"] == pages["b"]
    assert [(told["page"], told["pages"]) for told in pages["a"]] == [(1, 2), (2, 2)]
    assert [[row["text"][0] for row in told["rows"]] for told in pages["a"]] == [["0", "1"], ["2"]]
    assert written.select("id").distinct().count() == 4


def test_without_tables_a_report_says_what_to_do(spark: SparkSession, tables: str) -> None:
    with pytest.raises(InvalidRequest, match=r"no table messages .* Run the job analytical-store first"):
        collection_report.run(Work(spark=spark, tables=tables), collection_report.Options())


def test_a_time_without_a_zone_is_in_utc() -> None:
    # As a command line may say it.
    moment = moment_of(collection_report.Options(as_of=datetime.fromisoformat("2026-03-02T00:00:00")))
    assert moment.as_of == FIRST


def test_a_window_that_ends_before_it_begins_is_refused() -> None:
    with pytest.raises(InvalidRequest, match=r"since .* must be before until"):
        moment_of(collection_report.Options(since=SECOND, until=FIRST))


def _kept(work: Work) -> list[tuple[datetime, str]]:
    table = work.spark.read.format("delta").load(work.place("reports", "collection-report"))
    kept = table.orderBy("computed_at", "place")
    return [(row.computed_at.astimezone(UTC), row.recipient) for row in kept.collect()]


def _mail(hub: SparkHub, recipient: str) -> list[dict[str, Any]]:
    """What waits for the recipient, collected."""
    told: list[dict[str, Any]] = []
    with hub.connect() as connected:
        for bundle in connected.recipient(recipient).bundles(idle=0):
            told += [json.loads(row["data"]) for row in bundle.table.to_pylist()]
            bundle.dequeue()
    return told


def _counts(told: dict[str, Any]) -> dict[str, int]:
    return {row["recipient"]: row["published"] for row in told["rows"]}
