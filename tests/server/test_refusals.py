"""Values just beyond what the document allows are refused, and named."""

from __future__ import annotations

import pytest

from tests.server.wire import Wire

_ID = "0198c5a2-6f1e-7c3b-9d4a-1b2c3d4e5f60"


@pytest.mark.parametrize(
    "path",
    [
        f"/v1/recipients/{'a' * 257}/peek",
        f"/v1/recipients/{'a' * 257}/partition",
        "/v1/recipients/a/messages?after=-1",
        "/v1/recipients/a/messages?before=-1",
        "/v1/recipients/a/messages?limit=9223372036854775808",
        "/v1/partitions?after=-1",
        "/v1/recipients?order=",
        f"/v1/recipients?after={'9' * 5_000}",
        "/v1/recipients?after=%D9%A1",
        f"/v1/recipients/a/messages/{_ID.replace('-', '')}----",
        f"/v1/recipients/a/messages/{_ID[:-1]}_",
        f"/v1/recipients/a/messages/%7B{_ID.replace('-', '')}%7D--",
    ],
)
def test_what_lies_beyond_the_bounds_is_a_400(wire: Wire, path: str) -> None:
    assert wire.get(path).problem["code"] == "invalid_request"


@pytest.mark.parametrize(
    "path",
    [
        f"/v1/recipients/{'a' * 256}/partition",
        "/v1/recipients/a/messages?after=0&before=9223372036854775807&limit=5000",
        "/v1/recipients?order=oldest&after=999999999999999999",
    ],
)
def test_what_lies_just_within_them_is_answered(wire: Wire, path: str) -> None:
    assert wire.get(path).status == 200


def test_a_backup_may_be_asked_for_as_soon_as_the_last_one_has_come(wire: Wire) -> None:
    assert [wire.get("/v1/backup").status for _ in range(20)] == [200] * 20
