"""Records into messages, without any Kafka: rules, columns beside values, misfits."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import restante
from restante.backplanes.kafka_library import kafka_settings, option_pairs
from restante.bridges.bridge_file import read_bridge_file
from restante.bridges.in_messages import RecordMapper
from restante.bridges.in_rules import DataForm, InRule, RawRecord, RecordMisfit, Tombstones, picker
from restante.errors import ExtraMissing, InvalidRequest, InvalidSettings
from restante.model.publishing.message import Message
from restante.settings import Settings
from restante.stores.memory import MemoryStore
from tests.bridges.topic_columns import columns_of


def record(offset: int, key: bytes | None = b"ada", value: bytes | None = b"{}", **more: object) -> RawRecord:
    return RawRecord(offset=offset, key=key, value=value, timestamp_ms=1_700_000_000_123, **more)  # type: ignore[arg-type]


def stored(rule: InRule, records: Sequence[RawRecord], *, by_values: bool = False) -> list[Message]:
    """What a hub has of these records, in the order of their offsets."""
    mapper = RecordMapper(rule)
    columns = columns_of(records)
    sent = mapper._one_by_one(columns, {}).sent if by_values else mapper.mapped(columns).sent
    with restante.open(None, settings=Settings(partition_count=1), store=MemoryStore()) as hub:
        hub.send(sent, source="t/0")
        return [page for name in ("ada", "bob", "7") for page in hub.recipient(name).history().messages]


def test_columns_and_values_store_the_same() -> None:
    records = [record(1, b"ada", b'{"n": 1}'), record(4, b"bob", b'{"n": 2}'), record(9, b"ada", b"[3]")]
    for rule in (InRule(topic="t"), InRule(topic="t", values=DataForm.TEXT, origin="o", kind="k")):
        assert isinstance(RecordMapper(rule).mapped(columns_of(records)).sent, pa.Table)
        both = [
            [(one.recipient, one.origin, one.kind, one.data, one.media_type, one.properties) for one in found]
            for found in (stored(rule, records), stored(rule, records, by_values=True))
        ]
        assert both[0] == both[1]
        assert [one[0] for one in both[0]] == ["ada", "ada", "bob"]
        assert both[0][0][5] == {"kafka.time": "2023-11-14T22:13:20.123Z"}


def test_the_key_is_a_property_when_it_is_not_the_recipient() -> None:
    rule = InRule(topic="t", recipient="json:a.b")
    records = [record(1, b"k1", b'{"a": {"b": "ada"}}'), record(2, b"k2", b'{"x": [1], "a": {"b": 7, "c": 1}}')]
    for by_values in (False, True):
        found = stored(rule, records, by_values=by_values)
        assert [(one.recipient, one.properties["kafka.key"]) for one in found] == [("ada", "k1"), ("7", "k2")]


@pytest.mark.parametrize("rule", ["", "value", "header:", "json:", "json:a..b", "header"])
def test_a_rule_that_is_none_is_refused(rule: str) -> None:
    with pytest.raises(InvalidRequest, match="key, header:NAME or json:PATH"):
        picker(rule)


@pytest.mark.parametrize(
    "value", [b"", b"no", b"[1]", b'{"a": 1}', b'{"a": {"b": null}}', b'{"a": {"b": 1.5}}', b"\xff"]
)
def test_a_path_that_leads_nowhere_is_a_misfit(value: bytes) -> None:
    with pytest.raises(RecordMisfit):
        picker("json:a.b")(record(1, value=value))


@given(
    st.lists(
        st.tuples(st.none() | st.binary(max_size=8), st.none() | st.binary(max_size=20), st.binary(max_size=5)),
        min_size=1,
        max_size=20,
    )
)
def test_every_record_is_sent_is_a_misfit_or_is_a_tombstone(
    rows: list[tuple[bytes | None, bytes | None, bytes]],
) -> None:
    records = [
        record(offset, key, value, headers=(("h", header),) if header else ())
        for offset, (key, value, header) in enumerate(rows)
    ]
    mapped = RecordMapper(InRule(topic="t")).mapped(columns_of(records))
    count = mapped.sent.num_rows if isinstance(mapped.sent, pa.Table) else len(mapped.sent)
    assert count == len(mapped.rows)
    assert count + len(mapped.misfits) + mapped.tombstones == len(records)
    assert not set(mapped.rows) & set(mapped.misfits)


def test_what_the_hub_refused_is_a_misfit_the_next_time() -> None:
    mapper = RecordMapper(InRule(topic="t"))
    mapped = mapper.mapped(columns_of([record(1), record(2)]), {1: "too long"})
    assert (mapped.rows, mapped.misfits) == ([0], {1: "too long"})
    kept = mapper.poison(record(2), "too long", "t/0", with_data=False)
    assert (kept.recipient, kept.data, kept.source_position) == ("bridge-poison", b"", 2)
    assert (kept.properties["kafka.reason"], kept.properties["kafka.offset"]) == ("too long", "2")


def test_events_that_are_no_events_are_misfits() -> None:
    structured = (("Content-Type", b"application/cloudevents+json"),)
    good = json.dumps({"specversion": "1.0", "id": "1", "source": "s", "type": "t", "data": 1}).encode()
    records = [record(1, value=good, headers=structured), record(2, value=b"[]", headers=structured)]
    records.append(record(3, key=None, value=good, headers=structured))
    mapped = RecordMapper(InRule(topic="t")).mapped(columns_of(records))
    assert (mapped.rows, sorted(mapped.misfits)) == ([0], [1, 2])


def event_records(**attributes: object) -> list[RawRecord]:
    """The same event in both modes."""
    event = {"specversion": "1.0", "id": str(UUID(int=1)), "source": "s", "type": "t", **attributes}
    binary = tuple((f"ce_{name}", str(value).encode()) for name, value in event.items())
    structured = (("content-type", b"application/cloudevents+json"),)
    return [
        record(1, value=b"1", headers=(*binary, ("content-type", b"application/json"))),
        record(2, value=json.dumps({**event, "id": str(UUID(int=2)), "data": 1}).encode(), headers=structured),
    ]


def placed(rule: InRule, records: Sequence[RawRecord]) -> set[tuple[str, str | None, str | None]]:
    sent = RecordMapper(rule).mapped(columns_of(records)).sent
    assert isinstance(sent, list)
    assert len(sent) == len(records)
    return {(one.recipient or "", one.origin, one.kind) for one in sent}


def test_an_event_has_its_own_recipient_origin_and_kind_where_the_rule_leaves_them_open() -> None:
    assert placed(InRule(topic="topic"), event_records(recipient="bob")) == {("bob", "s", "t")}
    assert placed(InRule(topic="topic"), event_records()) == {("ada", "s", "t")}


def test_an_event_does_not_override_the_recipient_origin_and_kind_of_the_rule() -> None:
    forged = event_records(recipient="bob")
    assert placed(InRule(topic="topic", origin="orders"), forged) == {("bob", "orders", "t")}
    assert placed(InRule(topic="topic", kind="order"), forged) == {("bob", "s", "order")}
    assert placed(InRule(topic="topic", recipient="key"), forged) == {("ada", "s", "t")}


def test_signs_that_mean_something_in_http_mean_nothing_in_a_record() -> None:
    for name in ('"ada"', "100%41", "a\\b", "ž", "a b"):
        assert placed(InRule(topic="topic"), event_records(recipient=name)) == {(name, "s", "t")}


def test_settings_of_the_bridge_are_not_to_be_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert option_pairs(("a=b=c", "x=")) == {"a": "b=c", "x": ""}
    for wrong in ("a", "=b"):
        with pytest.raises(InvalidRequest):
            option_pairs((wrong,))
    with pytest.raises(InvalidRequest, match="own"):
        kafka_settings("b", {"enable.auto.commit": "true"})
    monkeypatch.setenv("SECRET_OF_KAFKA", "hush")
    assert kafka_settings("b", {"sasl.password": "env:SECRET_OF_KAFKA"})["sasl.password"] == "hush"


def test_a_file_says_what_is_wrong_with_it(tmp_path: Path) -> None:
    path = tmp_path / "bridges.toml"
    path.write_text('[kafka]\nbrokers = "k:1"\n[[in]]\ntopic = "t"\nrecipient = "header:to"\n')
    found = read_bridge_file(path)
    assert (found.kafka.brokers, found.rules[0].recipient) == ("k:1", "header:to")
    for wrong in ("[[in]]\n", "[[in]]\ntopic = 't'\nwhat = 1\n", "= 5", "[out]\n"):
        path.write_text(wrong)
        with pytest.raises(InvalidSettings):
            read_bridge_file(path)
    with pytest.raises(InvalidSettings):
        read_bridge_file(tmp_path / "nothing.toml")


def test_without_the_extra_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from restante.backplanes.kafka_library import kafka_library

    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(ExtraMissing, match="restante\\[kafka\\]"):
        kafka_library()


HOSTILE_NAMES = (
    "ce_specversion",
    "ce_id",
    "ce_type",
    "ce_source",
    "ce_recipient",
    "ce_",
    "content-type",
    "Content-Type",
)
HOSTILE_VALUES = (
    None,
    b"",
    b"1.0",
    b"\xff\xfe",
    b"application/cloudevents+json",
    b"text/plain",
    b"%zz%41",
    b"x" * 5_000,
)
HOSTILE_DATA = (
    *(
        None,
        b"",
        b"{}",
        b"\xff",
        b'{"a":' * 2_000,
        b'{"a":{"b":"ada"}}',
        b'{"a":{"b":1e400}}',
        b'{"a":{"b":"\\ud800"}}',
    ),
    b'{"specversion":"1.0","id":"1","source":"s","type":"t","data_base64":"%%"}',
    b'{"specversion":"1.0","id":"1","source":"s","type":"t","recipient":5}',
)
HOSTILE_RECORDS = st.builds(
    RawRecord,
    offset=st.just(0),
    key=st.sampled_from((None, b"ada", b"", b"\xff", b"x" * 3_000)),
    value=st.sampled_from(HOSTILE_DATA) | st.binary(max_size=20),
    timestamp_ms=st.sampled_from((0, -1, 253_402_300_799_999, 253_402_300_800_000, 2**62, -(2**63))),
    headers=st.lists(
        st.tuples(
            st.sampled_from((*HOSTILE_NAMES, "kafka.time", "kafka.key", "", "a\x00b", "x", "é" * 300)),
            st.sampled_from(HOSTILE_VALUES),
        ),
        max_size=4,
    ).map(tuple),
)


@given(records=st.lists(HOSTILE_RECORDS, min_size=1, max_size=3), rule=st.sampled_from(("key", "header:x", "json:a.b")))
def test_no_record_stops_a_bridge(records: list[RawRecord], rule: str) -> None:
    """Whatever it is, it becomes a message, or does not fit and is kept aside."""
    mapper = RecordMapper(InRule(topic="t", recipient=rule, tombstones=Tombstones.POISON))
    mapped = mapper.mapped(columns_of(records))
    assert len(mapped.rows) + len(mapped.misfits) == len(records)
    for row, reason in mapped.misfits.items():
        assert mapper.poison(records[row], reason, "t/0").properties["kafka.offset"] == "0"


PLAIN_HEADERS = st.lists(
    st.tuples(st.sampled_from(("trace", "tenant", "X", "é")), st.sampled_from((b"", b"a", "ö".encode()))), max_size=4
).map(tuple)


@given(
    headers=st.lists(PLAIN_HEADERS, min_size=1, max_size=6), rule=st.sampled_from(("key", "header:tenant", "json:to"))
)
def test_headers_are_the_same_properties_as_columns_and_as_values(
    headers: list[tuple[tuple[str, bytes], ...]], rule: str
) -> None:
    records = [record(n, b"k%d" % n, b'{"to": "ada"}', headers=own) for n, own in enumerate(headers)]
    mapper, columns = RecordMapper(InRule(topic="t", recipient=rule)), columns_of(records)
    found, one_by_one = mapper._columns(columns), mapper._one_by_one(columns, {}).sent
    assert isinstance(one_by_one, list)
    if found is None:
        assert rule == "header:tenant" or any(len(dict(own)) < len(own) for own in headers)
        return
    rows = zip(found.column("recipient").to_pylist(), found.column("properties").to_pylist(), strict=True)
    assert [(name, dict(properties or ())) for name, properties in rows] == [
        (one.recipient, one.properties) for one in one_by_one
    ]


def test_a_header_does_not_say_another_time_or_key() -> None:
    forged = (("kafka.time", b"never"), ("kafka.key", b"other"))
    (found,) = stored(InRule(topic="t", recipient="json:to"), [record(1, b"k", b'{"to": "ada"}', headers=forged)])
    assert found.properties == {"kafka.time": "2023-11-14T22:13:20.123Z", "kafka.key": "k"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "needs a topic"),
        ('[[in]]\ntopic = "a"\n[[in]]\ntopic = "a"\n', "named twice"),
        ('[[in]]\ntopic = "a"\ndead_letter = "a"\n', "come back for ever"),
        ('[[in]]\ntopic = "a"\ndead_letter = "b"\n[[in]]\ntopic = "b"\n', "come back for ever"),
        ('[[in]]\ntopic = "a"\npoison = " "\n', "needs a name"),
        ('[[in]]\ntopic = "a"\nrecipient = "json:a..b"\n', "json:PATH"),
        ('[[in]]\ntopic = "a"\nrecipents = "key"\n', "recipents"),
        ('[kafka]\nsettings = 5\n[[in]]\ntopic = "a"\n', "settings"),
        ("[[in]\n", "line 1"),
    ],
    ids=["empty", "twice", "own-dead-letter", "loop", "poison", "path", "unknown", "settings", "no-toml"],
)
def test_a_file_that_is_wrong_says_what_is_wrong(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "bridges.toml"
    file.write_text(text)
    with pytest.raises(InvalidSettings, match=says) as refused:
        read_bridge_file(file)
    assert str(file) in refused.value.message
