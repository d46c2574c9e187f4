"""What the tests of batches share: calls that must succeed, and what they tell."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.wire import Answer, Wire

ID = "0198c5a2-6f1e-7c3b-9d4a-1b2c3d4e5f60"
OTHER = "0198c5a2-6f1e-7c3b-9d4a-1b2c3d4e5f61"
SECRET = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"
COUNTINGS = pytest.mark.parametrize("counting", ["exact", "estimated"])


def opened(wire: Wire, **more: object) -> str:
    answer = wire("POST", "/v1/batches", more)
    assert answer.status == 201, answer
    return str(answer.json()["id"])


def added(wire: Wire, batch: str, count: int) -> list[str]:
    answer = wire("POST", f"/v1/batches/{batch}/items", {"count": count})
    assert answer.status == 201, answer
    groups = answer.json()["groups"]
    return [f"{batch}:{group['id']}:{index}" for group in groups for index in range(group["upto"])]


def sealed(wire: Wire, batch: str) -> bool:
    answer = wire("POST", f"/v1/batches/{batch}/seal")
    assert answer.status == 200, answer
    return bool(answer.json()["complete"])


def acknowledged(wire: Wire, *items: str) -> dict[str, Any]:
    answer = wire("POST", "/v1/acknowledgements", {"items": items})
    assert answer.status == 200, answer
    found: dict[str, Any] = answer.json()
    return found


def shown(wire: Wire, batch: str) -> dict[str, Any]:
    answer = wire.get(f"/v1/batches/{batch}")
    assert answer.status == 200, answer
    found: dict[str, Any] = answer.json()
    return found


def refusal(answer: Answer) -> tuple[int, str]:
    return answer.status, answer.problem["code"]


def counted(wire: Wire) -> dict[str, float]:
    lines = wire.get("/metrics").body.decode().splitlines()
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if not line.startswith("#")}
