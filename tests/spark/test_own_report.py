"""A report of the user's own: the sample, and every way in which such a file can be wrong, told by file and line."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from restante.errors import InvalidRequest
from restante.spark.jobs import own_report
from restante.spark.jobs.work import Work
from restante.spark.reports.report_files import ReportFile
from restante.spark.reports.report_run import moment_of
from tests.spark.given_then import Case, cases, named
from tests.spark.report_tables import fill, given_tables
from tests.spark.served import SparkHub

CHECKOUT = Path(__file__).parents[2]
SAMPLE = str(CHECKOUT / "examples" / "reports" / "late_collectors.py")
MOMENT = datetime(2026, 3, 3, tzinfo=UTC)


@pytest.mark.parametrize("case", cases("own-report"), ids=named)
def test_the_sample_tells_who_is_late(case: Case, spark: SparkSession) -> None:
    options = case.options(own_report.Options)
    report = ReportFile.read(str(CHECKOUT / options.file))
    computed = own_report.transform(report, *given_tables(case, spark), moment=moment_of(options))
    case.check("report", computed)
    assert [row.recipient for row in computed.collect()] == ["bob", "alice"]


def test_the_guide_shows_the_sample_as_it_is() -> None:
    guide = CHECKOUT / "docs" / "guide" / "reports.md"
    assert f"```python\n{Path(SAMPLE).read_text(encoding='utf-8')}```" in guide.read_text(encoding="utf-8")


def test_it_is_kept_under_the_files_name_and_delivered(spark: SparkSession, own_tables: str, hub: SparkHub) -> None:
    work = Work(spark=spark, url=hub.url, tables=own_tables)
    outcome = own_report.run(
        work, own_report.Options(file=SAMPLE, as_of=MOMENT, deliver_to=("operations",), deliver_each=True)
    )
    assert (outcome.figures["report"], outcome.figures["rows"], outcome.figures["messages"]) == (
        "late_collectors",
        2,
        3,
    )
    assert spark.read.format("delta").load(f"{own_tables}/reports/late_collectors").count() == 2


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x = 1\n", "has no function transform. Define transform"),
        ("transform = 3\n", "has a int named transform"),
        ("def transform(:\n", "line 1: SyntaxError"),
        ("\nimport no_such_module\n", "line 2: ModuleNotFoundError: No module named 'no_such_module'"),
        (
            "def transform(messages, colour): ...\n",
            "line 1: transform asks for colour. It can have messages, deliveries",
        ),
        ("\n\ndef transform(messages): ...\n", "line 3: transform must give a DataFrame, not None"),
        ("def transform(messages):\n    return messages.select('nothing')\n", "line 2: AnalysisException: .*nothing"),
        ("def transform(as_of):\n    return 1 / 0\n", "line 2: ZeroDivisionError: division by zero"),
        ("def transform(messages):\n    return messages.groupBy('recipient').agg({'*': 'count'})\n", "alias"),
        ("def transform(messages):\n    return messages.selectExpr('1 AS a', '2 AS A')\n", "Twice there: A, a"),
        ("def transform(messages):\n    return messages.selectExpr('1 AS place')\n", "no columns named computed_at or"),
    ],
)
def test_what_is_wrong_with_a_file_is_told(
    text: str, told: str, spark: SparkSession, shared_tables: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidRequest, match=told):
        _run(spark, shared_tables, tmp_path, text)


def test_a_function_that_fails_on_the_way_is_told_by_its_line(
    spark: SparkSession, shared_tables: str, tmp_path: Path
) -> None:
    text = (
        "from pyspark.sql.functions import udf\n\n\n"
        "@udf('int')\ndef risky(name):\n    raise ValueError(f'what is {name}')\n\n\n"
        "def transform(messages):\n    return messages.select(risky('recipient').alias('risk'))\n"
    )
    with pytest.raises(InvalidRequest, match=r"own\.py, line 6: ValueError: what is (alice|bob)"):
        _run(spark, shared_tables, tmp_path, text)


def test_a_file_that_is_not_there_is_told(spark: SparkSession, tables: str) -> None:
    with pytest.raises(InvalidRequest, match=r"nowhere\.py cannot be read: No such file"):
        own_report.run(Work(spark=spark, tables=tables), own_report.Options(file="nowhere.py"))


def test_no_file_is_told(spark: SparkSession, tables: str) -> None:
    with pytest.raises(InvalidRequest, match="Name the Python file"):
        own_report.run(Work(spark=spark, tables=tables), own_report.Options())


def test_a_name_that_is_no_folder_is_refused(spark: SparkSession, tables: str) -> None:
    with pytest.raises(InvalidRequest, match="small letters, digits"):
        own_report.run(Work(spark=spark, tables=tables), own_report.Options(file=SAMPLE, name="../messages"))


def test_each_needs_recipients(spark: SparkSession, shared_tables: str, tmp_path: Path) -> None:
    text = "def transform(messages):\n    return messages.selectExpr('count(*) AS messages')\n"
    with pytest.raises(InvalidRequest, match="deliver_each needs a column recipient, and the report has messages"):
        _run(spark, shared_tables, tmp_path, text, deliver_each=True)


def test_new_columns_are_added_and_other_types_refused(spark: SparkSession, own_tables: str, tmp_path: Path) -> None:
    for columns in ("'1 AS a'", "'1 AS a', 'true AS b'"):
        _run(spark, own_tables, tmp_path, f"def transform(messages):\n    return messages.selectExpr({columns})\n")
    assert spark.read.format("delta").load(f"{own_tables}/reports/own").columns == ["computed_at", "place", "a", "b"]
    with pytest.raises(InvalidRequest, match=r"does not fit the table .*another name, or delete the table"):
        _run(spark, own_tables, tmp_path, "def transform(messages):\n    return messages.selectExpr('array(1) AS a')\n")


@pytest.fixture(scope="module")
def shared_tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """For runs that leave nothing there."""
    tables = str(tmp_path_factory.mktemp("shared") / "tables")
    fill(spark, tables, {"recipient": "alice"}, {"recipient": "bob"})
    return tables


@pytest.fixture
def own_tables(shared_tables: str, tables: str) -> str:
    """The same, for runs that leave something."""
    return str(shutil.copytree(shared_tables, tables, dirs_exist_ok=True))


def _run(spark: SparkSession, tables: str, folder: Path, text: str, *, deliver_each: bool = False) -> None:
    file = folder / "own.py"
    file.write_text(text, encoding="utf-8")
    options = own_report.Options(file=str(file), as_of=MOMENT, deliver_each=deliver_each)
    own_report.run(Work(spark=spark, tables=tables), options)
