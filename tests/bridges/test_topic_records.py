"""Records as columns: what the client library gives, by topic partition; recipients and properties without a loop."""

from __future__ import annotations

import pyarrow as pa
import pytest
from confluent_kafka import Message

from restante.bridges.in_messages import RecordMapper
from restante.bridges.in_rules import InRule, RawRecord
from restante.bridges.topic_records import TopicRecords, by_place
from tests.bridges.topic_columns import columns_of


def message(topic: str, partition: int, offset: int, *, key: bytes | None = b"ada", timed: bool = True) -> Message:
    value = b'{"n": %d}' % offset
    return Message(
        topic=topic,
        partition=partition,
        offset=offset,
        key=key,
        value=value,
        headers=[("h", b"x")] if offset == 3 else None,
        timestamp=(1, 1_700_000_000_000 + offset) if timed else (0, -1),
    )


def test_records_are_sorted_by_topic_partition_and_keep_their_order() -> None:
    places = [("a", 0, 1), ("a", 0, 2), ("a", 1, 7), ("b", 0, 1), ("a", 0, 5), ("a", 1, 9)]
    found = by_place([message(*place) for place in places])
    assert {place: [one.offset() for one in messages] for place, messages in found.items()} == {
        ("a", 0): [1, 2, 5],
        ("a", 1): [7, 9],
        ("b", 0): [1],
    }
    assert by_place([]) == {}


def test_columns_of_messages_have_what_the_messages_have() -> None:
    records = TopicRecords.of_messages(
        [message("t", 0, 2), message("t", 0, 3, key=None), message("t", 0, 9, timed=False)]
    )
    assert list(records) == [
        RawRecord(2, b"ada", b'{"n": 2}', 1_700_000_000_002),
        RawRecord(3, None, b'{"n": 3}', 1_700_000_000_003, (("h", b"x"),)),
        RawRecord(9, b"ada", b'{"n": 9}', 0),
    ]


def records_of(*pairs: tuple[bytes | None, bytes | None]) -> TopicRecords:
    return columns_of([RawRecord(row, key, value, row) for row, (key, value) in enumerate(pairs)])


@pytest.mark.parametrize("path", ["json:a", "json:b.c"])
def test_recipients_on_a_path_are_found_as_columns(path: str) -> None:
    records = records_of(
        (b"k", b'{"a": "x", "b": {"c": 1}}'), (b"l", b'{"b": {"d": [], "c": 12345678901234567890}, "a": "\xc3\xa4"}')
    )
    sent = RecordMapper(InRule(topic="t", recipient=path)).mapped(records).sent
    assert isinstance(sent, pa.Table)
    assert sent.column("recipient").to_pylist() == (["x", "ä"] if path == "json:a" else ["1", "12345678901234567890"])
    assert [dict(row or ()) for row in sent.column("properties").to_pylist()] == [
        {"kafka.key": "k", "kafka.time": "1970-01-01T00:00:00.000Z"},
        {"kafka.key": "l", "kafka.time": "1970-01-01T00:00:00.001Z"},
    ]


def test_a_key_that_some_records_lack_is_kept_for_the_others() -> None:
    mapper = RecordMapper(InRule(topic="t", recipient="json:a"))
    sent = mapper.mapped(records_of((b"k", b'{"a": "x"}'), (None, b'{"a": "y"}'), (b"\xff", b'{"a": "z"}'))).sent
    assert isinstance(sent, list)
    assert [one.properties.get("kafka.key") for one in sent] == ["k", None, None]
    none = mapper.mapped(records_of((None, b'{"a": "x"}'), (None, b'{"a": "y"}'))).sent
    assert isinstance(none, pa.Table)
    assert [len(row or ()) for row in none.column("properties").to_pylist()] == [1, 1]


@pytest.mark.parametrize("value", [b'{"a": true}', b'{"a": 1.5}', b'{"a": null}', b"{}", b"no"])
def test_one_value_without_the_path_is_a_misfit_alone(value: bytes) -> None:
    mapped = RecordMapper(InRule(topic="t", recipient="json:a")).mapped(
        records_of((b"k", b'{"a": "x"}'), (b"k", value))
    )
    assert mapped.rows == [0]
    assert mapped.misfits.keys() == {1}
