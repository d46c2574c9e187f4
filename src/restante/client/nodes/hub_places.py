"""`HubPlaces`: where a client sends what, of the addresses that it was given and those that the hub's map names.

A hub with one address costs nothing of this. If a hub has several nodes, its map says which node has which partitions: a call
about one of them goes straight to its owner, any other call to any node. A node that does not answer is left alone for a
while. A wrong guess costs one hop, because every node brings a call to its owner.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from ipaddress import ip_address
from urllib.parse import unquote, urlsplit

import msgspec

from restante.client.transport.address import HubAddress, address_of
from restante.client.transport.exchange import Failure, HttpRequest, Reply, Response
from restante.decoders import json_decoder
from restante.errors import InvalidRequest
from restante.limits import SENDS_BYTES_TARGET
from restante.model.shards.node_answers import NodeMap, NodeState, ShardState
from restante.model.storage.changes import Buffer
from restante.wire.media import JSON

_REQUESTS_BEFORE = 16
_SECONDS_BEFORE = 2.0
"""A program that does little needs no map."""
_LOOK_SECONDS = 2.0
"""How long reading the map may take."""
_CONNECT_SECONDS = 2.0
"""Where there is somewhere else to go, nobody waits longer for a connection."""
_REFRESH_SECONDS = 60.0
_LOOK_AGAIN_SECONDS = 0.5
_NEVER_SECONDS = 3600.0
_DOWN_SECONDS = 2.0
_LOST_SECONDS = 30.0
"""The time for which nobody asks at an address that never answered: it may be one that only nodes can reach."""
_BY_NAME = ("recipients", "groups")
_BY_ID = ("batches", "consignments")
_NOT_OWNER, _UNAVAILABLE = 421, 503
_DIGITS_MAX = 10
_PUBLISH = "/v1/messages"
SENDS_PATH = "/v1/sends"
_BODY_BYTES_MAX = 16 * 1024
"""A larger publish is shared out by whichever node takes it: to read it here would cost more than the hop."""


class _Problem(msgspec.Struct):
    owner: str | None = None
    partition: int | None = None


class _Addressed(msgspec.Struct):
    """The recipient of a message, and nothing else of it. One for several recipients has none."""

    recipient: str


class _Addresses(msgspec.Struct):
    messages: list[_Addressed]


class _Sends(msgspec.Struct):
    sends: list[_Addresses]


_decoder = json_decoder(_Addresses)
_sends_decoder = json_decoder(_Sends)


class HubPlaces:
    """The addresses of one hub. Used by any thread."""

    def __init__(self, own: Sequence[HubAddress], clock: Callable[[], float], chance: float = 0.0) -> None:
        self._own = tuple(own)
        self._clock = clock
        self._known = self._own
        """All addresses that may be asked."""
        self._turn = int(chance * len(own))
        self._owners: list[HubAddress | None] = []
        """The owner of each partition; empty, as long as there is but one address."""
        self._down: dict[str, float] = {}
        self._heard: set[str] = set()
        """Addresses that have answered."""
        self._requests = 0
        self._requests_before = _REQUESTS_BEFORE if len(own) == 1 else 1
        self._look_at = clock() + (_SECONDS_BEFORE if len(own) == 1 else 0)
        self._looked_at = float("-inf")
        self._looking = threading.Lock()

    @property
    def several(self) -> bool:
        return len(self._known) > 1

    def patience(self, seconds: float) -> float:
        """How long a connection may take: not long, where there is somewhere else to go."""
        return min(seconds, _CONNECT_SECONDS) if self.several else seconds

    def is_own(self, address: HubAddress) -> bool:
        """Whether the program itself has named it."""
        return address in self._own

    def map_is_due(self) -> bool:
        """Whether the caller is to read the map now. True for one caller at a time."""
        self._requests += 1
        if self._requests < self._requests_before or (now := self._clock()) < self._look_at:
            return False
        with self._looking:
            if now < self._look_at:
                return False
            self._look_at, self._looked_at = now + _REFRESH_SECONDS, now
            return True

    def place_for(self, path: str, body: Buffer | None = None) -> HubAddress:
        """Where a request is sent."""
        if self._owners:
            owner = (
                self._owner_for(path) if body is None or path not in _READ else self._owner_of_all(_READ[path], body)
            )
            if owner is not None and not self._is_down(owner):
                return owner
        return self.any_place()

    def any_place(self) -> HubAddress:
        """An address that is not known to be down; if all are, each in turn."""
        known = self._known
        if len(known) == 1:
            return known[0]
        turns = [known[(self._turn + step) % len(known)] for step in range(len(known))]
        up = next((address for address in turns if not self._is_down(address)), None)
        if up is None:
            self._turn += 1
        return up or turns[0]

    def heard(self, place: HubAddress, reply: Reply) -> None:
        """Hear what came of a request there."""
        if isinstance(reply, Failure):
            self._failed(place)
        elif reply.status == _NOT_OWNER:
            self._elsewhere(reply)
        elif reply.status == _UNAVAILABLE:
            self._pass_on(place)
        elif self._down or self.several:
            self._heard.add(place.url)
            self._down.pop(place.url, None)

    def learn(self, reply: Reply) -> None:
        """Learn from what came of reading the map."""
        if not isinstance(reply, Response):
            return
        if reply.status != 200:
            if reply.status < 500 and reply.status != _NOT_OWNER:
                self._look_at = self._clock() + _NEVER_SECONDS  # A hub that has no map, or not for this token.
            return
        try:
            self._use(json_decoder(NodeMap).decode(reply.body))
        except (msgspec.MsgspecError, UnicodeDecodeError):
            self._look_at = self._clock() + _NEVER_SECONDS

    def _use(self, found: NodeMap) -> None:
        named = {own.node: self._usable(own.address) for own in found.nodes if own.state is not NodeState.SILENT}
        places = {address.url: address for address in named.values() if address is not None}
        if len(places) < 2:
            self._known, self._owners = self._own, []
            return
        owners: list[HubAddress | None] = [None] * found.partition_count
        for shard in found.shards:
            if shard.state not in (ShardState.SILENT, ShardState.FAILED):
                owner = self._usable(shard.address)
                owners[shard.first : shard.last + 1] = [owner] * (shard.last + 1 - shard.first)
        self._owners = owners
        self._known = (*self._own, *(address for address in places.values() if address not in self._own))

    def _owner_for(self, path: str) -> HubAddress | None:
        home = home_of_path(path, len(self._owners))
        return None if home is None else self._owners[home]

    def owner_of_send(self, body: Buffer) -> str | None:
        """The address of the owner of all recipients of a small publish; None if there are several, or one node has all."""
        owner = self._owner_of_all(_read_publish, body) if self._owners else None
        return None if owner is None else owner.url

    def _owner_of_all(self, read: Callable[[Buffer], set[str]], body: Buffer) -> HubAddress | None:
        """The owner of all recipients of small publishes; None if there are several, which any node shares out."""
        if len(body) > _READ_BYTES_MAX[read] or body[:1] != b"{":
            return None
        try:
            names = read(body)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return None
        owners = {self._owners[_home(name, len(self._owners))] for name in names}
        return owners.pop() if len(owners) == 1 else None

    def _usable(self, url: str | None) -> HubAddress | None:
        """An address of the map, if it can be meant for this program, and the token is as safe there as before."""
        first = self._own[0]
        try:
            named = None if url is None else address_of(url, token=first.token)
        except InvalidRequest:
            return None
        if named is None or _is_nowhere(named) or (named.local and not first.local):
            return None
        return None if first.url.startswith("https:") and not named.url.startswith("https:") else named

    def _is_down(self, place: HubAddress) -> bool:
        until = self._down.get(place.url) if self._down else None
        return until is not None and self._clock() < until

    def _failed(self, place: HubAddress) -> None:
        if not self.several:
            return
        lost = not self.is_own(place) and place.url not in self._heard
        self._down[place.url] = self._clock() + (_LOST_SECONDS if lost else _DOWN_SECONDS)
        self._look_soon()

    def _pass_on(self, place: HubAddress) -> None:
        """Ask the next one: this one refuses for now."""
        if self.several and place == self._known[self._turn % len(self._known)]:
            self._turn += 1

    def _elsewhere(self, reply: Response) -> None:
        self._look_soon()
        try:
            said = json_decoder(_Problem).decode(reply.body)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return
        owner = self._usable(said.owner)
        if owner is not None and said.partition is not None and 0 <= said.partition < len(self._owners):
            self._owners[said.partition] = owner

    def _look_soon(self) -> None:
        """The map has changed. It is read with the next request, but not again and again."""
        self._requests_before = 0
        self._look_at = min(self._look_at, max(self._clock(), self._looked_at + _LOOK_AGAIN_SECONDS))


def _read_publish(body: Buffer) -> set[str]:
    """The recipients of a publish."""
    return {message.recipient for message in _decoder.decode(body).messages}


def _read_sends(body: Buffer) -> set[str]:
    """The recipients of several sends."""
    return {message.recipient for send in _sends_decoder.decode(body).sends for message in send.messages}


_READ: Mapping[str, Callable[[Buffer], set[str]]] = {_PUBLISH: _read_publish, SENDS_PATH: _read_sends}
"""How the recipients of a body are read, by its path."""
_READ_BYTES_MAX: Mapping[Callable[[Buffer], set[str]], int] = {
    _read_publish: _BODY_BYTES_MAX,
    _read_sends: 2 * SENDS_BYTES_TARGET,
}


def _home(name: str, partition_count: int) -> int:
    from restante.model.storage.partition import partition_of  # noqa: PLC0415 - a hub with one address needs no columns

    return partition_of(name, partition_count)


def map_request(seconds: float) -> HttpRequest:
    """The request that reads the map."""
    return HttpRequest("GET", "/v1/nodes", min(seconds, _LOOK_SECONDS), headers=(("Accept", JSON),))


def home_of_path(path: str, partition_count: int) -> int | None:
    """The partition that a request is about, as far as its path says."""
    parts = path.split("/", 4)
    if len(parts) < 4 or not parts[3]:
        return None
    kind, name = parts[2], unquote(parts[3])
    if kind == "partitions":
        known = name.isascii() and name.isdecimal() and len(name) < _DIGITS_MAX and int(name) < partition_count
        return int(name) if known else None
    if kind in _BY_NAME:
        return _home(name, partition_count)
    return _home(name.lower(), partition_count) if kind in _BY_ID else None


def _is_nowhere(address: HubAddress) -> bool:
    """`0.0.0.0` is an address to listen on, not one to go to."""
    try:
        return ip_address(urlsplit(address.url).hostname or "").is_unspecified
    except ValueError:
        return False
