"""The addresses, options and frames of live connections over a web socket, shared by both kinds of clients."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import msgspec
from websockets.exceptions import InvalidStatus

from restante.client.sockets.sockets import denied, refused
from restante.client.transport.address import HubAddress, address_of, segment
from restante.client.transport.http_answers import error_of_response
from restante.client.transport.options import Terms
from restante.client.transport.requests import given
from restante.client.transport.unreachable import unreachable
from restante.errors import InvalidRequest, RestanteError
from restante.limits import LIVE_PUSHED_BYTES_MAX
from restante.wire.live import Pushed, decode_hub_frame
from restante.wire.live_lines import LiveTaker


class SocketDoor:
    """The web socket route to one mailbox of a hub."""

    def __init__(self, terms: Terms, recipient: str, client: str | None) -> None:
        self._path = f"/v1/recipients/{segment(recipient, 'recipient')}/live"
        self._client = client
        self.terms = terms

    def pause(self, attempt: int) -> float:
        return self.terms.retrying.pause(attempt, self.terms.chance())

    def gives_up(self, attempt: int, seconds: float) -> bool:
        retrying = self.terms.retrying
        return attempt > retrying.times or seconds > retrying.seconds

    def address(self, owner: str | None) -> HubAddress:
        """The address to connect to. An owner without HTTPS is ignored if our own address has it, to protect the token."""
        own = self.terms.places.place_for(self._path)
        if owner is None:
            return own
        try:
            named = address_of(owner, token=own.token)
        except InvalidRequest:
            return own
        return own if own.url.startswith("https:") and not named.url.startswith("https:") else named

    def url(self, address: HubAddress, after: int | None) -> str:
        query = urlencode(given(client=self._client, after=after))
        return f"{address.socket_url}{self._path}?{query}" if query else f"{address.socket_url}{self._path}"

    def options(self, address: HubAddress) -> dict[str, Any]:
        """Options for opening the web socket."""
        return {
            "additional_headers": address.credentials(),
            "compression": None,
            "proxy": None if address.local else True,
            "close_timeout": 1,
            "max_size": LIVE_PUSHED_BYTES_MAX,
        }

    def refusal(self, error: Exception, address: HubAddress) -> RestanteError:
        """The error for a connection that was not opened."""
        self.terms.places.heard(address, refused(error))
        if isinstance(error, InvalidStatus):
            response = denied(error)
            told = error_of_response(response, address)
            named = response.headers.get("retry-after", "")
            if named.isascii() and named.isdigit():
                told.details.setdefault("retry_after", int(named))
            return told
        if isinstance(error, TimeoutError):
            return unreachable(address, f"it took longer than {self.terms.timeout:g} s")
        return unreachable(address, str(error) or type(error).__name__)


def deliver(taker: LiveTaker, frame: bytes | bytearray | str) -> bool:
    """Hand a frame to the taker; return False if there is no room for more."""
    try:
        said = decode_hub_frame(frame)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        taker.unreadable(str(error))
        return True
    if isinstance(said, Pushed):
        given = said.given
        if given.sequence_number is None:
            taker.unreadable("a message has no sequence number")
            return True
        return taker.pushed(said.counter, given.message(), len(frame))
    if said is not None:
        taker.heard(said)
    return True
