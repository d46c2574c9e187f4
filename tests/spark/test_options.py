"""The options of `format("restante")`: read before anything is asked of the hub, each mistake said in its own words."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql.types import IntegerType, MapType, StringType, StructType

from restante.errors import InvalidRequest
from restante.spark.source.columns import check_columns
from restante.spark.source.options import reading_of, writing_of
from restante.spark.source.schemas import CHANGES, check_known, chosen
from restante.spark.source.stream_reader import UNREAD, admitted


def struct_of(ddl: str) -> StructType:
    schema = StructType.fromDDL(ddl)
    assert isinstance(schema, StructType)
    return schema


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"usr": "http://h"}, "There is no option 'usr'"),
        ({"url": "ftp://h"}, "http"),
        ({"partitions": "1,x"}, "The option partitions must be numbers of partitions"),
        ({"recipient": "[1]"}, "a JSON list of texts"),
        ({"recipient": json.dumps(["r"] * 101)}, "a list of at most 100 texts"),
        ({"rangeSize": "0"}, "The option rangeSize must be a whole number above 0"),
        ({"maxMessagesPerTrigger": "-5"}, "The option maxMessagesPerTrigger must be"),
        ({"publishedAfter": "yesterday"}, "The option publishedAfter must be a time"),
        ({"startingPosition": "first"}, "bootstrap, earliest, latest"),
        ({"startingPosition": '{"0": "x"}'}, "a position for each partition"),
        ({"startingPosition": '{"0": -1}'}, "a position for each partition"),
        ({"positions": "[]"}, "a position for each partition"),
        ({"group": "g", "startingPosition": "earliest"}, "say group or startingPosition, not both"),
        ({"group": " "}, "The option group must be a text"),
    ],
)
def test_an_option_for_reading_that_is_wrong_is_named(options: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidRequest, match=r".*") as raised:
        reading_of(options)
    assert said in raised.value.message


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"recipient": "a"}, "There is no option 'recipient'"),
        ({"batch": "yes"}, "The option batch must be true or false"),
        ({"parcelBytes": "1000000000"}, "The option parcelBytes must be a number of bytes, up to"),
        ({"key": "  "}, "The option key must be a text that is not blank"),
    ],
)
def test_an_option_for_writing_that_is_wrong_is_named(options: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        writing_of(options)
    assert said in raised.value.message


def test_options_have_their_names_in_any_case_and_the_path_may_be_the_url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RESTANTE_TOKEN", "secret")
    reading = reading_of(
        {
            "PATH": "http://hub:1",
            "RECIPIENT": '["a", "b"]',
            "origin": "o",
            "publishedbefore": "2026-01-02T03:04:05",
            "checkpointLocation": "/somewhere",
        }
    )
    assert (reading.place.url, reading.place.token) == ("http://hub:1", "secret")
    assert (reading.filters.recipients, reading.filters.origins) == (("a", "b"), ("o",))
    assert reading.until == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("schema", "options", "said"),
    [
        ("data string", {}, "the column recipient is missing"),
        ("recipient string", {}, "the column data is missing"),
        ("recipient int, data string", {}, "the column recipient is int: expected is string"),
        ("recipient string, data struct<a: int>", {}, "to_json(struct("),
        ("recipient string, data string, colour string", {}, "the column colour is unknown"),
        ("recipient string, data string, properties map<string,int>", {}, "expected is map<string,string>"),
        ("recipient string, data string, expires_at timestamp_ntz", {}, "with a time zone"),
        ("recipient string, data string, kind string", {"kind": "k"}, "as a column and as the option kind"),
        ("recipient string, data string", {"orderBy": "n"}, "the column n is missing"),
    ],
)
def test_a_frame_that_cannot_be_sent_is_refused_by_its_columns(
    spark: SparkSession, schema: str, options: dict[str, str], said: str
) -> None:
    with pytest.raises(InvalidRequest) as raised:
        check_columns(struct_of(schema), writing_of(options))
    assert said in raised.value.message
    assert "Nothing was sent" in raised.value.message


def test_all_that_is_wrong_with_a_frame_is_said_at_once() -> None:
    schema = StructType().add("recipient", IntegerType()).add("colour", StringType())
    with pytest.raises(InvalidRequest) as raised:
        check_columns(schema, writing_of({}))
    assert all(word in raised.value.message for word in ("recipient is int", "data is missing", "colour is unknown"))


def test_a_frame_with_all_columns_of_a_message_can_be_sent(spark: SparkSession) -> None:
    schema = struct_of(
        "id string, recipient string, origin string, kind string, document_type string, weight long, bundleable boolean,"
        "data binary, media_type string, expires_at timestamp, n long"
    ).add("properties", MapType(StringType(), StringType()))
    check_columns(schema, writing_of({"orderBy": "n"}))


def test_a_schema_may_have_fewer_columns_but_no_others() -> None:
    check_known(chosen(("recipient", "partition")))
    assert chosen(()) == CHANGES
    with pytest.raises(InvalidRequest, match="There is no column 'colour'"):
        chosen(("colour",))
    with pytest.raises(InvalidRequest, match="The column partition is of type int, not string"):
        check_known(StructType().add("partition", StringType()))


positions = st.dictionaries(st.integers(0, 20), st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), min_size=1)


@given(positions, st.integers(1, 10**6))
def test_a_micro_batch_takes_as_much_as_it_may_and_no_more(stretches: dict[int, tuple[int, int]], bound: int) -> None:
    read = {partition: start for partition, (start, _) in stretches.items()}
    ends = {partition: start + length for partition, (start, length) in stretches.items()}
    following = admitted(read, ends, bound)
    assert all(read[own] <= following[own] <= ends[own] for own in read)
    taken = sum(following[own] - read[own] for own in read)
    assert taken == min(bound, sum(ends[own] - read[own] for own in read))


@given(positions, st.integers(1, 10**6))
def test_a_bounded_stream_reaches_the_end(stretches: dict[int, tuple[int, int]], bound: int) -> None:
    ends = {partition: length for partition, (_, length) in stretches.items()}
    read, rounds = dict.fromkeys(ends, UNREAD), 0
    while (following := admitted(read, ends, max(bound, sum(ends.values()) // 50 + 1))) != read:
        read, rounds = following, rounds + 1
    assert read == ends
    assert rounds <= len(ends) + 51


def test_bootstraps_come_as_wholes_and_at_least_one_of_them() -> None:
    read = {0: UNREAD, 1: UNREAD, 2: UNREAD}
    ends = {0: 100, 1: 5, 2: 7}
    assert admitted(read, ends, 10) == {0: 100, 1: UNREAD, 2: UNREAD}
    assert admitted({**read, 0: 100}, ends, 6) == {0: 100, 1: 5, 2: 7}
    assert admitted(read, ends, None) == ends
