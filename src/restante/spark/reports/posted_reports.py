"""Reports as mail: the rows of a report as JSON, in as many messages as they need, delivered as one consignment.

A message holds `{"report": …, "computed_at": …, "part": "whole" or "own", "page": 1, "pages": 1, "rows": […]}`. A page is
about half as large as a message may be, so the pages of a recipient are few, and come in their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from restante.limits import REPORT_PAGE_BYTES_TARGET
from restante.spark.jobs.work import Work
from restante.spark.reports.kept_reports import ADDED
from restante.spark.running.hub_frames import send, uuid_of

KIND = "report"
_COLUMNS = ("recipient", "part", "page", "pages", "rows")


def letters(kept: DataFrame, *, name: str, computed_at: datetime, whole: Sequence[str], each: bool) -> DataFrame:
    """The messages that carry a report: all of it to `whole`, and to each recipient in it its own rows."""
    pages = [_own(kept)] if each else []
    if whole:
        pages.append(_whole(kept, whole))
    chosen = pages[0] if len(pages) == 1 else pages[0].unionByName(pages[1])
    moment = computed_at.isoformat()
    return chosen.select(
        "recipient",
        uuid_of(f.lit(name), f.lit(moment), *(f.col(column) for column in ("recipient", "part", "page"))).alias("id"),
        f.lit(KIND).alias("kind"),
        f.lit(name).alias("document_type"),
        f.lit("application/json").alias("media_type"),
        _written(name, moment).alias("data"),
        "page",
    )


def post(work: Work, written: DataFrame, *, key: str) -> int:
    """Deliver the letters at one moment, and say how many. Again, with the same key, nothing happens."""
    return send(work, written, key=key, order_by="page").messages


def _own(kept: DataFrame) -> DataFrame:
    rows = kept.where(f.col("recipient").isNotNull())
    return _paged(rows, f.col("recipient"), part="own").select(*_COLUMNS)


def _whole(kept: DataFrame, recipients: Sequence[str]) -> DataFrame:
    """The pages of a report that is the same for every recipient; an empty report has one page, which says so."""
    named = kept.sparkSession.range(1).select(
        f.explode(f.array(*(f.lit(name) for name in recipients))).alias("recipient")
    )
    pages = _paged(kept, f.lit("all"), part="whole").drop("recipient", "part")
    return named.join(f.broadcast(pages), f.expr("true"), "left").select(
        "recipient",
        f.lit("whole").alias("part"),
        f.coalesce("page", f.lit(1)).alias("page"),
        f.coalesce("pages", f.lit(1)).alias("pages"),
        f.coalesce("rows", f.lit("")).alias("rows"),
    )


def _paged(kept: DataFrame, recipient: Column, *, part: str) -> DataFrame:
    """The rows of a recipient as pages of JSON, one after the other: a page ends when enough bytes came before."""
    names = [name for name in kept.columns if name not in ADDED]
    row = f.to_json(f.struct(*(f.col(f"`{name}`") for name in names)), {"ignoreNullFields": "false"})
    rows = kept.select(recipient.alias("recipient"), "place", row.alias("row"))
    size = f.octet_length("row") + f.lit(1)
    before = f.sum(size).over(Window.partitionBy("recipient").orderBy("place")) - size
    page = (f.floor(before / f.lit(REPORT_PAGE_BYTES_TARGET)) + f.lit(1)).cast("int")
    pages = rows.withColumn("page", page).groupBy("recipient", "page").agg(_joined().alias("rows"))
    last = f.max("page").over(Window.partitionBy("recipient"))
    return pages.withColumns({"pages": last, "part": f.lit(part)})


def _joined() -> Column:
    in_order = f.sort_array(f.collect_list(f.struct("place", "row")))
    return f.array_join(f.transform(in_order, lambda each: each["row"]), ",")


def _written(name: str, moment: str) -> Column:
    """The text of a message. Name and moment hold nothing that JSON would have to escape."""
    return f.concat(
        f.lit(f'{{"report":"{name}","computed_at":"{moment}","part":"'),
        f.col("part"),
        f.lit('","page":'),
        f.col("page").cast("string"),
        f.lit(',"pages":'),
        f.col("pages").cast("string"),
        f.lit(',"rows":['),
        f.col("rows"),
        f.lit("]}"),
    )
