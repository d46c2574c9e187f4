"""Origins over HTTP: the hub fetches content from the addresses in the settings, and notifies them of dequeued bundles.

Each call has a time within which all of it happens, and an answer is read no further than its bound. Content is tried
again at once when the connection fails or the origin answers 5xx, under the same request id, so an origin that did the
work can answer the same. A notice is tried once: the outbox repeats it. Redirects are not followed, and no proxy is used, whatever
the environment says: it would see the content. Each try is signed as Standard Webhooks are, under the request id, so
that an origin can tell the hub from a stranger.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta

import msgspec
from pyreqwest.client import SyncClient, SyncClientBuilder
from pyreqwest.exceptions import BodyDecodeError, NetworkError, PyreqwestError, RequestTimeoutError
from pyreqwest.response import SyncResponse

from restante import limits
from restante.errors import OriginDidNotDeliver
from restante.model.back_off import back_off
from restante.model.batches.webhook_rules import signed_headers
from restante.model.columns.media_types import BYTES, JSON, looks_right
from restante.ports.content import Content, ContentRequest, DequeuedNotice, OriginPort
from restante.settings import OriginSettings, Settings
from restante.settings.texts import secret_bytes
from restante.version import __version__

_PAUSE_SECONDS = 0.1
_MOMENT_SECONDS = 0.001
"""The least time a try is given: none at all would mean without end."""


def origin_ports(
    settings: Settings,
    secret: bytes | None = None,
    *,
    content_seconds: float = limits.CONTENT_SECONDS_MAX,
    notice_seconds: float = limits.NOTICE_SECONDS_MAX,
) -> dict[str, OriginPort]:
    """The origins that the settings give an address, by name. They share one client, and so its connections.

    Calls are signed with the origin's own secret, or else with the one given, if there is one.
    """
    addressed = {name: origin for name, origin in settings.origins.items() if origin.content_url or origin.dequeued_url}
    if not addressed:
        return {}
    builder = SyncClientBuilder().no_proxy().follow_redirects(False).user_agent(f"restante/{__version__}")
    client = builder.build()

    def port(name: str, origin: OriginSettings) -> OriginPort:
        key = secret if origin.secret is None else secret_bytes(origin.secret)
        content = origin.content_url and _Counter(client, name, origin.content_url, content_seconds, key).fetch
        dequeued = origin.dequeued_url and _Counter(client, name, origin.dequeued_url, notice_seconds, key).tell
        return OriginPort(content=content or None, dequeued=dequeued or None)

    return {name: port(name, origin) for name, origin in addressed.items()}


class _TryAgain(Exception):  # no error: a signal between a try and the one who counts them
    """This try failed in a way that the next may not."""


@dataclass(frozen=True, slots=True)
class _Counter:
    """One address of an origin."""

    client: SyncClient
    origin: str
    url: str
    seconds: float
    secret: bytes | None = field(repr=False)

    def fetch(self, request: ContentRequest) -> Content:
        """The content of a bundle; `OriginDidNotDeliver` says why there is none."""
        deadline = time.monotonic() + self.seconds
        body = msgspec.json.encode(request)
        for attempt in range(1, limits.CONTENT_TRIES_MAX + 1):
            try:
                with self._posted(request.request_id, body, deadline) as response:
                    return Content(media_type=self._media_type(response), data=self._data(response))
            except _TryAgain as failure:
                pause = back_off(attempt, first=_PAUSE_SECONDS, longest=self.seconds)
                if attempt == limits.CONTENT_TRIES_MAX or time.monotonic() + pause >= deadline:
                    tries = "once" if attempt == 1 else f"{attempt} times"
                    raise self._failed(f"{failure} (asked {tries})") from failure
            time.sleep(pause)
        raise AssertionError("the last try gives content or raises")

    def tell(self, notice: DequeuedNotice) -> None:
        """Tell it that a bundle was dequeued; an error if it did not take that."""
        try:
            with self._posted(notice.request_id, msgspec.json.encode(notice), time.monotonic() + self.seconds):
                pass
        except _TryAgain as failure:
            raise self._failed(str(failure)) from failure

    @contextmanager
    def _posted(self, request_id: str, body: bytes, deadline: float) -> Iterator[SyncResponse]:
        """An answer of 2xx, its body unread."""
        left = max(deadline - time.monotonic(), _MOMENT_SECONDS)
        request = self.client.post(self.url).header("Content-Type", JSON).body_bytes(body)
        if self.secret is not None:
            signed = signed_headers(secret=self.secret, webhook_id=request_id, at_seconds=int(time.time()), body=body)
            for name, value in signed.items():
                request = request.header(name, value)
        try:
            with request.timeout(timedelta(seconds=left)).build_streamed() as response:
                self._check_status(response.status)
                yield response
        except RequestTimeoutError as error:
            raise self._failed(f"did not answer within {self.seconds:g} s") from error
        except (NetworkError, BodyDecodeError) as error:
            raise _TryAgain(f"could not be reached, or broke off: {_root(error)}") from error
        except PyreqwestError as error:
            raise self._failed(f"could not be asked: {_root(error)}") from error

    def _check_status(self, status: int) -> None:
        if status >= 500:
            raise _TryAgain(f"answered {status}")
        if 300 <= status < 400:
            raise self._failed(f"answered {status}, and redirects are not followed: configure the final address")
        if not 200 <= status < 300:
            raise self._failed(f"answered {status}")

    def _media_type(self, response: SyncResponse) -> str:
        given = (response.get_header("content-type") or BYTES).strip()
        if not looks_right(given) or len(given) > limits.MEDIA_TYPE_CHARACTERS_MAX:
            raise self._failed(f"answered with a Content-Type that is no media type: {given[:80]!r}")
        return given

    def _data(self, response: SyncResponse) -> bytes:
        chunks, length = [], 0
        while (chunk := response.body_reader.read_chunk()) is not None:
            length += len(chunk)
            if length > limits.CONTENT_BYTES_MAX:
                raise self._failed(f"answered with more than {limits.CONTENT_BYTES_MAX:,} bytes, the most allowed")
            chunks.append(chunk)
        return b"".join(chunks)

    def _failed(self, what: str) -> OriginDidNotDeliver:
        return OriginDidNotDeliver(f"Origin {self.origin!r} {what}.")


def _root(error: PyreqwestError) -> str:
    """The innermost cause, which says most and does not repeat the address."""
    causes = getattr(error, "details", {}).get("causes") or []
    return causes[-1]["message"] if causes else error.message
