"""Writing a frame into mailboxes: each message once, in order, or none at all."""

from __future__ import annotations

import uuid
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import restante.spark
from restante import ConsignmentState
from restante.model.batches.batch_answers import BatchState
from tests.spark.served import SparkHub


def rows(spark: SparkSession, count: int, *, recipients: int = 7, parts: int = 4) -> DataFrame:
    number = f.col("id")
    return spark.range(count, numPartitions=parts).select(
        f.concat(f.lit("r"), number % recipients).alias("recipient"),
        f.to_json(f.struct(number.alias("n"))).alias("data"),
        number.alias("n"),
    )


def write(frame: DataFrame, hub: SparkHub, **options: str) -> None:
    given = {"url": hub.url, "origin": "grid", "kind": "settled", "mediaType": "application/json", **options}
    frame.write.format("restante").mode("append").options(**given).save()


def collected(hub: SparkHub, recipient: str) -> list[object]:
    with hub.connect() as connected:
        return [message.data for message in connected.recipient(recipient).history(limit=10_000).messages]


def total(hub: SparkHub) -> int:
    with hub.connect() as connected:
        return sum(own.visible_sequence for own in connected.partitions())


def keys(hub: SparkHub) -> dict[str, ConsignmentState]:
    with hub.connect() as connected:
        return {own.key: own.state for own in connected.consignments()}


def test_each_row_becomes_a_message_in_the_order_of_the_column_asked_for(spark: SparkSession, hub: SparkHub) -> None:
    frame = rows(spark, 1000).orderBy(f.rand(7))
    write(restante.spark.ordered(frame, "n"), hub, key="night", orderBy="n")
    for own in range(7):
        assert collected(hub, f"r{own}") == [{"n": n} for n in range(own, 1000, 7)]
    assert keys(hub) == {"night": ConsignmentState.COMMITTED}


def test_rows_that_are_not_in_the_order_that_was_promised_are_refused(spark: SparkSession, hub: SparkHub) -> None:
    with pytest.raises(PySparkException, match=r"restante\.spark\.ordered\(frame, 'n'\)"):
        write(rows(spark, 100, parts=1).orderBy(f.col("n").desc()), hub, orderBy="n")
    assert collected(hub, "r1") == []


def test_the_same_key_again_sends_nothing(spark: SparkSession, hub: SparkHub) -> None:
    write(rows(spark, 50).drop("n"), hub, key="night")
    write(rows(spark, 60).drop("n"), hub, key="night")
    assert total(hub) == 50


def test_without_a_key_each_write_is_a_job_of_its_own(spark: SparkSession, hub: SparkHub) -> None:
    for _ in range(2):
        write(rows(spark, 10).drop("n"), hub)
    assert total(hub) == 20
    assert len(keys(hub)) == 2


def test_all_columns_of_a_message_arrive(spark: SparkSession, hub: SparkHub) -> None:
    own = uuid.UUID("0198c5a2-6f1e-7c3b-9d4a-1b2c3d4e5f60")
    expires = datetime(2100, 1, 2, 3, 4, 5, tzinfo=UTC)
    frame = spark.createDataFrame(
        [(str(own), "a", "grid", "settled", "invoice", 3, False, b"\x00\x01", "x/y", {"k": "v"}, expires)],
        "id string, recipient string, origin string, kind string, document_type string, weight int, bundleable boolean,"
        "data binary, media_type string, properties map<string,string>, expires_at timestamp",
    )
    frame.write.format("restante").mode("append").options(url=hub.url).save()
    with hub.connect() as connected:
        (message,) = connected.recipient("a").history().messages
    assert message.id == str(own)
    assert (message.origin, message.kind, message.document_type) == ("grid", "settled", "invoice")
    assert (message.weight, message.bundleable, message.data, message.media_type) == (3, False, b"\x00\x01", "x/y")
    assert (message.properties, message.expires_at) == ({"k": "v"}, expires)


def test_an_id_may_be_16_octets(spark: SparkSession, hub: SparkHub) -> None:
    own = uuid.UUID("0198c5a2-6f1e-7c3b-9d4a-1b2c3d4e5f60")
    write(
        spark.createDataFrame([("a", "1", own.bytes), ("a", "2", None)], "recipient string, data string, id binary"),
        hub,
    )
    with hub.connect() as connected:
        assert [message.data for message in connected.recipient("a").history().messages if message.id == str(own)] == [
            1
        ]
    with pytest.raises(PySparkException, match="not all ids have 16 octets"):
        write(spark.createDataFrame([("a", "1", b"short")], "recipient string, data string, id binary"), hub)


def test_a_batch_is_complete_when_all_have_collected(spark: SparkSession, hub: SparkHub) -> None:
    write(rows(spark, 20).drop("n"), hub, key="night", batch="true")
    with hub.connect() as connected:
        (consignment,) = connected.consignments()
        assert consignment.batch is not None
        batch = connected.batches.get(consignment.batch)
        assert batch.status().state is BatchState.SEALED
        for own in range(7):
            for bundle in connected.recipient(f"r{own}").bundles(idle=0):
                bundle.dequeue()
        assert batch.status().state is BatchState.COMPLETE


def test_a_frame_without_rows_leaves_a_batch_that_is_complete(spark: SparkSession, hub: SparkHub) -> None:
    write(rows(spark, 20).drop("n").where("false"), hub, key="night", batch="true")
    with hub.connect() as connected:
        (consignment,) = connected.consignments()
        assert consignment.state is ConsignmentState.COMMITTED
        assert connected.batches.get(consignment.batch or "").status().state is BatchState.COMPLETE


