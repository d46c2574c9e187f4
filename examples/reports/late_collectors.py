"""Late collectors: recipients whose oldest waiting message is older than a day, the latest of them first.

restante jobs run own-report --set file=examples/reports/late_collectors.py --set deliver_to=operations
"""

from __future__ import annotations

from datetime import datetime, timedelta

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

PATIENCE = timedelta(days=1)


def transform(messages: DataFrame, deliveries: DataFrame, as_of: datetime) -> DataFrame:
    # Whatever happened to a message is in `deliveries`: what is not there waits. One that was released waits again.
    happened = deliveries.where(f.col("state") != "waiting").select(
        "partition", f.col("message_sequence_number").alias("sequence_number")
    )
    waiting = messages.join(happened, ["partition", "sequence_number"], "left_anti")
    return (
        waiting.where(f.col("published_at") < f.lit(as_of - PATIENCE))
        .groupBy("recipient")
        .agg(f.count("*").alias("late"), f.min("published_at").alias("oldest"))
        .orderBy("oldest", "recipient")
        .select("recipient", "late", "oldest")
    )
