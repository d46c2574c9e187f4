"""A browser without a screen for the tests: cookies, forms and what stands on a page; and a hub with a console."""

from __future__ import annotations

import http.client
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from restante.cli.serving.console import mount_console
from restante.server.serve import ServedHub, start
from restante.settings import Settings

VOID = {"br", "hr", "img", "input", "link", "meta"}


class ShownPage(HTMLParser):
    """What a browser would make of a page: its elements, links, forms and texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == [], f"not closed: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open, tag
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] not in ("script", "style"):
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def links(self) -> list[str]:
        return [str(one["href"]) for one in self.of("a") if one.get("href")]

    def fields(self) -> dict[str, str]:
        """The named inputs that have a value already, of all forms that post."""
        inputs = [one for one in self.of("input") if one.get("name") and one.get("type") != "checkbox"]
        return {str(one["name"]): one.get("value") or "" for one in inputs}


@dataclass
class Shown:
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def page(self) -> ShownPage:
        assert self.headers["content-type"] == "text/html; charset=utf-8", (self.status, self.body[:200])
        return ShownPage(self.body.decode())


@dataclass
class Browsing:
    """One browser: it keeps its cookie, and follows where it is sent."""

    url: str
    cookie: str | None = None
    headers: dict[str, str] = field(default_factory=dict)

    def ask(self, method: str, target: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> Shown:
        parts = urlsplit(self.url)
        assert parts.hostname is not None
        connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=60)
        sent = {**self.headers, **(headers or {})}
        if self.cookie is not None:
            sent["cookie"] = self.cookie
        try:
            connection.request(method, target, body or None, sent)
            answer = connection.getresponse()
            shown = Shown(answer.status, answer.headers, answer.read())
        finally:
            connection.close()
        if (given := shown.headers["set-cookie"]) is not None:
            self.cookie = given.partition(";")[0]
        return shown

    def get(self, path: str = "", *, follow: bool = True) -> Shown:
        shown = self.ask("GET", path if path.startswith("/console") else f"/console{path}")
        while follow and shown.status == 303:
            shown = self.ask("GET", str(shown.headers["location"]))
        return shown

    def post(self, path: str, fields: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Shown:
        body = urlencode(fields, doseq=True).encode()
        given = {"content-type": "application/x-www-form-urlencoded", **(headers or {})}
        return self.ask("POST", f"/console{path}", body, given)

    def seal(self) -> str:
        """What the forms of this browser carry: that of the page where a change is confirmed, or of signing in."""
        for path in ("/do/file", "/sign-in"):
            fields = self.get(path).page.fields()
            if fields.get("seal"):
                return fields["seal"]
        fields = self.get("").page.fields()
        return fields["seal"]

    def sign_in(self, token: str) -> Shown:
        seal = self.get("/sign-in").page.fields()["seal"]
        return self.post("/sign-in", {"seal": seal, "token": token})

    def confirm(self, change: str, told: Mapping[str, str], typed: str, **more: str) -> Shown:
        """Consider a change, type a name, and send the form as it stands."""
        considered = self.get(f"/do/{change}?{urlencode(told)}")
        assert considered.status == 200, considered.body[:500]
        fields = {**considered.page.fields(), **told, "typed": typed, **more}
        return self.post(f"/do/{change}", fields)


@contextmanager
def served(folder: Path | None, settings: Settings | None = None, **given: Any) -> Iterator[ServedHub]:
    """A hub with a console."""
    with start(folder, settings, prepare=mount_console, **given) as running:
        yield running
