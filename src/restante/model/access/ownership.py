"""Whose a batch, a consignment or a producer group is, and who may use it.

The owner is the caller that made it: the origins that its token is bound to, or the token itself if it is bound to none. So two
tokens of the same origins are one owner, and a token may be replaced. What an operator made, or anybody on a hub without
tokens, has no owner: operators may use it, and publishers that are bound to no origins. An operator may use everything,
and a reader see it. To everybody else it is not there.

Keys and producer groups are names in the owner's own space: what others call the same is something else.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b

import msgspec

from restante.model.access.access import Grant

OWNER_BYTES = 16
NO_OWNER = b""


@lru_cache(1_024)
def owner_of(caller: Grant) -> bytes:
    """The owner that is stored with what a caller makes; the same for the same origins in any order."""
    if caller.may_operate():
        return NO_OWNER
    named = ("token", caller.name) if caller.origins is None else ("origins", *sorted(caller.origins))
    return blake2b(msgspec.msgpack.encode(named), digest_size=OWNER_BYTES).digest()


def may_use(caller: Grant, owner: bytes) -> bool:
    if caller.may_operate():
        return True
    return owner == owner_of(caller) if owner else caller.origins is None


def may_see(caller: Grant, owner: bytes) -> bool:
    """A reader has all mail by the feed, and so what belongs to it."""
    return caller.may_read_feed() or may_use(caller, owner)


@lru_cache(1_024)
def spaces_of(caller: Grant) -> tuple[bytes, ...]:
    """Where a name that a caller uses is looked for: among its own things, then among those that nobody owns."""
    own = owner_of(caller)
    return (own, NO_OWNER) if own and may_use(caller, NO_OWNER) else (own,)
