"""Ids of batches that are made from those of requests."""

from __future__ import annotations

import uuid

import pytest

from restante.model.batches.items import id_of_request
from restante.model.storage.partition import partition_of


@pytest.mark.parametrize("partition_count", [1, 7, 16, 256])
def test_the_same_request_has_the_same_id_where_its_key_lies(partition_count: int) -> None:
    asked = str(uuid.uuid4())
    made = id_of_request(asked, "night", partition_count)
    assert id_of_request(asked, "night", partition_count) == made
    assert partition_of(made, partition_count) == partition_of("night", partition_count)
    assert id_of_request(str(uuid.uuid4()), "night", partition_count) != made


def test_it_is_as_old_as_the_request_and_of_its_kind() -> None:
    asked = uuid.UUID("0190b8f0-1234-7abc-8def-0123456789ab")
    made = uuid.UUID(id_of_request(str(asked), None, 16))
    assert made.bytes[:8] == asked.bytes[:8]
    assert (made.version, made.variant) == (asked.version, asked.variant)
