"""One request to a hub, and its answer as a stream, for routes that the client has no call for."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from restante.client.transport.address import HubAddress
from restante.client.transport.unreachable import unreachable
from restante.decoders import json_decoder
from restante.errors import RestanteError, Unavailable
from restante.wire.problems import error_of

_SOCKET_SECONDS = 60.0
_PROBLEM_BYTES_MAX = 1 << 20


@contextmanager
def told_failures(addresses: Sequence[HubAddress], what: str) -> Iterator[None]:
    """Tell what goes wrong inside as what the hub did not do."""
    try:
        yield
    except urllib.error.HTTPError as error:
        raise _told(error) from error
    except urllib.error.URLError as error:
        raise unreachable(addresses[-1], str(error.reason)) from error
    except (OSError, http.client.HTTPException) as error:
        raise Unavailable(f"The hub at {addresses[0].url} did not give its {what}: {error}. Is it running?") from error


def asked(addresses: Sequence[HubAddress], target: str) -> http.client.HTTPResponse:
    """The answer to a GET of the first address that can be reached, not yet read. Close it."""
    for address in addresses[:-1]:
        try:
            return _asked(address, target)
        except urllib.error.HTTPError:
            raise
        except urllib.error.URLError:
            continue
    return _asked(addresses[-1], target)


def _asked(address: HubAddress, target: str) -> http.client.HTTPResponse:
    request = urllib.request.Request(f"{address.url}{target}", headers=address.credentials())
    # A hub on this machine is asked without a proxy.
    proxies = [urllib.request.ProxyHandler({})] if address.local else []
    opener = urllib.request.build_opener(_NoRedirects, *proxies)
    answer: http.client.HTTPResponse = opener.open(request, timeout=_SOCKET_SECONDS)
    return answer


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Redirects are errors: the token would go on with them, to whatever address they name."""

    def redirect_request(self, *_: Any, **__: Any) -> None:  # noqa: ANN401 - those of the base
        """No request that would go on."""


def _told(error: urllib.error.HTTPError) -> RestanteError:
    with error:
        try:
            return error_of(json_decoder(dict[str, object]).decode(error.read(_PROBLEM_BYTES_MAX)))
        except msgspec.MsgspecError:
            return Unavailable(f"{error.url} answered {error.code} {error.reason}. Is a hub there?")
