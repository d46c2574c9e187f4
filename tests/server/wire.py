"""A client of bare HTTP for the tests: every byte that goes out and comes back can be seen."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import msgspec


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def problem(self) -> Any:
        """The body of a problem; the tests fail here if it is none."""
        assert self.headers["content-type"] == "application/problem+json", self
        problem = self.json()
        assert problem["status"] == self.status
        assert problem["correlation_id"] == self.headers["restante-correlation-id"]
        return problem


class Wire:
    """One kept-alive connection to a hub."""

    def __init__(self, url: str, *, token: str | None = None) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        self.address = (parts.hostname, parts.port or 80)
        self._token = token
        self._connection = http.client.HTTPConnection(*self.address, timeout=60)

    def __call__(
        self, method: str, path: str, body: object = None, *, headers: Mapping[str, str] | None = None
    ) -> Answer:
        sent = dict(headers or {})
        if self._token is not None:
            sent.setdefault("authorization", f"Bearer {self._token}")
        if body is not None and not isinstance(body, bytes):
            body = msgspec.json.encode(body)
            sent.setdefault("content-type", "application/json")
        self._connection.request(method, path, body, sent)
        response = self._connection.getresponse()
        found = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, found, response.read())

    def get(self, path: str, **headers: str) -> Answer:
        return self("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})

    def publish(self, *messages: Mapping[str, object]) -> Answer:
        return self("POST", "/v1/messages", {"messages": messages})

    def came(self, recipient: str) -> Any:
        """The bundle of a recipient, as soon as there is mail."""
        while (answer := self.get(f"/v1/recipients/{recipient}/peek?wait=20")).status == 204:
            pass
        return answer.json()

    def close(self) -> None:
        self._connection.close()

    def __del__(self) -> None:
        self.close()
