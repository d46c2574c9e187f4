"""The use of pyreqwest that both drivers share: configuring a client, filling a request, and naming a failure."""

from __future__ import annotations

from datetime import timedelta
from typing import TypeVar

from pyreqwest.bytes import Bytes
from pyreqwest.client import BaseClientBuilder
from pyreqwest.exceptions import ClientClosedError, PyreqwestError, RequestError
from pyreqwest.request import BaseRequestBuilder
from pyreqwest.response import BaseResponse

from restante.client.transport.address import HubAddress
from restante.client.transport.exchange import Failure, HttpRequest, Response
from restante.errors import InvalidRequest, OutcomeUnknown, RestanteError, Unavailable

ClientBuilding = TypeVar("ClientBuilding", bound=BaseClientBuilder)
RequestBuilding = TypeVar("RequestBuilding", bound=BaseRequestBuilder)

_CONNECTING = "client error (Connect)"
"""The text of a cause that shows that there was no connection at all. The class of a lost connection is ConnectError, too."""


def configured(builder: ClientBuilding, address: HubAddress, *, connect_seconds: float) -> ClientBuilding:
    """Configure a client. It asks for no compression, because decompressing takes longer than a nearby network saves."""
    builder = builder.gzip(False).zstd(False).brotli(False).deflate(False)
    builder = builder.follow_redirects(False).referer(False)
    builder = builder.connect_timeout(timedelta(seconds=connect_seconds))
    return builder.no_proxy() if address.local else builder


def filled(builder: RequestBuilding, request: HttpRequest, address: HubAddress) -> RequestBuilding:
    builder = builder.timeout(timedelta(seconds=request.timeout))
    if request.headers:
        builder = builder.headers(request.headers)
    for name, value in address.credentials().items():
        builder = builder.header(name, value, is_sensitive=True)
    return builder if request.body is None else builder.body_bytes(request.body)


def response_of(response: BaseResponse, body: Bytes) -> Response:
    """The answer as a `Response`, without copying its body."""
    return Response(response.status, dict(response.headers.items()), memoryview(body))


def failure_of(error: PyreqwestError, request: HttpRequest) -> Failure:
    """The `Failure` of an attempt. Raises an error that retrying cannot fix."""
    if isinstance(error, ClientClosedError):
        raise closed(under_way=True) from error
    if not isinstance(error, RequestError):
        raise InvalidRequest(f"The request cannot be made: {error.message}.") from error
    causes = causes_of(error)
    reached = _CONNECTING not in causes
    if isinstance(error, TimeoutError):
        return Failure(f"it took longer than {request.timeout:g} s", reached=reached)
    return Failure(causes[-1] if causes else error.message, reached=reached)


def closed(*, under_way: bool = False) -> RestanteError:
    told = "The connection to the hub has been closed by this program."
    if under_way:
        return OutcomeUnknown(f"{told} What was under way may have been carried out.")
    error = Unavailable(told)
    error.retriable = False
    return error


def causes_of(error: RequestError) -> list[str]:
    """The causes of an error. The innermost, which says most, comes last."""
    return [cause["message"] for cause in error.details["causes"] or ()]