def test_a_frame_without_rows_and_without_a_batch_leaves_nothing(spark: SparkSession, hub: SparkHub) -> None:
    write(rows(spark, 20).drop("n").where("false"), hub)
    assert keys(hub) == {}


def test_small_parcels_leave_the_same(spark: SparkSession, hub: SparkHub) -> None:
    write(restante.spark.ordered(rows(spark, 3000, recipients=3), "n"), hub, orderBy="n", parcelBytes="4096")
    assert collected(hub, "r1") == [{"n": n} for n in range(1, 3000, 3)]


def test_mailboxes_cannot_be_overwritten(spark: SparkSession, hub: SparkHub) -> None:
    with pytest.raises(PySparkException, match="Mailboxes cannot be written over"):
        rows(spark, 1).drop("n").write.format("restante").mode("overwrite").options(url=hub.url).save()


def test_a_wrong_column_is_refused_before_anything_is_sent(spark: SparkSession, hub: SparkHub) -> None:
    with pytest.raises(PySparkException, match="the column n is unknown"):
        write(rows(spark, 10), hub)
    assert keys(hub) == {}


def test_a_row_that_is_no_message_is_named_and_nothing_is_delivered(spark: SparkSession, hub: SparkHub) -> None:
    frame = rows(spark, 100, parts=1).withColumn("data", f.when(f.col("n") == 41, "{").otherwise(f.col("data")))
    with pytest.raises(PySparkException, match=r"row 41 of part 0 \(to 'r6'\): data") as raised:
        write(frame.drop("n"), hub, key="night")
    assert "invalid" in str(raised.value).lower()
    assert keys(hub) == {"night": ConsignmentState.DISCARDED}
    assert collected(hub, "r6") == []


def test_a_key_that_failed_can_be_written_again(spark: SparkSession, hub: SparkHub) -> None:
    faulty = rows(spark, 100).withColumn("recipient", f.when(f.col("n") != 50, f.col("recipient")))
    with pytest.raises(PySparkException, match="row 0 of part 2"):
        write(faulty.drop("n"), hub, key="night")
    write(rows(spark, 100).drop("n"), hub, key="night")
    assert total(hub) == 100


def test_a_function_that_raises_is_told_with_its_row_and_nothing_is_delivered(
    spark: SparkSession, hub: SparkHub
) -> None:
    def settled(row: dict[str, object]) -> dict[str, object]:
        return {"recipient": f"r{row['id']}", "data": {"share": 1 // (row["id"] - 7)}}  # type: ignore[operator]

    frame = restante.spark.compose(spark.range(10, numPartitions=1), settled)
    with pytest.raises(PySparkException, match=r"row 7 of part 0, \{'id': 7\}: ZeroDivisionError"):
        write(frame, hub, key="night")
    assert all(state is ConsignmentState.DISCARDED for state in keys(hub).values())
    assert collected(hub, "r1") == []


def test_a_function_makes_messages_of_rows(spark: SparkSession, hub: SparkHub) -> None:
    def made(row: dict[str, object]) -> dict[str, object]:
        return {"recipient": f"r{row['id']}", "data": {"n": row["id"]}, "weight": 2, "properties": {"k": "v"}}

    frame = restante.spark.compose(spark.range(3), made, columns=("recipient", "data", "weight", "properties"))
    write(frame, hub)
    with hub.connect() as connected:
        messages = [message for own in range(3) for message in connected.recipient(f"r{own}").history().messages]
    assert [message.data for message in messages] == [{"n": own} for own in range(3)]
    assert {(message.weight, message.properties["k"]) for message in messages} == {(2, "v")}


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ({"recipient": "a", "data": "x", "kind": "k"}, "it gives 'kind', which is none of the columns recipient, data"),
        ({"recipient": 5, "data": "x"}, r"row 0 of part 0, \{'id': 0\}: ArrowTypeError"),
    ],
    ids=["too much", "of another type"],
)
def test_what_a_function_makes_must_fit_the_columns(spark: SparkSession, made: dict[str, object], said: str) -> None:
    frame = restante.spark.compose(spark.range(1, numPartitions=1), lambda _: made)
    with pytest.raises(PySparkException, match=said):
        frame.collect()


def test_a_stream_leaves_each_micro_batch_once_and_in_order(spark: SparkSession, hub: SparkHub, tmp_path: Path) -> None:
    frame = rows(spark, 1000)
    files = tmp_path / "files"
    for start in (0, 500):
        frame.where(f"n >= {start} and n < {start + 500}").write.mode("append").parquet(str(files))
    source = spark.readStream.schema(frame.schema).option("maxFilesPerTrigger", "1").parquet(str(files))
    options = {
        "url": hub.url,
        "orderBy": "n",
        "origin": "grid",
        "mediaType": "application/json",
        "checkpointLocation": str(tmp_path / "checkpoint"),
    }
    query = (
        restante.spark.ordered(source, "n")
        .writeStream.format("restante")
        .options(**options)
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    arrived = [int(data["n"]) for own in range(7) for data in collected(hub, f"r{own}")]  # type: ignore[index]
    assert Counter(arrived) == Counter(range(1000))
    assert all(key.startswith(query.id) for key in keys(hub))
    assert len(keys(hub)) > 1
