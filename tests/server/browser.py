"""What a browser does for a page's `fetch` across origins, as the Fetch standard says, over a real connection.

A request that is not simple is preceded by a preflight. The page sees an answer only if the headers of CORS let it, and of
its headers only those that every page may read and those that are exposed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tests.server.wire import Answer, Wire

_SIMPLE_METHODS: Final = frozenset({"GET", "HEAD", "POST"})
_SIMPLE_HEADERS: Final = frozenset({"accept", "accept-language", "content-language"})
_SIMPLE_TYPES: Final = frozenset({"application/x-www-form-urlencoded", "multipart/form-data", "text/plain"})
_READABLE: Final = frozenset(
    {"cache-control", "content-language", "content-length", "content-type", "expires", "last-modified", "pragma"}
)


class CorsRefused(Exception):
    """The page gets a network error, and learns nothing else."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page of an origin, in a browser."""

    origin: str
    wire: Wire

    def fetch(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        with_credentials: bool = False,
    ) -> Answer:
        sent = {name.lower(): value for name, value in (headers or {}).items()}
        unsafe = sorted(name for name, value in sent.items() if not _is_simple(name, value))
        if method not in _SIMPLE_METHODS or unsafe:
            self._preflight(method, path, unsafe, with_credentials=with_credentials)
        answer = self.wire(method, path, body, headers={**sent, "origin": self.origin})
        self._check(answer, with_credentials=with_credentials)
        exposed = {name.strip().lower() for name in answer.headers.get("access-control-expose-headers", "").split(",")}
        seen = {name: value for name, value in answer.headers.items() if name in _READABLE | exposed}
        return Answer(answer.status, seen, answer.body)

    def _preflight(self, method: str, path: str, unsafe: list[str], *, with_credentials: bool) -> None:
        asked = {"origin": self.origin, "access-control-request-method": method}
        if unsafe:
            asked["access-control-request-headers"] = ",".join(unsafe)
        answer = self.wire("OPTIONS", path, headers=asked)
        self._check(answer, with_credentials=with_credentials)
        if not 200 <= answer.status < 300:
            raise CorsRefused(f"the preflight was answered {answer.status}")
        methods = _listed(answer, "access-control-allow-methods")
        if method not in methods and method not in _SIMPLE_METHODS:
            raise CorsRefused(f"{method} is not allowed")
        allowed = {name.lower() for name in _listed(answer, "access-control-allow-headers")}
        if not set(unsafe) <= allowed:
            raise CorsRefused(f"{sorted(set(unsafe) - allowed)} are not allowed")

    def _check(self, answer: Answer, *, with_credentials: bool) -> None:
        allowed = answer.headers.get("access-control-allow-origin")
        if allowed != self.origin and (allowed != "*" or with_credentials):
            raise CorsRefused(f"{allowed} is not {self.origin}")
        if with_credentials and answer.headers.get("access-control-allow-credentials") != "true":
            raise CorsRefused("no credentials are allowed")


def _is_simple(name: str, value: str) -> bool:
    return name in _SIMPLE_HEADERS or (name == "content-type" and value.split(";", maxsplit=1)[0] in _SIMPLE_TYPES)


def _listed(answer: Answer, name: str) -> set[str]:
    return {item.strip() for item in answer.headers.get(name, "").split(",")}
