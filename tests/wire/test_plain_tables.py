"""Tables that a client sends as they are arrive as those that went through the rules in the client."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from restante.errors import RestanteError
from restante.limits import LARGE_DATA_BYTES_MAX
from restante.model.columns.uuids import uuid_texts
from restante.model.producers.parcel_digest import digests_of_columns
from restante.model.publishing import intake
from restante.model.publishing.few_or_many import Many
from restante.model.publishing.message import MessageColumns
from restante.wire.media import ARROW
from restante.wire.plain_tables import plain_table
from restante.wire.publish import columns_stream, encode_publish, encode_stage
from restante.wire.publish_json import Making
from tests.wire.tables import taken_in

COUNT = 300
MAKING = Making(lambda count: bytes(range(256))[:8] * (count // 8), 1_900_000_000_000)
IDS: Any = pa.array([UUID(int=number).bytes for number in range(COUNT)], pa.binary(16))
NAMES: Any = pa.array([f"recipient {number % 7}" for number in range(COUNT)])
DATA = [number.to_bytes(2, "big") for number in range(COUNT)]
TEXTS = [f"text {number}" for number in range(COUNT)]
PLAIN: dict[str, pa.Table] = {
    "octets": pa.table({"recipient": NAMES, "id": IDS, "data": DATA}),
    "large octets": pa.table({"recipient": NAMES, "id": IDS, "data": pa.array(DATA, pa.large_binary())}),
    "texts": pa.table({"recipient": NAMES, "id": IDS, "data": TEXTS}),
    "claim checks": pa.table({"recipient": NAMES, "id": IDS, "data": pa.array([b"", None] * (COUNT // 2))}),
    "all names": pa.table(
        {
            "recipient": NAMES.dictionary_encode(),
            "origin": pa.array(["billing"] * COUNT).dictionary_encode(),
            "kind": pa.array(["a", None, "b"] * (COUNT // 3)),
            "document_type": pa.array(["invoice", "reminder"] * (COUNT // 2)),
            "media_type": pa.array(["text/plain"] * COUNT),
            "id": IDS,
            "data": DATA,
        }
    ),
    "in pieces": pa.concat_tables(
        [pa.table({"recipient": NAMES, "id": IDS, "data": DATA}).slice(at, 100) for at in (0, 100, 200)]
    ),
    "a part of one": pa.table({"recipient": NAMES, "id": IDS, "data": DATA}).slice(17, 100),
}


def through_the_rules(table: pa.Table) -> MessageColumns:
    columns, faults = intake.from_arrow(table, claim_check_origins=None, data_bytes_max=LARGE_DATA_BYTES_MAX)
    assert faults == []
    return arrived(columns_stream(columns, MAKING))


def arrived(body: Any) -> MessageColumns:
    columns, faults = taken_in(body, ARROW)
    assert faults == []
    return columns


@pytest.mark.parametrize("kind", PLAIN)
def test_it_arrives_as_it_would_through_the_rules(kind: str) -> None:
    table = PLAIN[kind]
    assert plain_table(table, MAKING) is not None
    found = arrived(encode_publish(Many(table), random=MAKING.random, now_ms=MAKING.now_ms).body)
    expected = through_the_rules(table)
    assert digests_of_columns(found, 1) == digests_of_columns(expected, 1)
    assert found.media_type.to_array().equals(expected.media_type.to_array())
    assert found.document_type.to_array().equals(expected.document_type.to_array())


def test_ids_are_made_before_it_is_sent() -> None:
    table = PLAIN["octets"].drop_columns(["id"])
    found = arrived(encode_publish(Many(table), random=MAKING.random, now_ms=MAKING.now_ms).body)
    expected = through_the_rules(table)
    assert uuid_texts(found.id) == uuid_texts(expected.id)
    assert not found.made_id.any()


def test_a_parcel_that_is_staged_needs_no_ids() -> None:
    assert arrived(encode_stage(Many(PLAIN["octets"].drop_columns(["id"]))).body).made_id.all()


def test_what_is_the_same_in_many_rows_goes_once() -> None:
    sent = plain_table(PLAIN["octets"], MAKING)
    assert sent is not None
    assert pa.types.is_dictionary(sent.schema.field("recipient").type)


NOT_PLAIN: dict[str, pa.Table] = {
    "ids as texts": PLAIN["octets"].set_column(1, "id", pa.array([str(UUID(int=row)) for row in range(COUNT)])),
    "an id is missing": PLAIN["octets"].set_column(1, "id", pa.array([None] * COUNT, pa.binary(16))),
    "views": PLAIN["octets"].set_column(2, "data", pa.array(DATA, pa.binary_view())),
    "values": PLAIN["octets"].set_column(2, "data", pa.array(range(COUNT))),
    "large names": PLAIN["octets"].set_column(0, "recipient", NAMES.cast(pa.large_string())),
    "more than names": PLAIN["octets"].append_column("weight", pa.array([1] * COUNT)),
    "a large dictionary": PLAIN["octets"].set_column(0, "recipient", NAMES.dictionary_encode()).slice(0, 3),
    "no data": PLAIN["octets"].drop_columns(["data"]),
    "nothing": PLAIN["octets"].slice(0, 0),
}


@pytest.mark.parametrize("kind", NOT_PLAIN)
def test_anything_else_goes_through_the_rules(kind: str) -> None:
    assert plain_table(NOT_PLAIN[kind], MAKING) is None


FAULTY: dict[str, pa.Table] = {
    "a name is empty": PLAIN["octets"].set_column(0, "recipient", pa.array(["ada", ""] * (COUNT // 2))),
    "a name is missing": PLAIN["octets"].set_column(0, "recipient", pa.array(["ada", None] * (COUNT // 2))),
    "no UTF-8": PLAIN["octets"].set_column(2, "data", pa.array([b"\xff"] * COUNT).view(pa.string())),
    "no media type": PLAIN["octets"].append_column("media_type", pa.array(["none"] * COUNT)),
}


@pytest.mark.parametrize("kind", FAULTY)
def test_the_hub_names_the_faults_that_the_client_would(kind: str) -> None:
    table = FAULTY[kind]
    _, faults = taken_in(encode_publish(Many(table), random=MAKING.random, now_ms=MAKING.now_ms).body, ARROW)
    assert faults == intake.from_arrow(table, claim_check_origins=None)[1] != []


def test_a_table_that_does_not_hold_together_is_refused() -> None:
    lying = pa.Array.from_buffers(
        pa.binary(), 2, [None, pa.py_buffer(b"\0\0\0\0\xff\0\0\0\0\0\0\0"), pa.py_buffer(b"x")]
    )
    with pytest.raises(RestanteError, match="cannot be read"):
        encode_publish(
            Many(pa.table({"recipient": ["a", "b"], "data": lying})), random=MAKING.random, now_ms=MAKING.now_ms
        )
