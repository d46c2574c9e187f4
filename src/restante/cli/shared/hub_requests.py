"""One request to a hub, and its answer as a stream, for routes that the client has no call for."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from restante.client.transport.address import HubAddress
from restante.client.transport.unreachable import unreachable
from restante.decoders import json_decoder
from restante.errors import RestanteError, Unavailable
from restante.wire.problems import error_of

_SOCKET_SECONDS = 60.0
_PROBLEM_BYTES_MAX = 1 << 20


@contextmanager
def told_failures(address: HubAddress, what: str) -> Iterator[None]:
    """Tell what goes wrong inside as what the hub did not do."""
    try:
        yield
    except urllib.error.HTTPError as error:
        raise _told(error) from error
    except urllib.error.URLError as error:
        raise unreachable(address, str(error.reason)) from error
    except (OSError, http.client.HTTPException) as error:
        raise Unavailable(f"The hub at {address.url} did not give its {what}: {error}. Is it running?") from error


def asked(address: HubAddress, target: str) -> http.client.HTTPResponse:
    """The answer to a GET, not yet read. Close it."""
    request = urllib.request.Request(f"{address.url}{target}", headers=address.credentials())
    # A hub on this machine is asked without a proxy.
    proxies = [urllib.request.ProxyHandler({})] if address.local else []
    answer: http.client.HTTPResponse = urllib.request.build_opener(*proxies).open(request, timeout=_SOCKET_SECONDS)
    return answer


def _told(error: urllib.error.HTTPError) -> RestanteError:
    with error:
        try:
            return error_of(json_decoder(dict[str, object]).decode(error.read(_PROBLEM_BYTES_MAX)))
        except msgspec.MsgspecError:
            return Unavailable(f"{error.url} answered {error.code} {error.reason}. Is a hub there?")
