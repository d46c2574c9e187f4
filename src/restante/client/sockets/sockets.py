"""Answers and failures of a web socket as replies, shared by both kinds of clients."""

from __future__ import annotations

from websockets.exceptions import InvalidStatus

from restante.client.transport.exchange import Failure, LinkFrame, Reply, Response


def denied(error: InvalidStatus) -> Response:
    """The answer of a hub that did not open the socket."""
    response = error.response
    headers = {name.lower(): value for name, value in response.headers.raw_items()}
    return Response(response.status_code, headers, memoryview(bytes(response.body or b"")))


def failure_of(error: Exception, frame: LinkFrame, *, reached: bool) -> Failure:
    if isinstance(error, TimeoutError):
        return Failure(f"it took longer than {frame.timeout:g} s", reached=reached)
    return Failure(str(error) or type(error).__name__, reached=reached)


def refused(error: Exception) -> Reply:
    """The reply for an attempt that did not connect: the hub's answer, or a failure."""
    return denied(error) if isinstance(error, InvalidStatus) else Failure(str(error), reached=False)
